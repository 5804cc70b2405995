"""The context of an answer: what of a conversation goes into the window of the model, and what does not."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from app.conversations.models import Message
from app.engines.protocol import Engine, Part, Prompt
from app.errors import Invalid, TooLong, Uncounted
from app.generation.prompt import prompt_for
from app.generation.steering import Steering

_ROOM = 4
"""The share of the window, one in so many, that is kept for the answer at most."""
_SPARE = 4
"""When turns are dropped, one in so many tokens is freed besides, so that the next turns need drop none: each
drop changes the beginning of the prompt, and the model must read it all again."""

Fit = Literal["whole", "dropped", "full", "long", "uncounted"]


@dataclass(frozen=True, slots=True)
class Context:
    """What is sent, and what is not. `left_out` counts the oldest messages; `tokens` is what the engine is given."""

    fit: Fit
    """Whether all goes in, the oldest turns are dropped, the rule forbids that, or the newest alone is too long.
    Uncounted: nobody can tell, and all is sent."""
    prompt: Prompt
    token_ids: list[int] = field(repr=False)
    left_out: int
    messages: int
    window: int

    @property
    def tokens(self) -> int:
        """The exact count, by the model's own tokenizer and template; 0 where it is uncounted."""
        return len(self.token_ids)

    @property
    def fault(self) -> Invalid | None:
        """Why this can't be sent; None where it can."""
        if self.fit == "long":
            return TooLong(self.tokens, self.window)
        if self.fit == "full":
            return Invalid(
                f"This conversation is full: with this it is {self.tokens:,} tokens, and the model takes "
                f"{self.window:,}. Start a new chat, or let its settings drop the oldest turns."
            )
        return None


class ContextWindow:
    """Fits the messages of one conversation into the window of an engine."""

    def __init__(
        self, engine: Engine, steering: Steering, messages: Sequence[Message], so_far: Part | None = None
    ) -> None:
        self._engine = engine
        self._steering = steering
        self._messages = messages
        self._so_far = so_far

    def fit(self, left_out: int = 0) -> Context:
        """The context. `left_out` messages were left out of the one before; where that still fits, it stays so."""
        try:
            return self._fit(left_out)
        except Uncounted:
            prompt = prompt_for(self._messages, self._engine.model, self._so_far, self._steering.system)
            return Context("uncounted", prompt, [], 0, len(self._messages), self._engine.context_window)

    def _fit(self, left_out: int) -> Context:
        window = self._engine.context_window
        limit = window - min(self._steering.max_tokens, window // _ROOM)
        whole = self._from(0, "whole")
        if whole.tokens <= limit or (self._steering.overflow == "stop" and whole.tokens < window):
            return whole
        if self._steering.overflow == "stop":
            return self._from(0, "full" if len(self._starts) > 1 else "long")
        if left_out and left_out in self._starts:
            kept = self._from(left_out, "dropped")
            if kept.tokens <= limit:
                return kept
        return self._shortened(limit - limit // _SPARE)

    @cached_property
    def _starts(self) -> list[int]:
        """The places where a turn begins after the first, and the first."""
        return [number for number, message in enumerate(self._messages) if message.role == "user"]

    def _shortened(self, target: int) -> Context:
        """The most turns that take `target` tokens at most; the newest at least."""
        low, high = 0, len(self._starts) - 1
        while low < high:
            middle = (low + high) // 2
            if self._from(self._starts[middle], "dropped").tokens <= target:
                high = middle
            else:
                low = middle + 1
        start = self._starts[low] if self._starts else 0
        found = self._from(start, "dropped" if start else "whole")
        return found if found.tokens < found.window else self._from(start, "long")

    def _from(self, start: int, fit: Fit) -> Context:
        sent = self._messages[start:]
        prompt = prompt_for(sent, self._engine.model, self._so_far, self._steering.system)
        ids = self._engine.encode(prompt)
        shown = sum(1 for message in sent if message.text)
        return Context(fit, prompt, ids, start, shown, self._engine.context_window)


def lost_at(before: Sequence[int], now: Sequence[int]) -> int | None:
    """The first token of a prompt from which on it is no continuation of what was read before; None where it is."""
    if list(now[: len(before)]) == list(before):
        return None
    pairs = zip(before, now, strict=False)
    return next((number for number, (old, new) in enumerate(pairs) if old != new), min(len(before), len(now)))
