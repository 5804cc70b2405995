"""Drafts: conversations as an export tells them, before they are kept; and what makes any of them whole."""

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from app.conversations.models import EndingReason, State
from app.conversations.titles import is_blank, title_of
from app.texts import clean
from app.transfer.models import Source

LONGEST_TITLE = 300
_NUMBER = re.compile(r"[0-9.]+")
Role = Literal["user", "assistant"]


class Unreadable(Exception):
    """A conversation, or a whole file, that can't be read. `words` says why, for the person."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


@dataclass(slots=True)
class DraftMessage:
    """One message. Ids are those of the export."""

    id: str
    parent: str | None
    role: Role
    text: str
    created_at: datetime | None = None
    model: str | None = None
    state: State = "finished"
    ending: EndingReason | None = None
    error: str | None = None
    thought_s: list[float | None] | None = None
    """How long each thinking took, in seconds."""
    chosen: int = 0
    """As `Message.chosen`: which of the variants at a fork is shown."""
    rating: tuple[bool, str] | None = None
    """Whether its reader found it good, and why."""


@dataclass(slots=True)
class Draft:
    """One conversation: a tree of messages, of which those from the root to `current` are shown."""

    source: Source
    id: str
    title: str
    messages: list[DraftMessage]
    created_at: datetime | None = None
    updated_at: datetime | None = None
    current: str | None = None
    steering: dict[str, Any] | None = None
    """What its answers are made with, as `Conversation.steering`: only our own exports tell it so that it fits."""
    own_title: bool = False
    """As `Conversation.own_title`, and what follows likewise: what a person has made of it here."""
    model: str | None = None
    pinned_at: datetime | None = None
    archived_at: datetime | None = None
    tags: list[str] = field(default_factory=list)
    children: dict[str | None, list[DraftMessage]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Changes with anything that an import of the same conversation would bring anew."""
        told = hashlib.sha256()
        for part in (self.title, self.current, *(_told(message) for message in self.messages)):
            told.update(repr(part).encode("utf-8", "surrogatepass"))
        return told.hexdigest()


@dataclass(frozen=True, slots=True)
class Whole:
    """A draft with nothing missing: parents before children, a time and a title everywhere."""

    draft: Draft
    messages: list[DraftMessage]
    title: str
    created_at: datetime
    updated_at: datetime


def whole(draft: Draft, at: datetime) -> Whole:
    """Complete a draft that is brought in `at` this moment. Raises `Unreadable` where nothing is in it."""
    messages = in_order(draft.messages)
    if not messages:
        raise Unreadable("it has no messages")
    _fill_times(messages, draft.updated_at or at)
    _choose(messages, draft.current)
    times = [message.created_at for message in messages if message.created_at]
    created = draft.created_at or min(times)
    updated = draft.updated_at or max(times)
    return Whole(draft, messages, _title(draft, messages), created, max(created, updated))


def in_order(messages: Iterable[DraftMessage]) -> list[DraftMessage]:
    """Messages level by level, each once; what hangs on nothing becomes a root, what hangs on itself is left out."""
    by_id: dict[str, DraftMessage] = {}
    for message in messages:
        by_id.setdefault(message.id, message)
    children: dict[str | None, list[DraftMessage]] = {}
    for message in by_id.values():
        parent = message.parent if message.parent in by_id else None
        children.setdefault(parent, []).append(message if parent == message.parent else replace(message, parent=None))
    ordered: list[DraftMessage] = []
    level: Sequence[DraftMessage] = children.get(None, [])
    while level:
        following: list[DraftMessage] = []
        ordered += level
        for message in level:
            following += children.get(message.id, [])
        level = following
    return ordered


def linear(messages: Iterable[DraftMessage]) -> list[DraftMessage]:
    """Messages of which each follows the one before."""
    chain: list[DraftMessage] = []
    for message in messages:
        chain.append(replace(message, parent=chain[-1].id if chain else None))
    return chain


def without(messages: Iterable[DraftMessage], shown: Callable[[DraftMessage], bool]) -> list[DraftMessage]:
    """Leave out messages; what hung on them hangs on the nearest one above that stays."""
    all_of_them = list(messages)
    by_id = {message.id: message for message in all_of_them}
    kept = {message.id for message in all_of_them if shown(message)}
    nearest: dict[str, str | None] = {}
    for message in all_of_them:
        if message.id not in kept:
            continue
        passed: list[str] = []
        parent = message.parent
        while parent is not None and parent not in kept and parent in by_id and parent not in nearest:
            passed.append(parent)
            nearest[parent] = None  # else a circle would be gone round for ever
            parent = by_id[parent].parent
        found = nearest.get(parent, parent) if parent is not None else None
        nearest |= dict.fromkeys(passed, found)
        message.parent = found
    return [message for message in all_of_them if message.id in kept]


