"""Stop strings: an answer ends before the first of them, wherever the tokens are cut, and never shows one."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from threading import Event

from app.engines.protocol import Ending, Output, Piece


class Stopping(Event):
    """What an engine is cancelled by: its reader's wish, or a stop string that was found."""

    def __init__(self, asked: Event) -> None:
        super().__init__()
        self._asked = asked

    def is_set(self) -> bool:
        """Whether the engine is to end."""
        return super().is_set() or self._asked.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the reader's wish; a stop string is only ever found while nobody waits."""
        return super().is_set() or self._asked.wait(timeout)


class Stops:
    """Watches one answer for stop strings. Holds back only the tokens that could begin one, and these whole.

    So whatever it has let go, crash or not, is text with exactly the ids that it came from. `before` is what the
    answer had said earlier: a stop string may begin in it. After a hit, `rest` is what still belongs to the answer
    of the token in which the stop string begins, and `back` how much of what was said earlier does not.
    """

    def __init__(self, texts: Sequence[str], before: str = "") -> None:
        self._texts = texts
        self._reach = max(map(len, texts), default=1) - 1
        """Characters of the past in which a stop string may still begin."""
        self._past = before[max(0, len(before) - self._reach) :]
        self._held: list[Piece] = []
        self.hit = False
        self.rest = ""
        self.back = 0

    def watch(self, outputs: Iterable[Output], stopping: Stopping) -> Iterator[Output]:
        """The outputs up to a stop string; there the engine is told to end, and its ending is "stop"."""
        if not self._texts:
            yield from outputs
            return
        try:
            for output in outputs:
                if isinstance(output, Piece):
                    if not self.hit:
                        yield from self.feed(output)
                        if self.hit:
                            stopping.set()
                elif isinstance(output, Ending):
                    yield from self.end()
                    yield replace(output, reason="stop") if self.hit else output
                else:
                    yield output
        except Exception:
            # What the model had made before it failed is a part of the answer.
            yield from self.end()
            raise

    def feed(self, piece: Piece) -> list[Piece]:
        """What may be shown now."""
        self._held.append(piece)
        old = len(self._past)
        text = self._past + "".join(held.text for held in self._held)
        start = self._find(text)
        if start is None:
            return self._release(self._may_begin(text) - old)
        self.hit = True
        shown = self._release(start - old)
        self._held.clear()
        # The past is no longer than what may belong to a stop string, so what is cut off it was its beginning.
        self.back = max(0, old - start)
        self.rest = text[old + sum(len(piece.text) for piece in shown) : start]
        return shown

    def end(self) -> list[Piece]:
        """What was held back and has turned out to be no stop string."""
        held, self._held = self._held, []
        return held

    def _release(self, upto: int) -> list[Piece]:
        """The held pieces that end before a place in the held text; one without text waits for its character."""
        count = end = 0
        for number, piece in enumerate(self._held, 1):
            end += len(piece.text)
            if end > upto:
                break
            count = number if piece.text else count
        released, self._held = self._held[:count], self._held[count:]
        past = self._past + "".join(piece.text for piece in released)
        self._past = past[max(0, len(past) - self._reach) :]
        return released

    def _find(self, text: str) -> int | None:
        """Where the first stop string begins that ends within what is new."""
        new = len(self._past)
        found = [text.find(stop, max(0, new - len(stop) + 1)) for stop in self._texts]
        return min((start for start in found if start >= 0), default=None)

    def _may_begin(self, text: str) -> int:
        """Where what could become a stop string begins; the end of the text where nothing could."""
        first = max(0, len(text) - self._reach)
        tails = (start for start in range(first, len(text)) if any(s.startswith(text[start:]) for s in self._texts))
        return next(tails, len(text))
