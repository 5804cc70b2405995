"""Generations: one run of an engine filling one answer. Their receipts, replays of them, reruns of conversations."""

from datetime import datetime
from typing import Any, Literal

from sqlalchemy import JSON, CheckConstraint, ForeignKey, Index, String, Text, false
from sqlalchemy.orm import Mapped, mapped_column

from app.conversations.models import ACTIVE, State
from app.database import Base, Moment, new_id, now
from app.generation.packing import PackedIds


class Generation(Base):
    """One run. Its state is its message's; here is what it cost and how far its events are in the text."""

    __tablename__ = "generations"
    __table_args__ = (Index(None, "message_id"),)

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    message_id: Mapped[str] = mapped_column(ForeignKey("messages.id", ondelete="CASCADE"))
    model: Mapped[str | None] = mapped_column(String(255))
    """Which model is to answer, or did; None: the one that answers where nobody has chosen another."""
    covered: Mapped[int] = mapped_column(default=0)
    """The number of the last event whose text is in the message. Saved in one write with that text."""
    restarts: Mapped[int] = mapped_column(default=0, server_default="0")
    """How often it went on after the process was gone."""
    stop_asked: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether a reader has stopped it. Kept, so that a crash right after does not let it go on."""
    stop_seen: Mapped[int | None]
    """The last event number that the reader saw then; None: as far as it is."""
    steering: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What it is made with: while it waits what differs from the settings, once it has begun all of it."""
    changed: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    """The names of what in it is otherwise than in the answer before."""
    left_out: Mapped[int] = mapped_column(default=0, server_default="0")
    """How many messages, the oldest of those before it, did not go into the window."""
    lost_at: Mapped[int | None]
    """The first token at which the prompt was no continuation of the one before; None where all of it was."""
    prompt_tokens: Mapped[int | None]
    reused_tokens: Mapped[int | None]
    answer_tokens: Mapped[int | None]
    first_token_s: Mapped[float | None]
    """When the first token was there, and the last: seconds of the run's own time."""
    last_token_s: Mapped[float | None]
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    started_at: Mapped[datetime | None] = mapped_column(Moment)
    ended_at: Mapped[datetime | None] = mapped_column(Moment)


class Receipt(Base):
    """With what a generation was made, exactly: enough to make it again. A table of its own: it is rarely read.

    Of one that went on after a restart it tells of the part that came after it: only that is one run of an engine.
    """

    __tablename__ = "receipts"

    generation_id: Mapped[str] = mapped_column(ForeignKey("generations.id", ondelete="CASCADE"), primary_key=True)
    model: Mapped[str] = mapped_column(String(255))
    identity: Mapped[dict[str, Any]] = mapped_column(JSON)
    """What exactly the engine ran, and the versions of what it was run by."""
    sampling: Mapped[dict[str, Any]] = mapped_column(JSON)
    """How it could choose, nothing left open: also the seed that was drawn where none was asked for."""
    given: Mapped[int] = mapped_column(default=0)
    """How many tokens at the end of the prompt the answer had said before, in an earlier run."""
    resumed_at: Mapped[int] = mapped_column(default=0)
    """How many tokens this generation had made when a restart ended its first run."""
    prompt_ids: Mapped[list[int]] = mapped_column(PackedIds)
    answer_ids: Mapped[list[int] | None] = mapped_column(PackedIds)
    """What was made of it; None until it has ended."""


class Replay(Base):
    """One run of a receipt once more, and what came of it."""

    __tablename__ = "replays"
    __table_args__ = (
        CheckConstraint(
            "state IN ('queued', 'running', 'finished', 'stopped', 'failed', 'interrupted')", name="state"
        ),
        Index(None, "generation_id"),
        Index(None, "state"),
    )

    id: Mapped[str] = mapped_column(String(32), primary_key=True, default=new_id)
    generation_id: Mapped[str] = mapped_column(ForeignKey("generations.id", ondelete="CASCADE"))
    state: Mapped[State] = mapped_column(String(16), default="queued")
    error: Mapped[str | None] = mapped_column(Text)
    """Why it failed, in words for the person."""
    identity: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What it was run by, as in the receipt."""
    tokens: Mapped[int | None]
    """How many tokens of the answer were compared."""
    differs_at: Mapped[int | None]
    """The place of the first token that differs, from 0; None where none does."""
    difference: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """That token in the answer and in the replay, as ids and as texts, and the text before it."""
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
    ended_at: Mapped[datetime | None] = mapped_column(Moment)

    @property
    def active(self) -> bool:
        """Whether it is still to come to its end."""
        return self.state in ACTIVE


class Rerun(Base):
    """A conversation that asks the questions of another one again, of another model, one after the other."""

    __tablename__ = "reruns"
    __table_args__ = (
        CheckConstraint("state IN ('running', 'finished', 'stopped')", name="state"),
        Index(None, "source_id"),
        Index(None, "answer_id"),
        Index(None, "state"),
    )

    conversation_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True)
    source_id: Mapped[str] = mapped_column(ForeignKey("conversations.id", ondelete="CASCADE"))
    """The conversation whose questions they are."""
    leaf_id: Mapped[str] = mapped_column(String(32))
    """The last message of the branch there that is asked again."""
    answer_id: Mapped[str] = mapped_column(String(32))
    """The newest answer here. When it has ended, the next question is asked."""
    asked: Mapped[int] = mapped_column(default=1)
    """How many of the questions are asked."""
    state: Mapped[Literal["running", "finished", "stopped"]] = mapped_column(String(16), default="running")
    """Stopped: by its reader, by a failure, or because a person has gone on with it otherwise."""
    created_at: Mapped[datetime] = mapped_column(Moment, default=now)
