"""Owns the threads: one of a bounded pool for each generation, those of one conversation in order."""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from app.errors import Busy

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Cancellation:
    """Tells a running generation to end. `seen` is the last event its reader saw; the text is cut there."""

    asked: threading.Event = field(default_factory=threading.Event)
    seen: int | None = None
    leaving: threading.Event = field(default_factory=threading.Event)
    """The process ends: the answer stays unended, for the next start to go on with."""


@dataclass(frozen=True, slots=True)
class Job:
    """A committed generation that is to be run."""

    generation_id: str
    conversation_id: str
    cancellation: Cancellation = field(default_factory=Cancellation)


class Runner:
    """Runs jobs with `record`, at most `threads` at one time and `queue` waiting."""

    def __init__(self, record: Callable[[Job], None], threads: int, queue: int) -> None:
        self._record = record
        self._threads = threads
        self._queue = queue
        self._lock = threading.Lock()
        self._waiting: list[Job] = []
        self._running: dict[str, Job] = {}
        self._closed = False
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="generation")

    def submit(self, job: Job, *, bounded: bool = True) -> None:
        """Take a job. Raises `Busy` when too many wait already (`bounded` is off for what a restart found)."""
        with self._lock:
            if bounded and len(self._waiting) >= self._queue and not self._can_start(job):
                raise Busy("Too many questions are waiting. Try again in a moment.")
            self._waiting.append(job)
        self._start_waiting()

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
            for job in list(self._waiting):
                if len(self._running) >= self._threads or self._closed:
                    return
                if self._can_start(job):
                    self._waiting.remove(job)
                    self._begin(job)

    def _can_start(self, job: Job) -> bool:
        # An answer is a part of the prompt of the next: those of one conversation follow each other.
        busy = {running.conversation_id for running in self._running.values()}
        return len(self._running) < self._threads and job.conversation_id not in busy

    def _begin(self, job: Job) -> None:
        self._running[job.generation_id] = job
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
