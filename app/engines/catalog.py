"""Which models there are, and the engines of those that are in memory.

Few fit into memory at one time. Whoever needs an engine leases it: while a lease lasts the model stays. A model that
is not there is loaded by the catalog's one thread, which lets go of others for it as soon as nobody uses them.
"""

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.engines.faults import NoMemory
from app.engines.protocol import Engine, Progress, Report
from app.engines.shelf import Model, Shelf, shelf_of
from app.errors import AppError, Busy, Unavailable
from app.settings import Settings

log = logging.getLogger(__name__)

CONCURRENCY = {"batching": 16, "local": 1, "remote": 64, "scripted": 64}
"""Generations at one time, for each kind of engine."""

AGAIN_S = 30.0
"""How long a model that took another's place and then could not be loaded is not tried again, but by hand."""
GONE = "it is not among the models here any more"


@dataclass(frozen=True, slots=True)
class ModelState:
    """Where a model stands, for the page and for `/health`. `progress` is 0..1."""

    model: str
    state: Literal["unloaded", "loading", "ready", "failed"] = "unloaded"
    progress: float = 0.0
    detail: str = "is loaded when it is asked"

    @property
    def label(self) -> str:
        """The model as people call it: its id, of a path only the last part."""
        return Path(self.model).name if self.model.startswith(("/", "~", ".")) else self.model


Tell = Callable[[ModelState], None]


def _silent(_: ModelState) -> None:
    pass


@dataclass(slots=True, eq=False)
class _Slot:
    """A model, and its engine while it is in memory. `users` hold it now; `used` says which was needed last."""

    model: Model
    state: ModelState
    engine: Engine | None = None
    users: int = 0
    used: int = 0
    barred_until: float = 0.0


@dataclass(slots=True, eq=False)
class _Ask:
    """Somebody who waits for a model; with `holds` they use its engine then."""

    slot: _Slot
    holds: bool = True
    granted: bool = False
    fault: str | None = None


class _Unwanted(Exception):
    """Nobody waits for the model any more."""


