"""Waiting for what must come, with an end to the patience. Tests never just sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


PATIENCE_S = 20.0
"""For what needs only moments: the machine may be busy with other things."""


def until(condition: Callable[[], T], within_s: float = PATIENCE_S, every_s: float = 0.01) -> T:
    """The first true value of a condition; fails when there was none in time."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not true within {within_s} s (last: {value!r})"
        time.sleep(every_s)
    return value
