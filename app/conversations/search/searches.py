"""What a person looks for: typed words, and filters as words (`role:user`) or as fields of a form.

Typed text means itself. Only a word that names a filter and one of its values is a filter; all else is looked for.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, tzinfo
from typing import Any

from app.conversations.search.folding import fold
from app.conversations.tags import key_of
from app.errors import Invalid

LONGEST = 400
"""Characters of what is typed that count."""
MOST_WORDS = 24

ROLES = {"user": "Your messages", "assistant": "Answers"}
ENDINGS = {
    "finished": "Complete",
    "length": "Cut off at the limit",
    "stopped": "Stopped",
    "failed": "Failed",
    "interrupted": "Interrupted",
}
REASONS = ("stop", "cancelled", "error", "timeout", "restart")
"""What else may be said of an ending, in the words that are stored."""
_FILTER = re.compile(r"([a-z]+):(.+)", re.DOTALL)
_ID = re.compile(r"[0-9a-f]{24}")
_DATE = re.compile(r"(\d{4})(?:-(\d{1,2}))?(?:-(\d{1,2}))?")


@dataclass(frozen=True, slots=True)
class Search:
    """Words that a message must have, all of them, and what else must be true of it."""

    words: tuple[str, ...] = ()
    """Folded, as texts are when they are compared."""
    role: str = ""
    ended: str = ""
    models: tuple[str, ...] = ()
    """Names of models, one of which must have answered."""
    code: bool = False
    after: datetime | None = None
    before: datetime | None = None
    pinned: bool = False
    archived: bool = False
    tag: str = ""
    conversation: str = ""
    """The only one to look in; empty for all."""
    filters: tuple[str, ...] = ()
    """The typed words that were read as filters, as they were typed."""

    @property
    def of_messages(self) -> bool:
        """Whether it asks for what only messages have, so that no title can be meant."""
        return bool(self.role or self.ended or self.models or self.code)

    @property
    def of_conversations(self) -> bool:
        """Whether it asks for what only some conversations have."""
        return bool(self.pinned or self.archived or self.tag or self.conversation)

    @property
    def empty(self) -> bool:
        """Whether nothing is asked."""
        return all(getattr(self, one.name) == one.default for one in fields(self))


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the values of filters are read with."""

    models: Collection[str] = ()
    """The names of those that have answered."""
    tags: Collection[str] = ()
    """The keys of those that the owner has."""
    zone: tzinfo | None = None
    """Where the reader's days begin; None for the server's."""


def search_of(typed: str, given: Mapping[str, list[str]], vocabulary: Vocabulary, *, plain: bool = False) -> Search:
    """What is looked for, by what was typed and the fields of a form. Raises `Invalid` for a field without sense.

    With `plain` no typed word is a filter.
    """
    search, words = Search(), list[str]()
    for word in typed[:LONGEST].split():
        named = None if plain else _FILTER.fullmatch(word)
        narrowed = _narrowed(search, named[1], named[2], vocabulary) if named else None
        if narrowed is None:
            words += fold(word).split()
        else:
            search = replace(narrowed, filters=(*narrowed.filters, word))
    for name, values in given.items():
        for value in filter(None, values):
            narrowed = _narrowed(search, name, value, vocabulary)
            if narrowed is None:
                raise Invalid(f"“{value[:80]}” can’t be looked for as “{name}”.")
            search = narrowed
    return replace(search, words=tuple(dict.fromkeys(words[:MOST_WORDS])))


def _narrowed(search: Search, name: str, value: str, vocabulary: Vocabulary) -> Search | None:
    """The search with one more filter; None where there is no such filter, or it has no such value."""
    read = _FILTERS.get(name)
    change = read(value, vocabulary) if read is not None else None
    return replace(search, **change) if change is not None else None


Change = dict[str, Any] | None


def _role(value: str, _: Vocabulary) -> Change:
    return {"role": value.lower()} if value.lower() in ROLES else None


def _ended(value: str, _: Vocabulary) -> Change:
    return {"ended": value.lower()} if value.lower() in (*ENDINGS, *REASONS) else None


def _model(value: str, vocabulary: Vocabulary) -> Change:
    wanted = fold(value)
    found = tuple(name for name in vocabulary.models if wanted in fold(name))
    return {"models": found} if found else None


def _after(value: str, vocabulary: Vocabulary) -> Change:
    day = _day(value, vocabulary.zone)
    return {"after": day} if day else None


def _before(value: str, vocabulary: Vocabulary) -> Change:
    day = _day(value, vocabulary.zone)
    return {"before": day} if day else None


def _day(value: str, zone: tzinfo | None) -> datetime | None:
    read = _DATE.fullmatch(value)
    if read is None:
        return None
    try:
        day = datetime(int(read[1]), int(read[2] or 1), int(read[3] or 1))
        there = day.replace(tzinfo=zone) if zone else day.astimezone()
        there.astimezone(UTC)  # at the ends of the calendar a day may be none elsewhere, and is kept nowhere
        return there
    except (ValueError, OverflowError):
        return None


def _has(value: str, _: Vocabulary) -> Change:
    return {"code": True} if value.lower() == "code" else None


def _is(value: str, _: Vocabulary) -> Change:
    return {value.lower(): True} if value.lower() in ("pinned", "archived") else None


_FILTERS: dict[str, Callable[[str, Vocabulary], Change]] = {
    "role": _role,
    "ended": _ended,
    "model": _model,
    "after": _after,
    "before": _before,
    "has": _has,
    "is": _is,
    "tag": lambda value, vocabulary: {"tag": value} if key_of(value) in vocabulary.tags else None,
    "in": lambda value, _: {"conversation": value} if _ID.fullmatch(value) else None,
}
FILTERS = tuple(_FILTERS)
"""The names of filters, as words and as fields."""
