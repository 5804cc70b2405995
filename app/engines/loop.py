"""A running manager of continuous batching, with the one thread that drains it and watches over it."""

import itertools
import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Any

from app.engines.faults import told
from app.engines.protocol import Counters
from app.engines.requests import Request
from app.errors import Unavailable

WATCH_S = 0.25
"""How often the manager's thread is looked at while nothing comes."""
START_S = 300.0
"""For making the cache, and on a GPU for recording its graphs."""
STOP_S = 3.0
_names = itertools.count(1)


def next_name() -> str:
    """A name for a request, used once in this process: what comes late for an old request finds nobody."""
    return f"answer-{next(_names)}"


class Meter:
    """Counts what the model does; written by the model's and the draining thread, one number each."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin again at nothing."""
        self.steps = 0
        self.tokens = 0
        self.rebuilt = 0
        self.stepped_at = time.monotonic()

    def step(self, *_: object) -> None:
        """One forward step is done; fits as a forward hook."""
        self.steps += 1
        self.stepped_at = time.monotonic()

    def read(self, active: int) -> Counters:
        """The numbers as the engine shows them."""
        return Counters(self.steps, self.tokens, active, self.rebuilt)


class Loop:
    """One manager from its start to its end. After a fault it is broken for good and another must be made."""

    def __init__(self, make: Callable[["Loop"], Any], meter: Meter, stall_s: float) -> None:
        self._meter = meter
        self._stall_s = stall_s
        self._lock = Lock()
        self._requests: dict[str, Request] = {}
        self._busy_since = time.monotonic()
        self._fault: BaseException | None = None
        self._started = Event()
        self._closing = Event()
        self._manager: Any = None
        # A thread made by a daemon is one too: without this a manager that nobody closed keeps the process alive.
        self._thread = Thread(target=self._run, args=(make,), name="engine-drain", daemon=True)
        self._thread.start()
        if not self._started.wait(START_S):
            raise Unavailable("The model does not start.")
        if self._manager is None and self._fault is not None:
            raise self._fault

    @property
    def broken(self) -> bool:
        """Whether the manager has failed or ended and is cleared away, so that another may be made."""
        return self._fault is not None

    @property
    def active(self) -> int:
        """Requests in work now."""
        return len(self._requests)

    def submit(self, request: Request, stops: list[int]) -> None:
        """Hand a request to the model. Raises the fault of a loop that is broken."""
        with self._lock:
            if self._fault is not None:
                raise self._fault
            if not self._requests:
                self._busy_since = time.monotonic()
            # Known before it is handed over: the first output may come at once.
            self._requests[request.name] = request
            manager = self._manager
        choice = request.choice
        manager.add_request(
            request.prompt_ids,
            request_id=request.name,
            max_new_tokens=choice.max_tokens,
            streaming=True,
            eos_token_id=stops,
            temperature=choice.temperature,
            top_k=choice.top_k,
            top_p=choice.top_p,
        )

    def leave(self, request: Request) -> None:
        """Forget a request; the model is told to drop it where it is not done."""
        with self._lock:
            known = self._requests.pop(request.name, None)
            manager = self._manager
        if known is not None and manager is not None:
            manager.cancel_request(request.name)

    def note_reading(self, name: str, done: int, reused: int | None = None) -> None:
        """Called by the model's thread: how far a prompt is read, in tokens."""
        request = self._requests.get(name)
        if request is not None:
            request.note_reading(done, reused)

    def close(self) -> None:
        """Stop the manager within a few seconds; what runs fails."""
        self._closing.set()
        self._fail(Unavailable("The model was closed."))
        # It holds the model.
        manager, self._manager = self._manager, None
        if manager is not None and manager.is_running():
            manager.stop(block=True, timeout=STOP_S, hard_stop=True)
        self._thread.join(STOP_S)

    def _run(self, make: Callable[["Loop"], Any]) -> None:
        try:
            manager = make(self)
            manager.start()
            self._manager = manager
        except BaseException as error:
            self._fault = error
            return
        finally:
            self._started.set()
        while not self._closing.is_set():
            output = manager.get_result(timeout=WATCH_S)
            if output is not None:
                self._deliver(manager, output)
            elif not self._closing.is_set() and (fault := self._find_fault(manager)) is not None:
                # Frees the cache, and gives the model its attention back, before the next manager is made.
                manager.stop(block=False, hard_stop=True)
                self._fail(told(fault))
                return

    def _deliver(self, manager: Any, output: Any) -> None:
        request = self._requests.get(output.request_id)
        if request is None:
            return
        if output.error is not None:
            # When the whole loop dies it fails all requests first, by words only; the error itself comes after.
            if manager.background_thread_status.can_accept_new_requests() is None:
                request.fail(RuntimeError(output.error))
            return
        ended = output.is_finished()
        if ended:
            with self._lock:
                self._requests.pop(output.request_id, None)
        self._meter.tokens += request.note_answer(output.generated_tokens, ended)

    def _find_fault(self, manager: Any) -> BaseException | None:
        if not manager.is_running():
            fault: BaseException | None = manager.background_thread_status.fatal_error
            return fault or RuntimeError("The model's thread has ended.")
        silent = time.monotonic() - max(self._busy_since, self._meter.stepped_at)
        if self._requests and silent > self._stall_s:
            return TimeoutError(f"It made no step for {self._stall_s:g} seconds and was started anew.")
        return None

    def _fail(self, fault: BaseException) -> None:
        with self._lock:
            if self._fault is None:
                self._fault = fault
            left, self._requests = list(self._requests.values()), {}
        for request in left:
            request.fail(fault)
