"""Titles made by the model, when nobody waits for an answer; whatever comes meanwhile comes first.

A conversation has a title from the start: its first words. What is made here is a better one at best. It lives in
memory only: a title that was not made when the process ended is simply not made.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from sqlalchemy.orm import Session

from app.conversations.models import Conversation, Message
from app.conversations.titles import title_of
from app.database import Database
from app.engines.catalog import Catalog
from app.engines.protocol import Ending, Engine, Part, Piece, Prompt, Sampling
from app.generation.job import Job, Record
from app.generation.queries import run
from app.generation.titles import LONGEST, title_in
from app.rendering.thinking import without_thinking

log = logging.getLogger(__name__)

_SHOWN = 2000
"""Characters of question and answer that the model is shown: their beginnings tell what it is about."""
_TOKENS = 48
_LATELY = 100
_ASKED = (
    "Write a title for the conversation below: two to six words in its language. "
    "Answer with the title alone, without quotes."
)


@dataclass(frozen=True, slots=True)
class _Talk:
    """What a title is made of. `words` is the one that it replaces."""

    model: str | None
    words: str
    question: str
    answer: str


class Titling:
    """Makes one title after the other on a thread of its own, while `idle` says that no answer waits or runs."""

    def __init__(self, database: Database, catalog: Catalog, idle: Callable[[], bool], *, wanted: bool) -> None:
        self._database = database
        self._catalog = catalog
        self._idle = idle
        self._wanted = wanted
        self._changed = threading.Condition()
        self._expected: set[str] = set()
        self._waiting: dict[str, str] = {}
        """Conversations and the generation after which each asked for a title."""
        self._lately: deque[str] = deque(maxlen=_LATELY)
        self._current: threading.Event | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def awaits(self, conversation_id: str) -> bool:
        """Whether a title may come for a conversation."""
        with self._changed:
            return conversation_id in self._expected or conversation_id in self._waiting

    def changes(self, conversation_id: str) -> bool:
        """Whether a title may come, or has come so lately that what is rendered now may have been read before."""
        with self._changed:
            return self.awaits(conversation_id) or conversation_id in self._lately

    def around(self, record: Record) -> Record:
        """What runs a job, so that a title is made after it where it gives the first answer."""

        def recording(job: Job) -> None:
            expected = self._expects(job)
            try:
                record(job)
            finally:
                if expected:
                    self._add(job)

        return recording if self._wanted else record

    def look(self) -> None:
        """Something has begun or ended: what is made is put back for a question, or goes on after it."""
        with self._changed:
            if self._current is not None and not self._idle():
                self._current.set()
            self._changed.notify_all()

    def close(self) -> None:
        """Stop, leaving what is not made; may be called twice."""
        with self._changed:
            self._closed = True
            if self._current is not None:
                self._current.set()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(5)

    def _expects(self, job: Job) -> bool:
        with self._database.read() as session:
            if _talk(session, job.generation_id) is None:
                return False
        # Before the end of the answer is told: its page then knows that a title may come.
        with self._changed:
            self._expected.add(job.conversation_id)
        return True

    def _add(self, job: Job) -> None:
        with self._database.read() as session:
            talk = _talk(session, job.generation_id)
        with self._changed:
            self._expected.discard(job.conversation_id)
            if talk is not None and talk.answer and not self._closed:
                self._waiting[job.conversation_id] = job.generation_id
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, name="titles", daemon=True)
                    self._thread.start()
                self._changed.notify_all()

    def _work(self) -> None:
        while (taken := self._next()) is not None:
            conversation_id, cancelled = taken
            try:
                made = self._make(self._waiting[conversation_id], cancelled)
            except Exception:
                # The first words stay; the log says why.
                log.exception("No title could be made for the conversation %s", conversation_id)
                made = True
            with self._changed:
                self._current = None
                if made:
                    self._lately.append(conversation_id)
                    self._waiting.pop(conversation_id, None)

    def _next(self) -> tuple[str, threading.Event] | None:
        with self._changed:
            while not self._closed:
                if self._waiting:
                    # In this order: a question that comes now finds what to cancel, or was seen here.
                    self._current = threading.Event()
                    if self._idle():
                        return next(iter(self._waiting)), self._current
                    self._current = None
                self._changed.wait()
        return None

    def _make(self, generation_id: str, cancelled: threading.Event) -> bool:
        """Make a title and keep it; False where it was put back."""
        with self._database.read() as session:
            talk = _talk(session, generation_id)
        if talk is None:
            return True
        # Where the model has gone from memory, a title is not worth loading it.
        with self._catalog.borrow(talk.model) as engine:
            said = _ask(engine, talk, cancelled) if engine is not None else None
        if cancelled.is_set():
            return False
        title = title_in(said) if said is not None else None
        if title is not None:
            with self._database.write() as session:
                found = run(session, generation_id)
                if found is not None and _is_of_words(found.conversation, talk.words):
                    found.conversation.title = title
        return True


def _talk(session: Session, generation_id: str) -> _Talk | None:
    """The first turn of a conversation whose title is still its first words; None for any other."""
    found = run(session, generation_id)
    question = session.get(Message, found.message.parent_id) if found is not None else None
    if found is None or question is None or question.parent_id is not None or found.message.deleted_at is not None:
        return None
    words = title_of(question.text)
    if not _is_of_words(found.conversation, words):
        return None
    answer = without_thinking(found.message.text).strip()
    return _Talk(found.generation.model, words, question.text[:_SHOWN], answer[:_SHOWN])


def _is_of_words(conversation: Conversation, words: str) -> bool:
    return not conversation.own_title and conversation.title == words


def _ask(engine: Engine, talk: _Talk, cancelled: threading.Event) -> str | None:
    """What the model says; None where it did not come to an end, or says more than a title."""
    text = f"{_ASKED}\n\nQuestion: {talk.question}\n\nAnswer: {talk.answer}\n\nTitle:"
    wanted = {"temperature": 0.0, "max_tokens": _TOKENS}
    sampling = Sampling(**{name: value for name, value in wanted.items() if name in engine.supports})  # type: ignore[arg-type]
    said = ""
    with closing(engine.stream(Prompt((Part("user", text),)), sampling, cancelled)) as outputs:  # type: ignore[type-var]
        for output in outputs:
            if isinstance(output, Piece):
                said += output.text
            elif isinstance(output, Ending) and output.reason == "stop":
                return said
            if len(said) > 4 * LONGEST:
                return None
    return None
