"""What a page that was out of sight, or another tab's, has not seen: one request, one set of fragments."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.conversations.queries import conversation_of
from app.errors import NotFound
from app.web.access import Owner
from app.web.pages import pages_of
from app.web.parts import PartsOf
from app.web.transcripts import shown

router = APIRouter()


@router.get("/refresh")
def show_refresh(
    request: Request, owner: Owner, parts: PartsOf, conversation: str = "", leaf: str = "", state: str = ""
) -> Response:
    """Bring a page up to date that shows `leaf`, in that state, as the last message of a conversation."""
    pages = pages_of(request)
    if not conversation:
        return pages.partial("conversations/_refreshed.html", request=request, open="")
    try:
        with parts.database.read() as session:
            page = shown(session, parts.events, conversation_of(session, owner, conversation))
    except NotFound:
        return pages.partial("conversations/_refreshed.html", "conversations/_gone.html", request=request, open="")
    names = ["conversations/_refreshed.html", "conversations/_retitled.html"]
    last = page.bubbles[-1].message
    # A running answer that the page shows brings its own news.
    if (last.id, last.state) != (leaf, state) and not (last.id == leaf and last.active and state in _ACTIVE):
        names.append("messages/_caught_up.html")
    return pages.partial(
        *names,
        request=request,
        open=conversation,
        conversation=page.conversation,
        bubbles=page.bubbles,
        running=page.running,
        leaf=page.leaf,
    )


_ACTIVE = ("queued", "running")
