"""Reruns: the questions of a conversation asked again of another model, in a new conversation beside it.

Each question is asked when the answer before it has ended: a rerun takes one place in the line, like a person who
writes on, and its next turn is a row before it is a job, so that a restart goes on with it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import Session, aliased

from app.conversations.models import Conversation, Message
from app.conversations.queries import add_turn, conversation_of, start_conversation
from app.conversations.tree import tree_of
from app.database import Database
from app.errors import AppError, Invalid, NotFound, Stale
from app.generation.job import Job, Record, Recording
from app.generation.models import Generation, Rerun
from app.generation.queries import queue

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pair:
    """One question, its answer in the first conversation, and the one in the rerun as far as it has come."""

    question: Message
    old: Message | None
    new: Message | None


@dataclass(frozen=True, slots=True)
class Beside:
    """A rerun beside what it was made of."""

    rerun: Rerun
    source: Conversation
    conversation: Conversation
    pairs: list[Pair]


class Rerunner:
    """Asks the next question of each rerun when it is time. `submit` takes the job of an answer."""

    def __init__(self, database: Database, recorder: Recording, submit: Callable[[Job], None]) -> None:
        self._database = database
        self._recorder = recorder
        self._submit = submit

    def recover(self) -> None:
        """At the start: go on with those whose last answer had ended and whose next question was not asked."""
        with self._database.read() as session:
            waiting = session.scalars(select(Rerun.answer_id).where(Rerun.state == "running")).all()
        for answer_id in waiting:
            self._go_on(answer_id)

    def around(self, record: Record) -> Record:
        """What runs a job, so that a rerun goes on from its answer."""

        def recording(job: Job) -> None:
            record(job)
            self.ended(job.generation_id)

        return recording

    def ended(self, generation_id: str) -> None:
        """A generation is over: where it was the newest of a rerun, its next question is asked."""
        with self._database.read() as session:
            newest = _waiting().join(Generation, Generation.message_id == Rerun.answer_id)
            rerun = session.scalar(newest.where(Generation.id == generation_id))
        if rerun is not None:
            self._go_on(rerun.answer_id)

    def _go_on(self, answer_id: str) -> None:
        with self._database.write() as session:
            rerun = _waiting_for(session, answer_id)
            answer = session.get(Message, answer_id)
            if rerun is None or (answer is not None and answer.active):
                return
            asked = _next(session, rerun, answer)
        if asked is not None:
            generation, conversation = asked
            job = Job(self._recorder, generation.id, conversation.id, conversation.owner, model=generation.model)
            self._submit(job)


def begin(session: Session, owner: str, source_id: str, through: str | None, model: str) -> tuple[Rerun, Generation]:
    """A new conversation with another model, and the first question of this one asked there.

    `through` is a message of the branch that is meant; None: what is shown. Raises `Invalid` where nothing is asked.
    """
    source = conversation_of(session, owner, source_id)
    path = branch_meant(session, source, through)
    questions = _questions(path)
    if not questions:
        raise Invalid("There is no question in this conversation that could be asked again.")
    turn = start_conversation(session, owner, questions[0].text, "", model=model, steering=source.steering)
    conversation = turn.conversation
    conversation.title, conversation.own_title = f"{source.title} – {model.rpartition('/')[2]}", True
    rerun = Rerun(conversation_id=conversation.id, source_id=source.id, leaf_id=path[-1].id, answer_id=turn.answer.id)
    session.add(rerun)
    return rerun, queue(session, turn.answer)


def branch_meant(session: Session, source: Conversation, through: str | None) -> list[Message]:
    """The branch with a message, or what is shown. Raises `Stale` where that is deleted: no other one is meant."""
    tree = tree_of(session, source.id)
    if through is not None and through not in tree:
        raise Stale("What you see has been deleted in another place. Load the page of the conversation again.")
    return tree.path(through)


def reruns_of(session: Session, owner: str, conversation_id: str) -> Sequence[Conversation]:
    """The reruns of a conversation, the newest first; of one that is a rerun also itself. No side is in the trash."""
    source = aliased(Conversation)
    return session.scalars(
        select(Conversation)
        .join(Rerun, Rerun.conversation_id == Conversation.id)
        .join(source, source.id == Rerun.source_id)
        .where(Conversation.trashed_at.is_(None), source.trashed_at.is_(None))
        .where(or_(Rerun.source_id == conversation_id, Conversation.id == conversation_id))
        .where(Conversation.owner == owner)
        .order_by(Rerun.created_at.desc())
    ).all()


def beside(session: Session, owner: str, conversation_id: str) -> Beside:
    """A rerun and what it was made of, question by question. Raises `NotFound`."""
    conversation = conversation_of(session, owner, conversation_id)
    rerun = session.get(Rerun, conversation.id)
    if rerun is None:
        raise NotFound("This conversation was not run beside another one.")
    source = conversation_of(session, owner, rerun.source_id)
    old = tree_of(session, source.id).through(rerun.leaf_id)
    new = _answers(tree_of(session, conversation.id).through(rerun.answer_id))
    earlier = _answers(old)
    pairs = [
        Pair(question, earlier.get(place), new.get(place) if place < rerun.asked else None)
        for place, question in enumerate(_questions(old))
    ]
    return Beside(rerun, source, conversation, pairs)


def _next(session: Session, rerun: Rerun, answer: Message | None) -> tuple[Generation, Conversation] | None:
    """What is to answer the next question; None where the rerun is over."""
    # Neither what was asked there later, nor another branch where this one is deleted.
    questions = _questions(tree_of(session, rerun.source_id).through(rerun.leaf_id))
    if answer is None or answer.state != "finished":
        rerun.state = "stopped"
        return None
    if rerun.asked >= len(questions):
        rerun.state = "finished"
        return None
    conversation = session.get_one(Conversation, rerun.conversation_id)
    try:
        turn = add_turn(session, conversation, questions[rerun.asked].text, "", leaf=answer.id)
    except AppError as error:
        log.info("The rerun %s ends: %s", conversation.id, error.words)
        rerun.state = "stopped"
        return None
    rerun.asked += 1
    rerun.answer_id = turn.answer.id
    return queue(session, turn.answer), conversation


def _waiting() -> Select[Rerun]:
    return select(Rerun).where(Rerun.state == "running")


def _waiting_for(session: Session, answer_id: str) -> Rerun | None:
    return session.scalar(_waiting().where(Rerun.answer_id == answer_id))


def _questions(path: Sequence[Message]) -> list[Message]:
    return [message for message in path if message.role == "user"]


def _answers(path: Sequence[Message]) -> dict[int, Message]:
    """The answers of a branch by the place of their question among the questions."""
    found: dict[int, Message] = {}
    place = -1
    for message in path:
        if message.role == "user":
            place += 1
        else:
            found[place] = message
    return found
