"""Lists of conversations: the history, the archive, the trash and more of the sidebar, a page at a time."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import Response

from app.conversations.lists import Listing, Place, listed
from app.conversations.tags import tag_of, tags_of, tags_on
from app.web.access import Owner
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.sidebar import sidebar_after
from app.web.trashed import trashed_of

router = APIRouter()

PAGE = 50


class Asked(BaseModel):
    """What of a list is asked for, and what was done just now to some of it."""

    after: str = ""
    tag: str = ""
    trashed: str = ""
    done: str = ""
    count: int = 0


AskedOf = Annotated[Asked, Query()]


@router.get("/conversations")
def show_history(request: Request, owner: Owner, parts: PartsOf, asked: AskedOf) -> Response:
    """All conversations but the archived ones, the latest first; with `tag` those that have it."""
    return _list(request, owner, parts, "history", asked)


@router.get("/archive")
def show_archive(request: Request, owner: Owner, parts: PartsOf, asked: AskedOf) -> Response:
    """The conversations that were put away."""
    return _list(request, owner, parts, "archive", asked)


@router.get("/trash")
def show_trash(request: Request, owner: Owner, parts: PartsOf, asked: AskedOf) -> Response:
    """The conversations that were deleted and can still be brought back, the last one first."""
    return _list(request, owner, parts, "trash", asked)


@router.get("/sidebar")
def show_sidebar(request: Request, owner: Owner, parts: PartsOf, after: str = "", last: str = "") -> Response:
    """More of the sidebar: what follows a place in it. `last` is the group that it ended with."""
    more = sidebar_after(request, owner, parts, after)
    return pages_of(request).partial("conversations/_further.html", more=more, last=last, open="")


def _list(request: Request, owner: str, parts: Parts, listing: Listing, asked: Asked) -> Response:
    with parts.database.read() as session:
        tag = tag_of(session, owner, asked.tag) if asked.tag else None
        nothing = asked.tag and tag is None
        page = listed(session, owner, listing, PAGE, after=Place.read(asked.after), tag=tag)
        context: dict[str, Any] = {
            "listing": listing,
            "conversations": [] if nothing else page.conversations,
            "after": "" if nothing or not page.more else str(page.end or ""),
            "tags_by_id": tags_on(session, page.conversations),
            "tag": tag.name if tag else asked.tag,
        }
        if by_htmx(request):
            return pages_of(request).partial("lists/_rows.html", request=request, **context)
        tags = tags_of(session, owner)
    return pages_of(request).page(
        request,
        "lists/show.html",
        tags=tags,
        trashed=trashed_of(parts, owner, asked.trashed),
        done=asked.done,
        count=asked.count,
        beginning=not asked.after,
        days=parts.settings.trash_days,
        **context,
    )
