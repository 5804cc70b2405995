"""Conversations and their messages: a titled tree of messages of one owner."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, String, Text, false
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, Moment, new_id, now

State = Literal["queued", "running", "finished", "stopped", "failed", "interrupted"]
EndingReason = Literal["stop", "length", "cancelled", "error", "timeout", "restart"]

ACTIVE: tuple[State, ...] = ("queued", "running")


class Conversation(Base):
    """A titled tree of messages. `updated_at` is when the last turn was made."""

    __tablename__ = "conversations"
    __table_args__ = (Index(None, "owner", "updated_at"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    owner: Mapped[str] = mapped_column(String(64))
    title: Mapped[str] = mapped_column(Text)
    own_title: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether a person has given the title: then nothing else changes it."""
    model: Mapped[str | None] = mapped_column(String(255))
    """Which model answers; None: nobody has chosen one, and the default does."""
    steering: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What its answers are made with, where that differs from the settings."""
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    updated_at: Mapped[datetime] = mapped_column(Moment, default=now)


class Message(Base):
    """One utterance. A question is finished from the start; an answer's text grows until its state ends.

    While an answer runs, `text` holds what was said before this run (nothing, or what is being
    continued); the rest is in the event log.
    """

    __tablename__ = "messages"
    __table_args__ = (
        CheckConstraint("role IN ('user', 'assistant')", name="role"),
        CheckConstraint(
            "state IN ('queued', 'running', 'finished', 'stopped', 'failed', 'interrupted')", name="state"
        ),
        Index(None, "conversation_id"),
        Index(None, "parent_id"),
        Index(None, "state"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"))
    role: Mapped[Literal["user", "assistant"]] = mapped_column(String(16))
    text: Mapped[str] = mapped_column(Text, default="")
    state: Mapped[State] = mapped_column(String(16), default="finished")
    ending: Mapped[EndingReason | None] = mapped_column(String(16))
    error: Mapped[str | None] = mapped_column(Text)
    """What went wrong, in words for the person."""
    model: Mapped[str | None] = mapped_column(String(255))
    token_ids: Mapped[list[int] | None] = mapped_column(JSON)
    """The ids that `text` came from, as `model` made them."""
    html: Mapped[str | None] = mapped_column(Text)
    """`text` as it is shown, once it is complete and was shown: made by the renderer of version `renderer`."""
    renderer: Mapped[int | None]
    thought_s: Mapped[list[float | None] | None] = mapped_column(JSON)
    """How long each thinking in `text` took, in seconds."""
    submission: Mapped[str | None] = mapped_column(String(64), unique=True)
    """Fingerprint of the one sending that made this question; the same sending again finds it."""
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    chosen: Mapped[int] = mapped_column(default=0, server_default="0")
    """Which of the variants at a fork is shown: the one with the highest, and of equals the newest.

    A number and no time: a clock that was set back must not decide what is shown.
    """
    deleted_at: Mapped[datetime | None] = mapped_column(Moment)
    """Set on every message of a deleted branch, to the same moment: undo brings back those and no others."""

    @property
    def can_continue(self) -> bool:
        """Whether this answer ended before it was complete, so that its model may go on with it."""
        return self.role == "assistant" and (self.state in ("stopped", "interrupted") or self.ending == "length")

    @property
    def active(self) -> bool:
        """Whether this answer is still to come or coming."""
        return self.state in ACTIVE
