"""An answer that is told to one listener and kept by nobody, made in the queue and turns of those of the page."""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace

from app.database import new_id
from app.engines.catalog import Catalog
from app.engines.protocol import Ending, Engine, Piece, Prompt, Sampling
from app.errors import AppError, Faulty, TimedOut, Unavailable
from app.generation.job import Cancellation
from app.generation.metering import metered
from app.generation.plain_text import plain
from app.generation.stops import Stopping, Stops
from app.metrics import Metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Assignment:
    """What an engine is asked. `before` is what the answer has said already, or the tag that lets it think."""

    engine: Engine
    prompt: Prompt
    sampling: Sampling
    stop: tuple[str, ...]
    before: str = ""


Ask = Callable[[Engine], Assignment]
"""Makes the assignment once the engine is there. Raises `AppError` for what it can't be asked."""
Told = Assignment | Piece | Ending | AppError
"""What a listener hears: the assignment once it is its turn, pieces, and last an ending or why there is none."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One run for an owner. `tell` is called from the thread that it runs on, and must not wait."""

    catalog: Catalog
    metrics: Metrics
    owner: str
    model: str | None
    ask: Ask
    tell: Callable[[Told], None]
    generation_id: str = field(default_factory=new_id)
    cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def conversation_id(self) -> str:
        """It waits for no other answer."""
        return self.generation_id

    def run(self) -> None:
        """Make the answer, and tell of it to its end."""
        try:
            self._end(self._answer())
        except AppError as error:
            self.tell(error)
        except TimeoutError as error:
            self.tell(TimedOut.by(error))
        except Exception as error:
            log.exception("Completion %s failed", self.generation_id)
            self.tell(Faulty.by(error))

    def wait_behind(self, before: int) -> None:
        """Nobody asks."""

    def _answer(self) -> Ending:
        if self.cancellation.asked.is_set():
            return Ending("cancelled")
        with self.catalog.lease(self.model, self.cancellation.asked) as engine:
            return Ending("cancelled") if engine is None else self._play(engine, self.ask(engine))

    def _play(self, engine: Engine, assignment: Assignment) -> Ending:
        prompt = assignment.prompt
        given = prompt.parts[-1].text if prompt.continues else ""
        stopping, stops = Stopping(self.cancellation.asked), Stops(assignment.stop, given)
        with closing(engine.stream(prompt, assignment.sampling, stopping)) as outputs:  # type: ignore[type-var]
            self.tell(assignment)
            for output in metered(stops.watch(plain(outputs), stopping), self.metrics):
                if isinstance(output, Piece):
                    self.tell(_spelt(output, engine) if assignment.sampling.logprobs else output)
                elif isinstance(output, Ending):
                    if stops.rest:
                        self.tell(Piece(stops.rest, ()))
                    return output
        raise RuntimeError("the engine ended without saying why")

    def _end(self, ending: Ending) -> None:
        # Who ends the process cuts an answer that its listener wants whole.
        leaving = ending.reason == "cancelled" and self.cancellation.leaving.is_set()
        self.tell(Unavailable("Rheo is shutting down.") if leaving else ending)


def _spelt(piece: Piece, engine: Engine) -> Piece:
    # Here and not where it is told: that takes its time, and the event loop has none.
    return piece if piece.tokens else replace(piece, tokens=tuple(engine.decode([id_]) for id_ in piece.token_ids))
