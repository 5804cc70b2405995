"""Owns the threads: one of a bounded pool for each generation, those of one conversation in order."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from app.errors import Busy
from app.generation.job import Work
from app.generation.turns import Turns

log = logging.getLogger(__name__)


class Runner:
    """Does work by `run`, at most `threads` at one time and `queue` waiting.

    `stirred` hears whenever something has come or ended, and may ask then whether the runner is `idle`.
    """

    def __init__(
        self, run: Callable[[Work], None], threads: int, queue: int, *, stirred: Callable[[], None] = lambda: None
    ) -> None:
        self._do = run
        self._threads = threads
        self._queue = queue
        self._stirred = stirred
        self._lock = threading.Lock()
        self._waiting: list[Work] = []
        self._running: dict[str, Work] = {}
        self._turns = Turns()
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="generation")

    def submit(self, job: Work, *, bounded: bool = True) -> None:
        """Take a job. Raises `Busy` when too many wait already (`bounded` is off for what a restart found)."""
        with self._lock:
            closed = self._closed
            if bounded and len(self._waiting) >= self._queue and not self._can_start(job):
                raise Busy("Too many questions are waiting. Try again in a moment.")
            if not closed:
                self._waiting.append(job)
        if closed:
            self._leave(job)
        self._stirred()
        self._start_waiting()

    @property
    def idle(self) -> bool:
        """Whether no job waits or runs."""
        with self._lock:
            return not self._waiting and not self._running

    def cancel(self, generation_id: str, seen: int | None = None) -> bool:
        """Ask a job to end, waiting or running; whether there was one."""
        with self._lock:
            waiting = next((job for job in self._waiting if job.generation_id == generation_id), None)
            job = self._running.get(generation_id) or waiting
            if job is None:
                return False
            if not job.cancellation.asked.is_set():
                job.cancellation.seen = seen
                job.cancellation.asked.set()
            if waiting is not None:
                self._waiting.remove(waiting)
        if waiting is not None:
            # It needs no thread to be told that it is over: all of them may be busy for long.
            self._run(waiting)
        return True

    @property
    def load(self) -> tuple[int, int]:
        """How many run, and how many wait."""
        with self._lock:
            return len(self._running), len(self._waiting)

    def close(self) -> None:
        """Let every running generation leave off, unended, and stop."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            for job in self._running.values():
                job.cancellation.leave()
        for job in waiting:
            self._leave(job)
        self._pool.shutdown(wait=True)

    def _start_waiting(self) -> None:
        with self._lock:
            if not self._waiting:
                self._turns.forget()
            for job in self._turns.order(self._waiting):
                if not self._closed and self._can_start(job):
                    self._waiting.remove(job)
                    self._begin(job)
            places = list(enumerate(self._turns.order(self._waiting)))
        for before, job in places:
            job.wait_behind(before)

    def _can_start(self, job: Work) -> bool:
        # An answer is a part of the prompt of the next: those of one conversation follow each other.
        busy = {running.conversation_id for running in self._running.values()}
        return len(self._running) < self._threads and job.conversation_id not in busy

    def _begin(self, job: Work) -> None:
        self._running[job.generation_id] = job
        self._turns.serve(job)
        self._pool.submit(self._run, job)

    def _leave(self, job: Work) -> None:
        # It will not begin, and somebody may be waiting to be told.
        job.cancellation.leave()
        self._run(job)

    def _run(self, job: Work) -> None:
        try:
            self._do(job)
        except Exception:
            log.exception("Generation %s broke its thread", job.generation_id)
        finally:
            with self._lock:
                self._running.pop(job.generation_id, None)
            self._start_waiting()
            self._stirred()
