"""Rheo with an engine whose every token says when it was due: `python -m bench.clock`, else as `python -m app`.

All streams are opened first; the signal USR1 lets all of them begin. The clock is CLOCK_MONOTONIC, which
all processes of a machine share, so that a reader knows the delay of each token.
"""

import signal
import sys
import time
from collections.abc import Iterator
from itertools import count
from threading import Event
from typing import Any

from app import factory
from app.engines.catalog import Catalog
from app.engines.protocol import Ending, Output, Piece, Prompt, Report, Sampling
from app.engines.scripted import Script, ScriptedEngine
from app.engines.shelf import Model
from app.settings import Settings

RATE = 20
"""Tokens a second of each stream."""
PARAGRAPH = 80
"""Tokens of a paragraph."""
LONGEST_S = 120
HEAD_START_S = 0.5
_GOLDEN = 0.618


class Clock(ScriptedEngine):
    """Plays the time of day. A stream that falls behind does not skip: its tokens then are late, and say so."""

    def __init__(self, go: Event) -> None:
        super().__init__(Script("clock", context_window=1_000_000))
        self._go = go
        self._began = 0.0
        self._streams = count()

    def begin(self) -> None:
        """Let every stream begin."""
        self._began = time.monotonic() + HEAD_START_S
        self._go.set()

    def stream(self, prompt: Prompt, sampling: Sampling, cancelled: Event) -> Iterator[Output]:  # noqa: ARG002
        return self._tick(next(self._streams), cancelled)

    def _tick(self, stream: int, cancelled: Event) -> Iterator[Output]:
        while not self._go.wait(0.5):
            if cancelled.is_set():
                yield Ending("cancelled")
                return
        # Spread evenly over the interval: else all streams would tick as one.
        due = self._began + stream * _GOLDEN % 1 / RATE
        for made in range(LONGEST_S * RATE):
            if cancelled.wait(max(0.0, due - time.monotonic())):
                yield Ending("cancelled", answer_tokens=made)
                return
            # Words, and a paragraph now and then, as models write them.
            yield Piece(f" t{int(due * 1e9)};" + "\n\n" * ((made + stream * 7) % PARAGRAPH == 0), (256 + made,))
            due += 1 / RATE
        yield Ending("length", answer_tokens=LONGEST_S * RATE)


def main() -> int:
    """Serve as Rheo does, with the clock for a model."""
    clock = Clock(Event())

    def catalog_of(_: Settings) -> Catalog:
        def load(_: Report) -> Clock:
            return clock

        return Catalog(lambda: [Model("clock", load)])

    def begin(*_: Any) -> None:
        clock.begin()

    factory.catalog_of = catalog_of  # type: ignore[attr-defined,assignment]
    signal.signal(signal.SIGUSR1, begin)
    from app.__main__ import main as command  # noqa: PLC0415

    return command(["serve"])


if __name__ == "__main__":
    sys.exit(main())
