"""What the readers of one running answer see: its body so far, and the frames that carry a page on."""

import asyncio
import logging
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from app.conversations.models import Message
from app.events.protocol import Event
from app.rendering.answer import Answer
from app.rendering.changes import Change
from app.web.bodies import source
from app.web.figures import speed
from app.web.partials import frame, partials

log = logging.getLogger(__name__)

PING = b": ping\n\n"
FIGURES_S = 1.0
"""How often the line under a running answer is brought up to date."""
MOST_FRAMES = 64
"""Frames sent at one time, so that a long replay comes in bounded portions."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The inside of the body, and the number of the last event in it."""

    html: Markup
    number: int


class Screen:
    """One running answer, rendered once for all its readers.

    Events are taken by worker threads, or by the event loop where that is cheap; `turn` is for who has them taken.
    A slow reader costs nothing and slows nobody: all of them read one list by position. `token` tells this screen
    from one that another process, or this one earlier, made of the same run: its tail may look different.
    """

    def __init__(self, run: str, message: Message, covered: int) -> None:
        self.run = run
        self.message_id = message.id
        self.token = secrets.token_hex(4)
        self.number = covered
        self.readers = 0
        self.ended = False
        self.forgotten = False
        """Whether nothing more comes though it has not ended: the log has let go of the run."""
        self.last_changes = ""
        """What the end of the text changes; goes into one frame with what else the end brings."""
        self.turn = asyncio.Lock()
        self._lock = threading.Lock()
        self._said = [message.text]
        self._broken = False
        self._answer = Answer(message.id, thought_s=message.thought_s or ())
        self._tokens = 0
        self._first_at: float | None = None
        self._told_at = 0.0
        self._frames: list[bytes] = []
        self._places = {covered: 0}
        self._rendered(message.text)

    def goes_on_from(self, number: int, token: str = "") -> bool:
        """Whether a page that shows everything up to an event can go on from there."""
        return number in self._places and token in ("", self.token)

    @property
    def html(self) -> str:
        """The whole body, once it has ended."""
        return "" if self._broken else self._answer.html

    def snapshot(self) -> Snapshot:
        """The body as it was sent last, whatever readers come and go meanwhile."""
        with self._lock:
            if self._broken:
                return Snapshot(source(self.message_id, "".join(self._said)), self.number)
            inside = Markup(self._answer.page)  # noqa: S704  (each block was cleaned)
            return Snapshot(inside, self.number)

    def take(self, events: Sequence[Event]) -> None:
        """Carry events on to the readers. For a worker thread: rendering costs milliseconds."""
        with self._lock:
            new = [event for event in events if event.number > self.number]
            if not new:
                return
            if pieces := [event for event in new if not event.last]:
                self._add(pieces, self._changes(pieces))
            if new[-1].last:
                self._end(new[-1])

    def take_words(self, events: Sequence[Event]) -> bool:
        """As `take`, where it is cheap enough for the event loop; whether it was."""
        if events[-1].last or not self._lock.acquire(blocking=False):
            return False
        try:
            new = [event for event in events if event.number > self.number]
            changes = self._answer.feed_words("".join([event.text for event in new])) if not self._broken else None
            if changes is not None and new:
                self._add(new, changes)
            return changes is not None
        finally:
            self._lock.release()

    def place(self, number: int) -> int:
        """How many frames bring a page to an event that this screen has shown."""
        return self._places[number]

    def frames(self, place: int) -> list[bytes]:
        """The frames after so many, a bounded number; empty where there are none yet."""
        return self._frames[place : place + MOST_FRAMES]

    def _add(self, pieces: Sequence[Event], changes: Sequence[Change]) -> None:
        for piece in pieces:
            self._said.append(piece.text)
            self._tokens += len(piece.token_ids)
        self.number = pieces[-1].number
        self._frames.append(frame(partials(changes) + self._figures(pieces[0].at, pieces[-1].at), self.number))
        self._places[self.number] = len(self._frames)

    def _end(self, last: Event) -> None:
        self.number = last.number
        if not self._broken:
            try:
                self.last_changes = partials(self._answer.end())
            except Exception:
                self._breaks("")
        self.ended = True

    def _rendered(self, text: str) -> None:
        if text:
            self._changes([Event(0, text)])

    def _changes(self, pieces: Sequence[Event]) -> list[Change]:
        if not self._broken:
            try:
                for piece in pieces[:-1]:
                    self._answer.hold(piece.text, piece.at)
                return self._answer.feed(pieces[-1].text, pieces[-1].at)
            except Exception:
                return self._breaks("".join(piece.text for piece in pieces))
        new = escape("".join(piece.text for piece in pieces))
        return [Change("appended", f"#source-{self.message_id}", str(new))]

    def _breaks(self, new: str) -> list[Change]:
        """One broken message is one broken bubble: from here on its source is shown."""
        log.exception("The answer %s can't be rendered", self.message_id)
        self._broken = True
        shown = source(self.message_id, "".join(self._said) + new)
        return [Change("restarted", f"#body-{self.message_id}", str(shown))]

    def _figures(self, first_at: float, at: float) -> str:
        if self._first_at is None:
            self._first_at = self._told_at = first_at
        if at - self._told_at < FIGURES_S:
            return ""
        self._told_at = at
        words = speed(self._tokens, at - self._first_at)
        return f'<hx-partial hx-target="#figures-{self.message_id}" hx-swap="innerHTML">{words}</hx-partial>'
