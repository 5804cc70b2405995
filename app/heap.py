"""What the garbage collector walks.

A full collection walks every object there is while all threads stand still: measured, 0.1 s for the application alone
and more with a model's libraries beside it, in the midst of somebody's answer. What is there once the application or
a model stands will stay, so it is set aside (`gc.freeze`), and a collection walks only what came after.
"""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PACE = (2_000, 10, 50)
"""New objects to a collection of the young; of these, to one of the middle-aged; of those, to a full one.

At Python's own pace (700, 10, 10) full ones, of 60 to 170 ms each, came every few seconds under 300 streams, although
all that they walked was in use: the words' lag was 164 ms at its 99th percentile, and without them it is 35.
"""


@contextmanager
def filling() -> Iterator[None]:
    """While modules are imported nothing is collected, and all of it is set aside: a sixth of the time of a start."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def keep_pace() -> None:
    """Collect as seldom as a process does best in which many answers stream."""
    gc.set_threshold(*PACE)


def settle() -> None:
    """Set aside what is there now; costs nothing."""
    gc.freeze()


def release() -> None:
    """Let collections walk everything again: what was set aside may go."""
    gc.unfreeze()


def clear() -> None:
    """Free what nobody uses any more, also what was set aside, and set the rest aside. Walks everything."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    give_back()


def give_back() -> None:
    """Give the system back what is free: glibc keeps it where something in use lies behind, half of the weights.

    Where the C library knows no such thing (macOS, musl) nothing is done.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
