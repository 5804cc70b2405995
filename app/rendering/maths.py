"""TeX to MathML. What can't be read is None, and its source is shown."""

import html
import re
from collections.abc import Iterator
from functools import lru_cache
from xml.etree.ElementTree import Element

from latex2mathml.converter import convert_to_element
from markupsafe import escape

LONGEST = 2_000
MOST_ELEMENTS = 5_000
ELEMENTS = frozenset(
    [
        *("math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "mfrac", "msqrt", "mroot", "msub", "msup", "msubsup"),
        *("munder", "mover", "munderover", "mtable", "mtr", "mtd", "mstyle", "mpadded", "mphantom", "menclose"),
        *("mmultiscripts", "mprescripts"),
    ]
)
ATTRIBUTES = frozenset(
    [
        *("display", "dir", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "form", "separator"),
        *("lspace", "rspace", "minsize", "maxsize", "movablelimits", "largeop", "symmetric", "accent", "accentunder"),
        *("linethickness", "width", "height", "depth", "voffset", "columnalign", "rowalign", "rowspacing"),
        *("columnspacing", "columnlines", "rowlines", "notation"),
    ]
)
# Definitions can grow without end; the others would set addresses and styles.
_REFUSED = re.compile(r"\\(?:(?:re|provide)?newcommand|providecommand|[egx]?def|let|href|url|style|class|cssId)\b")
_RENAMED = (
    (re.compile(r"\{aligned\}"), "{align*}"),
    (re.compile(r"\\begin\{gather(?:ed|\*)?\}"), r"\\begin{array}{c}"),
    (re.compile(r"\\end\{gather(?:ed|\*)?\}"), r"\\end{array}"),
)


def formula(tex: str, opener: str, closer: str, *, display: bool) -> str:
    """MathML of a formula, else its source as it was written."""
    return (
        mathml(tex.strip(), display) or f'<code class="math-source" dir="ltr">{escape(opener + tex + closer)}</code>'
    )


@lru_cache(maxsize=1024)
def mathml(tex: str, display: bool) -> str | None:
    """The `<math>` element of TeX, or None."""
    if not tex or len(tex) > LONGEST or _REFUSED.search(tex):
        return None
    for name, known in _RENAMED:
        tex = name.sub(known, tex)
    try:
        root = convert_to_element(tex, display="block" if display else "inline")
        elements = list(root.iter())
        if len(elements) > MOST_ELEMENTS or not all(_known(element) for element in elements):
            return None
        root.set("dir", "ltr")
        return "".join(_written(root))
    except Exception:
        return None


def _known(element: Element) -> bool:
    text = element.text or ""
    # An unknown command comes out as an identifier of its own name.
    return element.tag in ELEMENTS and not (text.startswith("\\") and len(text) > 1 and element.tag != "mtext")


def _written(element: Element) -> Iterator[str]:
    """Written here because the converter's own writer leaves what stands in `\\text{…}` unescaped."""
    attributes = "".join(
        f' {name}="{escape(value)}"' for name, value in element.attrib.items() if name in ATTRIBUTES and value
    )
    yield f"<{element.tag}{attributes}>{escape(html.unescape(element.text or ''))}"
    for child in element:
        yield from _written(child)
    yield f"</{element.tag}>"
