"""What the threads of runs tell one reader on the event loop."""

import asyncio
import threading
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Outbox(Generic[T]):
    """Filled from any thread, emptied by the coroutine that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._fresh = asyncio.Event()
        self._lock = threading.Lock()
        self._held: list[T] = []
        self._closed = False

    def put(self, item: T) -> None:
        """Add something; never waits."""
        with self._lock:
            if self._closed:
                return
            # The loop is woken once for all that comes before it looks.
            wake = not self._held
            self._held.append(item)
        if wake:
            with suppress(RuntimeError):  # the loop has ended, and its reader with it
                self._loop.call_soon_threadsafe(self._fresh.set)

    async def take(self, within_s: float | None = None) -> list[T]:
        """All that has come since the last look, in order; nothing where nothing came in time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._fresh.wait(), within_s)
        with self._lock:
            self._fresh.clear()
            held, self._held = self._held, []
        return held

    def close(self) -> None:
        """Nobody reads any more."""
        with self._lock:
            self._closed = True
            self._held.clear()
