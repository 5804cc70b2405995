"""Questions put to the tables of conversations. Each goes through the owner: what is not theirs is not found."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.conversations.models import ACTIVE, Conversation, Message
from app.conversations.titles import title_of
from app.conversations.tree import tree_of
from app.database import new_id, now
from app.errors import Invalid, NotFound, Stale

_GONE_ON_ELSEWHERE = "This conversation has gone on in another place; what is new is shown now."
_DELETED_ELSEWHERE = "What you were answering has been deleted in another place; what is left is shown now."


@dataclass(frozen=True, slots=True)
class Turn:
    """A question and its answer, made together. `fresh` is False where this very sending had made it before."""

    conversation: Conversation
    question: Message
    answer: Message
    fresh: bool = True


def conversation_of(session: Session, owner: str, conversation_id: str) -> Conversation:
    """One conversation of the owner that is not in the trash. Raises `NotFound`."""
    found = session.scalar(
        select(Conversation).where(
            Conversation.id == conversation_id, Conversation.owner == owner, Conversation.trashed_at.is_(None)
        )
    )
    if found is None:
        raise NotFound("There is no such conversation. It may have been deleted.")
    return found


def message_of(session: Session, owner: str, message_id: str, *, deleted: bool = False) -> Message:
    """One message of the owner; with `deleted` also one that is deleted. Raises `NotFound`."""
    found = session.scalar(
        select(Message)
        .join(Conversation, Conversation.id == Message.conversation_id)
        .where(Message.id == message_id, Conversation.owner == owner, Conversation.trashed_at.is_(None))
    )
    if found is None or (found.deleted_at is not None and not deleted):
        raise NotFound("There is no such message. It may have been deleted.")
    return found


def transcript(session: Session, conversation: Conversation, through: str | None = None) -> list[Message]:
    """The messages that are shown: along what is chosen at each fork, or along the branch with a message."""
    return tree_of(session, conversation.id).path(through)


def ancestors(session: Session, message: Message) -> list[Message]:
    """The messages from the root to this one's parent."""
    return tree_of(session, message.conversation_id).ancestors(message)


def start_conversation(
    session: Session,
    owner: str,
    text: str,
    submission: str,
    *,
    model: str | None = None,
    steering: Mapping[str, Any] | None = None,
) -> Turn:
    """A new conversation with its first turn, or the turn that this sending had already made."""
    mark = _mark(owner, "", submission, text)
    if (made := _made_before(session, mark)) is not None:
        return made
    kept = dict(steering) if steering else None
    conversation = Conversation(id=new_id(), owner=owner, title=title_of(text), model=model, steering=kept)
    session.add(conversation)
    session.flush()
    return _add_turn(session, conversation, None, text, mark)


def add_turn(
    session: Session, conversation: Conversation, text: str, submission: str, leaf: str | None = None
) -> Turn:
    """A turn at the end of the branch that the sender sees, or the turn that this sending had already made.

    `leaf` is the last message that the sender saw; None: the end of what is shown. Raises `Stale` where
    that message is not the end of its branch any more: the sender has not seen what came since.
    """
    mark = _mark(conversation.owner, conversation.id, submission, text)
    if (made := _made_before(session, mark)) is not None:
        return made
    tree = tree_of(session, conversation.id)
    path = tree.path(leaf)
    end = path[-1].id if path else ""
    if leaf is not None and leaf != end:
        gone = leaf and leaf not in tree
        raise Stale(
            f"{_DELETED_ELSEWHERE if gone else _GONE_ON_ELSEWHERE} "
            "Your message has not been sent: send it again if it still fits."
        )
    if path:
        tree.choose(path[-1])
    _bring_up(conversation)
    return _add_turn(session, conversation, end or None, text, mark)


def add_revision(session: Session, question: Message, text: str, submission: str) -> Turn:
    """The question in other words, beside the one that stays, or the turn that this sending had already made.

    Raises `Invalid` where the message is no question.
    """
    if question.role != "user":
        raise Invalid("Only a question can be changed.")
    conversation = session.get_one(Conversation, question.conversation_id)
    mark = _mark(conversation.owner, f"{conversation.id} {question.id}", submission, text)
    if (made := _made_before(session, mark)) is not None:
        return made
    tree = tree_of(session, conversation.id)
    tree.choose(question)
    parent = tree.parent(question)
    parent_id = parent.id if parent else None
    _bring_up(conversation)
    return _add_turn(session, conversation, parent_id, text, mark, chosen=tree.next_choice(parent_id))


