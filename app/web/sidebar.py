"""What the sidebar lists: the owner's conversations, and which of them are being answered."""

from dataclasses import dataclass

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


def sidebar(request: Request) -> list[Entry]:
    """The entries, the most recent first."""
    parts: Parts = request.app.state.parts
    access: Access = request.app.state.access
    owner = access(request)
    with parts.database.read() as session:
        busy = answering(session, owner)
        return [Entry(row, row.id in busy) for row in conversations_of(session, owner)]
