"""Carries an engine's output into the event log and, at the end, into the message."""

import logging
import time
from contextlib import closing
from dataclasses import dataclass, replace

from app.conversations.models import EndingReason, State
from app.conversations.queries import ancestors
from app.database import Database, now
from app.engines.catalog import Catalog
from app.engines.protocol import Ending, Engine, Piece, Prompt, Reading, Sampling
from app.errors import AppError, Unavailable
from app.events.protocol import Event, EventLog, Notice
from app.generation.job import Cancellation, Job
from app.generation.models import Generation
from app.generation.plain_text import PlainText
from app.generation.prompt import prompt_for
from app.generation.queries import Run, run
from app.generation.said import Said

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    state: State
    ending: EndingReason
    error: str | None = None
    tokens: Ending | None = None


OUTCOMES: dict[str, Outcome] = {
    "stop": Outcome("finished", "stop"),
    "length": Outcome("finished", "length"),
    "cancelled": Outcome("stopped", "cancelled"),
    "restart": Outcome("interrupted", "restart"),
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
        said = Said()
        try:
            said.pieces = self._events.pieces(job.generation_id)
            outcome = self._generate(job, said)
        except TimeoutError as error:
            outcome = Outcome("failed", "timeout", f"The model was silent for too long. {error}".strip())
        except Unavailable as error:
            # An answer that was to go on after a restart, and can't: what was said stays open to be continued.
            outcome = Outcome("failed", "error", error.words)
            if said.pieces and job.resumed:
                outcome = replace(OUTCOMES["restart"], error=error.words)
        except AppError as error:
            outcome = Outcome("failed", "error", error.words)
        except Exception as error:
            log.exception("Generation %s failed", job.generation_id)
            outcome = Outcome("failed", "error", f"The model failed: {_plain(error)}")
        # Leaving is not an ending: the row stays as it is, and its pieces are on disk.
        if not (job.cancellation.leaving.is_set() and outcome.state == "stopped"):
            self._end(job, said, outcome)

    def refuse(self, job: Job, error: AppError) -> None:
        """End a generation that could not be taken, in its own bubble."""
        self.close(job, Outcome("failed", "error", error.words))

    def close(self, job: Job, outcome: Outcome) -> None:
        """End a generation that is not to run, or not again, with what was kept of it."""
        said = Said(self._events.pieces(job.generation_id))
        if self._saved(job, said, outcome):
            self._events.end(job.generation_id)

    def _generate(self, job: Job, said: Said) -> Outcome:
        if job.cancellation.asked.is_set():
            return OUTCOMES["cancelled"]
        engine = self._catalog.engine(job.cancellation.asked)
        if engine is None:
            return OUTCOMES["cancelled"]
        prompt = self._begin(job, engine, said)
        if prompt is None:
            return OUTCOMES["cancelled"]
        sampling = self._sampling
        if sampling.max_tokens is not None:
            sampling = replace(sampling, max_tokens=sampling.max_tokens - said.tokens)
            if said.pieces and (sampling.max_tokens or 0) < 1:
                return OUTCOMES["length"]
        return self._play(job, engine, prompt, sampling, said)

    def _begin(self, job: Job, engine: Engine, said: Said) -> Prompt | None:
        """Mark the answer as running and read what comes before it; None where it was deleted."""
        with self._database.write() as session:
            found = run(session, job.generation_id)
            if found is None:
                return None
            message = found.message
            said.one_model = message.model in (None, engine.model) or not (message.text or said.pieces)
            message.state = "running"
            message.model = engine.model
            found.generation.started_at = found.generation.started_at or now()
            return prompt_for(ancestors(session, message), engine.model, said.part(message))

    def _play(self, job: Job, engine: Engine, prompt: Prompt, sampling: Sampling, said: Said) -> Outcome:
        asked = job.cancellation.asked
        plain = PlainText()
        # The run's own time goes on where it was when the process was gone.
        began = time.monotonic() - (said.pieces[-1].at if said.pieces else 0.0)
        with closing(engine.stream(prompt, sampling, asked)) as outputs:  # type: ignore[type-var]
            for output in outputs:
                if isinstance(output, Piece) and not asked.is_set():
                    text = plain.feed(output.text)
                    at = time.monotonic() - began
                    number = self._events.append(job.generation_id, text, output.token_ids, at)
                    said.pieces.append(Event(number, text, output.token_ids, at=at))
                elif isinstance(output, Reading):
                    self._events.note(job.generation_id, Notice("reading", output.done, output.total))
                elif isinstance(output, Ending):
                    return replace(OUTCOMES[output.reason], tokens=output)
        raise RuntimeError("the engine ended without saying why")

    def _end(self, job: Job, said: Said, outcome: Outcome) -> None:
        """Save first, announce then: whoever sees the ending can read the truth.

        What can't be saved (the disk is full) is not announced but tried again: an ended run loses its
        pieces, and they are all that is on disk. At the next start they make an answer.
        """
        pause = FIRST_PAUSE_S
        while not self._saved(job, said, outcome):
            self._events.note(job.generation_id, Notice("unsaved"))
            if job.cancellation.leaving.wait(pause):
                return
            pause = min(pause * 2, LONGEST_PAUSE_S)
        self._events.end(job.generation_id)

    def _saved(self, job: Job, said: Said, outcome: Outcome) -> bool:
        try:
            with self._database.write() as session:
                found = run(session, job.generation_id)
                if found is not None:
                    _save(found, said, outcome, job.cancellation)
        except Exception:
            log.exception("The end of generation %s could not be saved", job.generation_id)
            return False
        return True


def _save(found: Run, said: Said, outcome: Outcome, cancellation: Cancellation) -> None:
    message, generation = found.message, found.generation
    # One more than the last piece: the ending event has a number too, and none is used twice.
    generation.covered = max(generation.covered, said.last) + 1
    if outcome.state == "stopped":
        said.cut(cancellation.seen)
    said.add_to(message)
    message.state = outcome.state
    message.ending = outcome.ending
    message.error = outcome.error
    generation.ended_at = now()
    _count(generation, said, outcome.tokens)


def _count(generation: Generation, said: Said, tokens: Ending | None) -> None:
    generation.answer_tokens = said.tokens
    if said.pieces:
        generation.first_token_s, generation.last_token_s = said.pieces[0].at, said.pieces[-1].at
    if tokens is not None:
        generation.prompt_tokens = tokens.prompt_tokens
        generation.reused_tokens = tokens.reused_tokens


def _plain(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300] or type(error).__name__