def add_answer(session: Session, question: Message) -> Message:
    """One more, at first empty, answer to a question, which is shown then.

    Raises `Invalid` where the message is no question.
    """
    if question.role != "user":
        raise Invalid("Only a question can be answered again.")
    tree = tree_of(session, question.conversation_id)
    tree.choose(question)
    _bring_up(session.get_one(Conversation, question.conversation_id))
    return _add_answer(session, question, tree.next_choice(question.id))


def continue_answer(session: Session, answer: Message) -> None:
    """Queue an answer again, to go on where it ended. Raises `Invalid` where it can't."""
    if not answer.can_continue:
        raise Invalid("This answer is complete; there is nothing to go on with.")
    tree = tree_of(session, answer.conversation_id)
    if tree.children(answer.id):
        raise Invalid("The conversation has gone on after this answer, so it stays as it is.")
    tree.choose(answer)
    answer.state, answer.ending, answer.error = "queued", None, None
    _bring_up(session.get_one(Conversation, answer.conversation_id))


def active_answers(session: Session, conversation: Conversation) -> Sequence[Message]:
    """Answers of the conversation that are queued or running, the oldest first."""
    return session.scalars(
        select(Message)
        .where(Message.conversation_id == conversation.id, Message.state.in_(ACTIVE), Message.deleted_at.is_(None))
        .order_by(Message.id)
    ).all()


def answering(session: Session, owner: str) -> set[str]:
    """Ids of the owner's conversations in which an answer is queued or running."""
    return set(
        session.scalars(
            select(Message.conversation_id)
            .join(Conversation, Conversation.id == Message.conversation_id)
            .where(
                Conversation.owner == owner,
                Conversation.trashed_at.is_(None),
                Message.state.in_(ACTIVE),
                Message.deleted_at.is_(None),
            )
        )
    )


def _add_turn(
    session: Session,
    conversation: Conversation,
    parent_id: str | None,
    text: str,
    mark: str | None,
    *,
    chosen: int = 0,
) -> Turn:
    question = Message(
        id=new_id(),
        conversation_id=conversation.id,
        parent_id=parent_id,
        role="user",
        text=text,
        state="finished",
        submission=mark,
        chosen=chosen,
    )
    session.add(question)
    answer = _add_answer(session, question)
    return Turn(conversation, question, answer)


def _add_answer(session: Session, question: Message, chosen: int = 0) -> Message:
    answer = Message(
        id=new_id(),
        conversation_id=question.conversation_id,
        parent_id=question.id,
        role="assistant",
        state="queued",
        chosen=chosen,
    )
    session.add(answer)
    session.flush()
    return answer


def _bring_up(conversation: Conversation) -> None:
    """A conversation that goes on is the latest one, and no longer one that was put away."""
    conversation.updated_at, conversation.archived_at = now(), None


def _mark(owner: str, conversation_id: str, submission: str, text: str) -> str | None:
    if not submission:
        return None  # a program that names no sending means each one
    # The text is part of it: a page that Back restored sends its old id with other words, and means a new turn.
    parts = "\0".join((owner, conversation_id, submission, text))
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


def _made_before(session: Session, mark: str | None) -> Turn | None:
    if mark is None:
        return None
    question = session.scalar(select(Message).where(Message.submission == mark))
    if question is None:
        return None
    if question.deleted_at is not None:
        # A page that Back restored sends what was deleted since: it is meant anew, and would else be lost.
        question.submission = None
        session.flush()
        return None
    answer = session.scalars(select(Message).where(Message.parent_id == question.id).order_by(Message.id)).first()
    conversation = session.get_one(Conversation, question.conversation_id)
    if conversation.trashed_at is not None:
        raise Stale("This message was sent before, and its conversation is in the trash: bring it back there.")
    return Turn(conversation, question, answer, fresh=False) if answer is not None else None
