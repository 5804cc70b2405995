"""Snippets: the part of a text around what was looked for, in pieces, with what was found marked."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, groupby
from operator import itemgetter

import regex

from app.conversations.search.folding import Folded, fold
from app.conversations.search.terms import begins_at

BEFORE, AFTER = 50, 130
"""Characters shown around what was found, as a reader counts them."""
_WIDEST = 3
# What makes one character of several.
_JOINING = regex.compile(
    r"[\p{M}\p{Cf}\p{Emoji_Modifier}\p{Regional_Indicator}\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff\uff9e\uff9f]"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, marked where it was looked for."""

    text: str
    marked: bool = False


def found_in(folded: str, words: Sequence[str]) -> bool:
    """Whether a folded text has all of these words."""
    return all(next(_places(folded, word), None) is not None for word in words)


def snippet(text: Folded, words: Sequence[str]) -> list[Piece]:
    """The text around the first of the longest word; from its beginning where no words were looked for."""
    longest = max(words, key=len, default="")
    at = next(_places(text.text, longest), 0) if longest else 0
    start, end = text.original_span(at, at + len(longest)) if longest else (0, 0)
    before, after = _last(text.original, start), _first(text.original, end)
    pieces = marked(before + text.original[start:end] + after, words)
    if len(before) < start:
        pieces.insert(0, Piece("…"))
    if end + len(after) < len(text.original.rstrip()):
        pieces.append(Piece("…"))
    return pieces


def marked(text: str, words: Sequence[str]) -> list[Piece]:
    """A whole short text in one line, with these folded words marked."""
    characters = _characters(text)
    each = list(map(_folded, characters))
    folded, starts = "".join(each), list(accumulate(map(len, each), initial=0))
    found = [False] * len(characters)
    for word in words:
        for at in _places(folded, word):
            # The whole of the characters that it begins and ends in: a part of one can't be shown.
            first, last = bisect_right(starts, at) - 1, bisect_right(starts, at + len(word) - 1) - 1
            found[first : last + 1] = [True] * (last + 1 - first)
    return [
        Piece(re.sub(r"\s+", " ", "".join(character for character, _ in run)), is_found)
        for is_found, run in groupby(zip(characters, found, strict=True), key=itemgetter(1))
    ]


_folded = lru_cache(maxsize=4096)(fold)


def _characters(text: str) -> list[str]:
    """The characters of a text as a reader sees them."""
    return regex.findall(r"\X", text) if _JOINING.search(text) else list(text)


def _places(folded: str, word: str) -> Iterator[int]:
    at = folded.find(word)
    while at >= 0:
        if begins_at(folded, at):
            yield at
        at = folded.find(word, at + 1)


def _last(text: str, end: int) -> str:
    """What comes before a place: so many characters, or somewhat fewer where a word begins."""
    start = max(0, end - _WIDEST * BEFORE)
    # The first of them may be the rest of one.
    characters = _characters(text[start:end])[bool(start) :]
    if not start and len(characters) <= BEFORE:
        return text[:end]
    kept = "".join(characters[-BEFORE:])
    blank = re.compile(r"\s+").search(kept, 0, BEFORE // 2)
    return kept[blank.end() :] if blank else kept


def _first(text: str, start: int) -> str:
    """What comes from a place on: so many characters, or somewhat fewer where a word ends."""
    end = start + _WIDEST * AFTER
    characters = _characters(text[start:end])
    if end >= len(text) and len(characters) <= AFTER:
        return text[start:]
    kept = "".join(characters[:-1][:AFTER])
    blank = max(kept.rfind(" "), kept.rfind("\n"))
    return kept[:blank] if blank > AFTER // 2 else kept
