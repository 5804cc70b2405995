"""The engine that people use: many answers at one time by transformers' continuous batching.

torch is imported when a model is loaded, never by this module.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from threading import Event, Lock
from typing import Any

from app.engines import loading, local
from app.engines.answer import Answer
from app.engines.faults import Unbatched
from app.engines.loop import Loop, Meter
from app.engines.progress import forward
from app.engines.protocol import Counters, Engine, Output, Part, Piece, Progress, Prompt, Report, Sampling
from app.engines.requests import Request
from app.engines.talk import Talk
from app.errors import AppError, Unavailable
from app.settings import Settings

log = logging.getLogger(__name__)

CONCURRENCY = 16
SUPPORTED = frozenset({"temperature", "top_p", "top_k", "max_tokens"})
TRIAL = Prompt((Part("user", "Hi"),))


def load(settings: Settings, name: str, report: Report) -> Engine:
    """Find, convert where needed, load and try a model; one that can't be run in batches gets the local engine.

    Raises `Invalid` or `Unavailable` in a person's words.
    """
    far = forward(report)
    loaded = loading.load(settings, name, far)
    far(Progress("warming", loading.LOADED))
    try:
        engine = begin(settings, name, loaded)
    except Unbatched as error:
        log.info("%s", error.words)
        kind = type(loaded.model).__name__
        return local.begin(settings, name, loaded, far, f": paged attention does not support {kind}")
    far(Progress("warming", 1.0))
    return engine


def begin(settings: Settings, name: str, loaded: loading.Loaded) -> "BatchingEngine":
    """An engine for a loaded model, tried. Raises `Unbatched`, and leaves the model as it was, where it can't be."""
    from app.engines import quiet  # noqa: PLC0415

    engine = BatchingEngine(settings, name, loaded)
    try:
        # What the library logs of a fault is told in our words.
        with quiet.silence():
            _try_out(engine, loaded.model)
    except BaseException:
        engine.close()
        raise
    return engine


def _try_out(engine: "BatchingEngine", model: Any) -> None:
    from app.engines import paged  # noqa: PLC0415

    try:
        made = engine.warm()
        agrees = not made or paged.agrees(model, engine.encode(TRIAL), made)
    except AppError:
        raise
    # The library tells only so which kinds of models it can't run.
    except Exception as error:
        raise Unbatched(f"This model can't be run by continuous batching: {error}") from error
    if not agrees:
        raise Unbatched("This model answers otherwise by continuous batching than by itself.")


class BatchingEngine:
    """One loaded model, all answers of which share its forward steps. Implements `protocol.Engine`."""

    concurrency = CONCURRENCY
    supports = SUPPORTED

    def __init__(self, settings: Settings, name: str, loaded: loading.Loaded) -> None:
        """Take over a loaded tokenizer and model, and start. Raises `Unbatched` for a kind that can't be run so."""
        from app.engines import models, paged  # noqa: PLC0415

        model = loaded.model
        self.model = name
        self.context_window = models.window(model)
        self._stall_s = settings.stall_s
        self._talk = talk = Talk(settings, loaded.tokenizer, model)
        self.own_system = talk.own_system
        self.detail = f"continuous batching, {models.describe(model)}{loaded.note}{talk.note}"
        self.identity = models.identify("batching", model, loaded.revision, talk.template)
        self._meter = Meter()
        self._make: Callable[[Loop], Any] | None = lambda loop: paged.make_manager(model, talk.stops, loop)
        self._lock = Lock()
        self._loop = self._start()
        self._hook = model.register_forward_hook(self._meter.step)

    @property
    def counters(self) -> Counters:
        return self._meter.read(self._loop.active)

    def encode(self, prompt: Prompt) -> list[int]:
        """The exact ids that the model is given for a prompt."""
        return self._talk.encode(prompt)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of ids as the model reads it, its control tokens written out."""
        return self._talk.decode(token_ids)

    def stream(self, prompt: Prompt, sampling: Sampling, cancelled: Event) -> Iterator[Output]:
        """Answer a prompt, as `protocol.Engine` says. What can't be done is refused before this returns."""
        request, answer = self._talk.begin(prompt, sampling, self.supports, self.context_window)
        return self._answer(request, answer, cancelled)

    def warm(self) -> list[int]:
        """Make one short answer, so that the first real one is fast; it does not count. Returns its ids."""
        made: list[int] = []
        for output in self.stream(TRIAL, Sampling(temperature=0, max_tokens=4), Event()):
            made.extend(output.token_ids if isinstance(output, Piece) else ())
        self._meter.reset()
        return made

    def close(self) -> None:
        """Stop the model and free its memory. Running streams end with an error."""
        with self._lock:
            # The last thing that holds the model.
            self._make = None
        self._loop.close()
        self._hook.remove()

    def _start(self) -> Loop:
        if self._make is None:
            raise Unavailable("The model was closed.")
        return Loop(self._make, self._meter, self._stall_s)

    def _submit(self, request: Request) -> Loop:
        with self._lock:
            if self._make is None or self._loop.broken:
                self._loop = self._start()
                self._meter.rebuilt += 1
            loop = self._loop
        loop.submit(request, self._talk.stops)
        return loop

    def _answer(self, request: Request, answer: Answer, cancelled: Event) -> Iterator[Output]:
        loop = self._submit(request)
        try:
            yield from answer.outputs(cancelled)
        finally:
            # Before the ending is told: whoever sees it finds the place free.
            loop.leave(request)
        yield from answer.ending()
