"""A page in small: applies changes as a browser does, each target looked up before anything is changed."""

from dom import SWAPS, Element, parse, shape, target_of

from app.rendering.answer import Answer
from app.rendering.changes import Change


class Page:
    """The body of one message."""

    def __init__(self, document_id: str, inside: str = "") -> None:
        self.root = parse(f'<div id="body-{document_id}">{inside}</div>')

    @property
    def body(self) -> Element:
        return next(element for element in self.root if element is not self.root)

    def apply(self, changes: list[Change]) -> None:
        targets = [target_of(self.root, change.target) for change in changes]
        for change, target in zip(changes, targets, strict=True):
            assert target is not None, f"lost: {change}"
            SWAPS[change.swap](target, parse(change.html).children)


def played(pieces: list[str], document_id: str = "m1", check_each: bool = False) -> tuple[Answer, Page]:
    """An answer and the page that showed it."""
    answer = Answer(document_id)
    page = Page(document_id, answer.page)
    for piece in pieces:
        changes = answer.feed_words(piece)
        page.apply(answer.feed(piece) if changes is None else changes)
        if check_each:
            assert shape(page.body) == shape(Page(document_id, answer.page).body)
    page.apply(answer.end())
    return answer, page
