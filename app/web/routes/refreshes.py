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
from app.web.transcripts import shown

router = APIRouter()


class Seen(BaseModel):
    """What a page shows: a conversation, its last message, and the state of that."""

    conversation: str = ""
    leaf: str = ""
    state: str = ""


@router.get("/refresh")
def show_refresh(request: Request, owner: Owner, parts: PartsOf, seen: Annotated[Seen, Query()]) -> Response:
    """Bring a page up to date."""
    pages = pages_of(request)
    if not seen.conversation:
        return pages.partial("conversations/_refreshed.html", request=request, open="")
    try:
        with parts.database.read() as session:
            page = shown(parts, session, conversation_of(session, owner, seen.conversation))
    except NotFound:
        return pages.partial("conversations/_refreshed.html", "conversations/_gone.html", request=request, open="")
    names = ["conversations/_refreshed.html", "conversations/_retitled.html"]
    last = page.bubbles[-1].message
    # A running answer that the page shows brings its own news.
    if (last.id, last.state) != (seen.leaf, seen.state) and not (
        last.id == seen.leaf and last.active and seen.state in ACTIVE
    ):
        names.append("messages/_caught_up.html")
    return pages.partial(
        *names,
        request=request,
        open=seen.conversation,
        page=page,
        conversation=page.conversation,
        bubbles=page.bubbles,
        running=page.running,
        leaf=page.leaf,
    )
