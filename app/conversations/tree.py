"""The messages of a conversation as a tree: its forks, what is chosen at each, and what is shown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session, defer, load_only, undefer

from app.conversations.models import Message

_BARE = load_only(
    Message.conversation_id,
    Message.parent_id,
    Message.role,
    Message.state,
    Message.created_at,
    Message.chosen,
    Message.deleted_at,
    raiseload=True,
)


@dataclass(frozen=True, slots=True)
class Variants:
    """The messages at one fork, the oldest first, and the place of one of them, counted from 1."""

    ids: Sequence[str]
    place: int

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def before(self) -> str | None:
        """The one before this; None for the first."""
        return self.ids[self.place - 2] if self.place > 1 else None

    @property
    def after(self) -> str | None:
        """The one after this; None for the last."""
        return self.ids[self.place] if self.place < self.count else None

    def __str__(self) -> str:
        return f"{self.place}/{self.count}"


class Tree:
    """All messages of a conversation, whatever order their rows are in. What is deleted is not shown.

    Every message is in it: one whose parent is not there begins a branch of its own, and a ring of parents
    is cut at its oldest. A damaged row must not hide a conversation, and never hang a page.
    """

    def __init__(self, rows: Iterable[Message]) -> None:
        self._messages = {row.id: row for row in sorted(rows, key=_age)}
        self._parents = _without_rings(
            {row.id: row.parent_id if row.parent_id in self._messages else None for row in self._messages.values()}
        )
        self._children: dict[str | None, list[Message]] = {}
        for id_, parent in self._parents.items():
            self._children.setdefault(parent, []).append(self._messages[id_])

    def __contains__(self, message_id: str) -> bool:
        """Whether this message is there, and neither it nor one above it is deleted."""
        found = self._messages.get(message_id)
        return found is not None and not any(message.deleted_at for message in (found, *self._upwards(found)))

    def __iter__(self) -> Iterator[Message]:
        """Every message that is not deleted, the oldest first."""
        return (message for message in self._messages.values() if message.deleted_at is None)

    def parent(self, message: Message) -> Message | None:
        """The message that this one follows; None for the first of a conversation."""
        return next(self._upwards(message), None)

    def children(self, parent_id: str | None) -> list[Message]:
        """What follows a message, the oldest first; for None what begins the conversation."""
        return [child for child in self._children.get(parent_id, ()) if child.deleted_at is None]

    def variants(self, message: Message) -> list[Message]:
        """This message and those beside it."""
        return self.children(self._parents[message.id])

    def variants_of(self, message: Message) -> Variants:
        """Where a message stands among those beside it."""
        beside = self._children[self._parents[message.id]]
        ids = [other.id for other in beside if other.id == message.id or other.deleted_at is None]
        return Variants(ids, ids.index(message.id) + 1)

    def path(self, through: str | None = None) -> list[Message]:
        """What is shown: from the beginning along what is chosen at each fork; or along the branch with a message."""
        path: list[Message] = []
        if through is not None and through in self:
            message = self._messages[through]
            path = [*self.ancestors(message), message]
        while (step := self._chosen(path[-1].id if path else None)) is not None:
            path.append(step)
        return path

    def through(self, message_id: str) -> list[Message]:
        """From the beginning to this message, without what is deleted; empty where it is not known at all."""
        message = self._messages.get(message_id)
        if message is None:
            return []
        return [*self.ancestors(message), *([message] if message.deleted_at is None else [])]

    def ancestors(self, message: Message) -> list[Message]:
        """The messages from the beginning to the one that this follows, without what is deleted."""
        return [above for above in self._upwards(message) if above.deleted_at is None][::-1]

    def branch(self, message: Message) -> list[Message]:
        """A message and everything below it, deleted or not."""
        branch = [message]
        for above in branch:
            branch.extend(self._children.get(above.id, ()))
        return branch

    def choose(self, message: Message) -> None:
        """Have the branch with this message shown from now on."""
        for step in (*self.ancestors(message), message):
            parent_id = self._parents[step.id]
            if self._chosen(parent_id) is not step:
                step.chosen = self.next_choice(parent_id)

    def next_choice(self, parent_id: str | None) -> int:
        """The number by which a child of this message becomes the chosen one."""
        return 1 + max((child.chosen for child in self.children(parent_id)), default=-1)

    def _chosen(self, parent_id: str | None) -> Message | None:
        return max(self.children(parent_id), key=lambda child: (child.chosen, *_age(child)), default=None)

    def _upwards(self, message: Message) -> Iterator[Message]:
        step = self._parents[message.id]
        while step is not None:
            yield self._messages[step]
            step = self._parents[step]


def tree_of(session: Session, conversation_id: str, *, bare: bool = False) -> Tree:
    """The tree of a conversation; a bare one of messages without what they say, to be read by `read_whole`."""
    query = select(Message).where(Message.conversation_id == conversation_id)
    return Tree(session.scalars(query.options(_BARE) if bare else query))


def read_whole(session: Session, messages: Sequence[Message], *, ids: bool = True) -> None:
    """Read what messages of a bare tree say; their token ids are large, and only the model needs them."""
    query = select(Message).where(Message.id.in_([message.id for message in messages]))
    options = undefer("*") if ids else defer(Message.token_ids)
    session.scalars(query.options(options).execution_options(populate_existing=True)).all()


def _age(message: Message) -> tuple[datetime, str]:
    return message.created_at, message.id


def _without_rings(parents: dict[str, str | None]) -> dict[str, str | None]:
    """The parent of each message, the oldest first, with every ring opened at its oldest."""
    safe: set[str] = set()
    for id_ in parents:
        seen: set[str] = set()
        step: str | None = id_
        while step is not None and step not in safe and step not in seen:
            seen.add(step)
            step = parents[step]
        if step in seen:
            ring = _ring(step, parents)
            parents[next(member for member in parents if member in ring)] = None
        safe |= seen
    return parents


def _ring(member: str | None, parents: dict[str, str | None]) -> set[str]:
    ring: set[str] = set()
    while member is not None and member not in ring:
        ring.add(member)
        member = parents[member]
    return ring
