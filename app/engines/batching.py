"""The engine that people use: many answers at one time by transformers' continuous batching.

torch is imported when a model is loaded, never by this module.
"""

import os
from collections.abc import Callable, Iterator
from threading import Event, Lock
from typing import Any

from app.engines import weights
from app.engines.chat_template import ChatTemplate
from app.engines.choice import SUPPORTED, choose
from app.engines.decoding import Decoder, Vocabulary
from app.engines.loop import Loop, Meter, next_name
from app.engines.protocol import (
    Counters,
    Ending,
    Output,
    Part,
    Piece,
    Progress,
    Prompt,
    Reading,
    Reason,
    Report,
    Sampling,
)
from app.engines.requests import Request
from app.errors import Invalid, Unavailable
from app.settings import Settings

CONCURRENCY = 16
POLL_S = 0.05
"""How often a stream that gets nothing looks whether it was cancelled."""


def load(settings: Settings, name: str, report: Report) -> "BatchingEngine":
    """Find, convert where needed, load and warm a model. Raises `Invalid` or `Unavailable` in a person's words."""
    # torch's threads spin while they wait; beside a browser on two cores that costs a factor of twenty.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    far = _forward(report)
    far(Progress("reading", 0.0))
    folder = weights.prepare(settings, name, far)
    far(Progress("reading", weights.READ))
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
        return self._answer(request, self._decoder(prompt), cancelled)

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

    def _answer(self, request: Request, decoder: Decoder, cancelled: Event) -> Iterator[Output]:
        total = len(request.prompt_ids)
        read, made, reason = -1, 0, _NONE
        loop = self._submit(request)
        try:
            while reason is None:
                if cancelled.is_set():
                    reason = "cancelled"
                    break
                news = request.take(POLL_S)
                if news is None:
                    continue
                if (done := total if news.ids else news.read) > read:
                    read = done
                    yield Reading(done, total)
                reason = "length" if news.ended else None
                for token_id in news.ids:
                    if token_id in self._stops:
                        # Not in the ids: the template puts it behind every answer of the past. What is spliced
                        # back is then, token for token, what the model has read, and its cache is found again.
                        reason = "stop"
                        break
                    made += 1
                    yield Piece(decoder.feed(self._vocabulary[token_id]), (token_id,))
                # A request that was put back for want of room counts its tokens anew: the limit is ours to keep.
                if reason is None and made >= request.choice.max_tokens:
                    reason = "length"
        finally:
            loop.leave(request)
        # Half a character is left out where the answer may go on from here: its bytes are in the ids.
        if reason == "stop" and (rest := decoder.end()):
            yield Piece(rest, ())
        yield Ending(reason, total, request.reused, made)

    def _decoder(self, prompt: Prompt) -> Decoder:
        decoder = self._vocabulary.decoder(prompt.continues)
        if prompt.continues and prompt.parts:
            # The given answer may have been cut within a character.
            for token_id in prompt.parts[-1].token_ids or ():
                decoder.feed(self._vocabulary[token_id])
        return decoder


_NONE: Reason | None = None


def _stops(model: Any, tokenizer: Any, template: ChatTemplate) -> list[int]:
    """The ids at which an answer ends: what model and tokenizer name, and what the template puts after an answer."""
    named = [model.generation_config.eos_token_id, tokenizer.eos_token_id, template.end_of_turn()]
    stops: set[int] = set()
    for name in named:
        stops.update(name if isinstance(name, list) else () if name is None else (name,))
    return sorted(stops)


def _forward(report: Report) -> Report:
    """Reports that never go back, whatever the stages think of their share."""
    furthest = 0.0

    def forward(progress: Progress) -> None:
        nonlocal furthest
        furthest = max(furthest, progress.fraction)
        report(Progress(progress.stage, furthest))

    return forward
