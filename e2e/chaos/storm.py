"""Rounds: questions are asked, faults come at seeded random moments, and then everything is compared."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from chaos.ledger import Ledger
from chaos.reader import Reader
from chaos.verdict import Verdict
from chaos.world import LONGEST_EXIT_S, World, question

READERS = 3
TURNS = 4
"""Turns of a conversation before its reader begins a new one."""
ENDS_WITHIN_S = 60.0
ANSWERING_S = 2.0
"""About as long as an answer takes: faults come within this time."""

Fault = Callable[[], None]


@dataclass(frozen=True)
class Plan:
    """How much of each fault there is to be, and how long it may take."""

    kills: int
    cuts: int
    stops: int
    seed: int
    minutes: float = 60.0


@dataclass
class Storm:
    """One run of a plan."""

    plan: Plan
    world: World
    readers: list[Reader]
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.plan.seed)
        self.began = time.monotonic()
        self._verdict = Verdict(self.world, self.readers, self.ledger)

    def run(self) -> None:
        while not self._done:
            if time.monotonic() - self.began > self.plan.minutes * 60:
                self.ledger.lose("time", f"not done within {self.plan.minutes} minutes")
                return
            self.ledger.rounds += 1
            if self.ledger.rounds % 10 == 0:
                self.ledger.say(f"round {self.ledger.rounds}, {time.monotonic() - self.began:.0f} s")
            self._round()

    @property
    def _done(self) -> bool:
        return not (self._due("kill") or self._due("cut") or self._due("stop"))

    def _due(self, kind: str) -> int:
        wanted: int = getattr(self.plan, f"{kind}s")
        done = sum(times for name, times in self.ledger.faults.items() if name.split(" ")[0] == kind)
        return max(0, wanted - done)

    def _round(self) -> None:
        faulty = self.chance.random() < 0.15
        if faulty:
            self._make_engine_faulty()
        if self.chance.random() < 0.15:
            self._fill_queue()
        for reader in self.readers:
            self._ask(reader)
        self._suffer(self._faults())
        self._settle()
        if self._press("Continue"):
            self._settle()
        if faulty:
            self._verdict.script = None
            self.world.play({"echo": True})
            self._restart(signal.SIGTERM)
        if self._press("Try again"):
            self._settle()

    def _ask(self, reader: Reader) -> None:
        if len(reader.asked) >= TURNS:
            reader.new_conversation()
        if self.chance.random() < 0.2:
            self.ledger.faults["lost reply"] += 1
            self.world.line.replies_to_lose += 1
        reader.ask(self._question())

    def _question(self) -> str:
        mark = f"{self.ledger.rounds}x{self.chance.randrange(1000)}"
        return question(self.chance, mark, self.chance.randrange(60, 110))

    def _faults(self) -> list[tuple[float, Fault]]:
        """What happens in this round, and when, in seconds of answering."""
        likely: list[tuple[float, Fault]] = [
            (1.0 if self._due("kill") else 0.0, self._kill),
            (0.2 if self._due("kill") > 1 else 0.0, self._kill),
            (1.0 if self._due("cut") else 0.0, self._cut),
            (1.0 if self._due("cut") > 3 else 0.0, self._cut),
            (0.5 if self._due("cut") > 6 else 0.0, self._cut),
            (0.9 if self._due("stop") else 0.0, self._stop),
            (0.25, self._hide),
            (0.25, self._reload),
            (0.1, self._fill_queue),
        ]
        chosen = [fault for chance, fault in likely if self.chance.random() < chance]
        return sorted(((self.chance.uniform(0.1, ANSWERING_S), fault) for fault in chosen), key=lambda pair: pair[0])

    def _suffer(self, faults: list[tuple[float, Fault]]) -> None:
        moment = 0.0
        for at, fault in faults:
            self.readers[0].page.wait_for_timeout((at - moment) * 1000)
            moment = at
            fault()

    def _kill(self) -> None:
        how = self.chance.choice([signal.SIGKILL, signal.SIGTERM])
        if self._due("stop") and self.chance.random() < 0.3:
            self._stop()  # the last thing before it
            self.readers[0].page.wait_for_timeout(self.chance.choice([1, 30, 200]))
        self.ledger.faults[f"kill {how.name}"] += 1
        self._end(how)
        unsent = self._ask_nobody() if self.chance.random() < 0.2 else None
        self.readers[0].page.wait_for_timeout(self.chance.uniform(0, 1000))
        self.world.rheo.start()
        self._verdict.integrity()
        if unsent is not None:
            reader, text = unsent
            reader.ask(text)

    def _restart(self, how: signal.Signals) -> None:
        self._end(how)
        self.world.rheo.start()

    def _end(self, how: signal.Signals) -> None:
        seconds = self.world.end(how)
        self.ledger.expect(seconds < LONGEST_EXIT_S, "gone in time", f"{how.name} took {seconds:.1f} s")
        for reader in self.readers:
            reader.server_died()

    def _ask_nobody(self) -> tuple[Reader, str] | None:
        """Send while the server is down; who did, and what is to be sent again."""
        reader = self.chance.choice(self.readers)
        if len(reader.asked) > TURNS:
            return None
        self.ledger.faults["asked while down"] += 1
        text = self._question()
        kept = reader.ask_in_vain(text)
        self.ledger.expect(kept, "unsent question kept", f"«{reader.draft[-40:]}» instead of «{text[-40:]}»")
        return reader, text

    def _cut(self) -> None:
        self.ledger.faults["cut line"] += self.world.line.cut_streams()

    def _stop(self) -> None:
        if self.chance.choice(self.readers).press_stop():
            self.ledger.faults["stop"] += 1

    def _hide(self) -> None:
        self.ledger.faults["hidden tab"] += 1
        reader = self.chance.choice(self.readers)
        reader.hide(True)
        reader.page.wait_for_timeout(self.chance.uniform(100, 900))
        reader.hide(False)

    def _reload(self) -> None:
        self.ledger.faults["reload"] += 1
        self.chance.choice(self.readers).reload()

    def _fill_queue(self) -> None:
        self.ledger.faults["full queue"] += 1
        for number in range(9):
            text = question(self.chance, f"{self.ledger.rounds}q{number}", 12)
            path = self.world.post("/conversations", text=text, submission=f"{self.plan.seed}-{text[:12]}")
            if path is not None:
                self._verdict.others[path.rpartition("/")[2]] = text

    def _make_engine_faulty(self) -> None:
        kind = self.chance.choice(["stall", "fail"])
        self.ledger.faults[f"engine: {kind}"] += 1
        steps = [f"{self.ledger.rounds}s-{number} " for number in range(80)]
        at = self.chance.randrange(10, 60)
        self._verdict.script = "".join(steps[:at] if kind == "fail" else steps)
        played = [
            *steps[:at],
            {"sleep_s": 2.5} if kind == "stall" else {"raise": "a fault of the storm"},
            *steps[at:],
        ]
        self.world.play({"steps": played})
        self._restart(signal.SIGTERM)

    def _press(self, name: str) -> bool:
        """Press a button at the last answers that offer it; mostly."""
        pressed = [reader for reader in self.readers if self.chance.random() < 0.8 and reader.press(name)]
        self.ledger.faults[f"pressed {name}"] += len(pressed)
        return bool(pressed)

    def _settle(self) -> None:
        """Wait for every answer to end in every tab, then compare."""
        deadline = time.monotonic() + ENDS_WITHIN_S
        while time.monotonic() < deadline and self._verdict.busy():
            self.readers[0].page.wait_for_timeout(100)
        self._verdict.compare()
