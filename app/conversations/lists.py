"""Lists of an owner's conversations, read a page at a time in the order of an index."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Self

from sqlalchemy import ColumnElement, Select, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute, Session

from app.conversations.models import Conversation, Tag, Tagging
from app.conversations.trash import in_trash

Listing = Literal["sidebar", "pinned", "history", "archive", "trash"]
"""`sidebar` is what is neither pinned nor archived, `history` what is not archived."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a list, after one of its conversations: it stays right whatever comes in above it."""

    at: datetime
    id: str

    def __str__(self) -> str:
        return f"{self.at.astimezone(UTC):%Y%m%dT%H%M%S.%f}-{self.id}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """A place as it was written; None for what is none, which is the beginning of a list."""
        moment, _, id_ = text.partition("-")
        if not id_:
            return None
        try:
            return cls(datetime.strptime(moment, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC), id_)
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list. `end` is the place after it; `more` tells whether anything comes there."""

    conversations: Sequence[Conversation]
    end: Place | None = None
    more: bool = False


def listed(
    session: Session, owner: str, listing: Listing, size: int, *, after: Place | None = None, tag: Tag | None = None
) -> Page:
    """The conversations of a list that follow a place, or its first ones; the latest come first."""
    rows = session.scalars(_list(owner, listing, after=after, tag=tag).limit(size + 1)).all()
    return _page(listing, rows[:size], more=len(rows) > size)


def listed_through(session: Session, owner: str, listing: Listing, end: Place, most: int) -> Page:
    """The first conversations of a list down to a place: what a page that has read on so far shows."""
    rows = session.scalars(_list(owner, listing, through=end).limit(most)).all()
    if not rows:
        return listed(session, owner, listing, most)
    page = _page(listing, rows, more=True)
    rest = listed(session, owner, listing, 1, after=page.end)
    return Page(page.conversations, page.end, more=bool(rest.conversations))


def _list(
    owner: str, listing: Listing, *, after: Place | None = None, through: Place | None = None, tag: Tag | None = None
) -> Select[Conversation]:
    column = _order(listing)
    question = select(Conversation).where(Conversation.owner == owner, *_belongs(listing))
    if tag is not None:
        tagged = select(Tagging.conversation_id).where(Tagging.tag_id == tag.id)
        question = question.where(Conversation.id.in_(tagged))
    place = tuple_(column, Conversation.id)
    if after is not None:
        question = question.where(place < _bound(after))
    if through is not None:
        question = question.where(place >= _bound(through))
    return question.order_by(column.desc(), Conversation.id.desc())


def _belongs(listing: Listing) -> list[ColumnElement[bool]]:
    if listing == "trash":
        return [in_trash()]
    away = Conversation.archived_at.is_not(None) if listing == "archive" else Conversation.archived_at.is_(None)
    conditions: list[ColumnElement[bool]] = [Conversation.trashed_at.is_(None), away]
    if listing == "sidebar":
        conditions.append(Conversation.pinned_at.is_(None))
    if listing == "pinned":
        conditions.append(Conversation.pinned_at.is_not(None))
    return conditions


def _order(listing: Listing) -> InstrumentedAttribute[Any]:
    special = {
        "pinned": Conversation.pinned_at,
        "archive": Conversation.archived_at,
        "trash": Conversation.trashed_at,
    }
    return special.get(listing, Conversation.updated_at)


def _bound(place: Place) -> tuple[datetime, str]:
    return place.at, place.id


def _page(listing: Listing, rows: Sequence[Conversation], *, more: bool) -> Page:
    if not rows:
        return Page(rows)
    return Page(rows, Place(getattr(rows[-1], _order(listing).key), rows[-1].id), more)
