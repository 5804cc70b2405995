"""How much is measured, and what is said meanwhile."""

import time
from dataclasses import dataclass, field

LATE_S = 600
"""Of the fifteen minutes that a whole run may take."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A full run, or a quick one that only shows that everything works."""

    quick: bool = False
    began: float = field(default_factory=time.perf_counter)

    def pairs(self, full: int) -> int:
        """How often to measure what a full run measures so often."""
        return 1 if self.quick else full

    def note(self, words: str) -> None:
        """Tell the person at the terminal what is going on."""
        print(f"  [{time.perf_counter() - self.began:5.0f} s] {words}", flush=True)

    @property
    def late(self) -> bool:
        """Whether the machine is so slow that one of each must do from here on."""
        return time.perf_counter() - self.began > LATE_S

    @property
    def minutes(self) -> float:
        """How long the run has taken."""
        return (time.perf_counter() - self.began) / 60
