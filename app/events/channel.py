"""The events of one run that are kept in memory, and the readers that wait for more."""

import asyncio
from dataclasses import dataclass, field

from app.events.protocol import Event, Notice

LONGEST_BATCH = 2_000
"""Events handed to a reader at one time, so that a long replay comes in bounded frames."""


@dataclass(eq=False)
class Channel:
    """One run. Written by the log's writer, read by the event loop by position."""

    run: str
    first: int = 0
    """The number before the first event held: readers can go on from here or later."""
    appended: int = 0
    """The number of the last event appended, kept or not."""
    kept: list[Event] = field(default_factory=list)
    waiting: set["Waiter"] = field(default_factory=set)
    expires_at: float | None = None
    notice: Notice | None = None
    fault: Exception | None = None
    """What kept pieces of this run from being saved."""

    @property
    def last(self) -> int:
        return self.first + len(self.kept)

    @property
    def ended(self) -> bool:
        return bool(self.kept) and self.kept[-1].last

    def since(self, number: int) -> list[Event]:
        start = number - self.first
        return self.kept[start : start + LONGEST_BATCH]


class Waiter:
    """One reader that waits for more, or for silence. Belongs to the event loop.

    One timer for each reader, looked at when it fires: to set a new one at each wait costs as much as a frame.
    """

    def __init__(self, silence_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._silence_s = silence_s
        self._woken = False
        self._sleep: asyncio.Future[None] | None = None
        self._silent = False
        self._heard_at = self._loop.time()
        self._timer = self._loop.call_later(silence_s, self._look)

    def wake(self) -> None:
        """There may be more."""
        self._woken = True
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    def clear(self) -> None:
        """From now on count what comes; call before looking."""
        self._woken = False

    async def wait(self) -> bool:
        """Wait; whether it was woken, and not silent for too long."""
        self._heard_at = self._loop.time()
        if not self._woken:
            self._sleep = self._loop.create_future()
            await self._sleep
        silent, self._silent = self._silent, False
        return not silent

    def close(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = self._heard_at + self._silence_s - self._loop.time()
        if left <= 0:
            self._silent = True
            self._heard_at = self._loop.time()
            self.wake()
            left = self._silence_s
        self._timer = self._loop.call_later(left, self._look)
