"""One thread that runs one request after another, in the order in which they came."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from app.engines.faults import told
from app.engines.requests import Request
from app.errors import Unavailable

STOP_S = 3.0


class Worker:
    """A thread with a line before it. After a silence it is given up for good and another must be made."""

    def __init__(
        self, run: Callable[[Request, "Worker"], None], stall_s: float, line: Iterable[Request] = ()
    ) -> None:
        self._run = run
        self._stall_s = stall_s
        self._changed = threading.Condition()
        self._line = deque(line)
        self._current: Request | None = None
        self._moved_at = time.monotonic()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="engine-generate", daemon=True)
        self._thread.start()

    @property
    def active(self) -> int:
        """Requests in work or in the line now."""
        with self._changed:
            return len(self._line) + (self._current is not None)

    def submit(self, request: Request) -> None:
        """Put a request at the end of the line."""
        with self._changed:
            self._line.append(request)
            self._changed.notify_all()

    def leave(self, request: Request) -> None:
        """Forget a request, waiting or in work."""
        with self._changed:
            if request in self._line:
                self._line.remove(request)
            elif request is self._current:
                self._current = None

    def go_on(self, request: Request) -> bool:
        """Called by what runs, at each small step: it is alive. Whether anybody still wants the request."""
        self._moved_at = time.monotonic()
        return request is self._current

    def give_up_if_stuck(self) -> list[Request] | None:
        """Where the thread is gone or silent for too long: fail what runs, and return the line for another worker."""
        with self._changed:
            if self._ended or (fault := self._find_fault()) is None:
                return None
            self._ended = True
            line, current = list(self._line), self._current
            self._line.clear()
            self._current = None
        if current is not None:
            current.fail(fault)
        return line

    def close(self, fault: Unavailable) -> None:
        """Fail all and stop within a few seconds."""
        with self._changed:
            self._ended = True
            left = [*self._line, *([self._current] if self._current else [])]
            self._line.clear()
            self._current = None
            self._changed.notify_all()
        for request in left:
            request.fail(fault)
        self._thread.join(STOP_S)

    def _work(self) -> None:
        while (request := self._next()) is not None:
            try:
                self._run(request, self)
            # Whatever the model raises belongs to whoever reads the answer.
            except Exception as error:
                request.fail(told(error))
            self.leave(request)
            del request

    def _next(self) -> Request | None:
        with self._changed:
            self._changed.wait_for(lambda: self._line or self._ended)
            if self._ended:
                return None
            self._current = self._line.popleft()
            self._moved_at = time.monotonic()
            return self._current

    def _find_fault(self) -> Exception | None:
        if not self._thread.is_alive():
            return RuntimeError("The model's thread has ended.")
        # Also one whose reader has left holds up the line.
        if (self._line or self._current) and time.monotonic() - self._moved_at > self._stall_s:
            return TimeoutError(f"It made no step for {self._stall_s:g} seconds and was started anew.")
        return None
