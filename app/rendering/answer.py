"""One answer as a page shows it: thinking in its fold, then the answer; streamed, or whole.

The body of a message, `#body-<id>`, holds finished blocks and, while it grows, one element `#tail-<id>` after
them. Thinking that grows has a tail of its own in its fold.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from app.rendering.blocks import Blocks
from app.rendering.changes import Change, tail_changes
from app.rendering.tail import Tail
from app.rendering.thinking import Part, Said, Thinking, may_think


def render_answer(
    text: str, document_id: str, *, thought_s: Sequence[float | None] = (), image_hosts: Collection[str] = ()
) -> Markup:
    """Safe HTML of a whole answer, as it is after the last change of a streamed one."""
    answer = Answer(document_id, thought_s=thought_s, image_hosts=image_hosts, thinking=may_think(text), shown=False)
    answer.feed(text)
    answer.end()
    return Markup(answer.html)  # noqa: S704  (each block was cleaned)


def thought_seconds(pieces: Iterable[tuple[str, float]]) -> list[float | None]:
    """How long each thinking in a text took, from its pieces and when they came; None for one that did not end."""
    answer = Answer("", shown=False)
    for text, at in pieces:
        answer.hold(text, at)
    return answer.thought_s


class Answer:
    """A growing answer. What one call returns can go out together, as one event.

    `html` is what is finished, `page` the inside of the body as it was sent last: a page that joins starts from
    it and goes on with the next changes. Costs milliseconds: for a worker thread, not for an event loop.
    """

    def __init__(
        self,
        document_id: str,
        *,
        thought_s: Sequence[float | None] = (),
        image_hosts: Collection[str] = (),
        thinking: bool = True,
        shown: bool = True,
    ) -> None:
        self._id = document_id
        self._thought_s = thought_s
        self._image_hosts = image_hosts
        self._thinking = Thinking() if thinking else None
        self._shown = shown
        self._place = _Place(f"#tail-{document_id}")
        self._sections: list[_Section] = []
        self._restarted = False
        self._begin("answer", None)

    @property
    def html(self) -> str:
        """All that is finished; after the end, exactly what `render_answer` gives."""
        return "".join(section.html() for section in self._sections)

    @property
    def page(self) -> str:
        """The inside of the message's body as it was sent last."""
        return self.html + self._place.html(self._place.shown)

    @property
    def folds(self) -> "list[_Section]":
        """The thinking, in order."""
        return [section for section in self._sections if section.part == "thinking"]

    @property
    def thought_s(self) -> list[float | None]:
        """How long each thinking took, where the times were given."""
        return [fold.seconds for fold in self.folds]

    def feed(self, piece: str, at: float | None = None) -> list[Change]:
        """Take a piece of text, made `at` so many seconds after the beginning; what changes on the page."""
        self.hold(piece, at)
        return self._changes() if self._shown else []

    def hold(self, piece: str, at: float | None = None) -> None:
        """Take a piece of text; what it changes is told together with the next one."""
        self._take(self._thinking.feed(piece) if self._thinking else [Said("answer", piece)], at)

    def feed_words(self, piece: str) -> list[Change] | None:
        """As `feed`, for plain words that go on a paragraph of such; None, and nothing taken, for all else.

        Most of what most models say is this, and it costs microseconds: an event loop can do it.
        """
        section = self._sections[-1]
        place = self._place if section.part == "answer" else section.place
        if self._thinking is not None and self._thinking.holds:
            return None
        added = section.words(piece, place)
        if added is None:
            return None
        self.hold(piece)
        return [Change("appended", f"{place.target} > p:last-child", added)] if added else []

    def end(self, at: float | None = None) -> list[Change]:
        """The text is over; the last changes, after which the page is as it is when loaded again."""
        self._take(self._thinking.end() if self._thinking else [], at)
        self._sections[-1].end(at)
        return self._changes(over=True) if self._shown else []

    def _take(self, all_said: Sequence[Said], at: float | None) -> None:
        for said in all_said:
            if said.begins:
                self._sections[-1].end(at, closed=True)
            if said.again:
                self._restarted = True
                for section in self._sections:
                    section.part = "thinking"
            if said.begins:
                self._begin(said.part, at)
            blocks = self._sections[-1].blocks
            blocks.feed(said.text) if self._shown else blocks.hold(said.text)
        for fold, seconds in zip(self.folds, self._thought_s, strict=False):
            if seconds is not None:
                fold.seconds = seconds

    def _begin(self, part: Part, at: float | None) -> None:
        name = f"{self._id}-{len(self._sections)}" if self._sections else self._id
        self._sections.append(_Section(part, name, Blocks(name, self._image_hosts), at))

    def _changes(self, *, over: bool = False) -> list[Change]:
        changes: list[Change] = []
        elements = 0
        for section in self._sections:
            if section.part == "thinking":
                changes += section.changes_of_fold(self._place)
                elements += 1
            else:
                changes += section.changes_of_blocks(self._place, f"#body-{self._id}", elements)
                elements += section.elements
        last = self._sections[-1]
        changes += self._place.changes(*(last.grown() if last.part == "answer" else ("", "")))
        if self._restarted:
            self._restarted = False
            return [Change("restarted", f"#body-{self._id}", self.html if over else self.page)]
        return [*changes, Change("removed", self._place.target)] if over else changes


