"""Selections: what is done to one conversation or to many at once, and the undoing of a deletion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import SplitResult, urlencode, urlsplit

from fastapi import APIRouter, Depends, Request
from sqlalchemy import select
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.conversations.models import Conversation
from app.conversations.queries import active_answers, conversation_of
from app.conversations.tags import add_tag, remove_tag, tag_name
from app.conversations.trash import give_up, give_up_all, in_trash, restore, trash, trashed_at
from app.database import now
from app.errors import Invalid, NotFound
from app.generation.models import Generation
from app.generation.queries import stop_all
from app.web.access import Owner
from app.web.forms import Fields
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.selected import Chosen
from app.web.trashed import Trashed, mark_of, moment_of

router = APIRouter()

LISTS = ("conversations", "archive", "trash")


@dataclass(frozen=True, slots=True)
class Selection:
    """Conversations and what is to be done to them."""

    ids: Sequence[str]
    act: str
    tag: str = ""
    back: str = ""
    """The list that it was chosen in, to be seen again; empty for the page of a conversation."""
    through: str = ""
    """How far that page has read on in the sidebar."""


async def _selection(chosen: Chosen, fields: Fields) -> Selection:
    back = fields.get("back", "")
    return Selection(
        chosen,
        fields.get("act", ""),
        fields.get("tag", ""),
        back if back in LISTS else "",
        fields.get("through", ""),
    )


PostedSelection = Annotated[Selection, Depends(_selection)]


@router.post("/selection")
def create_selection(request: Request, owner: Owner, parts: PartsOf, selection: PostedSelection) -> Response:
    """Do something to all conversations of a selection that are there."""
    if selection.act in _ON_TRASH:
        return _on_trash(request, owner, parts, selection)
    if selection.act == "trash":
        return _trash(request, owner, parts, selection)
    if selection.act not in _ACTIONS:
        raise Invalid("There is no such thing to do.")
    with parts.database.write() as session:
        chosen = _chosen(session, owner, selection.ids)
        _ACTIONS[selection.act](session, owner, chosen, selection.tag)
    return _told(request, selection, chosen)


@router.post("/conversations/{conversation_id}/deletion")
def delete_conversation(
    request: Request, owner: Owner, parts: PartsOf, fields: Fields, conversation_id: str
) -> Response:
    """Put one conversation into the trash."""
    with parts.database.read() as session:
        conversation_of(session, owner, conversation_id)
    return _trash(request, owner, parts, Selection([conversation_id], "trash", through=fields.get("through", "")))


@router.post("/restoration")
def create_restoration(request: Request, owner: Owner, parts: PartsOf, fields: Fields) -> Response:
    """Undo a deletion: bring back what went into the trash at one moment."""
    moment = moment_of(fields.get("trashed", ""))
    with parts.database.write() as session:
        back = trashed_at(session, owner, moment) if moment else []
        restore(back)
    if not back:
        raise NotFound("There is nothing in the trash that this could bring back.")
    listing = fields.get("back", "")
    if listing in LISTS:
        return pages_of(request).see(f"/{listing}?{urlencode({'done': 'restore', 'count': len(back)})}")
    if by_htmx(request) and "trashed=" not in _here(request).query:
        return _ordered(request, fields.get("through", ""), [])
    # Whoever deleted what they were reading goes on reading it.
    path = f"/conversations/{back[0].id}" if len(back) == 1 else "/"
    if by_htmx(request):
        return Response(status_code=204, headers={"HX-Redirect": pages_of(request).path(path)})
    return pages_of(request).see(path)


@router.post("/trash/emptying")
def create_emptying(request: Request, owner: Owner, parts: PartsOf) -> Response:
    """Delete for good what is in the trash."""
    with parts.database.write() as session:
        give_up_all(session, owner)
    parts.purger.wake()
    return pages_of(request).see("/trash?done=empty")


def _pin(_session: Session, _owner: str, chosen: Sequence[Conversation], _tag: str) -> None:
    for conversation in chosen:
        conversation.pinned_at = conversation.pinned_at or now()
        conversation.archived_at = None


def _unpin(_session: Session, _owner: str, chosen: Sequence[Conversation], _tag: str) -> None:
    for conversation in chosen:
        conversation.pinned_at = None


def _archive(_session: Session, _owner: str, chosen: Sequence[Conversation], _tag: str) -> None:
    for conversation in chosen:
        conversation.archived_at = conversation.archived_at or now()
        conversation.pinned_at = None


def _unarchive(_session: Session, _owner: str, chosen: Sequence[Conversation], _tag: str) -> None:
    for conversation in chosen:
        conversation.archived_at = None


def _tag(session: Session, owner: str, chosen: Sequence[Conversation], tag: str) -> None:
    add_tag(session, owner, chosen, tag_name(tag))


def _untag(session: Session, owner: str, chosen: Sequence[Conversation], tag: str) -> None:
    remove_tag(session, owner, chosen, tag_name(tag))


_ACTIONS = {
    "pin": _pin,
    "unpin": _unpin,
    "archive": _archive,
    "unarchive": _unarchive,
    "tag": _tag,
    "untag": _untag,
}
_ON_TRASH = {"restore": restore, "remove": give_up}


def _on_trash(request: Request, owner: str, parts: Parts, selection: Selection) -> Response:
    """Bring back, or delete for good, what of a selection is in the trash."""
    with parts.database.write() as session:
        chosen = _chosen(session, owner, selection.ids, trashed=True)
        _ON_TRASH[selection.act](chosen)
    if selection.act == "remove":
        parts.purger.wake()
    return _told(request, selection, chosen)


def _trash(request: Request, owner: str, parts: Parts, selection: Selection) -> Response:
    """Put a selection into the trash. What is being answered in it stops first."""
    stopping: list[Generation] = []
    with parts.database.write() as session:
        chosen = _chosen(session, owner, selection.ids)
        for conversation in chosen:
            stopping += stop_all(session, active_answers(session, conversation))
        moment = trash(chosen)
    for generation in stopping:
        parts.runner.cancel(generation.id)
    trashed = Trashed(mark_of(moment), chosen)
    query = f"?trashed={trashed.mark}"
    if not by_htmx(request):
        return pages_of(request).see(f"/{selection.back}{query}")
    response = _ordered(request, selection.through, chosen, trashed)
    if _open(request) in {conversation.id for conversation in chosen}:
        response.headers["HX-Redirect"] = pages_of(request).path(f"/{query}")
    return response


def _chosen(session: Session, owner: str, ids: Sequence[str], *, trashed: bool = False) -> list[Conversation]:
    place = in_trash() if trashed else Conversation.trashed_at.is_(None)
    question = select(Conversation).where(Conversation.id.in_(ids), Conversation.owner == owner, place)
    found = list(session.scalars(question.order_by(Conversation.id)))
    if not found:
        raise NotFound("There is no such conversation. It may have been deleted.")
    return found


def _told(request: Request, selection: Selection, chosen: Sequence[Conversation]) -> Response:
    """The page that it was chosen on, as it is now."""
    if by_htmx(request):
        return _ordered(request, selection.through, chosen)
    if selection.back:
        done = urlencode({"done": selection.act, "count": len(chosen)})
        return pages_of(request).see(f"/{selection.back}?{done}")
    return pages_of(request).see(f"/conversations/{chosen[0].id}")


def _ordered(
    request: Request, through: str, chosen: Sequence[Conversation], trashed: Trashed | None = None
) -> Response:
    """The sidebar as it is now, and a way back where something was deleted."""
    here = _open(request)
    response = pages_of(request).partial(
        "conversations/_ordered.html",
        request=request,
        open=here,
        through=through,
        trashed=trashed,
        undo=None,
        shown=next((conversation for conversation in chosen if conversation.id == here), None),
    )
    response.headers["HX-Reswap"] = "none"
    return response


def _open(request: Request) -> str:
    """The id of the conversation that the asking page shows; anything else where it shows none."""
    return _here(request).path.rpartition("/")[2]


def _here(request: Request) -> SplitResult:
    """The address of the asking page; an empty one where it tells none, or none that can be read."""
    try:
        return urlsplit(request.headers.get("hx-current-url", ""))
    except ValueError:
        return urlsplit("")