class Catalog:
    """The models, and who uses which. At most `at_once` are in memory, fewer where they do not fit."""

    def __init__(self, shelf: Shelf, at_once: int = 1) -> None:
        self._shelf = shelf
        self._at_once = at_once
        self._changed = threading.Condition()
        self._slots: dict[str, _Slot] = {}
        self._listed: list[str] = []
        self._waiting: list[_Ask] = []
        self._loading: _Slot | None = None
        self._needs_place = False
        self._turn = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._look()
        self.default = self._listed[0]
        """The id of the model that answers where nobody has chosen another."""
        self._slots[self.default].state = ModelState(self.default, "loading", 0.0, "starting")

    def start(self) -> None:
        """Begin to load the default, and whatever is asked for from now on."""
        self._thread = threading.Thread(target=self._work, name="load-model", daemon=True)
        self.load(self.default)
        self._thread.start()

    def models(self) -> list[ModelState]:
        """Every model that can be chosen now, the default first. Looks into the models folder."""
        self._look()
        with self._changed:
            return [self._slots[model].state for model in self._listed]

    def state(self, model: str | None = None) -> ModelState:
        """Where a model stands; of the default where none is named. One that is not there counts as failed."""
        with self._changed:
            slot = self._slots.get(model or self.default)
        return slot.state if slot is not None else ModelState(model or self.default, "failed", 0.0, GONE)

    def has(self, model: str) -> bool:
        """Whether there is a model of this id now."""
        if model not in self._slots:
            self._look()
        return model in self._slots

    def loaded(self, model: str | None = None) -> Engine | None:
        """The engine if it is there now, for a short look at it: it is not held."""
        with self._changed:
            slot = self._slots.get(model or self.default)
        return slot.engine if slot is not None else None

    @contextmanager
    def lease(self, model: str | None, cancelled: threading.Event, tell: Tell = _silent) -> Iterator[Engine | None]:
        """Hold a model's engine: loads it where it is not there, and it stays until the block is left.

        None where the wait was cancelled. `tell` hears each change of its state while it waits. Raises `Unavailable`
        where it can't be loaded. Never lease a second model within the block: one may have to go for the other.
        """
        slot = self._take(model or self.default, cancelled, tell)
        try:
            yield slot.engine if slot is not None else None
        finally:
            if slot is not None:
                self._give_back(slot)

    @contextmanager
    def borrow(self, model: str | None = None) -> Iterator[Engine | None]:
        """Hold a model's engine if it is there and nobody waits for its place; None at once where not."""
        with self._changed:
            slot = self._slots.get(model or self.default)
            if slot is not None and (slot.engine is None or self._needs_place):
                slot = None
            if slot is not None:
                slot.users += 1
        try:
            yield slot.engine if slot is not None else None
        finally:
            if slot is not None:
                self._give_back(slot)

    def load(self, model: str) -> None:
        """Have a model loaded, though nobody asks it yet. Raises `Unavailable` where there is none."""
        with self._changed:
            slot = self._slot(model)
            if slot.engine is None and all(ask.slot is not slot for ask in self._waiting):
                self._waiting.append(_Ask(slot, holds=False))
                self._changed.notify_all()

    def unload(self, model: str) -> None:
        """Take a model out of memory. Raises `Busy` where it is in use."""
        with self._changed:
            slot = self._slot(model)
            if slot.users or slot is self._loading:
                raise Busy(f"{slot.state.label} is in use just now. Try again when it has answered.")
            engine = self._empty(slot)
        _close(engine)

    def close(self) -> None:
        """Stop waiting and unload all; may be called twice."""
        with self._changed:
            self._closed = True
            engines = [engine for slot in self._slots.values() if (engine := slot.engine) is not None]
            for slot in self._slots.values():
                slot.engine = None
            self._changed.notify_all()
        for engine in engines:
            engine.close()

    def _look(self) -> None:
        models = self._shelf()
        with self._changed:
            self._listed = [model.id for model in models]
            for model in models:
                slot = self._slots.setdefault(model.id, _Slot(model, ModelState(model.id)))
                slot.model = model
            kept = {*self._listed, *(ask.slot.model.id for ask in self._waiting)}
            for gone in [key for key, slot in self._slots.items() if key not in kept and slot.engine is None]:
                del self._slots[gone]

    def _slot(self, model: str) -> _Slot:
        if model not in self._slots:
            raise Unavailable(f"The model {model} can’t be used: {GONE}. Choose another one.")
        return self._slots[model]

    def _take(self, model: str, cancelled: threading.Event, tell: Tell) -> _Slot | None:
        if model not in self._slots:
            self._look()
        with self._changed:
            ask = _Ask(self._slot(model))
            if ask.slot.state.state == "failed" and time.monotonic() < ask.slot.barred_until:
                raise Unavailable(_fault(ask.slot.state))
            self._waiting.append(ask)
            self._grant()
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
                if not ask.granted and (cancelled.is_set() or self._closed):
                    self._waiting.remove(ask)
                    self._changed.notify_all()
                    return None
        return ask.slot

    def _give_back(self, slot: _Slot) -> None:
        with self._changed:
            slot.users -= 1
            self._turn += 1
            slot.used = self._turn
            self._changed.notify_all()

    def _grant(self) -> None:
        """Give those who wait what is there, in the order in which they came.

        While a model waits for a place, nobody who came later passes: else one that is always in use never goes.
        """
        for ask in list(self._waiting):
            if ask.slot.engine is None:
                if self._needs_place and ask.slot is self._loading:
                    return
                continue
            self._waiting.remove(ask)
            ask.granted = True
            ask.slot.users += ask.holds
            self._turn += 1
            ask.slot.used = self._turn
        self._changed.notify_all()

    def _work(self) -> None:
        while (slot := self._next()) is not None:
            self._bring(slot)

    def _next(self) -> _Slot | None:
        """The model that is waited for longest; waits for one."""
        with self._changed:
            while not self._closed:
                ask = next((ask for ask in self._waiting if ask.slot.engine is None), None)
                if ask is not None:
                    self._loading = ask.slot
                    ask.slot.state = ModelState(ask.slot.model.id, "loading", 0.0, "starting")
                    return ask.slot
                self._changed.wait()
        return None

    def _bring(self, slot: _Slot) -> None:
        """Load a model; whatever keeps it from that is told to those who wait for it."""
        model, started = slot.model.id, time.monotonic()
        let_go: list[_Slot] = []
        engine: Engine | None = None
        try:
            engine = self._loaded(slot, let_go)
        except _Unwanted:
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
        self._become(slot, state, engine, let_go)

    def _loaded(self, slot: _Slot, let_go: list[_Slot]) -> Engine:
        report = self._reporting(slot)
        # Most of what is wrong with a model is found before another has to go for it.
        slot.model.check(report)
        while (other := self._place(slot, self._at_once - 1)) is not None:
            let_go.append(other)
        while True:
            try:
                return slot.model.load(report)
            except NoMemory:
                # It does not fit beside what is there.
                if (other := self._place(slot, self._in_memory() - 1)) is None:
                    raise
                let_go.append(other)

    def _place(self, slot: _Slot, most: int) -> _Slot | None:
        """Let go of one model where there are more than `most`, once it is not in use; None where there is room."""
        with self._changed:
            self._needs_place = True
            try:
                other = self._idle(slot, most)
                engine = self._empty(other) if other is not None else None
            finally:
                self._needs_place = False
                self._grant()
        _close(engine)
        return other

    def _idle(self, slot: _Slot, most: int) -> _Slot | None:
        while not self._closed:
            there = [other for other in self._slots.values() if other.engine is not None]
            if len(there) <= max(most, 0):
                return None
            if all(ask.slot is not slot for ask in self._waiting):
                raise _Unwanted
            if idle := [other for other in there if not other.users]:
                return min(idle, key=lambda other: other.used)
            busy = " or ".join(other.state.label for other in there)
            slot.state = replace(slot.state, detail=f"waiting until {busy} has answered")
            self._changed.notify_all()
            self._changed.wait()
        raise _Unwanted

    def _in_memory(self) -> int:
        with self._changed:
            return sum(slot.engine is not None for slot in self._slots.values())

    def _empty(self, slot: _Slot) -> Engine | None:
        engine, slot.engine = slot.engine, None
        slot.state = ModelState(slot.model.id)
        self._changed.notify_all()
        return engine

    def _reporting(self, slot: _Slot) -> Report:
        def report(progress: Progress) -> None:
            if self._closed:
                # A loader may wait for another server, for ever if need be.
                raise _Unwanted
            with self._changed:
                # What was checked is gone over again when it is loaded.
                far = max(progress.fraction, slot.state.progress)
                slot.state = ModelState(slot.model.id, "loading", far, progress.stage)
                self._changed.notify_all()

        return report

    def _become(self, slot: _Slot, state: ModelState, engine: Engine | None, let_go: list[_Slot]) -> None:
        with self._changed:
            slot.state = state
            slot.engine = engine if not self._closed else None
            self._loading = None
            if state.state == "failed":
                self._fail(slot, state, let_go)
            self._grant()
        if self._closed and engine is not None:
            engine.close()

    def _fail(self, slot: _Slot, state: ModelState, let_go: list[_Slot]) -> None:
        for ask in [ask for ask in self._waiting if ask.slot is slot]:
            self._waiting.remove(ask)
            ask.fault = _fault(state)
        slot.barred_until = time.monotonic() + AGAIN_S if let_go else 0.0
        if let_go and not self._waiting:
            # It went for nothing: it is brought back before somebody has to wait for it.
            self._waiting.append(_Ask(let_go[-1], holds=False))


def _fault(state: ModelState) -> str:
    return f"The model {state.label} can’t be used: {state.detail}"


def _close(engine: Engine | None) -> None:
    if engine is not None:
        engine.close()
        # What is large in it is held by rings of references, and the next model needs its memory now.
        gc.collect()


def catalog_of(settings: Settings) -> Catalog:
    """The catalog that the settings ask for. Nothing heavy is imported before it loads."""
    # What another server runs takes no memory here.
    return Catalog(shelf_of(settings), sys.maxsize if settings.engine == "remote" else settings.models_loaded)
