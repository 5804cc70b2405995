"""Where a formula begins and ends in Markdown: `$…$`, `$$…$$`, `\\(…\\)`, `\\[…\\]`. Prices are not formulas.

No rule here searches beyond a blank line, and the block rule goes line by line, as a fence does: one that
searched ahead for its closer would take back blocks that a reader has already been shown.
"""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markupsafe import escape

from app.rendering.maths import LONGEST, formula

_CLOSERS = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}
_DOLLARS = re.compile(r"\$((?:[^$\\]|\\.)+)\$(?!\d)", re.DOTALL)
_LINE_END = re.compile(r"(\$\$|\\\])[.,;:]?$")
# An amount and then words: "$5 (or 5$".
_AMOUNT = re.compile(r"\d[\d.,]*[kKmMbB]?\b")
_COMMANDS = re.compile(r"\\[A-Za-z]+|\{[^{}]*\}")
_WORD = re.compile(r"[^\W\d_]{2,}")


def formulas(md: MarkdownIt) -> None:
    """Teach a parser to find formulas."""
    md.inline.ruler.before("escape", "math", _inline)
    md.block.ruler.before("fence", "math_block", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})
    md.add_render_rule("math", _render_inline)
    md.add_render_rule("math_block", _render_block)


def _inline(state: StateInline, silent: bool) -> bool:
    opener = state.src[state.pos : min(state.pos + 2, state.posMax)]
    if opener in _CLOSERS:
        found = _enclosed(state, opener)
    elif opener[0] == "$":
        opener, found = "$", _dollars(state)
    else:
        return False
    if found is None:
        return False
    if not silent:
        token = state.push("math", "math", 0)
        token.content = found
        token.markup = opener
    state.pos += len(found) + 2 * len(opener)
    return True


def _enclosed(state: StateInline, opener: str) -> str | None:
    start = state.pos + 2
    end = state.src.find(_CLOSERS[opener], start, min(state.posMax, start + LONGEST))
    content = state.src[start:end]
    return content if end >= 0 and content.strip() else None


def _dollars(state: StateInline) -> str | None:
    before = state.src[state.pos - 1] if state.pos else " "
    found = _DOLLARS.match(state.src, state.pos, min(state.posMax, state.pos + LONGEST))
    if found is None or before in "\\$" or (before.isascii() and before.isalnum()):
        return None
    if state.src[found.end() : found.end() + 1].isdecimal():
        return None
    content = found[1]
    return None if content != content.strip() or _is_price(content) else content


def _is_price(content: str) -> bool:
    return bool(_AMOUNT.match(content) and _WORD.search(_COMMANDS.sub(" ", content)))


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]].rstrip()
    opener = first[:2]
    if opener not in ("$$", "\\[") or first.startswith("$$$"):
        return False
    closer = _CLOSERS[opener]
    if closer in first[2:] and not (
        _closed_by(first, closer) and first[2:].count(closer) == 1 and first[2:-3].strip()
    ):
        return False
    if silent:
        return True
    last, closed = start, closer in first[2:]
    while not closed and last + 1 < end and not state.isEmpty(last + 1) and state.sCount[last + 1] >= state.blkIndent:
        last += 1
        closed = _closed_by(state.src[state.bMarks[last] : state.eMarks[last]].rstrip(), closer)
    _push(state, start, last + 1, closer if closed else "")
    return True


def _closed_by(line: str, closer: str) -> bool:
    found = _LINE_END.search(line)
    return bool(found and found[1] == closer)


def _push(state: StateBlock, start: int, end: int, closer: str) -> None:
    token = state.push("math_block", "math", 0)
    token.content = state.getLines(start, end, state.blkIndent, False).strip()
    token.markup = closer
    token.map = [start, end]
    state.line = end


def _render_inline(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    token = tokens[index]
    display = token.markup in ("$$", "\\[")
    return formula(token.content, token.markup, _CLOSERS.get(token.markup, "$"), display=display)


def _render_block(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    token, source = tokens[index], tokens[index].content
    if not token.markup:
        return f'<p class="math-source" dir="auto">{escape(source)}</p>\n'
    end = source.rindex(token.markup)
    inside = formula(source[2:end], source[:2], token.markup, display=True)
    return f'<div class="math-block" dir="ltr">{inside}{escape(source[end + 2 :])}</div>\n'
