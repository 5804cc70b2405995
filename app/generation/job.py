"""Work for a thread of the runner: a committed generation that is to be run; and the way to end it early."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True)
class Cancellation:
    """Tells a running generation to end. `seen` is the last event its reader saw; the text is cut there."""

    asked: threading.Event = field(default_factory=threading.Event)
    seen: int | None = None
    leaving: threading.Event = field(default_factory=threading.Event)
    """The process ends: the answer stays unended, for the next start to go on with."""

    def leave(self) -> None:
        """The process ends."""
        self.leaving.set()
        self.asked.set()


class Work(Protocol):
    """What the runner gives turns and threads to: an owner's, one after the other within a conversation."""

    @property
    def generation_id(self) -> str: ...
    @property
    def conversation_id(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def cancellation(self) -> Cancellation: ...

    def run(self) -> None:
        """Do it. Where its cancellation is asked for, also before it begins, it ends soon and says so."""
        ...

    def wait_behind(self, before: int) -> None:
        """Told how many come before it, whenever that may have changed while it waits."""
        ...


class Recording(Protocol):
    """Who fills the answer of a generation, and tells its readers of it."""

    def record(self, job: "Job") -> None: ...
    def place(self, job: "Job", before: int) -> None: ...


Record = Callable[["Job"], None]
"""What runs a job: the recorder, and whatever goes on from its answers."""


@dataclass(frozen=True, slots=True)
class Job:
    """One generation of an owner, to be recorded. `resumed`: a process that is gone had begun it."""

    recorder: Recording
    generation_id: str
    conversation_id: str
    owner: str
    resumed: bool = False
    model: str | None = None
    """Which model is to answer; None: the default."""
    cancellation: Cancellation = field(default_factory=Cancellation)

    def run(self) -> None:
        """Fill the answer."""
        self.recorder.record(self)

    def wait_behind(self, before: int) -> None:
        """Tell the answer's readers its place."""
        self.recorder.place(self, before)
