"""The places that models have in memory: which model is there, who uses it, who waits for it.

Everything here is done under one lock, `changed`, which also tells those who wait of any change.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from app.engines.protocol import Engine, Progress
from app.engines.shelf import Model


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

    @property
    def fault(self) -> str:
        """Why it can't answer, where it has failed."""
        return f"The model {self.label} can't be used: {self.detail}"

    @property
    def waited_for(self) -> str:
        """What an answer that waits for it says of it, without how far it is."""
        if self.state == "ready":
            return f"{self.label} is there…"
        if self.state != "loading":
            return f"Waiting for {self.label}…"
        return f"{self.label} is loading: {self.detail}" if self.progress else f"{self.label}: {self.detail}…"


@dataclass(slots=True, eq=False)
class Slot:
    """A model, and its engine while it is in memory. `users` hold it now; `used` says which was needed last."""

    model: Model
    state: ModelState
    engine: Engine | None = None
    users: int = 0
    used: int = 0
    barred_until: float = 0.0
    """It is not tried again before, but by hand: it has failed, and another model had to go for that."""


@dataclass(slots=True, eq=False)
class Ask:
    """Somebody who waits for a model; with `holds` they use its engine then."""

    slot: Slot
    holds: bool = True
    granted: bool = False
    fault: str | None = None


class Unwanted(Exception):
    """Nobody waits for the model any more."""


class Places:
    """At most `at_once` models are in memory. To be used only with `changed` held."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.changed = threading.Condition()
        self.slots: dict[str, Slot] = {}
        self.closed = False
        self._waiting: list[Ask] = []
        self._loading: Slot | None = None
        self._needs_place = False
        self._turn = 0

    def list(self, models: Sequence[Model]) -> None:
        """These are the models there are; one that has gone is forgotten once it is neither there nor waited for."""
        for model in models:
            slot = self.slots.setdefault(model.id, Slot(model, ModelState(model.id)))
            slot.model = model
        kept = {model.id for model in models} | {ask.slot.model.id for ask in self._waiting}
        for gone in [key for key, slot in self.slots.items() if key not in kept and slot.engine is None]:
            del self.slots[gone]

    def ask(self, slot: Slot, *, holds: bool = True) -> Ask:
        """Wait for a model, from now on; what is there is had at once, unless another waits for its place."""
        ask = Ask(slot, holds)
        self._waiting.append(ask)
        self._rest(slot)
        self._grant()
        return ask

    def leave(self, ask: Ask) -> None:
        """Wait no longer, or use no longer what was waited for."""
        if ask.granted:
            self.give_back(ask.slot)
        elif ask in self._waiting:
            self._waiting.remove(ask)
            self._rest(ask.slot)
            self.changed.notify_all()

    def hold(self, slot: Slot) -> bool:
        """Use a model without waiting for it; whether it was there and nobody waits for its place."""
        if slot.engine is None or self._needs_place:
            return False
        slot.users += 1
        return True

    def give_back(self, slot: Slot) -> None:
        """Use a model no longer."""
        slot.users -= 1
        self._note_use(slot)
        self.changed.notify_all()

    def is_asked(self, slot: Slot) -> bool:
        """Whether anybody waits for a model."""
        return any(ask.slot is slot for ask in self._waiting)

    def is_free(self, slot: Slot) -> bool:
        """Whether nobody uses a model and it is not on its way."""
        return not slot.users and slot is not self._loading

    def empty(self, slot: Slot) -> Engine | None:
        """Take a model from its place; the engine, to be closed without the lock."""
        engine, slot.engine = slot.engine, None
        self._rest(slot)
        self.changed.notify_all()
        return engine

    def begin(self) -> Slot | None:
        """The model that is waited for longest, to be brought now; waits for one. None at the end."""
        while not self.closed:
            slot = next((ask.slot for ask in self._waiting if ask.slot.engine is None), None)
            if slot is not None:
                self._loading = slot
                slot.state = ModelState(slot.model.id, "loading", 0.0, "starting")
                return slot
            self.changed.wait()
        return None

    def note(self, slot: Slot, progress: Progress) -> None:
        """How far a model is. What was checked is gone over again when it is loaded, so it never goes back."""
        far = max(progress.fraction, slot.state.progress)
        slot.state = ModelState(slot.model.id, "loading", far, progress.stage)
        self.changed.notify_all()

    def vacate(self, slot: Slot, most: int | None = None) -> tuple[Slot, Engine] | None:
        """Take away one model for another, where there are more than `most`; waits until one is not in use.

        None where there is room; where `most` is not said, one is taken if there is any. Raises `Unwanted` where
        nobody waits for the other any more.
        """
        self._needs_place = True
        try:
            other = self._idle(slot, self._in_memory() - 1 if most is None else most)
            engine = self.empty(other) if other is not None else None
            return (other, engine) if other is not None and engine is not None else None
        finally:
            self._needs_place = False
            self._grant()

    def arrive(self, slot: Slot, state: ModelState, engine: Engine | None) -> None:
        """A model is there, or could not be brought: then those who wait for it are told."""
        slot.state, slot.engine = state, engine
        self._loading = None
        if state.state == "failed":
            for ask in [ask for ask in self._waiting if ask.slot is slot]:
                self._waiting.remove(ask)
                ask.fault = state.fault
        elif engine is None:
            self._rest(slot)
        self._grant()

    @property
    def quiet(self) -> bool:
        """Whether nobody waits for any model."""
        return not self._waiting

    def _grant(self) -> None:
        """Give those who wait what is there, in the order in which they came.

        While a model waits for a place, nobody who came later passes: else one that is always in use never goes.
        """
        for ask in list(self._waiting):
            if ask.slot.engine is None:
                if self._needs_place and ask.slot is self._loading:
                    break
                continue
            self._waiting.remove(ask)
            ask.granted = True
            ask.slot.users += ask.holds
            self._note_use(ask.slot)
        self.changed.notify_all()

    def _idle(self, slot: Slot, most: int) -> Slot | None:
        while not self.closed:
            there = [other for other in self.slots.values() if other.engine is not None]
            if len(there) <= max(most, 0):
                return None
            if not self.is_asked(slot):
                raise Unwanted
            if idle := [other for other in there if not other.users]:
                return min(idle, key=lambda other: other.used)
            busy = " or ".join(other.state.label for other in there)
            slot.state = replace(slot.state, detail=f"waiting until {busy} has answered")
            self.changed.notify_all()
            self.changed.wait()
        raise Unwanted

    def _in_memory(self) -> int:
        return sum(slot.engine is not None for slot in self.slots.values())

    def _rest(self, slot: Slot) -> None:
        """What is to be said of a model that is not in memory, and not on its way into it."""
        if slot.engine is None and slot is not self._loading:
            waiting = ModelState(slot.model.id, "loading", 0.0, "waiting for its turn")
            slot.state = waiting if self.is_asked(slot) else ModelState(slot.model.id)

    def _note_use(self, slot: Slot) -> None:
        self._turn += 1
        slot.used = self._turn