@dataclass(slots=True)
class _Place:
    """An element with a tail, and what it shows."""

    target: str
    shown: str = ""
    fixed: str = ""

    def changes(self, tail: str, fixed: str) -> list[Change]:
        changes = tail_changes(self.target, self.shown, tail, self.fixed)
        self.shown, self.fixed = tail, fixed
        return changes

    def html(self, tail: str) -> str:
        return f'<div id="{self.target[1:]}" class="tail">{tail}</div>'


@dataclass(slots=True)
class _Section:
    """One part of an answer, and how much of it is on the page."""

    part: Part
    name: str
    blocks: Blocks
    began: float | None
    seconds: float | None = None
    state: str = "growing"
    _on_page: bool = False
    _finished: int = 0
    _shown_state: str = "growing"
    _tail: Tail = field(init=False)
    place: _Place = field(init=False)
    """Where its tail is shown, if it is thinking."""

    def __post_init__(self) -> None:
        self._tail = Tail(self.blocks.document)
        self.place = _Place(f"#tail-{self.name}-thinking")

    @property
    def elements(self) -> int:
        return sum(1 for block in self.blocks.finished if block.html)

    def end(self, at: float | None, *, closed: bool = False) -> None:
        if self.state == "growing":
            self.blocks.end()
            self.state = "closed" if closed else "over"
            self.seconds = at - self.began if at is not None and self.began is not None else None

    def html(self) -> str:
        if self.part == "answer":
            return self.blocks.html
        tail = self.place.html(self.place.shown) if self.state == "growing" else ""
        return (
            f'<details class="thinking" id="thinking-{self.name}"><summary>{self._label()}</summary>'
            f'<div class="thinking-text">{self.blocks.html}{tail}</div></details>\n'
        )

    def words(self, piece: str, place: _Place) -> str | None:
        """What plain words add to the tail that is shown at a place, and that they are shown there now."""
        current = place.shown == self._tail.html and self._finished == len(self.blocks.finished)
        if self.state != "growing" or not current or self.blocks.holds:
            return None
        added = self._tail.words(self.blocks, piece)
        place.shown = self._tail.html
        return added

    def grown(self) -> tuple[str, str]:
        """The tail as it is now, and its part before the last item."""
        if self.state != "growing":
            return "", ""
        return self._tail.show(self.blocks), self._tail.fixed

    def changes_of_blocks(self, place: _Place, container: str, before: int) -> list[Change]:
        """What was finished since, and what of it later text has changed."""
        blocks = self.blocks.finished
        new = "".join(block.html for block in blocks[self._finished :])
        changes = [Change("finished", place.target, new)] if new else []
        for index in sorted(self.blocks.replaced):
            if index < self._finished:
                position = before + 1 + sum(1 for block in blocks[:index] if block.html)
                html = blocks[index].html.removesuffix("\n")
                changes.append(Change("replaced", f"{container} > :nth-child({position})", html))
        self._finished = len(blocks)
        self.blocks.replaced.clear()
        return changes

    def changes_of_fold(self, main: _Place) -> list[Change]:
        if not self._on_page:
            # The fold brings along what is in it: what isn't on the page yet can't be a target.
            self.place.shown, self.place.fixed = self.grown()
            self._on_page, self._finished, self._shown_state = True, len(self.blocks.finished), self.state
            self.blocks.replaced.clear()
            return [Change("finished", main.target, self.html())]
        changes = self.changes_of_blocks(self.place, f"#thinking-{self.name} > .thinking-text", 0)
        changes += self.place.changes(*self.grown())
        if self.state != self._shown_state:
            self._shown_state = self.state
            changes.append(Change("removed", self.place.target))
            changes.append(Change("thought", f"#thinking-{self.name} > summary", self._label()))
        return changes

    def _label(self) -> str:
        if self.state == "growing":
            return "Thinking…"
        if self.state == "over":
            return "Unfinished thinking"
        return f"Thought for {_duration(self.seconds)}" if self.seconds is not None else "Thought"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(max(1, round(seconds)), 60)
    return " ".join([*([f"{minutes} min"] if minutes else []), *([f"{rest} s"] if rest else [])])
