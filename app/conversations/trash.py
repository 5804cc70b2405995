"""The trash: what is deleted stays in it for some days, can be brought back, and then goes for good."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.database import now

GONE = datetime(1970, 1, 1, tzinfo=UTC)
"""Since when that is in the trash which is not to be brought back any more: it waits only for its removal."""
_MESSAGES_AT_ONCE = 500


def in_trash() -> ColumnElement[bool]:
    """Which conversations can be brought back."""
    return Conversation.trashed_at > GONE


def trash(conversations: Iterable[Conversation]) -> datetime:
    """Put conversations into the trash together; the moment by which they are found again to undo that."""
    moment = now()
    for conversation in conversations:
        conversation.trashed_at = moment
    return moment


def trashed_at(session: Session, owner: str, moment: datetime) -> Sequence[Conversation]:
    """What the owner put into the trash at this moment and has not taken out since."""
    own = Conversation.owner == owner
    return session.scalars(
        select(Conversation).where(own, Conversation.trashed_at == moment, in_trash()).order_by(Conversation.id)
    ).all()


def restore(conversations: Iterable[Conversation]) -> None:
    """Bring conversations back to where they were."""
    for conversation in conversations:
        conversation.trashed_at = None


def give_up(conversations: Iterable[Conversation]) -> None:
    """Have conversations removed for good, by whoever empties the trash."""
    for conversation in conversations:
        conversation.trashed_at = GONE


def give_up_all(session: Session, owner: str) -> None:
    """Have everything removed that is in the owner's trash."""
    own = Conversation.owner == owner
    session.execute(update(Conversation).where(own, in_trash()).values(trashed_at=GONE))


def give_up_since(session: Session, before: datetime) -> None:
    """Have everything removed, of all owners, that is in the trash since before this moment."""
    overdue = in_trash(), Conversation.trashed_at < before
    session.execute(update(Conversation).where(*overdue).values(trashed_at=GONE))


def given_up(session: Session) -> Sequence[str]:
    """Ids of the conversations that are to be removed."""
    return session.scalars(select(Conversation.id).where(Conversation.trashed_at == GONE)).all()


def remove_messages(session: Session, conversation_id: str) -> bool:
    """Remove some of a conversation's messages for good; whether any may be left."""
    ids = session.scalars(
        select(Message.id).where(Message.conversation_id == conversation_id).limit(_MESSAGES_AT_ONCE)
    ).all()
    # SQLite follows a cascade from parent to child 1,000 deep at most, and then refuses: cut the chains before.
    session.execute(update(Message).where(Message.parent_id.in_(ids)).values(parent_id=None))
    session.execute(delete(Message).where(Message.id.in_(ids)))
    return len(ids) == _MESSAGES_AT_ONCE


def remove(session: Session, conversation_id: str) -> None:
    """Remove a conversation for good, with all that hangs on it."""
    session.execute(delete(Conversation).where(Conversation.id == conversation_id))
