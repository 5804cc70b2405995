"""What the blocks of one text know of each other: link definitions, footnotes, and what was asked for in vain."""

import copy
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Self

from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from mdit_py_plugins.footnote.index import footnote_tail

from app.rendering import words
from app.rendering.cleaning import cleaned
from app.rendering.code import Budget
from app.rendering.dialect import Dialect
from app.rendering.footnotes import Numbers

PARSER = Dialect()
NOTE = "footnote_reference_open"
# With more notes than this a growing text is shown without their numbers: they are copied each time.
MOST_DRAFT_NOTES = 100

_SURROGATES = re.compile("[\ud800-\udfff]")


class Normaliser:
    """Line ends to LF and what is no character to U+FFFD, whichever way the text is cut."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        text = self._held + piece
        # The LF of a CR LF may come with the next piece.
        self._held = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r").replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
        return _SURROGATES.sub("\ufffd", text)

    @property
    def holds(self) -> bool:
        """Whether half a line end is held back."""
        return self._held != ""

    def end(self) -> str:
        held, self._held = self._held, ""
        return "\n" if held else ""


class _Definitions(dict[str, Any]):
    """Link definitions that remember the labels asked for in vain. The first definition of a label counts."""

    def __init__(self, known: dict[str, Any] | None = None) -> None:
        self.misses: set[str] = set()
        self._known = known or {}

    def get(self, label: str, default: Any = None) -> Any:
        found = self._known.get(label) or super().get(label)
        if found is None:
            self.misses.add(label)
        return found or default


@dataclass(slots=True)
class Unit:
    """One block at the top level: its lines, its tokens."""

    kind: str
    start: int
    end: int
    tokens: list[Token]


@dataclass(slots=True)
class Block:
    """One finished block: its source, its HTML, and what it asked for that may still be defined.

    A footnote's definition has no HTML of its own in its place; `note` is what it says.
    """

    source: str
    html: str
    misses: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    note: str | None = None
    lines: int = 1


@dataclass(slots=True)
class Document:
    """The definitions of one text, and how a part of it is rendered with what is known."""

    document_id: str
    image_hosts: Collection[str] = ()
    env: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.env = {
            "references": _Definitions(),
            "footnotes": {"refs": Numbers(), "list": {}},
            "asked": set(),
            "colours": Budget(),
            "docId": self.document_id,
            "image_hosts": self.image_hosts,
        }

    def draft(self) -> Self:
        """The same, to show a text that is still growing: what it defines is forgotten."""
        other = copy.copy(self)
        notes = self.env["footnotes"]
        few = len(notes["refs"]) <= MOST_DRAFT_NOTES
        other.env = self.env | {
            "references": _Definitions(self.env["references"]),
            "footnotes": {
                "refs": Numbers(notes["refs"]) if few else Numbers(),
                "list": {number: dict(note) for number, note in notes["list"].items()} if few else {},
            },
            "asked": set(),
        }
        return other

    def units(self, source: str) -> list[Unit]:
        """The blocks of a text, before what is inside them is read."""
        return units(source, self.env)

    def blocks(self, source: str, found: Sequence[Unit] = ()) -> list[Block]:
        """The finished blocks of a text that begins and ends with whole blocks; `found` are these, once read."""
        if (html := words.whole_paragraph(source)) is not None:
            return [Block(source, html)]
        found = found or self.units(source)
        starts = line_starts(source)
        cuts = [starts[unit.start] for unit in found] + [len(source)]
        return [self._block(unit, source[cuts[n] : cuts[n + 1]]) for n, unit in enumerate(found)]

    def _block(self, unit: Unit, source: str) -> Block:
        note = unit.kind == NOTE
        html, misses, asked = self.rendered(unit.tokens[1:-1] if note else unit.tokens)
        return Block(source, "" if note else html, misses, asked, html if note else None, lines_of(unit.kind, source))

    def again(self, block: Block) -> list[Token]:
        """Render a block anew with what is known now; its tokens."""
        tokens = [token for unit in self.units(block.source) for token in unit.tokens]
        html, block.misses, block.asked = self.rendered(tokens)
        block.html = html if block.note is None else ""
        return tokens

    def notes(self, tokens: list[Token]) -> Block:
        """The footnotes that were asked for, from the tokens of all that were defined."""
        state = StateCore("", PARSER, self.env, tokens)
        footnote_tail(state)
        return Block("", self.html(state.tokens))

    def rendered(self, tokens: list[Token]) -> tuple[str, frozenset[str], frozenset[str]]:
        """Safe HTML of a block's tokens, the link labels it missed and the notes it asked for."""
        self.env["references"].misses = set()
        self.env["asked"] = set()
        self.read(tokens)
        html = self.html(tokens)
        return html, frozenset(self.env["references"].misses), frozenset(self.env["asked"])

    def read(self, tokens: list[Token]) -> None:
        """Read what is inside blocks."""
        PARSER.inline_phase(tokens, self.env)

    def html(self, tokens: list[Token]) -> str:
        return cleaned(PARSER.renderer.render(tokens, PARSER.options, self.env), images=bool(self.image_hosts))


def units(source: str, env: dict[str, Any]) -> list[Unit]:
    """The blocks of a text, before what is inside them is read."""
    tokens: list[Token] = []
    PARSER.block.parse(source, PARSER, env, tokens)
    found: list[Unit] = []
    opened = 0
    for token in tokens:
        if opened == 0:
            start, end = token.map or [0, 0]
            found.append(Unit(token.type, start, end, []))
        found[-1].tokens.append(token)
        opened += token.nesting
    return found


def lines_of(kind: str, source: str) -> int:
    """How many lines of Markdown a block has: code costs little, and blank lines nothing."""
    return 1 if kind in ("fence", "code_block") else source.strip(" \t\n").count("\n") + 1


def line_starts(source: str) -> list[int]:
    """Where each line begins."""
    return list(accumulate((len(line) + 1 for line in source.split("\n")), initial=0))
