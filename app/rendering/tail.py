"""What a reader sees of the block that is still open: readable, and never a half mark.

Items of a list and rows of a table that are complete are kept as they were shown; only the last is rendered
again. That is for showing alone: the finished block is rendered from its source.
"""

import re

from markupsafe import escape

from app.rendering.blocks import Blocks
from app.rendering.code import CLOSING, language_of, opening
from app.rendering.document import NOTE, Document, Unit, line_starts
from app.rendering.repairs import repaired

# More than this of one item or paragraph is appended as it comes, until it ends.
LARGEST = 8_192
_OFTEN = 2_048
_REST = '<p class="tail-rest" dir="auto">'
_LISTS = ("bullet_list_open", "ordered_list_open")
# Text that means itself whatever stands around it, once it begins with a letter: no marker of Markdown, nothing
# that is escaped, and no address (those need a slash, an at sign, or this beginning).
_WORDS = re.compile(r""" {0,3}[^\W\d_][\w ,.;:?!'"()%+=-]*""")
_MORE_WORDS = re.compile(r"""[\w ,.;:?!'"()%+=-]*""")
_NO_WORDS = ("_", "www")
_PARAGRAPH = '<p dir="auto">', "</p>"


class Tail:
    """The open end of one text. `html` is how it was shown last, `fixed` its part before the last item or row."""

    def __init__(self, document: Document) -> None:
        self.html = self.fixed = ""
        self._document = document
        self._block, self._shown = -1, 0
        self._kept, self._kept_to = "", 0
        self._plain: _Plain | None = None
        self._words_to = -1

    def words(self, blocks: Blocks, piece: str) -> str | None:
        """What a piece of plain words adds to a shown paragraph of plain words; None where more must be looked at.

        Call it before the piece is fed to the blocks. Costs microseconds, not milliseconds.
        """
        source = blocks.open
        grown = source + piece
        if self._block != len(blocks.finished) or len(grown) > LARGEST:
            return None
        if self._words_to != len(source) and not self._is_words(source):
            return None
        if not _MORE_WORDS.fullmatch(piece) or "_" in piece or "www" in grown[max(len(source) - 2, 0) :].lower():
            return None
        shown = len(self.html) - len("".join(_PARAGRAPH))
        added = grown.strip(" ")[shown:]
        self.html = self.html.removesuffix(_PARAGRAPH[1]) + added + _PARAGRAPH[1]
        self._words_to = len(grown)
        return added

    def _is_words(self, source: str) -> bool:
        """Whether all that is open is shown, and is such a paragraph."""
        plain = _WORDS.fullmatch(source) and not any(mark in source.lower() for mark in _NO_WORDS)
        return bool(plain) and self.html == source.strip(" ").join(_PARAGRAPH)

    def show(self, blocks: Blocks) -> str:
        """Show what is open now."""
        source = blocks.open
        self._words_to = -1
        if len(blocks.finished) != self._block:
            self._begin(len(blocks.finished))
        if fence := blocks.open_fence():
            self.html = self._code(source, fence)
        elif blocks.full and not self._plain:
            self._plain = _Plain(_REST, "</p>", len(source) - len(source.lstrip("\n")))
            self.html = self._plain.grown(source) if source.strip() else ""
        elif self._plain:
            self.html = self._plain.grown(source)
        elif len(source) - self._kept_to > LARGEST:
            self.html = self._overflow(source)
        elif self._worth_it(source):
            self._shown = len(source)
            self.html = self._rendered(source)
        return self.html

    def _begin(self, block: int) -> None:
        self._block = block
        self._shown = 0
        self._kept, self._kept_to = "", 0
        self.fixed = ""
        self._plain = None

    def _worth_it(self, source: str) -> bool:
        live = len(source) - self._kept_to
        return live < _OFTEN or len(source) - self._shown >= live // 64 or source.endswith("\n")

    def _code(self, source: str, fence: str) -> str:
        first = source.index("\n") + 1
        if self._plain is None:
            info = source[:first].strip()[len(fence) :]
            self._plain = _Plain(opening(language_of(info)), CLOSING, first)
        last = source.rfind("\n") + 1
        begun = source[last:].strip()
        # The line that may be about to close it waits.
        end = last if begun and not begun.strip(fence[0]) else len(source)
        return self._plain.grown(source[:end])

    def _overflow(self, source: str) -> str:
        """The beginning as Markdown, the rest as it comes."""
        limit = self._kept_to + LARGEST
        cut = max(source.rfind(mark, self._kept_to, limit) + 1 for mark in "\n ") or limit
        before = self._rendered(source[:cut])
        self._plain = _Plain(before + _REST, "</p>", cut)
        return self._plain.grown(source)

    def _rendered(self, source: str) -> str:
        live = repaired(source[self._kept_to :])
        draft = self._document.draft()
        units = draft.units(live)
        if not units:
            return self.html if self._kept else ""
        texts = [token.content for unit in units for token in unit.tokens if token.type == "inline"]
        # Colours come when the code is complete.
        draft.env |= {"growing": texts[-1] if texts else None, "colours": None}
        if self._kept and units[0].kind not in _LISTS:
            # What looked like the next item has become something else.
            self._kept, self._kept_to = "", 0
            return self._rendered(source)
        return "".join(self._unit(draft, unit, live, first=unit is units[0]) for unit in units).rstrip("\n")

    def _unit(self, draft: Document, unit: Unit, live: str, *, first: bool) -> str:
        tokens = unit.tokens[1:-1] if unit.kind == NOTE else unit.tokens
        draft.read(tokens)
        if not first or unit.kind not in _LISTS:
            html = draft.html(tokens)
            self.fixed = html[: max(html.rfind("<tr>\n"), 0)] if unit.kind == "table_open" and first else ""
            return html
        last = max(n for n, token in enumerate(tokens) if token.type == "list_item_open" and token.level == 1)
        begun = self._kept or draft.html(tokens[:1]).split(">")[0] + ">\n"
        ending = f"</{tokens[0].tag}>\n"
        growing = draft.html(tokens[last:-1])
        draft.env["colours"] = self._document.env["colours"]
        begun += draft.html(tokens[1:last])
        self.fixed = begun
        if last > 1:
            self._kept, self._kept_to = begun, self._kept_to + line_starts(live)[(tokens[last].map or [0])[0]]
        return begun + growing + ending


class _Plain:
    """Text that is only added to: escaped once, never rendered."""

    def __init__(self, before: str, after: str, start: int) -> None:
        self._html, self._after, self._upto = before, after, start

    def grown(self, source: str) -> str:
        new = source[self._upto :]
        self._html += str(escape(new))
        self._upto += len(new)
        return self._html + self._after
