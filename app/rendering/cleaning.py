"""The last step of every rendering: only known elements, attributes, classes and addresses pass."""

import nh3

from app.rendering.code import CLASSES as CODE_CLASSES
from app.rendering.maths import ATTRIBUTES as MATH_ATTRIBUTES
from app.rendering.maths import ELEMENTS as MATH_ELEMENTS

_TAGS = {
    *("p", "br", "hr", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em", "strong", "s", "ul", "ol", "li"),
    *("a", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "sup", "section", "button"),
}
_ALIGNED = {"align-left", "align-center", "align-right"}
_ALERTS = {f"alert-{kind}" for kind in ("note", "tip", "important", "warning", "caution")}
_CLASSES = {
    "a": {"image-link", "footnote-backref"},
    "button": {"code-copy", "js-only"},
    "code": {"math-source"},
    "div": {"code-block", "code-head", "math-block", "alert"} | _ALERTS,
    "li": {"footnote-item", "task-list-item"},
    "ol": {"footnotes-list", "contains-task-list"},
    "p": {"alert-title", "math-source", "tail-rest"},
    "section": {"footnotes"},
    "span": {"code-language", "image-link", "task", *CODE_CLASSES},
    "sup": {"footnote-ref"},
    "td": _ALIGNED,
    "th": _ALIGNED,
    "ul": {"contains-task-list"},
    **{f"h{level}": {f"heading-{n}" for n in range(1, 7)} for level in range(3, 7)},
}
_BLOCKS = ("p", "h3", "h4", "h5", "h6", "blockquote", "ul", "table", "section", "div", "code")
_ATTRIBUTES: dict[str, set[str]] = {
    **{tag: {"dir"} for tag in _BLOCKS},
    "a": {"href", "title", "id", "aria-label"},
    "li": {"id"},
    "ol": {"start", "dir"},
    "span": {"role", "aria-label", "title"},
    **{element: set(MATH_ATTRIBUTES) for element in MATH_ELEMENTS},
}
# The one place where data-* passes, and only as this very attribute: htmx reads data-hx-….
_VALUES = {"button": {"type": {"button"}, "data-copy-code": {""}}}
_IMAGE = {"src", "alt", "title", "loading", "referrerpolicy"}


def _cleaner(images: bool) -> nh3.Cleaner:
    return nh3.Cleaner(
        tags=_TAGS | MATH_ELEMENTS | ({"img"} if images else set()),
        attributes=_ATTRIBUTES | ({"img": _IMAGE} if images else {}),
        tag_attribute_values=_VALUES,
        allowed_classes=_CLASSES,
        url_schemes={"http", "https", "mailto"},
        # What scrolls sideways must be reached by keyboard.
        set_tag_attribute_values={"pre": {"tabindex": "0"}, "table": {"tabindex": "0"}},
        link_rel="noopener noreferrer nofollow",
        generic_attribute_prefixes=set(),
    )


# Built once: building one takes longer than cleaning a paragraph.
_PLAIN = _cleaner(images=False)
_WITH_IMAGES = _cleaner(images=True)


def cleaned(html: str, *, images: bool = False) -> str:
    """Safe HTML of HTML that may be anything."""
    return (_WITH_IMAGES if images else _PLAIN).clean(html)
