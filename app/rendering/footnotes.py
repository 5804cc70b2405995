"""Footnotes: defined at the top level only, numbered in the order in which they are asked for."""

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.footnote.index import footnote_def

_REFERENCE = re.compile(r"\[\^([^\s\]]{1,100})\]")


class Numbers(dict[str, int]):
    """Labels and their numbers, -1 while none is given. Defining a label again takes no number away."""

    def __setitem__(self, label: str, number: int) -> None:
        if number >= 0 or label not in self:
            super().__setitem__(label, number)

    def reset(self) -> "Numbers":
        """The same labels, none numbered."""
        return Numbers(dict.fromkeys(self, -1))


def footnotes(md: MarkdownIt) -> None:
    """Teach a parser footnotes."""
    footnote_plugin(md, inline=False)
    md.block.ruler.at("footnote_def", _definition, {"alt": ["paragraph", "reference"]})
    md.inline.ruler.at("footnote_ref", _reference)
    md.add_render_rule("footnote_block_open", _section_open)
    md.add_render_rule("footnote_caption", lambda _, tokens, index, *__: f"[{tokens[index].meta['id'] + 1}]")
    md.add_render_rule("footnote_anchor", _back)


def _definition(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    # Inside a list or a quote the plugin drops tokens and leaves their closers behind.
    return state.level == 0 and footnote_def(state, start, end, silent)


def _reference(state: StateInline, silent: bool) -> bool:
    found = _REFERENCE.match(state.src, state.pos, state.posMax)
    if not found:
        return False
    label, notes = found[1], state.env["footnotes"]
    # Kept with the block: it must be rendered again should the note be defined later.
    state.env["asked"].add(label)
    number = notes["refs"].get(":" + label)
    if number is None:
        return False
    if not silent:
        if number < 0:
            number = notes["refs"][":" + label] = len(notes["list"])
            notes["list"][number] = {"label": label, "count": 0}
        token = state.push("footnote_ref", "", 0)
        token.meta = {"id": number, "subId": notes["list"][number]["count"], "label": label}
        notes["list"][number]["count"] += 1
    state.pos = found.end()
    return True


def _section_open(*_: Any) -> str:
    return '<section class="footnotes" dir="auto">\n<ol class="footnotes-list">\n'


def _back(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    name = self.rules["footnote_anchor_name"](tokens, index, options, env)
    again = tokens[index].meta["subId"]
    target = f"{name}:{again}" if again > 0 else name
    return f' <a href="#fnref{target}" class="footnote-backref" aria-label="Back to the text">↩︎</a>'
