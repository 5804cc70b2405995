"""What a text of Markdown leaves open at its end, so that something else can follow it."""

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

_COMMONMARK = MarkdownIt("commonmark")
_MAY_STAY_OPEN = re.compile(r"```|~~~|<[!?a-zA-Z]")
_NEXT = "What follows."
_CLOSERS = (("<!--", "-->"), ("<?", "?>"), ("<![CDATA[", "]]>"), ("<!", ">"))
_RAW = re.compile(r"\s*<(script|pre|style|textarea)\b", re.IGNORECASE)


def closed(text: str) -> str:
    """The text, with the line that ends its last code block or HTML where that is missing; else as it is."""
    if not _MAY_STAY_OPEN.search(text):
        return text
    last = _last_block(f"{text}\n\n{_NEXT}")
    if last.type == "fence":
        return f"{text}\n{last.markup}"
    if last.type == "html_block":
        raw = _RAW.match(last.content)
        begin = last.content.lstrip()
        closer = f"</{raw[1]}>" if raw else next((end for start, end in _CLOSERS if begin.startswith(start)), "")
        return f"{text}\n{closer}"
    return text


def _last_block(text: str) -> Token:
    tokens: list[Token] = []
    _COMMONMARK.block.parse(text, _COMMONMARK, {}, tokens)
    return tokens[-1]
