"""Text of a model or a person to safe HTML. Markdown first, cleaned after: never the other way round."""

import nh3
from markdown_it import MarkdownIt
from markupsafe import Markup

_ATTRIBUTES = {
    "a": {"href", "title"},
    "code": {"class"},
    "ol": {"start"},
    "th": {"class"},
    "td": {"class"},
}
_TAGS = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong", "s"),
    *("ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"),
}


def _markdown() -> MarkdownIt:
    # HTML stays text ("List<String>" is what was meant); images would be requests to other hosts.
    parser = MarkdownIt("commonmark", {"html": False, "linkify": True, "breaks": False})
    parser.enable(["table", "strikethrough", "linkify"]).disable("image")
    parser.add_render_rule("th_open", _aligned)
    parser.add_render_rule("td_open", _aligned)
    return parser


def _aligned(self, tokens, idx, options, env):  # type: ignore[no-untyped-def]
    """Table alignment as a class: the content policy blocks style attributes."""
    style = tokens[idx].attrs.pop("style", "")
    if style:
        tokens[idx].attrSet("class", "align-" + style.removeprefix("text-align:"))
    return self.renderToken(tokens, idx, options, env)


_PARSER = _markdown()
_CLEANER = nh3.Cleaner(
    tags=_TAGS,
    attributes=_ATTRIBUTES,
    url_schemes={"http", "https", "mailto"},
    link_rel="noopener noreferrer nofollow",
    # htmx reads data-hx-… attributes, so none may pass.
    generic_attribute_prefixes=set(),
)


def render_markdown(text: str) -> Markup:
    """Safe HTML of a Markdown text. Takes any text, never raises for its content."""
    text = text.encode("utf-8", "replace").decode("utf-8")  # a half of a surrogate pair can't be cleaned
    return Markup(_CLEANER.clean(_PARSER.render(text)))  # noqa: S704  (cleaned in this very line)
