"""The engine for every model: `generate`, one answer at a time, with seeds, penalties and log-probabilities.

`generate` gives control back only at its end, so it has a thread of its own, and the request's thread reads
what comes and watches over it. torch is imported when an engine is made, never by this module.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Event, Lock
from typing import Any

from app.engines import loading
from app.engines.answer import Answer
from app.engines.loop import Meter
from app.engines.progress import forward
from app.engines.protocol import Counters, Output, Part, Progress, Prompt, Report, Sampling
from app.engines.requests import Request
from app.engines.talk import Talk
from app.engines.worker import Worker
from app.errors import Unavailable
from app.settings import Settings

SUPPORTED = frozenset(
    {
        "temperature",
        "top_p",
        "top_k",
        "max_tokens",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "seed",
        "logprobs",
    }
)


_WAY_S = 0.02
"""How often one that gives way looks whether the way is free."""


def load(
    settings: Settings, name: str, report: Report, gives_way: Callable[[], bool] = lambda: False
) -> "LocalEngine":
    """Find, convert where needed, load and warm a model. Raises `Invalid` or `Unavailable` in a person's words."""
    far = forward(report)
    return begin(settings, name, loading.load(settings, name, far), far, gives_way=gives_way)


def begin(
    settings: Settings,
    name: str,
    loaded: loading.Loaded,
    far: Report,
    why: str = "",
    *,
    gives_way: Callable[[], bool] = lambda: False,
) -> "LocalEngine":
    """An engine for a loaded model, warmed. `why` says for which reason it is this one.

    While `gives_way` says so it stands still, within a few thousandths of a second: others come first.
    """
    far(Progress("warming", loading.LOADED))
    engine = LocalEngine(settings, name, loaded, why, gives_way)
    try:
        engine.warm()
    except BaseException:
        engine.close()
        raise
    far(Progress("warming", 1.0))
    return engine


class LocalEngine:
    """One loaded model that makes one answer after the other. Implements `protocol.Engine`."""

    concurrency = 1
    supports = SUPPORTED

    def __init__(
        self,
        settings: Settings,
        name: str,
        loaded: loading.Loaded,
        why: str = "",
        gives_way: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take over a loaded tokenizer and model."""
        from app.engines.generation import Generator  # noqa: PLC0415
        from app.engines.models import describe, identify, window  # noqa: PLC0415

        model = loaded.model
        self.model = name
        self.context_window = window(model)
        self._stall_s = settings.stall_s
        self._gives_way = gives_way
        self._meter = Meter()
        self._talk = Talk(settings, loaded.tokenizer, model)
        self.own_system = self._talk.own_system
        self.detail = f"generate, one at a time{why}, {describe(model)}{loaded.note}{self._talk.note}"
        self.identity = identify("local", model, loaded.revision, self._talk.template)
        self._generator: Any = Generator(model, self._talk.stops, self._meter.step)
        self._lock = Lock()
        self._worker = Worker(self._run, self._stall_s)

    @property
    def counters(self) -> Counters:
        return self._meter.read(self._worker.active)

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

    def warm(self) -> None:
        """Make one short answer, so that the first real one is fast; it does not count."""
        for _ in self.stream(Prompt((Part("user", "Hi"),)), Sampling(temperature=0, max_tokens=3), Event()):
            pass
        self._meter.reset()

    def close(self) -> None:
        """Stop the model and free its memory. Running streams end with an error."""
        with self._lock:
            generator, self._generator = self._generator, None
            worker = self._worker
        worker.close(Unavailable("The model was closed."))
        if generator is not None:
            generator.close()

    def _answer(self, request: Request, answer: Answer, cancelled: Event) -> Iterator[Output]:
        with self._lock:
            if self._generator is None:
                raise Unavailable("The model was closed.")
            self._worker.submit(request)
        try:
            yield from answer.outputs(cancelled, self._watch)
        finally:
            # Before the ending is told: whoever sees it finds the place free.
            with self._lock:
                worker = self._worker
            worker.leave(request)
        yield from answer.ending()

    def _watch(self) -> None:
        """Called by every stream that waits: a thread that is stuck or gone is replaced, and the line goes on."""
        with self._lock:
            if self._generator is None:
                return
            line = self._worker.give_up_if_stuck()
            if line is not None:
                self._worker = Worker(self._run, self._stall_s, line)
                self._meter.rebuilt += 1

    def _run(self, request: Request, worker: Worker) -> None:
        generator = self._generator
        if generator is not None:
            generator.run(request, partial(self._go_on, request, worker), self._count)

    def _go_on(self, request: Request, worker: Worker) -> bool:
        """Called at each layer of each step: whether anybody still wants the request, once the way is free."""
        while (wanted := worker.go_on(request)) and self._gives_way():
            time.sleep(_WAY_S)
        return wanted

    def _count(self, tokens: int) -> None:
        self._meter.tokens += tokens
