"""Titles that the model makes: what an open page asks until it has come."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.conversations.queries import conversation_of
from app.errors import NotFound
from app.web.access import Owner
from app.web.pages import pages_of
from app.web.parts import PartsOf

router = APIRouter()


@router.get("/conversations/{conversation_id}/titling")
def show_titling(request: Request, owner: Owner, parts: PartsOf, conversation_id: str) -> Response:
    """The title, once it is certain; until then the page asks again."""
    # Asked first: what is read afterwards is then the last word.
    settled = not parts.titling.awaits(conversation_id)
    try:
        with parts.database.read() as session:
            conversation = conversation_of(session, owner, conversation_id)
    except NotFound:
        # Told an error, the page would ask for ever.
        return pages_of(request).partial("conversations/_titling.html", conversation=None, running=None)
    names = ["conversations/_titling.html"]
    if settled:
        names.append("conversations/_titled.html")
    return pages_of(request).partial(*names, conversation=conversation, running=None, settled=settled)
