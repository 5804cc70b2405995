"""Hits: the messages and titles that have what is looked for, the newest first, grouped by conversation.

Candidates are read to see whether they say what was typed. How many are read is bounded: a search that comes to the
bound tells how far back it has looked, and can be gone on with from there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, select
from sqlalchemy.orm import Session

from app.conversations.models import Message
from app.conversations.search.candidates import candidates
from app.conversations.search.folding import Folded, fold
from app.conversations.search.searches import Search
from app.conversations.search.snippets import Piece, found_in, marked, snippet

HITS, GROUPS, IN_ONE = 24, 12, 3
"""Shown at a time: messages, conversations, and messages of one conversation."""
TITLES = 5
"""Conversations that come first because they are called so."""
EFFORT = 6_000
"""How many candidates are looked at. One whose text is read counts as several, a long text as more."""
_READING, _CHARACTERS = 5, 1_000


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that has what is looked for."""

    message_id: str
    role: str
    created_at: datetime
    pieces: list[Piece]


@dataclass(slots=True)
class Group:
    """A conversation with hits, `more` of which are not shown. Without any its title is what was found."""

    conversation_id: str
    title: list[Piece]
    created_at: datetime
    hits: list[Hit] = field(default_factory=list)
    more: int = 0
    begin: str = ""
    """The id of its first message, where its title is what was found."""


@dataclass(slots=True)
class Found:
    """What a search has found so far."""

    search: Search
    groups: dict[str, Group] = field(default_factory=dict)
    """By conversation, the one with the newest hit first."""
    older: int | None = None
    """The place to go on from; None where nothing is left."""
    reached: datetime | None = None
    """How far back it has looked, where that ended it and not enough was found."""

    @property
    def messages(self) -> int:
        """How many messages were found, shown or not."""
        return sum(len(group.hits) + group.more for group in self.groups.values())

    @property
    def full(self) -> bool:
        """Whether there is enough to show."""
        shown = sum(len(group.hits) for group in self.groups.values())
        return shown >= HITS or len(self.groups) >= GROUPS

    def add(self, row: Row[Any]) -> None:
        """Keep a candidate, if it has what is looked for."""
        words = self.search.words
        if not found_in(fold(row.text), words):
            return
        group = self.groups.get(row.conversation_id)
        if group is None:
            title = marked(row.title, words)
            group = self.groups[row.conversation_id] = Group(row.conversation_id, title, row.created_at)
        if row.message_id is None:
            return
        if len(group.hits) < IN_ONE or self.search.conversation:
            group.hits.append(Hit(row.message_id, row.role, row.created_at, snippet(Folded(row.text), words)))
        else:
            group.more += 1


def find(session: Session, owner: str, search: Search, models: Mapping[str, int], older: int | None = None) -> Found:
    """Hits of the owner; with `older` those behind the place that was come to. `models` are their numbers."""
    found = Found(search)
    if older is None and search.words and not search.of_messages and not search.conversation:
        _add_titles(session, owner, found, models)
    effort = EFFORT
    for row in candidates(session, owner, search, models, older):
        if found.full or effort <= 0:
            found.older = row.place + 1
            found.reached = None if found.full else row.created_at
            break
        effort -= 1
        if row.text is not None:
            effort -= _READING + len(row.text) // _CHARACTERS
            found.add(row)
    _begin(session, found)
    return found


def _add_titles(session: Session, owner: str, found: Found, models: Mapping[str, int]) -> None:
    for effort, row in enumerate(candidates(session, owner, found.search, models, None, titles=True)):
        if len(found.groups) == TITLES or effort == EFFORT // _READING:
            break
        if row.text is not None:
            found.add(row)


def _begin(session: Session, found: Found) -> None:
    """A hit leads to a message: that of a title is the one it stands over."""
    named = [group for group in found.groups.values() if not group.hits]
    if not named:
        return
    asked = select(Message.conversation_id, func.min(Message.id)).where(
        Message.conversation_id.in_([group.conversation_id for group in named]), Message.deleted_at.is_(None)
    )
    rows = session.execute(asked.group_by(Message.conversation_id))
    begins = {conversation_id: message_id for conversation_id, message_id in rows}  # noqa: C416  (rows are no pairs)
    for group in named:
        group.begin = begins.get(group.conversation_id, "")
