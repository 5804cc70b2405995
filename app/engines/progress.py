"""Progress of loading that only goes forward, also through work that tells nothing of itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from app.engines.protocol import Progress, Report

_EVERY_S = 0.5


def forward(report: Report) -> Report:
    """Reports that never go back, whatever the stages think of their share."""
    furthest = 0.0

    def onward(progress: Progress) -> None:
        nonlocal furthest
        furthest = max(furthest, progress.fraction)
        report(Progress(progress.stage, furthest))

    return onward


@contextmanager
def creeping(moved: Callable[[float], None], start: float, end: float, usual_s: float) -> Iterator[None]:
    """Tells `moved` of a fraction that goes from `start` towards `end` while the block runs: a guess by the clock.

    A person shall see that it is alive. After the usual time it is two thirds of the way; it never arrives,
    and ends with the block.
    """
    done = Event()

    def creep() -> None:
        fraction = start
        while not done.wait(_EVERY_S):
            fraction += (end - fraction) * min(1.0, _EVERY_S / usual_s)
            moved(fraction)

    thread = Thread(target=creep, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
