"""Two texts compared word by word: what they share, what only the one says and what only the other."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

import regex

Kind = Literal["same", "removed", "added"]

LARGEST = 200_000
"""Pairs of the same word, one in each text, that are looked at in one comparison: a second or so at the worst.
What would cost more is taken as wholly different: true, only coarser."""

# Languages that are written without blanks are compared by the character, as a reader sees characters.
_WORDS = regex.compile(
    r"\n|[^\S\n]+|[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*|\w+|\X"
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A stretch of text that both share, or that only one of them has."""

    kind: Kind
    text: str


def differences(old: str, new: str, largest: int = LARGEST) -> list[Difference]:
    """What turns one text into the other, in order. Both can be read from it: each says all its own words."""
    budget = _Budget(largest)
    found: list[Difference] = []
    for kind, text in _joined(_by_line(_lines(old), _lines(new), budget)):
        if text:
            found.append(Difference(kind, text))
    return found


@dataclass(slots=True)
class _Budget:
    left: int

    def pays(self, old: Sequence[str], new: Sequence[str]) -> bool:
        counts = Counter(new)
        cost = sum(counts[word] for word in old if not word.isspace())
        if cost > self.left:
            return False
        self.left -= cost
        return True


def _by_line(old: list[str], new: list[str], budget: _Budget) -> Iterator[tuple[Kind, str]]:
    """Whole lines first: it costs little, and keeps what moved far from being compared with everything."""
    for kind, a, b in _matched(old, new, budget):
        if kind == "same":
            yield "same", "".join(a)
        else:
            yield from _by_word(_WORDS.findall("".join(a)), _WORDS.findall("".join(b)), budget)


def _by_word(old: list[str], new: list[str], budget: _Budget) -> Iterator[tuple[Kind, str]]:
    for kind, a, b in _matched(old, new, budget):
        if kind == "same":
            yield "same", "".join(a)
        else:
            yield "removed", "".join(a)
            yield "added", "".join(b)


def _matched(
    old: list[str], new: list[str], budget: _Budget
) -> Iterator[tuple[Literal["same", "changed"], list[str], list[str]]]:
    begin = _shared(zip(old, new, strict=False))
    end = _shared(zip(reversed(old[begin:]), reversed(new[begin:]), strict=False))
    a, b = old[begin : len(old) - end], new[begin : len(new) - end]
    yield "same", old[:begin], []
    if not budget.pays(a, b):
        yield "changed", a, b
    else:
        for tag, from_, to, new_from, new_to in SequenceMatcher(str.isspace, a, b, autojunk=False).get_opcodes():
            yield ("same" if tag == "equal" else "changed"), a[from_:to], b[new_from:new_to]
    yield "same", old[len(old) - end :], []


def _shared(pairs: Iterable[tuple[str, str]]) -> int:
    count = 0
    for one, other in pairs:
        if one != other:
            break
        count += 1
    return count


def _joined(parts: Iterable[tuple[Kind, str]]) -> Iterator[tuple[Kind, str]]:
    """Changed words in a row as one change: a blank between two of them is no reason to read them one by one."""
    old = new = ""
    steps = [(kind, "".join(text for _, text in group)) for kind, group in groupby(parts, key=lambda part: part[0])]
    for number, (kind, text) in enumerate(steps):
        if kind == "removed":
            old += text
        elif kind == "added":
            new += text
        elif (old or new) and text.strip(" \t") == "" and number + 1 < len(steps):
            old, new = old + text, new + text
        else:
            yield from (("removed", old), ("added", new), ("same", text))
            old = new = ""
    yield from (("removed", old), ("added", new))


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
