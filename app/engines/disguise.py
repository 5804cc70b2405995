"""Hides in a prompt what neither template nor tokenizer may read: typed control tokens, and answers that have ids."""

import re
from collections.abc import Iterator, Sequence

from app.engines.protocol import Part

Hidden = str | tuple[int, ...]

_PRIVATE = range(0xF0000, 0xFFFFE)
"""Code points that Unicode leaves to private use."""


class Disguise:
    """Stand-ins for the hidden things of one prompt: a number between two marks that nobody wrote.

    The rest of the text stays as it is, so that a template that trims or asks about a text still can.
    """

    def __init__(self, parts: Sequence[Part], controls: re.Pattern[str] | None) -> None:
        written = set().union(*(part.text for part in parts))
        self._mark = next(chr(point) for point in _PRIVATE if chr(point) not in written)
        self._stand_in = re.compile(f"{self._mark}(\\d+){self._mark}")
        self._controls = controls
        self._hidden: list[Hidden] = []

    def content(self, part: Part) -> str:
        """What the template is given for a part."""
        if part.token_ids and part.role == "assistant":
            return self._hide(part.token_ids)
        if self._controls is None:
            return part.text
        return self._controls.sub(lambda found: self._hide(found[0]), part.text)

    def hides_in(self, text: str) -> bool:
        """Whether anything is hidden in a text."""
        return self._mark in text

    def reveal(self, text: str) -> Iterator[Hidden]:
        """The text in order: plain text, control tokens as they were typed, and the ids of answers."""
        for index, piece in enumerate(self._stand_in.split(text)):
            yield self._hidden[int(piece)] if index % 2 else piece

    def _hide(self, thing: Hidden) -> str:
        self._hidden.append(thing)
        return f"{self._mark}{len(self._hidden) - 1}{self._mark}"
