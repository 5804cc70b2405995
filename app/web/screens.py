"""The screens of all running answers, each carried on while somebody reads it."""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from app.conversations.models import Message
from app.events.protocol import EventLog, Gap, Notice
from app.web.screen import PING, Screen

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
        """Everything after an event that is in the screen, as frames; notices and pings in between.

        Ends with the run, or with the log. For the event loop. Every reader carries the screen on to what is new:
        the first to come does it for all, and a task of its own for that would cost as much as the rest.
        """
        loop = asyncio.get_running_loop()
        at = screen.place(number)
        screen.readers += 1
        try:
            while frames := screen.frames(at):
                at += len(frames)
                yield b"".join(frames)
            if screen.ended:
                return
            async for news in self._events.follow(screen.run, screen.number, self._silence_s):
                if isinstance(news, Notice):
                    yield news
                elif not news:
                    yield PING
                elif not screen.take_words(news):
                    # One thread for one screen, however many read it.
                    async with screen.turn:
                        await loop.run_in_executor(self._pool, screen.take, news)
                while frames := screen.frames(at):
                    at += len(frames)
                    yield b"".join(frames)
        except Gap:
            log.info("The log has let go of the run %s", screen.run)
            screen.forgotten = True
        finally:
            screen.readers -= 1
            self._used_at[screen.run] = time.monotonic()

    def _forget_unread(self) -> None:
        long_ago = time.monotonic() - UNREAD_S
        with self._lock:
            for run, screen in list(self._screens.items()):
                if screen.readers == 0 and self._used_at.get(run, 0.0) < long_ago:
                    self._screens.pop(run)
                    self._used_at.pop(run, None)
