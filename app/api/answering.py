"""The runs of one request: begun together, heard together, and ended at once when whoever asked has left."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from app.api.outbox import Outbox
from app.api.parts import Parts
from app.engines.protocol import Ending, Piece
from app.errors import AppError
from app.generation.completion import Ask, Assignment, Completion, Told

News = list[tuple[int, Assignment | Piece | Ending]]
"""What was heard, each with the number of its choice."""


class Answering:
    """All choices of one request, in the queue and turns of everybody."""

    def __init__(self, parts: Parts, owner: str, model: str | None, asks: Sequence[Ask]) -> None:
        self.parts = parts
        self.left = False
        """Whether the caller went away before the end."""
        self._outbox: Outbox[tuple[int, Told]] = Outbox()
        self._runs = [
            Completion(parts.catalog, parts.metrics, owner, model, ask, partial(self._hear, number))
            for number, ask in enumerate(asks)
        ]
        self._heard: list[tuple[int, Told]] = []
        self._unended = set(range(len(asks)))
        self._watch: asyncio.Task[None] | None = None

    @property
    def count(self) -> int:
        """How many choices there are."""
        return len(self._runs)

    async def begin(self, receive: Receive, patience_s: float | None = None) -> None:
        """Put the runs into the queue, and wait for the first that is heard of them, so long.

        Raises what keeps them from answering: `Busy`, what the engine refuses, a model that fails at once.
        """
        self._watch = asyncio.create_task(self._end_when_left(receive))
        try:
            for run in self._runs:
                self.parts.runner.submit(run)
            deadline = None if patience_s is None else time.monotonic() + patience_s
            while not self._tells() and (deadline is None or time.monotonic() < deadline):
                left_s = None if deadline is None else max(deadline - time.monotonic(), 0.001)
                self._heard += await self._outbox.take(left_s)
            for _, told in self._heard:
                if isinstance(told, AppError):
                    raise told
        except BaseException:
            self.close()
            raise
        self._check_left()

    async def news(self, silence_s: float | None = None) -> AsyncIterator[News]:
        """What is heard, to the end of all runs; an empty list whenever nothing came for so long.

        Raises the fault that a run ends with, and `ClientDisconnect` where nobody is there to be told.
        """
        heard, self._heard = self._heard, []
        while True:
            # What was made before a fault is a part of the answer.
            fault = next((told for _, told in heard if isinstance(told, AppError)), None)
            self._unended -= {number for number, told in heard if isinstance(told, Ending)}
            self._check_left()
            if heard or silence_s is not None:
                yield [(number, told) for number, told in heard if not isinstance(told, AppError)]
            if fault is not None:
                self.close()
                raise fault
            if not self._unended:
                return
            heard = await self._outbox.take(silence_s)

    def close(self) -> None:
        """End what has not ended, and hear no more."""
        if self._watch is not None:
            self._watch.cancel()
        self._outbox.close()
        self._cancel()

    def _tells(self) -> bool:
        """Whether anything was heard that is not only asked yet."""
        return any(not isinstance(told, Assignment) for _, told in self._heard)

    def _hear(self, number: int, told: Told) -> None:
        self._outbox.put((number, told))

    async def _end_when_left(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.left = bool(self._unended)
        self._cancel()

    def _cancel(self) -> None:
        for number, run in enumerate(self._runs):
            if number in self._unended:
                self.parts.runner.cancel(run.generation_id)

    def _check_left(self) -> None:
        if self.left:
            raise ClientDisconnect
