"""Which models there are, and the engines of those that are in memory.

Few fit into memory at one time. Whoever needs an engine leases it: while a lease lasts the model stays. A model that
is not there is loaded when it is asked for, and others go for it as soon as nobody uses them.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.engines.places import Ask, ModelState, Places, Slot
from app.engines.porter import Porter, unload
from app.engines.protocol import Engine
from app.engines.shelf import Model, Shelf, shelf_of
from app.errors import Busy, Unavailable
from app.settings import Settings

__all__ = ["CONCURRENCY", "GONE", "Catalog", "Model", "ModelState", "Tell", "catalog_of"]

CONCURRENCY = {"batching": 16, "local": 1, "remote": 64, "scripted": 64}
"""Generations at one time, for each kind of engine."""
GONE = "it is not among the models here any more"

Tell = Callable[[ModelState], None]


def _silent(_: ModelState) -> None:
    pass


class Catalog:
    """The models, and who uses which. At most `at_once` are in memory, fewer where they do not fit.

    A model is named by its id everywhere; None is the default, the first on the shelf.
    """

    def __init__(self, shelf: Shelf, at_once: int = 1) -> None:
        self._shelf = shelf
        self._places = Places(at_once)
        self._changed = self._places.changed
        self._listed: list[str] = []
        self._look()
        self.default = self._listed[0]
        """The id of the model that answers where nobody has chosen another."""
        self._places.slots[self.default].state = ModelState(self.default, "loading", 0.0, "starting")

    def start(self) -> None:
        """Begin to load the default, or what somebody has asked for before, and whatever is asked for from now on."""
        with self._changed:
            slot = self._slot(self.default)
            if self._places.quiet:
                self.load(self.default)
            elif not self._places.is_asked(slot):
                slot.state = ModelState(slot.model.id)
        Porter(self._places).start()

    def models(self) -> list[ModelState]:
        """Every model that can be chosen now, the default first. Looks into the models folder."""
        self._look()
        with self._changed:
            return [self._places.slots[model].state for model in self._listed]

    def has(self, model: str) -> bool:
        """Whether there is a model of this id now."""
        with self._changed:
            known = model in self._places.slots
        if not known:
            self._look()
        with self._changed:
            return model in self._places.slots

    def state(self, model: str | None = None) -> ModelState:
        """Where a model stands. One that is not there counts as failed."""
        with self._changed:
            slot = self._places.slots.get(model or self.default)
            return slot.state if slot is not None else ModelState(model or self.default, "failed", 0.0, GONE)

    def loaded(self, model: str | None = None) -> Engine | None:
        """The engine if it is there now, for a short look at it: it is not held."""
        with self._changed:
            slot = self._places.slots.get(model or self.default)
            return slot.engine if slot is not None else None

    @contextmanager
    def lease(self, model: str | None, cancelled: threading.Event, tell: Tell = _silent) -> Iterator[Engine | None]:
        """Hold a model's engine: loads it where it is not there, and it stays until the block is left.

        None where the wait was cancelled. `tell` hears each change of its state while it waits. Raises `Unavailable`
        where it can't be loaded. Never lease a second model within the block: one may have to go for the other.
        """
        ask = self._ask(model or self.default)
        try:
            yield ask.slot.engine if self._wait(ask, cancelled, tell) else None
        finally:
            with self._changed:
                self._places.leave(ask)

    @contextmanager
    def borrow(self, model: str | None = None) -> Iterator[Engine | None]:
        """Hold a model's engine if it is there and nobody waits for its place; None at once where not."""
        with self._changed:
            slot = self._places.slots.get(model or self.default)
            held = slot if slot is not None and self._places.hold(slot) else None
        try:
            yield held.engine if held is not None else None
        finally:
            if held is not None:
                with self._changed:
                    self._places.give_back(held)

    def load(self, model: str) -> None:
        """Have a model loaded, though nobody asks it yet. Raises `Unavailable` where there is none."""
        with self._changed:
            slot = self._slot(model)
            if slot.engine is None and not self._places.is_asked(slot):
                self._places.ask(slot, holds=False)

    def unload(self, model: str) -> None:
        """Take a model out of memory. Raises `Busy` where it is in use."""
        with self._changed:
            slot = self._slot(model)
            if not self._places.is_free(slot):
                raise Busy(f"{slot.state.label} is in use just now. Try again when it has answered.")
            engine = self._places.empty(slot)
        if engine is not None:
            unload(engine)

    def close(self) -> None:
        """Stop waiting and unload all; may be called twice."""
        with self._changed:
            self._places.closed = True
            engines = [engine for slot in self._places.slots.values() if (engine := slot.engine) is not None]
            for slot in self._places.slots.values():
                slot.engine = None
            self._changed.notify_all()
        for engine in engines:
            engine.close()

    def _look(self) -> None:
        models = self._shelf()
        with self._changed:
            self._listed = [model.id for model in models]
            self._places.list(models)

    def _slot(self, model: str) -> Slot:
        if model not in self._places.slots:
            raise Unavailable(f"The model {model} can't be used: {GONE}. Choose another one.")
        return self._places.slots[model]

    def _ask(self, model: str) -> Ask:
        self.has(model)  # it may have come just now
        with self._changed:
            slot = self._slot(model)
            if slot.state.state == "failed" and time.monotonic() < slot.barred_until:
                raise Unavailable(slot.state.fault)
            return self._places.ask(slot)

    def _wait(self, ask: Ask, cancelled: threading.Event, tell: Tell) -> bool:
        """Whether the model is there; False where the wait was cancelled."""
        told: ModelState | None = None
        while not ask.granted:
            if (state := ask.slot.state) != told:
                tell(told := state)
            with self._changed:
                if not ask.granted and ask.fault is None:
                    # The event can't be waited for together with the condition: look at it now and then.
                    self._changed.wait(0.05)
                if ask.fault is not None:
                    raise Unavailable(ask.fault)
                if not ask.granted and (cancelled.is_set() or self._places.closed):
                    return False
        if told is not None:
            tell(ask.slot.state)
        return True


def catalog_of(settings: Settings) -> Catalog:
    """The catalog that the settings ask for. Nothing heavy is imported before it loads."""
    # What another server runs takes no memory here.
    return Catalog(shelf_of(settings), sys.maxsize if settings.engine == "remote" else settings.models_loaded)
