"""Compares what was shown, what is stored and what the engine said, byte for byte."""

from dataclasses import dataclass, field
from typing import Any

from chaos.ledger import Ledger
from chaos.reader import Reader
from chaos.world import Stored, World

ACTIVE = ("queued", "running")


@dataclass
class Verdict:
    """What must be true between two rounds."""

    world: World
    readers: list[Reader]
    ledger: Ledger
    script: str | None = None
    """What the engine says in this round; None: it says the question back."""
    others: dict[str, str] = field(default_factory=dict)
    """Conversations that no tab shows, by id, with their question."""
    _whole: dict[str, str] = field(default_factory=dict)
    """What each answer is to say in the end, fixed when it is first seen."""

    def busy(self) -> bool:
        """Whether any answer has not ended, in any tab."""
        stored = self.world.stored([*self.others, *(c for reader in self.readers for c in reader.conversations)])
        return any(row.state in ACTIVE for row in stored.values()) or any(
            message["busy"] for reader in self.readers for message in reader.shown()
        )

    def integrity(self) -> None:
        found = self.world.integrity()
        self.ledger.expect(found == "ok", "integrity", found)

    def compare(self) -> None:
        self.integrity()
        for reader in self.readers:
            self._compare_page(reader)
            reader.stops.clear()
        self._compare_others()

    def _compare_page(self, reader: Reader) -> None:
        for loss in reader.losses():
            self.ledger.lose("shown text", loss)
        stored = self.world.stored(reader.conversations)
        shown = reader.shown()
        questions = [message["text"] for message in shown if message["role"] == "user"]
        self.ledger.expect(questions == reader.asked, "questions", f"{_tails(questions)}, not {_tails(reader.asked)}")
        for message in shown:
            kept = stored.get(message["id"])
            self.ledger.expect(kept is not None, "stored message", f"{message['id']} is shown and not stored")
            if kept is not None and kept.role == "user":
                self.ledger.expect(kept.text == message["text"], "stored question", message["id"])
            elif kept is not None:
                self._compare_answer(reader, message, kept, stored)
        made = [row.text for row in stored.values() if row.role == "user"]
        self.ledger.expect(len(made) == len(set(made)), "question doubled", f"{_tails(made)}")

    def _compare_answer(
        self, reader: Reader, message: dict[str, Any], kept: Stored, stored: dict[str, Stored]
    ) -> None:
        whole = self._whole_of(kept, stored)
        name = f"{kept.id} ({kept.state})"
        self.ledger.expect(not message["busy"], "spinner", f"{name} has not ended")
        self.ledger.expect(message["state"] == kept.state, "state", f"{name} is shown as {message['state']}")
        self.ledger.expect(message["text"] == kept.text.strip(), "text shown", _differ(message["text"], kept.text))
        self.ledger.expect(_begins(whole, kept.text), "text stored", f"{name}: {_differ(kept.text, whole)}")
        self.ledger.expect(message["continued"] == bool(kept.restarts), "continued mark", f"{name}: {kept.restarts}")
        if kept.state == "finished":
            self.ledger.expect(kept.text == whole, "whole answer", f"{name}: {_differ(kept.text, whole)}")
        if kept.state in ("stopped", "interrupted"):
            self.ledger.expect("Continue" in message["offers"], "way on", f"{name} offers {message['offers']}")
        self._compare_stop(reader, kept, name)

    def _compare_stop(self, reader: Reader, kept: Stored, name: str) -> None:
        stop = reader.stops.get(kept.id)
        if stop is None:
            return
        if kept.state == "stopped":
            exact = kept.text.strip() in stop.seen
            self.ledger.expect(exact, "stopped text", f"{name}: {_differ(kept.text, stop.seen[0])}")
        elif stop.accepted:
            ended = kept.state in ("finished", "failed") or (kept.state == "interrupted" and not stop.must_hold)
            self.ledger.expect(ended, "kept stop", f"{name} went on after its stop")

    def _compare_others(self) -> None:
        stored = self.world.stored(self.others)
        questions = {row.text for row in stored.values() if row.role == "user"}
        for text in self.others.values():
            self.ledger.expect(text in questions, "questions", f"«{text[:20]}» was taken and is not stored")
        for row in stored.values():
            if row.role == "assistant":
                whole = self._whole_of(row, stored)
                self.ledger.expect(row.state not in ACTIVE, "spinner", f"{row.id} has not ended")
                right = row.text == whole if row.state == "finished" else _begins(whole, row.text)
                self.ledger.expect(right, "text stored", f"{row.id} ({row.state}): {_differ(row.text, whole)}")
                self.ledger.checked["told that it is full"] += "waiting" in (row.error or "")
        self.others.clear()

    def _whole_of(self, answer: Stored, stored: dict[str, Stored]) -> str:
        said = self.script if self.script is not None else stored[answer.parent or ""].text
        return self._whole.setdefault(answer.id, said)


def _begins(whole: str, text: str) -> bool:
    """Whether a text is a beginning of the whole that ends with a whole token."""
    rest = whole[len(text) :]
    return whole.startswith(text) and (not rest or not text or text[-1] == " " or rest[0] == " ")


def _differ(one: str, other: str) -> str:
    at = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    near = slice(max(0, at - 20), at + 30)
    return f"at {at} of {len(one)} and {len(other)}: «{one[near]}» and «{other[near]}»"


def _tails(texts: list[str]) -> list[str]:
    return [text[:12] for text in texts]
