"""Questions put to the table of generations, through the owner of their conversation."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, select, update
from sqlalchemy.orm import Session

from app.conversations.models import ACTIVE, Conversation, Message
from app.database import new_id
from app.errors import NotFound
from app.generation.models import Generation
from app.generation.steering import changes

_UNREAD = {"synchronize_session": False}
"""Nothing of what is written was read in this session."""


@dataclass(frozen=True, slots=True)
class Run:
    """A generation with its answer and its conversation."""

    generation: Generation
    message: Message
    conversation: Conversation


def queue(session: Session, answer: Message) -> Generation:
    """A generation that is to fill a new answer, as its conversation is steered now."""
    conversation = session.get_one(Conversation, answer.conversation_id)
    return _queued(session, answer, conversation.model, conversation.steering or {})


def queue_again(session: Session, answer: Message) -> Generation:
    """One more generation of an answer, to go on where it ended, as it was begun."""
    conversation = session.get_one(Conversation, answer.conversation_id)
    begun = latest_of(session, [answer]).get(answer.id)
    steering = begun.steering if begun is not None else None
    # What has begun goes on with the model that began it, where it is still here: no other can read on in its ids.
    model = begun.model if begun is not None and answer.text else None
    own = conversation.steering or {}
    return _queued(session, answer, model or conversation.model, own if steering is None else steering)


def _queued(session: Session, answer: Message, model: str | None, steering: dict[str, Any]) -> Generation:
    changed = changes(steering_before(session, answer), steering)
    generation = Generation(id=new_id(), message_id=answer.id, model=model, steering=steering, changed=changed)
    session.add(generation)
    return generation


def run_of(session: Session, owner: str, generation_id: str) -> Run:
    """One generation of the owner, whose answer is not deleted. Raises `NotFound`."""
    own = _runs().where(Conversation.owner == owner, Conversation.trashed_at.is_(None), Message.deleted_at.is_(None))
    row = session.execute(own.where(Generation.id == generation_id)).first()
    if row is None:
        raise NotFound("There is no such answer. It may have been deleted.")
    return Run(*row)


def run(session: Session, generation_id: str) -> Run | None:
    """One generation, whoever owns it; None where it was deleted. For the worker, not for people."""
    row = session.execute(_runs().where(Generation.id == generation_id)).first()
    return Run(*row) if row else None


def unended(session: Session) -> Sequence[Run]:
    """Every generation whose answer is queued or running, the oldest first."""
    rows = session.execute(_runs().where(Message.state.in_(ACTIVE)).order_by(Generation.id))
    return [Run(*row) for row in rows]


def mark_running(session: Session, found: Run, marks: Mapping[str, Any]) -> bool:
    """Mark the answer of a run as running, and the generation with these columns; `marks` names its model.

    False, and nothing marked, where it was deleted or stopped since it was read. It is written without being read
    once more: that took as long as the rest.
    """
    own = update(Generation).where(Generation.id == found.generation.id, Generation.stop_asked.is_(False))
    if session.scalar(own.values(marks).returning(Generation.id), execution_options=_UNREAD) is None:
        return False
    running = update(Message).where(Message.id == found.message.id).values(state="running", model=marks["model"])
    session.execute(running, execution_options=_UNREAD)
    return True


def keep_stop(session: Session, generation_id: str, seen: int | None) -> None:
    """Keep that a reader stopped it: should the process be gone before it has ended, it must not go on."""
    generation = session.get(Generation, generation_id)
    if generation is not None and not generation.stop_asked:
        generation.stop_asked, generation.stop_seen = True, seen


def stop_all(session: Session, messages: Iterable[Message]) -> list[Generation]:
    """Keep that all of these answers that have not ended are to stop; their runs, for the runner to be told."""
    stopping = [*latest_of(session, [message for message in messages if message.active]).values()]
    for generation in stopping:
        keep_stop(session, generation.id, None)
    return stopping


def latest_of(session: Session, messages: Iterable[Message]) -> dict[str, Generation]:
    """The newest generation of each answer, by message id."""
    ids = [message.id for message in messages if message.role == "assistant"]
    rows = session.scalars(select(Generation).where(Generation.message_id.in_(ids)).order_by(Generation.id))
    return {row.message_id: row for row in rows}


def last_ended(session: Session, conversation: Conversation) -> Generation | None:
    """The newest generation of a conversation whose prompt the model has read."""
    return session.scalars(
        select(Generation)
        .join(Message, Message.id == Generation.message_id)
        .where(Message.conversation_id == conversation.id, Generation.prompt_tokens.is_not(None))
        .order_by(Generation.id.desc())
    ).first()


def steering_before(session: Session, answer: Message) -> Mapping[str, Any]:
    """What the answer before this one was made with; nothing where there is none, or where that is not known."""
    question = session.get(Message, answer.parent_id)
    before = session.get(Message, question.parent_id) if question is not None and question.parent_id else None
    generation = latest_of(session, [before]).get(before.id) if before is not None else None
    return (generation.steering if generation is not None else None) or {}


def _runs() -> Select[Generation, Message, Conversation]:
    return (
        select(Generation, Message, Conversation)
        .join(Message, Message.id == Generation.message_id)
        .join(Conversation, Conversation.id == Message.conversation_id)
    )
