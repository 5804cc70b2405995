"""Carries an engine's output into the event log and, at the end, into the message."""

import logging
from contextlib import closing
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from app.conversations.models import EndingReason, State
from app.conversations.queries import ancestors
from app.database import Database, now
from app.engines.catalog import Catalog
from app.engines.protocol import Ending, Engine, Piece, Prompt, Sampling
from app.errors import AppError
from app.events.protocol import EventLog
from app.generation.models import Generation
from app.generation.plain_text import PlainText
from app.generation.prompt import prompt_for
from app.generation.queries import Run, run
from app.generation.runner import Cancellation, Job

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0


@dataclass(slots=True)
class _Said:
    """What the engine said so far, with the number of each piece."""

    pieces: list[tuple[int, Piece]] = field(default_factory=list)

    def until(self, seen: int | None) -> list[Piece]:
        return [piece for number, piece in self.pieces if seen is None or number <= seen]

    @property
    def last(self) -> int:
        return self.pieces[-1][0] if self.pieces else 0


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How a run ended."""

    state: State
    ending: EndingReason
    error: str | None = None
    tokens: Ending | None = None


_OUTCOMES: dict[str, _Outcome] = {
    "stop": _Outcome("finished", "stop"),
    "length": _Outcome("finished", "length"),
    "cancelled": _Outcome("stopped", "cancelled"),
}


class Recorder:
    """Runs one generation from its committed row to its saved answer."""

    def __init__(self, database: Database, events: EventLog, catalog: Catalog, sampling: Sampling) -> None:
        self._database = database
        self._events = events
        self._catalog = catalog
        self._sampling = sampling

    def record(self, job: Job) -> None:
        """Run a generation. Every fault ends in its own answer; nothing is raised for the model's."""
        said = _Said()
        try:
            outcome = self._generate(job, said)
        except TimeoutError as error:
            outcome = _Outcome("failed", "timeout", f"The model was silent for too long. {error}".strip())
        except AppError as error:
            outcome = _Outcome("failed", "error", error.words)
        except Exception as error:
            log.exception("Generation %s failed", job.generation_id)
            outcome = _Outcome("failed", "error", f"The model failed: {_plain(error)}")
        # Leaving is not an ending: the row stays as it is, and its pieces are on disk.
        if not (job.cancellation.leaving.is_set() and outcome.state == "stopped"):
            self._end(job, said, outcome)

    def refuse(self, job: Job, error: AppError) -> None:
        """End a generation that could not be taken, in its own bubble."""
        if self._saved(job, _Said(), _Outcome("failed", "error", error.words)):
            self._events.end(job.generation_id)

    def _generate(self, job: Job, said: _Said) -> _Outcome:
        if job.cancellation.asked.is_set():
            return _OUTCOMES["cancelled"]
        engine = self._catalog.engine(job.cancellation.asked)
        if engine is None:
            return _OUTCOMES["cancelled"]
        prompt = self._begin(job, engine)
        if prompt is None:
            return _OUTCOMES["cancelled"]
        return self._play(job, engine, prompt, said)

    def _begin(self, job: Job, engine: Engine) -> Prompt | None:
        """Mark the answer as running and read what comes before it; None where it was deleted."""
        with self._database.write() as session:
            found = run(session, job.generation_id)
            if found is None:
                return None
            found.message.state = "running"
            found.message.model = engine.model
            found.generation.started_at = now()
            return prompt_for(ancestors(session, found.message), engine.model)

    def _play(self, job: Job, engine: Engine, prompt: Prompt, said: _Said) -> _Outcome:
        asked = job.cancellation.asked
        plain = PlainText()
        with closing(engine.stream(prompt, self._sampling, asked)) as outputs:  # type: ignore[type-var]
            for output in outputs:
                if isinstance(output, Piece) and not asked.is_set():
                    piece = Piece(plain.feed(output.text), output.token_ids)
                    number = self._events.append(job.generation_id, piece.text, piece.token_ids)
                    said.pieces.append((number, piece))
                elif isinstance(output, Ending):
                    outcome = _OUTCOMES[output.reason]
                    return _Outcome(outcome.state, outcome.ending, tokens=output)
        raise RuntimeError("the engine ended without saying why")

    def _end(self, job: Job, said: _Said, outcome: _Outcome) -> None:
        """Save first, announce then: whoever sees the ending can read the truth.

        What can't be saved (the disk is full) is not announced but tried again: an ended run loses its
        pieces, and they are all that is on disk. At the next start they make an answer.
        """
        pause = FIRST_PAUSE_S
        while not self._saved(job, said, outcome):
            if job.cancellation.leaving.wait(pause):
                return
            pause = min(pause * 2, LONGEST_PAUSE_S)
        self._events.end(job.generation_id)

    def _saved(self, job: Job, said: _Said, outcome: _Outcome) -> bool:
        try:
            with self._database.write() as session:
                found = run(session, job.generation_id)
                if found is not None:
                    _save(session, found, said, outcome, job.cancellation)
        except Exception:
            log.exception("The end of generation %s could not be saved", job.generation_id)
            return False
        return True


def _save(session: Session, found: Run, said: _Said, outcome: _Outcome, cancellation: Cancellation) -> None:
    message, generation = found.message, found.generation
    pieces = said.until(cancellation.seen if outcome.state == "stopped" else None)
    message.text += "".join(piece.text for piece in pieces)
    message.token_ids = (message.token_ids or []) + [i for piece in pieces for i in piece.token_ids]
    message.state = outcome.state
    message.ending = outcome.ending
    message.error = outcome.error
    _count(generation, said, outcome)
    session.flush()


def _count(generation: Generation, said: _Said, outcome: _Outcome) -> None:
    # One more than the last piece: the ending event has a number too, and none is used twice.
    generation.covered = max(generation.covered, said.last) + 1
    generation.ended_at = now()
    if outcome.tokens is not None:
        generation.prompt_tokens = outcome.tokens.prompt_tokens
        generation.reused_tokens = outcome.tokens.reused_tokens
        generation.answer_tokens = outcome.tokens.answer_tokens


def _plain(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300] or type(error).__name__
