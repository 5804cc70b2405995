"""The engine that people use: many answers at one time by transformers' continuous batching.

torch is imported when a model is loaded, never by this module.
"""

import os
from collections.abc import Callable, Iterator
from threading import Event, Lock
from typing import Any

from app.engines import weights
from app.engines.answer import Answer
from app.engines.chat_template import ChatTemplate
from app.engines.choice import SUPPORTED, choose
from app.engines.decoding import Decoder, Vocabulary
from app.engines.loop import Loop, Meter, next_name
from app.engines.progress import creeping, forward
from app.engines.protocol import Counters, Output, Part, Progress, Prompt, Report, Sampling
from app.engines.requests import Request
from app.errors import Invalid, Unavailable
from app.settings import Settings

CONCURRENCY = 16


def load(settings: Settings, name: str, report: Report) -> "BatchingEngine":
    """Find, convert where needed, load and warm a model. Raises `Invalid` or `Unavailable` in a person's words."""
    # torch's threads spin while they wait; beside a browser on two cores that costs a factor of twenty.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    far = forward(report)
    far(Progress("reading", 0.0))
    folder = weights.prepare(settings, name, far)
    far(Progress("reading", weights.READ))
    with creeping(lambda fraction: far(Progress("reading", fraction)), weights.READ, 0.5, usual_s=4):
        # Only now torch: a wrong name is told at once.
        from app.engines import paged, quiet  # noqa: PLC0415

    with quiet.loading():
        far(Progress("reading", 0.5))
        tokenizer = paged.load_tokenizer(folder)
        far(Progress("reading", 0.7))
        model = paged.load_model(folder, settings)
    far(Progress("warming", 0.85))
    engine = BatchingEngine(settings, name, tokenizer, model)
    try:
        engine.warm()
    except BaseException:
        engine.close()
        raise
    far(Progress("warming", 1.0))
    return engine


class BatchingEngine:
    """One loaded model, all answers of which share its forward steps. Implements `protocol.Engine`."""

    concurrency = CONCURRENCY
    supports = SUPPORTED

    def __init__(self, settings: Settings, name: str, tokenizer: Any, model: Any) -> None:
        """Take over a loaded tokenizer and model, and start."""
        from app.engines import paged  # noqa: PLC0415

        self.model = name
        self.context_window = paged.window(model)
        self._settings = settings
        self._template = ChatTemplate(tokenizer)
        self._vocabulary = Vocabulary(tokenizer)
        self._stops = _stops(model, tokenizer, self._template)
        template = "" if self._template.name == "own" else f", {self._template.name} chat template"
        self.detail = f"{paged.describe(model)}{template}"
        self._meter = Meter()
        model.register_forward_hook(self._meter.step)
        self._make: Callable[[Loop], Any] | None = lambda loop: paged.make_manager(model, self._stops, loop)
        self._lock = Lock()
        self._loop = self._start()

    @property
    def counters(self) -> Counters:
        return self._meter.read(self._loop.active)

    def encode(self, prompt: Prompt) -> list[int]:
        """The exact ids that the model is given for a prompt."""
        return self._template.encode(prompt)

    def stream(self, prompt: Prompt, sampling: Sampling, cancelled: Event) -> Iterator[Output]:
        """Answer a prompt, as `protocol.Engine` says. What can't be done is refused before this returns."""
        choice = choose(sampling, self._settings)
        ids = self.encode(prompt)
        room = self.context_window - len(ids)
        if room < 1:
            raise Invalid(
                f"The conversation is too long for this model: {len(ids)} tokens, and it takes {self.context_window}."
            )
        if not ids:
            raise Invalid("There is nothing to answer.")
        request = Request(next_name(), ids, choice.within(room))
        answer = Answer(request, self._vocabulary, self._decoder(prompt), self._stops)
        return self._answer(request, answer, cancelled)

    def warm(self) -> None:
        """Make one short answer, so that the first real one is fast; it does not count."""
        prompt = Prompt((Part("user", "Hi"),))
        for _ in self.stream(prompt, Sampling(temperature=0, max_tokens=3), Event()):
            pass
        self._meter.reset()

    def close(self) -> None:
        """Stop the model and free its memory. Running streams end with an error."""
        with self._lock:
            # The last thing that holds the model.
            self._make = None
        self._loop.close()

    def _start(self) -> Loop:
        if self._make is None:
            raise Unavailable("The model was closed.")
        return Loop(self._make, self._meter, self._settings.stall_s)

    def _submit(self, request: Request) -> Loop:
        with self._lock:
            if self._make is None or self._loop.broken:
                self._loop = self._start()
            loop = self._loop
        loop.submit(request, self._stops)
        return loop

    def _answer(self, request: Request, answer: Answer, cancelled: Event) -> Iterator[Output]:
        loop = self._submit(request)
        try:
            yield from answer.outputs(cancelled)
        finally:
            # Before the ending is told: whoever sees it finds the place free.
            loop.leave(request)
        yield from answer.ending()

    def _decoder(self, prompt: Prompt) -> Decoder:
        given = prompt.parts[-1] if prompt.continues and prompt.parts else Part("assistant", "")
        decoder = self._vocabulary.decoder(continues=bool(given.text or given.token_ids))
        # The given answer may have been cut within a character.
        for token_id in given.token_ids or ():
            decoder.feed(self._vocabulary[token_id])
        return decoder


def _stops(model: Any, tokenizer: Any, template: ChatTemplate) -> list[int]:
    """The ids at which an answer ends: what model and tokenizer name, and what the template puts after an answer."""
    named = [model.generation_config.eos_token_id, tokenizer.eos_token_id, template.end_of_turn()]
    stops: set[int] = set()
    for name in named:
        stops.update(name if isinstance(name, list) else () if name is None else (name,))
    return sorted(stops)
