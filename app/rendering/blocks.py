"""A growing text to finished blocks: each is rendered once, and again only where later text changes it."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import escape

from app.rendering import bounds, words
from app.rendering.document import Block, Document, Normaliser, Unit, line_starts, lines_of, units

_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`|\n]*\n)|~{3,}(?=[^|\n]*\n))")
_BLANK_LINES = re.compile(r"(?:[ \t]*\n)+")
# What no later line can change once a blank line follows; a list, a note or indented code may go on after it.
_ENDED_BY_BLANK = frozenset(
    [
        "paragraph_open",
        "heading_open",
        "hr",
        "table_open",
        "blockquote_open",
        "alert_open",
        "math_block",
        "definition",
    ]
)
# When to look at a large open block. A wrong guess costs time or a moment's delay, never a byte.
_LARGE = 4_096
_ENDS_ANYTHING = re.compile(r" {0,3}(?:#|[`~]{3}|\$\$|\\\[|(?:[-_*][ \t]*){3,}$)")
_NO_ITEM = re.compile(r"[^\s\-*+\d]")


@dataclass(slots=True)
class _Cut:
    """How much of an open text is finished, and the blocks in it; none where they have to be read again."""

    end: int
    units: Sequence[Unit] = ()


class Blocks:
    """The blocks of one text. `finished` changes only at the end, `open` is the source that may still change."""

    def __init__(self, document_id: str = "", image_hosts: Collection[str] = ()) -> None:
        self.document = Document(document_id, image_hosts)
        self.finished: list[Block] = []
        self.replaced: set[int] = set()
        self.open = ""
        self._normaliser = Normaliser()
        self._kind = ""
        self._lines = 0
        self._looked = 0
        self._guessed = 0

    @property
    def html(self) -> str:
        """All that is finished."""
        return "".join(block.html for block in self.finished)

    def feed(self, piece: str) -> None:
        """Take a piece of text and finish what it ends."""
        new = self._normaliser.feed(piece)
        self.open += new
        if "\n" in new:
            while (cut := self._cut()).end:
                self._finish(cut)

    def end(self) -> None:
        """The text is over: everything is finished, what was defined late is put in, the notes come last."""
        self.open += self._normaliser.end()
        if not self.full:
            self._finish(_Cut(len(self.open)))
        if self.open.strip():
            self._leave()
        self._settle()

    def hold(self, piece: str) -> None:
        """Take a piece of a text that nobody watches: nothing is finished before the end."""
        self.open += self._normaliser.feed(piece)

    @property
    def holds(self) -> bool:
        """Whether a line end is held back until its other half comes."""
        return self._normaliser.holds

    @property
    def full(self) -> bool:
        """Whether the rest of the text is only shown, not read."""
        return self._lines >= bounds.LINES

    def open_fence(self) -> str:
        """The marker of the code block that is open, if the open text is one."""
        if self.full:
            return ""
        found = _FENCE.match(self.open)
        return found[1] if found else ""

    def _cut(self) -> _Cut:
        """How much of the open text is finished. Only whole lines count: half a line may still mean anything."""
        if self.full:
            return _Cut(0)
        if self._looked == 0 and (blank := _BLANK_LINES.match(self.open)):
            self.open = self.open[blank.end() :]
        end = self.open.rfind("\n") + 1
        if end <= self._looked:
            return _Cut(0)
        if self._looked == 0 and (paragraph := words.ended_paragraph(self.open)):
            return _Cut(paragraph)
        if marker := self.open_fence():
            return _Cut(self._fence_end(marker, end))
        if end > _LARGE and end < self._looked * 9 // 8 and not self._may_end(end):
            return _Cut(0)
        self._looked = self._guessed = end
        source = self.open[:end]
        found, plain = _read(source)
        self._kind = found[-1].kind if found else ""
        cut = _finished(source, found)
        return _Cut(cut, (found if cut == end else found[:-1]) if plain else [])

    def _fence_end(self, marker: str, end: int) -> int:
        start = max(self._looked, self.open.index("\n") + 1)
        closing = re.compile(rf" {{0,3}}{marker[0]}{{{len(marker)},}}[ \t]*\n")
        self._looked = end
        while start < end:
            following = self.open.index("\n", start) + 1
            if closing.match(self.open, start):
                return following
            start = following
        return 0

    def _may_end(self, end: int) -> bool:
        new, self._guessed = self.open[self._guessed : end], end
        lines = new.split("\n")[:-1]
        after_blank = "" in lines or self.open.endswith("\n\n", 0, end - len(new))
        if after_blank and (self._kind in _ENDED_BY_BLANK or any(map(_NO_ITEM.match, lines))):
            return True
        return any(map(_ENDS_ANYTHING.match, lines))

    def _finish(self, cut: _Cut) -> None:
        if self._lines + self.open.count("\n", 0, cut.end) + 1 >= bounds.LINES:
            cut = self._what_fits(cut)
        source, self.open = self.open[: cut.end], self.open[cut.end :]
        self._looked = self._guessed = 0
        new = self.document.blocks(source, cut.units)
        self._lines += sum(block.lines for block in new)
        self.finished += new

    def _what_fits(self, cut: _Cut) -> _Cut:
        """As much of it as is within the bound."""
        source = self.open[: cut.end]
        starts = line_starts(source)
        if cut.units:
            return self._bound(source, starts, cut.units) or cut
        # A part of the text is mostly enough, and the rest may be what must not be read.
        likely = bounds.LINES * 5 // 4
        for part in (source[: starts[likely]], source) if likely < len(starts) else (source,):
            found, plain = _read(part)
            if fits := self._bound(part, starts, found):
                return fits if plain else _Cut(fits.end)
        return cut

    def _bound(self, source: str, starts: list[int], found: Sequence[Unit]) -> _Cut | None:
        """Up to the end of the block that fills the bound, if another one follows."""
        lines = self._lines
        for index, (unit, following) in enumerate(pairwise(found)):
            cut = starts[following.start]
            lines += lines_of(unit.kind, source[starts[unit.start] : cut])
            if lines >= bounds.LINES:
                return _Cut(cut, found[: index + 1])
        return None

    def _leave(self) -> None:
        blank = _BLANK_LINES.match(self.open)
        text = self.open[blank.end() if blank else 0 :].rstrip()
        self.finished.append(Block("", f'<p class="tail-rest" dir="auto">{escape(text)}</p>\n'))
        self.open = ""

    def _settle(self) -> None:
        env = self.document.env
        notes, references = env["footnotes"], env["references"]
        notes["list"] = {}
        notes["refs"] = notes["refs"].reset()
        note_tokens = []
        for index, block in enumerate(self.finished):
            asks = any(":" + label in notes["refs"] for label in block.asked)
            if not (asks or block.note is not None or block.misses & references.keys()):
                continue
            before, tokens = block.html, self.document.again(block)
            note_tokens += tokens if block.note is not None else []
            if block.html != before:
                self.replaced.add(index)
        if notes["list"]:
            self.finished.append(self.document.notes(note_tokens))


def nothing_known() -> dict[str, object]:
    # Where blocks begin and end does not depend on what is defined.
    return {"references": {}, "footnotes": {"refs": {}, "list": {}}}


def _read(source: str) -> tuple[list[Unit], bool]:
    """The blocks of some lines, and whether they define nothing: what they do, the document has to hear of."""
    env = nothing_known()
    return units(source, env), env == nothing_known()


def _finished(source: str, found: list[Unit]) -> int:
    """How much of some whole lines is finished: all but the last block, and that too if no line can change it."""
    if len(found) > 1:
        return line_starts(source)[found[-1].start]
    blank = source[len(source.rstrip(" \t\n")) :].count("\n") > 1
    if not found or (blank and found[0].kind in _ENDED_BY_BLANK):
        return len(source)
    # With a "|" the next line may still make it the header of a table.
    return len(source) if _complete(found[0]) and "|" not in source else 0


def _complete(unit: Unit) -> bool:
    markup = unit.tokens[0].markup
    closed = unit.kind == "math_block" and markup != ""
    return closed or unit.kind == "hr" or (unit.kind == "heading_open" and markup.startswith("#"))
