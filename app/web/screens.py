"""The screens of all running answers, each followed while somebody reads it."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from app.conversations.models import Message
from app.events.protocol import EventLog, Gap, Notice
from app.web.screen import Screen

log = logging.getLogger(__name__)

THREADS = 4
"""A text that takes long to render holds up one of them, and nobody else's answer."""
UNREAD_S = 120
"""How long a screen that nobody reads is kept."""


class Screens:
    """Opens a screen for whoever shows or reads a running answer; rendering costs only what is read."""

    def __init__(self, events: EventLog, silence_s: float) -> None:
        self._events = events
        self._silence_s = silence_s
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="screen")
        self._lock = threading.Lock()
        self._screens: dict[str, Screen] = {}
        self._used_at: dict[str, float] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}

    def open(self, run: str, message: Message, covered: int) -> Screen:
        """The screen of a run, up to what is kept now. `message` has the text up to the event `covered`.

        Renders all of it: for a worker thread.
        """
        screen = self._screens.get(run)
        if screen is None:
            self._forget_unread()
            fresh = Screen(run, message, covered)
            with self._lock:
                screen = self._screens.setdefault(run, fresh)
        self._used_at[run] = time.monotonic()
        screen.take(self._events.pieces(run, screen.number))
        return screen

    async def read(self, screen: Screen, number: int) -> AsyncIterator[bytes | Notice]:
        """Everything after an event that is in the screen, as frames; for the event loop."""
        screen.readers += 1
        if screen.readers == 1:
            self._followers[screen.run] = asyncio.create_task(self._follow(screen))
        try:
            async for news in screen.frames(number):
                yield news
        finally:
            screen.readers -= 1
            self._used_at[screen.run] = time.monotonic()
            if screen.readers == 0:
                self._followers.pop(screen.run).cancel()

    async def _follow(self, screen: Screen) -> None:
        loop = asyncio.get_running_loop()
        try:
            async for news in self._events.follow(screen.run, screen.number, self._silence_s):
                if isinstance(news, Notice):
                    screen.notice = news
                elif news and not screen.take_words(news):
                    await loop.run_in_executor(self._pool, screen.take, news)
                screen.wake(ping=news == [])
        except Gap:
            log.info("The log has let go of the run %s", screen.run)
            screen.forgotten = True
        screen.closed = True
        screen.wake()

    def _forget_unread(self) -> None:
        long_ago = time.monotonic() - UNREAD_S
        with self._lock:
            for run, screen in list(self._screens.items()):
                if screen.readers == 0 and self._used_at.get(run, 0.0) < long_ago:
                    self._screens.pop(run)
                    self._used_at.pop(run, None)
