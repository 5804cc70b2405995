"""A small document: parses HTML, finds elements, and applies htmx's partials as a browser would."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Self

VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)


@dataclass(eq=False)
class Element:
    """One element, its attributes and its children (elements and texts)."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list["Element | str"] = field(default_factory=list)
    parent: "Element | None" = None

    @property
    def text(self) -> str:
        """All text within, as it is."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    @property
    def body(self) -> str:
        """The text of a message or a page, without the line ends that only set out the markup."""
        return self.text.strip("\n")

    @property
    def elements(self) -> list["Element"]:
        """The children that are elements."""
        return [child for child in self.children if isinstance(child, Element)]

    def __getitem__(self, attribute: str) -> str:
        return self.attributes[attribute]

    def get(self, attribute: str, default: str | None = None) -> str | None:
        return self.attributes.get(attribute, default)

    def __iter__(self) -> Iterator["Element"]:
        """This element and all below it, in tree order."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child

    def all(self, tag: str | None = None, **attributes: str) -> list["Element"]:
        """Elements by tag and attributes (`data_testid="message"` means data-testid)."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [
            element
            for element in self
            if (tag is None or element.tag == tag)
            and all(element.get(name) == value for name, value in wanted.items())
        ]

    def one(self, tag: str | None = None, **attributes: str) -> "Element":
        """The one such element; fails where there are none or several."""
        found = self.all(tag, **attributes)
        assert len(found) == 1, f"{len(found)} elements {tag or ''} {attributes}"
        return found[0]

    def test_id(self, name: str) -> "Element":
        """The one element with this data-testid."""
        return self.one(data_testid=name)

    def test_ids(self, name: str) -> list["Element"]:
        return self.all(data_testid=name)

    def add(self, *children: "Element | str") -> Self:
        for child in children:
            if isinstance(child, Element):
                child.parent = self
            self.children.append(child)
        return self

    def replace(self, *others: "Element | str") -> None:
        """Put others into this element's place."""
        assert self.parent is not None
        place = self.parent.children.index(self)
        for other in others:
            if isinstance(other, Element):
                other.parent = self.parent
        self.parent.children[place : place + 1] = others


def shape(element: Element) -> list[object]:
    """An element to compare: neighbouring texts are one, as they are after a reload."""
    inside: list[object] = []
    for child in element.children:
        if not isinstance(child, str):
            inside.append([child.tag, sorted(child.attributes.items()), shape(child)])
        elif child and inside and isinstance(inside[-1], str):
            inside[-1] += child
        elif child:
            inside.append(child)
    return inside


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#document")
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in reversed(attrs)})
        self._open[-1].add(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if any(element.tag == tag for element in self._open[1:]):
            while self._open.pop().tag != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._open[-1].add(data)


def parse(html: str) -> Element:
    """The document, or fragment, of a text."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    return builder.root


def apply(document: Element, fragment: Element) -> None:
    """Apply the partials of a fragment to a document, as the browser does.

    All targets are looked up before anything is changed, and a partial without its target is lost.
    """
    partials = fragment.all("hx-partial")
    for partial, target in [(partial, target_of(document, partial["hx-target"])) for partial in partials]:
        if target is not None:
            SWAPS[partial["hx-swap"].split()[0]](target, partial.children)


def target_of(document: Element, selector: str) -> Element | None:
    """By `#id`, `.class`, `tag`, places among siblings, and what is within those: what partials use."""
    found, inside = [document], False
    for step in selector.split():
        if step == ">":
            inside = True
            continue
        among = [inner for outer in found for inner in (outer.elements if inside else outer) if inner is not outer]
        found, inside = [element for element in among if _matches(element, step)], False
    return found[0] if found else None


_STEP = re.compile(r"([a-z0-9]+)?(?:#([\w-]+))?(?:\.([\w-]+))?(?::(?:(last-child)|nth-child\((\d+)\)))?")


def _matches(element: Element, step: str) -> bool:
    parsed = _STEP.fullmatch(step)
    assert parsed, step
    tag, id_, name, last, number = parsed.groups()
    siblings = element.parent.elements if element.parent else [element]
    return (
        (not tag or element.tag == tag)
        and (not id_ or element.get("id") == id_)
        and (not name or name in (element.get("class") or "").split())
        and (not last or siblings[-1] is element)
        and (not number or siblings.index(element) == int(number) - 1)
    )


def _inner(target: Element, children: list[Element | str]) -> None:
    target.children.clear()
    target.add(*children)


def _begin(target: Element, children: list[Element | str]) -> None:
    old, target.children = target.children, []
    target.add(*children, *old)


SWAPS: dict[str, Callable[[Element, list[Element | str]], object]] = {
    "beforeend": lambda target, children: target.add(*children),
    "afterbegin": _begin,
    "innerHTML": _inner,
    "outerHTML": lambda target, children: target.replace(*children),
    "beforebegin": lambda target, children: target.replace(*children, target),
    "afterend": lambda target, children: target.replace(target, *children),
    "delete": lambda target, children: target.replace(),
}
