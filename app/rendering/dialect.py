"""The dialect of Markdown that answers are read in: CommonMark and GFM, decidable line by line.

Streamed text is shown block by block and must come out as the whole text does. So no rule may look ahead or
back over a blank line, and raw HTML is text: see docs/rendering.md for each difference and its reason.
"""

from collections.abc import MutableMapping, Sequence
from types import SimpleNamespace
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.helpers import parseLinkDestination, parseLinkTitle
from markdown_it.rules_block import StateBlock, blockquote, list_block, reference, table
from markdown_it.rules_core import StateCore, inline, text_join
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Delimiter
from markdown_it.token import Token
from markupsafe import escape

from app.rendering import bounds
from app.rendering.addresses import allowed, bare_addresses, host_of
from app.rendering.code import framed, language_of
from app.rendering.footnotes import footnotes
from app.rendering.formulas import formulas

_INTERRUPTS = ["paragraph", "reference", "blockquote"]


class Dialect(MarkdownIt):
    """The one parser, for whole and for growing texts."""

    def __init__(self) -> None:
        options = {"html": False, "xhtmlOut": False, "inline_definitions": True, "tasklists": True, "alerts": True}
        super().__init__("commonmark", options)
        self.enable(["table", "strikethrough"])
        self.helpers: Any = SimpleNamespace(
            parseLinkLabel=_link_label, parseLinkDestination=parseLinkDestination, parseLinkTitle=parseLinkTitle
        )
        for plugin in (formulas, bare_addresses, footnotes, _blocks, _finish, _look):
            plugin(self)

    def validateLink(self, url: str) -> bool:  # noqa: N802
        return allowed(url)

    def normalizeLink(self, url: str) -> str:  # noqa: N802
        try:
            return super().normalizeLink("https:" + url if url.startswith("//") else url)
        except ValueError:
            return ""

    def inline_phase(self, tokens: list[Token], env: MutableMapping[str, Any]) -> None:
        """What comes after the block phase, for a part of a document."""
        state = StateCore("", self, env, tokens)
        for rule in (inline, *_AFTER_INLINE, text_join):
            rule(state)


def _blocks(md: MarkdownIt) -> None:
    rules = md.block.ruler
    rules.at("table", _table, {"alt": ["paragraph", "reference"]})
    rules.at("reference", _one_line_reference)
    rules.at("blockquote", _bounded(blockquote), {"alt": [*_INTERRUPTS, "list"]})
    rules.at("list", _bounded(list_block), {"alt": _INTERRUPTS})


def _bounded(rule: Any) -> Any:
    """Deeper than anyone writes, the markers are shown as text: the library would drop what is in there."""

    def limited(state: StateBlock, start: int, end: int, silent: bool) -> bool:
        last = end if state.level else min(end, start + bounds.LINES)
        return state.level < bounds.LEVELS and rule(state, start, last, silent)

    return limited


