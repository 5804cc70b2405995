"""A page in small: applies changes as a browser does, each target looked up before anything is changed."""

import re

from dom import Element, parse

from app.rendering.answer import Answer
from app.rendering.changes import Change

_STEP = re.compile(r"([a-z0-9]+)?(?:#([\w-]+))?(?:\.([\w-]+))?(?::(last-child|nth-child\((\d+)\)))?$")


class Page:
    """The body of one message."""

    def __init__(self, document_id: str, inside: str = "") -> None:
        self.root = parse(f'<div id="body-{document_id}">{inside}</div>')

    @property
    def body(self) -> Element:
        return next(element for element in self.root if element is not self.root)

    def apply(self, changes: list[Change]) -> None:
        targets = [self._find(change.target) for change in changes]
        for change, target in zip(changes, targets, strict=True):
            assert target.parent is not None
            children = parse(change.html).children
            match change.swap:
                case "beforebegin":
                    target.replace(*children, target)
                case "outerHTML":
                    target.replace(*children)
                case "delete":
                    target.replace()
                case "innerHTML":
                    target.children.clear()
                    target.add(*children)
                case "beforeend":
                    target.add(*children)

    def _find(self, selector: str) -> Element:
        first, *steps = selector.split(" > ")
        found = next(element for element in self.root if element.get("id") == first.removeprefix("#"))
        for step in steps:
            tag, _, name, place, number = _STEP.fullmatch(step).groups()  # type: ignore[union-attr]
            children = [child for child in found.children if isinstance(child, Element)]
            if place:
                children = [children[int(number) - 1 if number else -1]]
            (found,) = [
                child
                for child in children
                if (not tag or child.tag == tag) and (not name or name in (child.get("class") or "").split())
            ]
        return found


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


def played(pieces: list[str], document_id: str = "m1", check_each: bool = False) -> tuple[Answer, Page]:
    """An answer and the page that showed it."""
    answer = Answer(document_id)
    page = Page(document_id, answer.page)
    for piece in pieces:
        page.apply(answer.feed(piece))
        if check_each:
            assert shape(page.body) == shape(Page(document_id, answer.page).body)
    page.apply(answer.end())
    return answer, page
