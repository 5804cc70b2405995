"""Tags of one conversation: shown, added, taken away."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.conversations.models import Conversation, Tag
from app.conversations.queries import conversation_of
from app.conversations.tags import add_tag, remove_tag, tag_name, tags_of, tags_on
from app.database import Database
from app.errors import Invalid
from app.web.access import Owner
from app.web.failures import failure
from app.web.forms import Fields
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.routes.conversations import OwnConversation

router = APIRouter()


def tags_of_conversation(database: Database, conversation: Conversation) -> Sequence[Tag]:
    """The tags of a conversation, for the templates that show it."""
    with database.read() as session:
        return tags_on(session, [conversation])[conversation.id]


@router.get("/conversations/{conversation_id}/tags")
def show_tags(request: Request, owner: Owner, parts: PartsOf, conversation: OwnConversation) -> Response:
    return _tags(request, owner, parts, conversation)


@router.post("/conversations/{conversation_id}/tags")
def change_tags(request: Request, owner: Owner, parts: PartsOf, conversation_id: str, fields: Fields) -> Response:
    """Add the tag `add`, or take away the tag `remove`."""
    try:
        with parts.database.write() as session:
            conversation = conversation_of(session, owner, conversation_id)
            if remove := fields.get("remove"):
                remove_tag(session, owner, [conversation], remove)
            else:
                add_tag(session, owner, [conversation], tag_name(fields.get("add", "")))
    except Invalid as error:
        if by_htmx(request):
            return failure(request, error)
        with parts.database.read() as session:
            conversation = conversation_of(session, owner, conversation_id)
        return _tags(request, owner, parts, conversation, error=error)
    if by_htmx(request):
        return _tags(request, owner, parts, conversation, name="_changed")
    return pages_of(request).see(f"/conversations/{conversation_id}/tags")


def _tags(
    request: Request,
    owner: str,
    parts: Parts,
    conversation: Conversation,
    *,
    error: Invalid | None = None,
    name: str = "_tags",
) -> Response:
    """The dialog about a conversation's tags; without scripts a page of its own."""
    with parts.database.read() as session:
        mine, others = tags_on(session, [conversation])[conversation.id], tags_of(session, owner)
    context: dict[str, Any] = {
        "conversation": conversation,
        "tags": mine,
        "known": others,
        "error": error.words if error else "",
    }
    pages = pages_of(request)
    if by_htmx(request):
        return pages.partial(f"tags/{name}.html", **context)
    return pages.page(request, "tags/tags.html", error.status if error else 200, **context)
