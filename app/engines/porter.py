"""Brings models into memory, one after the other, on a thread of its own, and takes others out for them."""

import logging
import threading
import time

from app import heap
from app.engines.faults import NoMemory
from app.engines.places import ModelState, Places, Slot, Unwanted
from app.engines.protocol import Engine, Progress
from app.errors import AppError

log = logging.getLogger(__name__)

AGAIN_S = 30.0
"""How long a model that took another's place and then could not be loaded is not tried again, but by hand."""


class Porter:
    """Does what `Places` ask for, in the order in which it was asked."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._work, name="load-model", daemon=True).start()

    def _work(self) -> None:
        heap.settle()
        while True:
            with self._places.changed:
                slot = self._places.begin()
            if slot is None:
                heap.release()
                return
            self._bring(slot)
            heap.settle()

    def _bring(self, slot: Slot) -> None:
        """Load a model; whatever keeps it from that is told to those who wait for it."""
        model, started = slot.model.id, time.monotonic()
        let_go: list[Slot] = []
        engine: Engine | None = None
        try:
            engine = self._loaded(slot, let_go)
        except Unwanted:
            state = ModelState(model)
        except AppError as error:
            log.error("The model %s can't be loaded: %s", model, error.words)
            state = ModelState(model, "failed", 0.0, error.words)
        except Exception as error:
            log.exception("The model %s can't be loaded", model)
            state = ModelState(model, "failed", 0.0, f"{type(error).__name__}: {error}")
        else:
            log.info("The model %s is ready after %.1f s (%s)", model, time.monotonic() - started, engine.detail)
            state = ModelState(model, "ready", 1.0, engine.detail)
        with self._places.changed:
            closed = self._places.closed
            self._places.arrive(slot, state, None if closed else engine)
            if state.state == "failed":
                self._make_good(slot, let_go)
        if closed and engine is not None:
            engine.close()

    def _loaded(self, slot: Slot, let_go: list[Slot]) -> Engine:
        def report(progress: Progress) -> None:
            with self._places.changed:
                if self._places.closed:
                    # A loader may wait for another server, for ever if need be.
                    raise Unwanted
                self._places.note(slot, progress)

        # Most of what is wrong with a model is found before another has to go for it.
        slot.model.check(report)
        while self._make_room(slot, self._places.at_once - 1, let_go):
            pass
        while True:
            try:
                return slot.model.load(report)
            except NoMemory:
                # It does not fit beside what is there: one more has to go.
                if not self._make_room(slot, None, let_go):
                    raise

    def _make_room(self, slot: Slot, most: int | None, let_go: list[Slot]) -> bool:
        with self._places.changed:
            vacated = self._places.vacate(slot, most)
        if vacated is None:
            return False
        let_go.append(vacated[0])
        unload(vacated[1])
        return True

    def _make_good(self, slot: Slot, let_go: list[Slot]) -> None:
        """Others went for nothing: the last is brought back before somebody has to wait for it."""
        slot.barred_until = time.monotonic() + AGAIN_S if let_go else 0.0
        if let_go and self._places.quiet:
            self._places.ask(let_go[-1], holds=False)


def unload(engine: Engine) -> None:
    """Close an engine and have its memory back."""
    engine.close()
    # What is large in it is held by rings of references, and the next model needs its memory now.
    heap.clear()
