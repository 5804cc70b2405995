"""What was put into the trash just now, as a page tells of it and undoes it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from app.conversations.models import Conversation
from app.conversations.trash import trashed_at
from app.web.parts import Parts

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Trashed:
    """Conversations that went into the trash together. `mark` is their moment as forms and addresses carry it."""

    mark: str
    conversations: Sequence[Conversation]


def mark_of(moment: datetime) -> str:
    """A moment, exactly, as forms and addresses carry it."""
    return str((moment - _EPOCH) // timedelta(microseconds=1))


def moment_of(mark: str) -> datetime | None:
    """The moment of a mark; None for what is none."""
    if not (mark.isascii() and mark.isdecimal() and len(mark) < 18):
        return None
    return _EPOCH + timedelta(microseconds=int(mark))


def trashed_of(parts: Parts, owner: str, mark: str) -> Trashed | None:
    """What the owner put into the trash at this moment; None where nothing of it is there."""
    moment = moment_of(mark)
    if moment is None:
        return None
    with parts.database.read() as session:
        conversations = trashed_at(session, owner, moment)
    return Trashed(mark, conversations) if conversations else None
