"""What a page that was out of sight, or another tab's, has not seen: one request, one set of fragments."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from app.conversations.models import ACTIVE
from app.conversations.queries import conversation_of
from app.errors import NotFound
from app.web.access import Owner
from app.web.pages import pages_of
from app.web.parts import PartsOf
from app.web.transcripts import Shown, shown

router = APIRouter()


class Seen(BaseModel):
    """What a page shows: a conversation, its last message, the state of that, and the variants at its forks."""

    conversation: str = ""
    leaf: str = ""
    state: str = ""
    forks: str | None = None
    through: str = ""
    """How far the page has read on in the sidebar."""


@router.get("/refresh")
def show_refresh(request: Request, owner: Owner, parts: PartsOf, seen: Annotated[Seen, Query()]) -> Response:
    """Bring a page up to date."""
    pages = pages_of(request)
    if not seen.conversation:
        return pages.partial("conversations/_refreshed.html", request=request, open="", through=seen.through)
    try:
        with parts.database.read() as session:
            # On the branch that the page shows: another tab's choice must not pull this one away.
            page = shown(parts, session, conversation_of(session, owner, seen.conversation), through=seen.leaf)
    except NotFound:
        names = ["conversations/_refreshed.html", "conversations/_gone.html"]
        return pages.partial(*names, request=request, open="", through=seen.through)
    names = ["conversations/_refreshed.html", "conversations/_retitled.html"]
    if _behind(seen, page):
        names.append("messages/_caught_up.html")
    return pages.partial(
        *names,
        request=request,
        open=seen.conversation,
        through=seen.through,
        page=page,
        conversation=page.conversation,
        bubbles=page.bubbles,
        running=page.running,
        leaf=page.leaf,
    )


def _behind(seen: Seen, page: Shown) -> bool:
    if page.leaf != seen.leaf or seen.forks not in (None, page.forks):
        return True
    if not page.bubbles:
        return False
    last = page.bubbles[-1].message
    # A running answer that the page shows brings its own news.
    return last.state != seen.state and not (last.active and seen.state in ACTIVE)
