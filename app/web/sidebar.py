"""What the sidebar lists: the owner's conversations by the day of their last turn, and which are being answered."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from fastapi import Request

from app.conversations.models import Conversation
from app.conversations.queries import answering, conversations_of
from app.web.access import Access
from app.web.parts import Parts


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the sidebar."""

    conversation: Conversation
    answering: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Entries under one heading. Empty ones are kept: the page puts new entries into today's."""

    id: str
    name: str
    entries: list[Entry] = field(default_factory=list)


def sidebar(request: Request) -> list[Group]:
    """The groups and their entries, the most recent first."""
    parts: Parts = request.app.state.parts
    access: Access = request.app.state.access
    owner = access(request)
    with parts.database.read() as session:
        busy = answering(session, owner)
        entries = [Entry(row, row.id in busy) for row in conversations_of(session, owner)]
    return grouped(entries, datetime.now().astimezone().date())


def grouped(entries: list[Entry], today: date) -> list[Group]:
    """Entries by calendar day, in the time zone of the server."""
    groups = [
        Group("today", "Today"),
        Group("yesterday", "Yesterday"),
        Group("week", "Previous 7 days"),
        Group("older", "Older"),
    ]
    firsts = [today, today - timedelta(days=1), today - timedelta(days=7), date.min]
    for entry in entries:
        day = entry.conversation.updated_at.astimezone().date()
        next(group for group, first in zip(groups, firsts, strict=True) if day >= first).entries.append(entry)
    return groups
