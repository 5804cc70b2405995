"""Questions put to the tables of imports and ratings. Each goes through the owner."""

from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.conversations.queries import message_of
from app.database import now
from app.errors import Invalid, NotFound
from app.transfer.models import Import, Outcome, Rating


def import_of(session: Session, owner: str, import_id: str) -> Import:
    """One import of the owner. Raises `NotFound`."""
    found = session.scalar(select(Import).where(Import.id == import_id, Import.owner == owner))
    if found is None:
        raise NotFound("There is no such import. It may have been deleted.")
    return found


def imports_of(session: Session, owner: str, limit: int = 20) -> Sequence[Import]:
    """The owner's imports, the most recent first."""
    return session.scalars(select(Import).where(Import.owner == owner).order_by(Import.id.desc()).limit(limit)).all()


def outcomes_of(session: Session, row: Import, after: int = 0, limit: int = 1000) -> Sequence[Outcome]:
    """What became of the conversations of an import, in the order of its files; a page of them."""
    return session.scalars(
        select(Outcome).where(Outcome.import_id == row.id, Outcome.id > after).order_by(Outcome.id).limit(limit)
    ).all()


def forget_outcomes(session: Session, import_id: str) -> None:
    """Before an import is run again."""
    session.execute(delete(Outcome).where(Outcome.import_id == import_id))


def forget_titles(session: Session, conversation_ids: Sequence[str]) -> None:
    """Of conversations that are deleted for good: that something came in stays told, but not what it was called."""
    gone = Outcome.conversation_id.in_(conversation_ids)
    session.execute(update(Outcome).where(gone).values(title="Deleted", source_id=None, conversation_id=None))


def interrupt_all(session: Session) -> None:
    """At the start: what was being worked on when Rheo ended is not any more."""
    active = Import.state.in_(("checking", "running"))
    session.execute(update(Import).where(active).values(state="interrupted", ended_at=now()))


def rating_of(session: Session, owner: str, message_id: str) -> tuple[Message, Rating | None]:
    """An answer of the owner and what they think of it. Raises `NotFound`, `Invalid` for a question."""
    answer = message_of(session, owner, message_id)
    if answer.role != "assistant":
        raise Invalid("Only an answer can be rated.")
    return answer, session.get(Rating, answer.id)


def rate(session: Session, owner: str, message_id: str, good: bool | None, note: str) -> Message:
    """Keep what the owner thinks of an answer; None takes it back."""
    answer, rating = rating_of(session, owner, message_id)
    if good is None:
        if rating is not None:
            session.delete(rating)
    elif rating is None:
        session.add(Rating(message_id=answer.id, good=good, note=note))
    else:
        rating.good, rating.note, rating.created_at = good, note, now()
    return answer


def ratings_in(session: Session, conversation: Conversation) -> dict[str, Rating]:
    """The ratings of a conversation's answers, by the id of the answer."""
    rows = session.scalars(
        select(Rating)
        .join(Message, Message.id == Rating.message_id)
        .where(Message.conversation_id == conversation.id)
    )
    return {row.message_id: row for row in rows}
