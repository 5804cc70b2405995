"""Whose turn it is: owners are served in turn, and an owner's conversations among themselves."""

import heapq
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

from app.generation.job import Work


@dataclass(slots=True)
class Turns:
    """Remembers who was served last; that one waits longest."""

    _served: dict[tuple[str, ...], int] = field(default_factory=dict)
    _last: int = 0

    def serve(self, job: Work) -> None:
        """Note that this job is begun."""
        self._last += 1
        self._served[_owner(job)] = self._served[_conversation(job)] = self._last

    def forget(self) -> None:
        """Begin anew: nobody waits, so nobody was passed over."""
        self._served.clear()

    def order(self, jobs: Iterable[Work]) -> list[Work]:
        """These waiting jobs, in arrival order, as they will be served."""
        lines: dict[tuple[str, ...], dict[tuple[str, ...], deque[Work]]] = {}
        for job in jobs:
            lines.setdefault(_owner(job), {}).setdefault(_conversation(job), deque()).append(job)
        owners = self._heap(lines)
        conversations = {owner: self._heap(own) for owner, own in lines.items()}
        turns = count(self._last + 1)
        order: list[Work] = []
        while owners:
            _, arrival, owner = heapq.heappop(owners)
            _, place, conversation = heapq.heappop(conversations[owner])
            order.append(lines[owner][conversation].popleft())
            turn = next(turns)
            if lines[owner][conversation]:
                heapq.heappush(conversations[owner], (turn, place, conversation))
            if conversations[owner]:
                heapq.heappush(owners, (turn, arrival, owner))
        return order

    def _heap(self, keys: Iterable[tuple[str, ...]]) -> list[tuple[int, int, tuple[str, ...]]]:
        heap = [(self._served.get(key, 0), arrival, key) for arrival, key in enumerate(keys)]
        heapq.heapify(heap)
        return heap


def _owner(job: Work) -> tuple[str, ...]:
    return (job.owner,)


def _conversation(job: Work) -> tuple[str, ...]:
    return (job.owner, job.conversation_id)
