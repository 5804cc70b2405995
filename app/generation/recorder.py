"""Carries an engine's output into the event log and, at the end, into the message."""

import logging
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from app.conversations.models import EndingReason, State
from app.database import Database, now
from app.engines.catalog import Catalog, ModelState
from app.engines.protocol import Ending, Engine, Piece, Prompt, Reading
from app.errors import AppError, Faulty, TimedOut, Unavailable
from app.events.protocol import EventLog, Notice
from app.generation.begun import Begun, begun_of
from app.generation.job import Cancellation, Job, Record
from app.generation.metering import metered
from app.generation.models import Generation
from app.generation.plain_text import plain
from app.generation.queries import Run, run
from app.generation.receipts import keep_end
from app.generation.said import Said
from app.generation.steering import Steering
from app.generation.stops import Stopping, Stops
from app.metrics import Metrics

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

    def __init__(
        self, database: Database, events: EventLog, catalog: Catalog, defaults: Steering, metrics: Metrics
    ) -> None:
        self._database = database
        self._events = events
        self._catalog = catalog
        self._defaults = defaults
        self._metrics = metrics
        self._run: Record = self._record

    def within(self, around: Callable[[Record], Record]) -> None:
        """From now on every run goes through `around`: there is who goes on from an answer when it has ended."""
        self._run = around(self._run)

    def record(self, job: Job) -> None:
        """Run a generation. Every fault ends in its own answer; nothing is raised for the model's."""
        self._run(job)

    def _record(self, job: Job) -> None:
        said = Said()
        try:
            # An answer has pieces only once it has begun, and none begins twice in one process.
            if job.resumed:
                said.pieces = self._events.pieces(job.generation_id)
            outcome = self._generate(job, said)
        except TimeoutError as error:
            outcome = Outcome("failed", "timeout", TimedOut.by(error).words)
        except Unavailable as error:
            # An answer that was to go on after a restart, and can't: what was said stays open to be continued.
            outcome = Outcome("failed", "error", error.words)
            if said.pieces and job.resumed:
                outcome = replace(OUTCOMES["restart"], error=error.words)
        except AppError as error:
            outcome = Outcome("failed", "error", error.words)
        except Exception as error:
            log.exception("Generation %s failed", job.generation_id)
            outcome = Outcome("failed", "error", Faulty.by(error).words)
        # Leaving is not an ending: the row stays as it is, and its pieces are on disk.
        if not (job.cancellation.leaving.is_set() and outcome.state == "stopped"):
            self._end(job, said, outcome)

    def place(self, job: Job, before: int) -> None:
        """Tell the readers of a waiting answer how many come before it."""
        self._events.note(job.generation_id, Notice("waiting", before))

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
        with self._catalog.lease(self._model(job, said), job.cancellation.asked, partial(self._tell, job)) as engine:
            return self._answer(job, engine, said) if engine is not None else OUTCOMES["cancelled"]

    def _model(self, job: Job, said: Said) -> str | None:
        """The model to ask. Where the one that began an answer is gone, the conversation's goes on from the text."""
        if job.model is None or self._catalog.has(job.model):
            return job.model
        with self._database.read() as session:
            found = run(session, job.generation_id)
        begun = found is not None and (found.message.text or said.pieces)
        return found.conversation.model if found is not None and begun else job.model

    def _tell(self, job: Job, model: ModelState) -> None:
        """Say in the answer's place why its model is not there yet."""
        percent = round(100 * model.progress) if model.state == "loading" else 0
        self._events.note(job.generation_id, Notice("model", percent, 100, words=model.waited_for))

    def _answer(self, job: Job, engine: Engine, said: Said) -> Outcome:
        with self._database.read() as session:
            begun = begun_of(session, job.generation_id, engine, said, self._defaults)
        if begun is None:
            return OUTCOMES["cancelled"]
        if said.pieces and said.tokens >= begun.steering.max_tokens:
            return OUTCOMES["length"]
        # Outside of any transaction: to count the tokens of a long conversation takes its time.
        context = begun.fit(engine)
        if not begun.keep(self._database, engine, context, said):
            return OUTCOMES["cancelled"]
        if context.fault is not None:
            raise context.fault
        # Counted once, and so certain to be what the receipt says.
        ids = tuple(context.token_ids) if context.fit != "uncounted" else None
        return self._play(job, engine, replace(context.prompt, token_ids=ids), begun, said)

    def _play(self, job: Job, engine: Engine, prompt: Prompt, begun: Begun, said: Said) -> Outcome:
        asked, steering = job.cancellation.asked, begun.sampled
        stopping, stops = Stopping(asked), Stops(steering.stop, begun.so_far.text if begun.so_far else "")
        # The run's own time goes on where it was when the process was gone.
        began = time.monotonic() - (said.pieces[-1].at if said.pieces else 0.0)
        dropped = False
        with closing(engine.stream(prompt, steering.sampling, stopping)) as outputs:  # type: ignore[type-var]
            for output in metered(stops.watch(plain(outputs), stopping), self._metrics):
                if isinstance(output, Piece) and asked.is_set():
                    dropped = True
                elif isinstance(output, Piece):
                    at = time.monotonic() - began
                    said.pieces.append(self._events.append(job.generation_id, output.text, output.token_ids, at))
                elif isinstance(output, Reading):
                    self._events.note(job.generation_id, Notice("reading", output.done, output.total))
                elif isinstance(output, Ending):
                    said.rest, said.back = stops.rest, stops.back
                    # The last piece may have come too late, from a model that ended by itself: then it is missing.
                    return replace(OUTCOMES["cancelled" if dropped else output.reason], tokens=output)
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
                    keep_end(session, found.generation, said.token_ids)
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
