"""What the sidebar lists: pinned conversations, and the others by the reader's calendar, a page at a time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo

from fastapi import Request

from app.conversations.lists import Page, Place, listed, listed_through
from app.conversations.models import Conversation
from app.conversations.queries import answering
from app.web.access import Access
from app.web.parts import Parts
from app.web.zones import zone_of

PAGE = 30
"""Entries at first, and more at a time."""
MOST = 200
"""Entries of a sidebar that was read on in, when it is brought up to date."""
MOST_PINNED = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the sidebar."""

    conversation: Conversation
    answering: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Entries under one heading."""

    id: str
    name: str
    entries: list[Entry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Sidebar:
    """Groups of entries, the place after the last of them, and whether more come there."""

    groups: Sequence[Group]
    end: str
    more: bool
    offset: int
    """How far the clock by which it is grouped is before UTC, in minutes."""

    @property
    def last(self) -> str:
        """The id of the last group, which may go on with the next entries."""
        return self.groups[-1].id if self.groups else ""


def sidebar(request: Request, through: str = "") -> Sidebar:
    """The sidebar from its top; down to a place as far as which a page has read on in it."""
    parts: Parts = request.app.state.parts
    access: Access = request.app.state.access
    owner = access(request)
    end = Place.read(through)
    with parts.database.read() as session:
        busy = answering(session, owner)
        pinned = listed(session, owner, "pinned", MOST_PINNED)
        page = (
            listed_through(session, owner, "sidebar", end, MOST) if end else listed(session, owner, "sidebar", PAGE)
        )
    top = [Group("pinned", "Pinned", _entries(pinned, busy)), Group("today", "Today")]
    return _sidebar(request, page, busy, top)


def sidebar_after(request: Request, owner: str, parts: Parts, after: str) -> Sidebar:
    """The next page of the sidebar."""
    with parts.database.read() as session:
        busy = answering(session, owner)
        page = listed(session, owner, "sidebar", PAGE, after=Place.read(after))
    return _sidebar(request, page, busy, [])


def _sidebar(request: Request, page: Page, busy: set[str], top: Sequence[Group]) -> Sidebar:
    zone, now = zone_of(request), datetime.now(UTC)
    offset = now.astimezone(zone).utcoffset() or timedelta()
    groups = grouped(_entries(page, busy), now, zone, top)
    return Sidebar(groups, str(page.end or ""), page.more, offset // timedelta(minutes=1))


def _entries(page: Page, busy: set[str]) -> list[Entry]:
    return [Entry(row, row.id in busy) for row in page.conversations]


def grouped(entries: Iterable[Entry], now: datetime, zone: tzinfo | None, top: Sequence[Group] = ()) -> list[Group]:
    """Entries by calendar day in a time zone (None: the server's); those of the groups of the top come into these.

    The groups of the top stay also where they are empty: the page puts new entries into today's.
    """
    groups = {group.id: group for group in top}
    today = now.astimezone(zone).date()
    for entry in entries:
        id_, name = _heading(entry.conversation.updated_at.astimezone(zone).date(), today)
        groups.setdefault(id_, Group(id_, name)).entries.append(entry)
    return list(groups.values())


def _heading(day: date, today: date) -> tuple[str, str]:
    if day >= today:
        return "today", "Today"
    if day == today - timedelta(days=1):
        return "yesterday", "Yesterday"
    if day >= today - timedelta(days=7):
        return "week", "Previous 7 days"
    return f"{day:%Y-%m}", f"{day:%B %Y}"
