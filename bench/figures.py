"""Statistics of what was measured: medians, percentiles, ratios of pairs. Nothing here measures."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two things measured in turn. `ratio` is the median of the pairs' ratios, not the ratio of the medians."""

    ours: float
    other: float
    ratio: float
    pairs: int
    lowest: float
    highest: float


def compared(pairs: Sequence[tuple[float, float]]) -> Comparison:
    """Pairs of (ours, other), each measured one right after the other. What both suffer cancels out."""
    if not pairs:
        raise ValueError("nothing was measured")
    ratios = [ours / other for ours, other in pairs]
    return Comparison(
        ours=statistics.median(ours for ours, _ in pairs),
        other=statistics.median(other for _, other in pairs),
        ratio=statistics.median(ratios),
        pairs=len(pairs),
        lowest=min(ratios),
        highest=max(ratios),
    )


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` per cent of the values do not exceed (nearest rank)."""
    if not values:
        raise ValueError("nothing was measured")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def rate(tokens: int, seconds: float) -> float:
    """Tokens in a second."""
    return tokens / seconds if seconds > 0 else 0.0