def _one_line_reference(state: StateBlock, start: int, _: int, silent: bool) -> bool:
    # A title that goes on in the next lines would turn finished blocks into a title afterwards.
    last, state.lineMax = state.lineMax, start + 1
    try:
        return reference(state, start, start + 1, silent)
    finally:
        state.lineMax = last


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    line = state.src[state.bMarks[start] : state.eMarks[start]]
    columns = line.count("|") + 1
    if not 2 <= columns <= bounds.COLUMNS + 2:
        return False
    rows = min(bounds.CELLS // columns, bounds.LINES)
    return table(state, start, min(end, start + 2 + rows), silent)


def _link_label(state: StateInline, start: int, disable_nested: bool = False) -> int:
    """The end of a link's text, as the library finds it, but with a bound on the steps taken for one text.

    Without one, ten thousand brackets that are never closed take seconds.
    """
    before, state.pos, level = state.pos, start + 1, 1
    found = -1
    while state.pos < state.posMax and _may_step(state):
        if state.src[state.pos] == "]":
            level -= 1
            if level == 0:
                found = state.pos
                break
        here = state.pos
        state.md.inline.skipToken(state)
        if state.src[here] == "[":
            if state.pos == here + 1:
                level += 1
            elif disable_nested:
                break
    state.pos = before
    return found


def _may_step(state: StateInline) -> bool:
    # The library's cache of skipped tokens lives as long as one text does, and its keys are positions.
    taken = state.cache.get(-1, 0) + 1
    state.cache[-1] = taken
    return taken < bounds.STEPS * len(state.src) + 200


def _tasks(state: StateCore) -> None:
    """A box at the beginning of an item's text."""
    for item, opening, content in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        if item.type == "list_item_open" and "checked" in item.meta and opening.type == "paragraph_open":
            box = Token("task", "", 0)
            box.meta = item.meta
            content.children = [box, *(content.children or [])]


_TURNING = {
    "paragraph_open",
    "heading_open",
    "bullet_list_open",
    "ordered_list_open",
    "blockquote_open",
    "table_open",
}


def _direction(state: StateCore) -> None:
    """Each block takes its direction from its own text; what is inside it is set by the style sheet."""
    for token in state.tokens:
        if token.level == 0 and token.type in _TURNING | {"alert_open"}:
            token.attrSet("dir", "auto")
        if token.type in ("heading_open", "heading_close"):
            # Below the headings of the page: a conversation is h1, a message h2.
            level = int(token.tag[1])
            token.tag = f"h{min(level + 2, 6)}"
            if token.nesting == 1:
                token.attrSet("class", f"heading-{level}")


def _close_what_is_open(state: StateInline) -> None:
    """In text that is still growing: what is opened at its end is shown as if it were closed there."""
    if state.src != state.env.get("growing"):
        return
    for index in range(len(state.delimiters) - 1, -1, -1):
        opener = state.delimiters[index]
        if not opener.open or opener.end >= 0:
            continue
        state.push("text", "", 0).content = state.tokens[opener.token].content
        opener.end = len(state.delimiters)
        closer = Delimiter(opener.marker, opener.length, len(state.tokens) - 1, -1, open=False, close=True)
        state.delimiters.append(closer)


def _linked_images(state: StateCore) -> None:
    """Mark the pictures inside links: what stands for them must not be a link again."""
    for token in state.tokens:
        depth = 0
        for child in token.children or []:
            depth += child.nesting if child.type in ("link_open", "link_close") else 0
            if child.type == "image":
                child.meta["linked"] = depth > 0


_AFTER_INLINE = (_tasks, _direction, _linked_images)


def _finish(md: MarkdownIt) -> None:
    md.inline.ruler2.after("balance_pairs", "growing", _close_what_is_open)
    for rule in reversed(_AFTER_INLINE):
        md.core.ruler.after("inline", rule.__name__, rule)


def _look(md: MarkdownIt) -> None:
    for name in ("th_open", "td_open"):
        md.add_render_rule(name, _aligned)
    for name in ("alert_open", "alert_title_open"):
        md.add_render_rule(name, _alert)
    md.add_render_rule("definition", lambda *_: "")
    md.add_render_rule("list_item_open", lambda self, *rest: self.renderToken(*rest))
    md.add_render_rule("task", _task)
    md.add_render_rule("fence", _code)
    md.add_render_rule("code_block", _code)
    md.add_render_rule("code_inline", _code_inline)
    md.add_render_rule("image", _image)
    md.add_render_rule("link_open", _link_open)


def _aligned(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Table alignment as a class: the content policy blocks style attributes."""
    style = tokens[index].attrs.pop("style", "")
    if style:
        tokens[index].attrSet("class", "align-" + str(style).removeprefix("text-align:"))
    return str(self.renderToken(tokens, index, options, env))


def _alert(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    token.attrSet("class", str(token.attrs["class"]).replace("markdown-alert", "alert"))
    return str(self.renderToken(tokens, index, options, env))


def _task(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    done = tokens[index].meta["checked"]
    return f'<span class="task" role="img" aria-label="{"done" if done else "to do"}">{"☑" if done else "☐"}</span> '


def _code(_: Any, tokens: Sequence[Token], index: int, __: Any, env: Any) -> str:
    token = tokens[index]
    return framed(token.content, language_of(token.info), env["colours"])


def _code_inline(_: Any, tokens: Sequence[Token], index: int, *__: Any) -> str:
    # Left to right also in Arabic text, and no part of what decides a block's direction.
    return f'<code dir="ltr">{escape(tokens[index].content)}</code>'


def _link_open(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    if not tokens[index].attrs.get("href"):
        tokens[index].attrs.pop("href", None)
    return str(self.renderToken(tokens, index, options, env))


def _image(self: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """A picture is a request to another host, and its address can carry what was said: a link, unless allowed."""
    token = tokens[index]
    source, title = str(token.attrs.get("src", "")), str(token.attrs.get("title", ""))
    words = self.renderInlineAsText(token.children, options, env) or title or source
    titled = f' title="{escape(title)}"' if title else ""
    if host_of(source) in env["image_hosts"]:
        return (
            f'<img src="{escape(source)}" alt="{escape(words)}"{titled} loading="lazy" referrerpolicy="no-referrer">'
        )
    if token.meta["linked"] or not source:
        return f'<span class="image-link"{titled}>{escape(words)}</span>'
    return f'<a class="image-link" href="{escape(source)}"{titled}>{escape(words)}</a>'
