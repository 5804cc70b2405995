"""What was done and what was lost: counted by kind, printed at the end."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Ledger:
    """Counts faults that were brought about, and losses that were found."""

    say: Callable[[str], object] = str
    faults: Counter[str] = field(default_factory=Counter)
    checked: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    words: list[str] = field(default_factory=list)
    """Each loss, in words."""
    rounds: int = 0

    def lose(self, kind: str, words: str) -> None:
        self.losses[kind] += 1
        self.words.append(f"round {self.rounds}: {kind}: {words}")
        self.say(self.words[-1])

    def expect(self, true: bool, kind: str, words: str) -> None:
        """Count one comparison; where it is not true, a loss."""
        self.checked[kind] += 1
        if not true:
            self.lose(kind, words)

    def report(self, seed: int, seconds: float) -> str:
        lines = [f"seed {seed}, {self.rounds} rounds, {seconds:.0f} s", "", "| fault | times |", "|---|---|"]
        lines += [f"| {kind} | {count} |" for kind, count in sorted(self.faults.items())]
        lines += ["", "| compared | times | lost |", "|---|---|---|"]
        lines += [f"| {kind} | {count} | {self.losses[kind]} |" for kind, count in sorted(self.checked.items())]
        unchecked = [f"| {kind} | | {count} |" for kind, count in self.losses.items() if kind not in self.checked]
        return "\n".join([*lines, *unchecked, "", *self.words[:50], f"losses: {self.losses.total()}"])