def moment(value: Any) -> datetime | None:
    """A time as exports tell it: seconds, thousandths of them, or ISO 8601; None for anything else."""
    if isinstance(value, dict):
        value = value.get("$date", value.get("$numberLong"))
    try:
        if isinstance(value, str) and not _NUMBER.fullmatch(value):
            told = datetime.fromisoformat(value)
            return _plausible(told.astimezone(UTC) if told.tzinfo else told.replace(tzinfo=UTC))
        if isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
            seconds = float(value)
            # Thousandths and millionths of our time are far beyond any seconds of it.
            return _plausible(
                datetime.fromtimestamp(seconds / (1e6 if seconds > 1e14 else 1e3 if seconds > 1e11 else 1), UTC)
            )
    except (ValueError, OverflowError, OSError):
        return None
    return None


def _plausible(at: datetime) -> datetime | None:
    """Zero is how some say that they do not know."""
    return at if at.year > 1970 else None


def text_in(value: Any) -> str:
    """A text as it may be kept; empty for anything else."""
    return clean(value) if isinstance(value, str) else ""


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """The objects of a list; none for anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def dict_in(value: Any) -> dict[str, Any]:
    """An object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def id_in(value: Any) -> str | None:
    """An id: a text, a number, or an object as MongoDB writes it."""
    if isinstance(value, dict):
        value = value.get("$oid")
    return text_in(value if isinstance(value, str) else str(value))[:255] or None if value is not None else None


def named(names: Iterable[Any]) -> str:
    """Attached files, by their names."""
    return "\n".join(f"[file: {' '.join(name.split())}]" for name in map(text_in, names) if name.strip())


def joined(*parts: str) -> str:
    """Parts of one message, as paragraphs."""
    return "\n\n".join(part for part in parts if part.strip())


def _told(message: DraftMessage) -> tuple[str | None, ...]:
    return (message.id, message.parent, message.role, message.text, message.state, message.ending)


def _choose(messages: list[DraftMessage], current: str | None) -> None:
    """Have the path to `current` shown: at its forks it is chosen where the newest is another."""
    path = _path({message.id: message for message in messages}, current)
    forks: dict[str | None, list[DraftMessage]] = {}
    for message in messages:
        forks.setdefault(message.parent, []).append(message)
    for variants in forks.values():
        # Of those that are equally old the last one gets the newest id.
        numbered = list(enumerate(variants))
        _, shown = max(numbered, key=lambda one: (one[1].chosen, one[1].created_at or datetime.min, one[0]))
        meant = next((message for message in variants if message.id in path), shown)
        if meant is not shown:
            meant.chosen = shown.chosen + 1


def _path(by_id: dict[str, DraftMessage], current: str | None) -> set[str]:
    path: set[str] = set()
    while current is not None and current in by_id and current not in path:
        path.add(current)
        current = by_id[current].parent
    return path


def _fill_times(messages: list[DraftMessage], otherwise: datetime) -> None:
    """A message without a time takes that of the one before it, else of the one after."""
    by_id = {message.id: message for message in messages}
    for message in messages:
        before = by_id.get(message.parent or "")
        if message.created_at is None and before is not None:
            message.created_at = before.created_at
    for message in reversed(messages):
        before = by_id.get(message.parent or "")
        if before is not None and before.created_at is None:
            before.created_at = message.created_at
    for message in messages:
        before = by_id.get(message.parent or "")
        if message.created_at is None:
            message.created_at = (before.created_at if before else None) or otherwise


def _title(draft: Draft, messages: list[DraftMessage]) -> str:
    # What is counted in characters as readers see them costs: cut the longest before.
    if not is_blank(draft.title):
        return title_of(draft.title[: 10 * LONGEST_TITLE], LONGEST_TITLE)
    texts = [message.text for message in messages if message.role == "user"] or [messages[0].text]
    return next((title_of(text[:2000]) for text in texts if not is_blank(text[:2000])), "Untitled")
