"""The seam between those who make an answer and those who watch it: an append-only, replayable log."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Event:
    """One numbered entry of a run. Numbers start at 1 and are never used twice; `last` is the end of the run.

    `at` is when it was made, in seconds of the run's own time (what it had not run for does not count).
    """

    number: int
    text: str = ""
    token_ids: tuple[int, ...] = ()
    last: bool = False
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All text after a number, and the number of the last event in it."""

    text: str
    token_ids: tuple[int, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Notice:
    """Where a run stands while no text comes. It has no number and is not kept: only the latest counts.

    "waiting": `done` others come before it. "reading": `done` of `total` prompt tokens are read.
    "model": its model is not there yet; `words` say why, `done` of `total` is loaded.
    "unsaved": it has ended, and that can't be saved yet.
    """

    kind: Literal["waiting", "model", "reading", "unsaved"]
    done: int = 0
    total: int = 0
    words: str = ""


class Gap(Exception):
    """The log can't go on from that number: it is above the last, or older than what is kept."""


class EventLog(Protocol):
    """The events of every run. A run has one writer, a worker thread, and any number of readers."""

    def begin(self, run: str) -> None:
        """Take up a run that was made just now: there is nothing of it to be looked for. Others need no beginning."""
        ...

    def append(self, run: str, text: str, token_ids: tuple[int, ...] = (), at: float = 0.0) -> Event:
        """Add a piece; the event that it becomes. It is shown to readers only once it is kept.

        Raises what kept earlier pieces from being saved (`Unavailable` where the disk is full).
        """
        ...

    def end(self, run: str) -> int:
        """Say that the run has ended, after everything appended; the number. Its pieces are kept for a while."""
        ...

    def note(self, run: str, notice: Notice) -> None:
        """Tell the readers of a run where it stands."""
        ...

    def pieces(self, run: str, after: int = 0) -> list[Event]:
        """The pieces that are kept after a number, now."""
        ...

    def snapshot(self, run: str, after: int = 0) -> Snapshot:
        """What is kept after a number, now, as one text."""
        ...

    def wait(self, run: str, after: int, within_s: float) -> bool:
        """Wait until something is kept after a number; whether it came in time. For a worker thread."""
        ...

    def follow(self, run: str, after: int, silence_s: float) -> AsyncIterator[list[Event] | Notice]:
        """Events after a number as they are kept, several at a time when they are there; notices in between.

        Yields an empty list whenever nothing came for `silence_s`. Ends after the last event of the
        run, or without it when the log is closed. Raises `Gap`, before anything is yielded.
        """
        ...

    def discard(self, runs: Iterable[str]) -> None:
        """Forget these runs at once: their text is elsewhere, or gone."""
        ...

    def runs(self) -> set[str]:
        """The runs of which pieces are kept."""
        ...

    def close(self) -> None:
        """Keep what was appended, let every reader go, and stop."""
        ...
