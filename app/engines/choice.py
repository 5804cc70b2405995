"""What a request asks of the choice of tokens, checked before it comes near the model."""

import math
from collections.abc import Set
from dataclasses import dataclass, replace

from app.engines.protocol import Sampling
from app.errors import Invalid
from app.settings import Settings

_GREEDY_BELOW = 1e-4
"""So cold that only the likeliest token is left; dividing by less would overflow."""
_SEEDS = 2**63


@dataclass(frozen=True, slots=True)
class Choice:
    """How tokens are chosen, nothing left open. Temperature 0 is arg-max, top_k 0 is all tokens."""

    temperature: float
    top_p: float
    top_k: int
    max_tokens: int
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    logprobs: bool = False

    def within(self, room: int) -> "Choice":
        """The same, for an answer that has room for so many tokens."""
        return replace(self, max_tokens=min(self.max_tokens, room))


def choose(sampling: Sampling, settings: Settings, supported: Set[str]) -> Choice:
    """Fill what is not asked for from the settings. Raises `Invalid` naming the field that can't be honoured."""
    for field in sorted(sampling.asked() - supported):
        raise Invalid(f"{field} is not supported by this model's engine; it takes {', '.join(sorted(supported))}.")
    temperature = _number("temperature", sampling.temperature, settings.temperature, 0, 5)
    return Choice(
        temperature=temperature if temperature >= _GREEDY_BELOW else 0.0,
        top_p=_number("top_p", sampling.top_p, settings.top_p, 0, 1),
        top_k=_whole("top_k", sampling.top_k, 0, least=0),
        max_tokens=_whole("max_tokens", sampling.max_tokens, settings.max_tokens, least=1),
        repetition_penalty=_number("repetition_penalty", sampling.repetition_penalty, 1.0, 0.1, 10),
        presence_penalty=_number("presence_penalty", sampling.presence_penalty, 0.0, -2, 2),
        frequency_penalty=_number("frequency_penalty", sampling.frequency_penalty, 0.0, -2, 2),
        seed=_seed(sampling.seed),
        logprobs=_switch("logprobs", sampling.logprobs),
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


def _seed(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise Invalid("seed must be a whole number.")
    return value % _SEEDS


def _switch(field: str, value: object) -> bool:
    if value is not None and not isinstance(value, bool):
        raise Invalid(f"{field} must be true or false.")
    return bool(value)
