"""A committed generation that is to be run, and the way to end it early."""

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Cancellation:
    """Tells a running generation to end. `seen` is the last event its reader saw; the text is cut there."""

    asked: threading.Event = field(default_factory=threading.Event)
    seen: int | None = None
    leaving: threading.Event = field(default_factory=threading.Event)
    """The process ends: the answer stays unended, for the next start to go on with."""


@dataclass(frozen=True, slots=True)
class Job:
    """One generation of an owner. `resumed`: a process that is gone had begun it."""

    generation_id: str
    conversation_id: str
    owner: str
    resumed: bool = False
    model: str | None = None
    """Which model is to answer; None: the default."""
    cancellation: Cancellation = field(default_factory=Cancellation)
