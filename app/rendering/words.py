"""Plain words: text that means itself in Markdown, whatever stands around it. Most of what is said is this.

Such text needs no parser and no cleaner: no marker of Markdown is in it, nothing that is escaped, and no address
(those need a slash, an at sign, or "www"). A paragraph of it begins with a letter, so that it is no item of a list.
"""

import re

_CHARACTERS = r"""[\w ,.;:?!'"()%+=-]*"""
_MORE = re.compile(_CHARACTERS)
_LINE = re.compile(r" {0,3}[^\W\d_]" + _CHARACTERS)
_WHOLE = re.compile(rf"({_LINE.pattern})[ \t\n]*")
_ENDED = re.compile(rf"({_LINE.pattern})\n(?:[ \t]*\n)+")


def are_words(text: str) -> bool:
    """Whether a text is the beginning of such a paragraph."""
    return _LINE.fullmatch(text) is not None and _harmless(text)


def goes_on(before: str, piece: str) -> bool:
    """Whether a piece goes on with plain words."""
    return _MORE.fullmatch(piece) is not None and _harmless(before[-2:] + piece)


def paragraph(text: str) -> str:
    """The HTML of a paragraph that is growing, without a line end."""
    return f'<p dir="auto">{text.strip(" ")}</p>'


def whole_paragraph(source: str) -> str | None:
    """The HTML of a block that is one line of plain words; None for all else."""
    found = _WHOLE.fullmatch(source)
    return f"{paragraph(found[1])}\n" if found and _harmless(found[1]) else None


def ended_paragraph(source: str) -> int:
    """How much of a text is such a line with a blank one after it; 0 where it does not begin so."""
    found = _ENDED.match(source)
    return found.end() if found and _harmless(found[1]) else 0


def _harmless(text: str) -> bool:
    return "_" not in text and "www" not in text.lower()
