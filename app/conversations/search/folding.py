"""Texts as they are compared: without case, accents and widths, and without what can't be seen."""

import re
import unicodedata
from bisect import bisect_right
from itertools import accumulate

import regex

# Accents of Latin, Greek and Cyrillic letters, vowel points of Hebrew and Arabic, the stretched Arabic line, and
# what has no shape of its own: soft hyphens, joiners, marks of direction, selectors of variants, tags.
_UNSEEN = re.compile(
    "[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0640"
    "\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)
# What no normal form takes apart, and what phones write in the place of what keyboards do.
_ALIKE = {
    **dict(zip("łøđħŧıð", "lodhtid", strict=True)),
    **dict.fromkeys("‘’‚‛′", "'"),
    **dict.fromkeys("“”„‟″", '"'),
    **dict.fromkeys("‐‒–—―−", "-"),
    "æ": "ae",
    "œ": "oe",
    "þ": "th",
}
_HAS_ALIKE = re.compile(f"[{''.join(_ALIKE)}]")
_CHUNK = 64
# A place before a character that takes part in no other: there a text may be cut and folded in parts.
_CUT = regex.compile(r"(?=[^\p{M}\uff9e\uff9f\u1160-\u11ff\ud7b0-\ud7ff])")


def fold(text: str) -> str:
    """The text as it is compared."""
    if text.isascii():
        return text.lower()
    apart = _UNSEEN.sub("", unicodedata.normalize("NFKD", text)).casefold()
    apart = _HAS_ALIKE.sub(lambda found: _ALIKE[found[0]], apart)
    # Kana and Hangul, which the first form takes apart, are whole again: their marks are no accents.
    return unicodedata.normalize("NFC", apart)


class Folded:
    """A text as it is compared, and which part of the original a part of it stands for."""

    def __init__(self, original: str) -> None:
        self.original = original
        if original.isascii():
            self.text, self._chunks = original.lower(), None
            return
        self._chunks = _chunks(original)
        folded = [fold(chunk) for chunk in self._chunks]
        self.text = "".join(folded)
        self._starts = [0, *accumulate(map(len, self._chunks))]
        self._folded_starts = [0, *accumulate(map(len, folded))]

    def original_span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the original that is which is compared as this part."""
        if self._chunks is None:
            return start, end
        # What follows the last character and has no shape of its own belongs to it.
        return self._original(start), max(self._original(end - 1) + 1, self._original(end))

    def _original(self, place: int) -> int:
        """The place of the character that stands for the one at this place."""
        assert self._chunks is not None
        number = min(bisect_right(self._folded_starts, place), len(self._chunks)) - 1
        chunk, within = self._chunks[number], place - self._folded_starts[number]
        # The longest beginning that is folded without it ends where it begins.
        low, high = 0, len(chunk)
        while low < high:
            middle = (low + high + 1) // 2
            if len(fold(chunk[:middle])) <= within:
                low = middle
            else:
                high = middle - 1
        return self._starts[number] + low


def _chunks(text: str) -> list[str]:
    chunks, start = [], 0
    while len(text) - start > _CHUNK:
        cut = _CUT.search(text, start + _CHUNK)
        end = cut.start() if cut else len(text)
        chunks.append(text[start:end])
        start = end
    return [*chunks, text[start:]]
