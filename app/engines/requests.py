"""A request in work: filled by the thread that drains the model, emptied by the thread that streams."""

from dataclasses import dataclass
from threading import Condition

from app.engines.choice import Choice


@dataclass(frozen=True, slots=True)
class News:
    """What has come since the last look: new token ids, prompt tokens read so far, whether no more will come.

    `logprobs` go with the ids, where they were asked for.
    """

    ids: list[int]
    read: int
    ended: bool
    logprobs: list[float]


class Request:
    """One answer being made. Holds at most the ids that its reader has not taken yet, never outputs."""

    def __init__(self, name: str, prompt_ids: list[int], choice: Choice) -> None:
        self.name = name
        self.prompt_ids = prompt_ids
        self.choice = choice
        self.reused = 0
        self._changed = Condition()
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._seen = 0
        self._read = 0
        self._ended = False
        self._fault: BaseException | None = None
        self._fresh = False

    def note_reading(self, done: int, reused: int | None = None) -> None:
        """Prompt tokens that the model has read, or found already read (`reused`, told once)."""
        with self._changed:
            if reused is not None:
                self.reused = reused
            self._read = max(self._read, done)
            self._wake()

    def note_answer(self, generated: list[int], ended: bool, logprobs: list[float] | None = None) -> int:
        """All ids of the answer so far; returns how many of them are new."""
        with self._changed:
            new = generated[self._seen :]
            self._logprobs += (logprobs or [])[self._seen :]
            self._seen += len(new)
            self._ids += new
            self._ended = self._ended or ended
            self._wake()
            return len(new)

    def fail(self, fault: BaseException) -> None:
        """End with a fault, raised where the answer is read."""
        with self._changed:
            if not self._ended:
                self._fault = fault
                self._wake()

    def take(self, timeout: float) -> News | None:
        """What is new, waiting for it `timeout` seconds; None when nothing came. Raises the fault of the model."""
        with self._changed:
            self._changed.wait_for(lambda: self._fresh, timeout)
            # What was made before a fault comes first: it is a part of the answer.
            if self._fault is not None and not self._ids:
                raise self._fault
            if not self._fresh:
                return None
            self._fresh = self._fault is not None
            ids, self._ids = self._ids, []
            logprobs, self._logprobs = self._logprobs, []
            return News(ids, self._read, self._ended, logprobs)

    def _wake(self) -> None:
        self._fresh = True
        self._changed.notify_all()
