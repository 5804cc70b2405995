"""Generations: one run of an engine filling one answer."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKey, Index, String, false
from sqlalchemy.orm import Mapped, mapped_column

from app.database import Base, Moment, new_id, now


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
