"""What a request asks of the choice of tokens, checked before it comes near the model."""

import math
from dataclasses import dataclass, replace

from app.engines.protocol import Sampling
from app.errors import Invalid
from app.settings import Settings

SUPPORTED = frozenset({"temperature", "top_p", "top_k", "max_tokens"})
_GREEDY_BELOW = 1e-4
"""So cold that only the likeliest token is left; dividing by less would overflow."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How tokens are chosen, nothing left open. Temperature 0 is arg-max, top_k 0 is all tokens."""

    temperature: float
    top_p: float
    top_k: int
    max_tokens: int

    def within(self, room: int) -> "Choice":
        """The same, for an answer that has room for so many tokens."""
        return replace(self, max_tokens=min(self.max_tokens, room))


def choose(sampling: Sampling, settings: Settings) -> Choice:
    """Fill what is not asked for from the settings. Raises `Invalid` naming the field that can't be honoured."""
    for field in sorted(sampling.asked() - SUPPORTED):
        raise Invalid(f"{field} is not supported by this model's engine; it takes {', '.join(sorted(SUPPORTED))}.")
    temperature = _number("temperature", sampling.temperature, settings.temperature, 0, 5)
    return Choice(
        temperature=temperature if temperature >= _GREEDY_BELOW else 0.0,
        top_p=_number("top_p", sampling.top_p, settings.top_p, 0, 1),
        top_k=_whole("top_k", sampling.top_k, 0, least=0),
        max_tokens=_whole("max_tokens", sampling.max_tokens, settings.max_tokens, least=1),
    )


def _number(field: str, value: object, default: float, least: float, most: float) -> float:
    # Only floats are taken further down: a whole number of a JSON body fails there, in the middle of a batch.
    if value is None:
        return float(default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid(f"{field} must be a number from {least} to {most}.")
    if not least <= value <= most:
        raise Invalid(f"{field} must be from {least} to {most}, not {value}.")
    return float(value)


def _whole(field: str, value: object, default: int, least: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise Invalid(f"{field} must be a whole number of at least {least}.")
    # The batch carries it as 32 bits.
    return min(value, 2**31 - 1)
