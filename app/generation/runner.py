"""Owns the threads: one of a bounded pool for each generation, those of one conversation in order."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from app.errors import Busy
from app.generation.job import Job
from app.generation.turns import Turns

log = logging.getLogger(__name__)


class Runner:
    """Runs jobs with `record`, at most `threads` at one time and `queue` waiting.

    `place` is told how many come before each job that waits, whenever that may have changed. `stirred` hears
    whenever something has come or ended, and may ask then whether the runner is `idle`.
    """

    def __init__(
        self,
        record: Callable[[Job], None],
        place: Callable[[Job, int], None],
        threads: int,
        queue: int,
        *,
        stirred: Callable[[], None] = lambda: None,
    ) -> None:
        self._record = record
        self._place = place
        self._threads = threads
        self._queue = queue
        self._stirred = stirred
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._running: dict[str, Job] = {}
        self._turns = Turns()
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="generation")

    def submit(self, job: Job, *, bounded: bool = True) -> None:
        """Take a job. Raises `Busy` when too many wait already (`bounded` is off for what a restart found)."""
        with self._lock:
            if bounded and len(self._waiting) >= self._queue and not self._can_start(job):
                raise Busy("Too many questions are waiting. Try again in a moment.")
            self._waiting.append(job)
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

    def close(self) -> None:
        """Let every running generation leave off, unended, and stop."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            for job in self._running.values():
                job.cancellation.leaving.set()
                job.cancellation.asked.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

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
            self._place(job, before)

    def _can_start(self, job: Job) -> bool:
        # An answer is a part of the prompt of the next: those of one conversation follow each other.
        busy = {running.conversation_id for running in self._running.values()}
        return len(self._running) < self._threads and job.conversation_id not in busy

    def _begin(self, job: Job) -> None:
        self._running[job.generation_id] = job
        self._turns.serve(job)
        self._pool.submit(self._run, job)

    def _run(self, job: Job) -> None:
        try:
            self._record(job)
        except Exception:
            log.exception("Generation %s broke its recorder", job.generation_id)
        finally:
            with self._lock:
                self._running.pop(job.generation_id, None)
            self._start_waiting()
            self._stirred()
