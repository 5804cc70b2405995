"""Conversations: the new chat, one conversation, its title."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Query, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.conversations.models import Conversation, Message, Tag
from app.conversations.queries import Turn, conversation_of, message_of, start_conversation
from app.conversations.tags import tags_on
from app.errors import AppError, Invalid, NotFound
from app.generation.models import Generation
from app.generation.queries import queue
from app.web.access import Owner
from app.web.contexts import LATER, check_alone, gauge
from app.web.failures import failure
from app.web.forms import PostedTitle, PostedTurn
from app.web.model_forms import ChosenModel, check_model
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.steering_forms import ChosenSteering, carried
from app.web.transcripts import NEWEST, Window, shown, shown_first
from app.web.trashed import Trashed, trashed_of

router = APIRouter()


def _own_conversation(owner: Owner, parts: PartsOf, conversation_id: str) -> Conversation:
    with parts.database.read() as session:
        return conversation_of(session, owner, conversation_id)


def _window(first: Annotated[str, Query(alias="from")] = "", before: str = "", message: str = "") -> Window:
    return Window(first, before, message)


OwnConversation = Annotated[Conversation, Depends(_own_conversation)]


@router.get("/")
def show_new_conversation(request: Request, owner: Owner, parts: PartsOf, trashed: str = "") -> Response:
    """A new chat; `trashed` is what was put into the trash just now, which can be undone."""
    return new_conversation_page(request, parts, trashed=trashed_of(parts, owner, trashed))


@router.post("/conversations")
def create_conversation(
    request: Request, *, owner: Owner, parts: PartsOf, form: PostedTurn, chosen: ChosenSteering, model: ChosenModel
) -> Response:
    """A conversation and its first turn, in one commit: an empty conversation never exists."""
    try:
        form.check(parts.settings)
        check_model(parts, model)
        if (engine := parts.catalog.loaded(model)) is not None:
            check_alone(engine, parts.steering.changed_by(chosen), form.text)
    except Invalid as error:
        if by_htmx(request):
            return failure(request, error)
        return new_conversation_page(request, parts, form.text, error, chosen, model=model)
    with parts.database.write() as session:
        turn = start_conversation(session, owner, form.text, form.submission, model=model, steering=chosen)
        generation = queue(session, turn.answer) if turn.fresh else None
    path = f"/conversations/{turn.conversation.id}"
    parts.begin(generation, turn.conversation, shown=by_htmx(request))
    if not by_htmx(request):
        return pages_of(request).see(path)
    response = _started(request, parts, turn, generation)
    response.headers["HX-Push-Url"] = parts.settings.root_path + path
    return response


def _started(request: Request, parts: Parts, turn: Turn, generation: Generation | None) -> Response:
    tags: Sequence[Tag] = ()
    if generation is not None:
        page = shown_first(parts, turn, generation)
    else:
        with parts.database.read() as session:
            page = shown(parts, session, turn.conversation)
            tags = tags_on(session, [turn.conversation])[turn.conversation.id]
    return pages_of(request).partial(
        "conversations/_started.html",
        conversation=page.conversation,
        bubbles=page.bubbles,
        running=page.running,
        submission=new_submission(),
        leaf=page.leaf,
        gauge=gauge(
            parts, page.conversation.steering, page.messages or (), page.generations, model=page.conversation.model
        ),
        model=page.conversation.model or "",
        tags=tags,
    )


@router.get("/conversations/{conversation_id}")
def show_conversation(
    request: Request,
    *,
    owner: Owner,
    parts: PartsOf,
    conversation_id: str,
    window: Annotated[Window, Depends(_window)],
    deleted: str = "",
) -> Response:
    """A conversation along what is chosen; with `message` along the branch that holds it, choosing nothing.

    For a page that is open, the messages before those that it shows. `deleted` is the branch that was deleted
    just now, by a browser without scripts: it can be undone.
    """
    if not (window.before and by_htmx(request)):
        window = replace(window, before="")
        return conversation_page(request, owner, parts, conversation_id, window=window, deleted=deleted)
    with parts.database.read() as session:
        page = shown(parts, session, conversation_of(session, owner, conversation_id), window)
    return pages_of(request).partial("messages/_earlier.html", page=page, bubbles=page.bubbles)


@router.get("/conversations/{conversation_id}/title")
def show_title(request: Request, conversation: OwnConversation, here: bool = False) -> Response:
    """The form that renames: in a dialog, in the place of the heading, or as a page of its own."""
    if here and by_htmx(request):
        return pages_of(request).partial("conversations/_heading_form.html", conversation=conversation)
    return _dialog(request, "title", conversation)


@router.post("/conversations/{conversation_id}/title")
def change_title(
    request: Request, owner: Owner, parts: PartsOf, conversation_id: str, title: PostedTitle
) -> Response:
    with parts.database.write() as session:
        conversation = conversation_of(session, owner, conversation_id)
        conversation.title, conversation.own_title = title, True
    if by_htmx(request):
        return pages_of(request).partial("conversations/_renamed.html", conversation=conversation)
    return pages_of(request).see(f"/conversations/{conversation_id}")


def conversation_page(
    request: Request,
    owner: str,
    parts: Parts,
    conversation_id: str,
    *,
    draft: str = "",
    error: AppError | None = None,
    window: Window = NEWEST,
    through: str | None = None,
    deleted: str = "",
) -> Response:
    """The page of one conversation; with what could not be sent, and why."""
    with parts.database.read() as session:
        page = shown(parts, session, conversation_of(session, owner, conversation_id), window, through=through)
        undo = _deleted(session, owner, conversation_id, deleted)
    asked = through or window.around
    kept = {"message": asked if page.holds(asked) else "", "deleted": undo.id if undo else ""}
    query = urlencode({name: value for name, value in kept.items() if value})
    return _show(
        request,
        page.conversation,
        draft,
        error,
        page=page,
        bubbles=page.bubbles,
        running=page.running,
        leaf=page.leaf,
        undo=undo,
        trashed=None,
        query=f"?{query}" if query else "",
        gauge=LATER
        if page.messages is None
        else gauge(
            parts,
            page.conversation.steering,
            page.messages,
            page.generations,
            draft,
            model=page.conversation.model,
        ),
        model=page.conversation.model or "",
    )


def _deleted(session: Session, owner: str, conversation_id: str, message_id: str) -> Message | None:
    """A branch of this conversation that is deleted, by its first message; None where there is none."""
    try:
        found = message_of(session, owner, message_id, deleted=True)
    except NotFound:
        return None
    return found if found.conversation_id == conversation_id and found.deleted_at is not None else None


def new_submission() -> str:
    """The id of the next sending of a composer."""
    return secrets.token_urlsafe(12)


def new_conversation_page(
    request: Request,
    parts: Parts,
    draft: str = "",
    error: AppError | None = None,
    chosen: Mapping[str, Any] | None = None,
    *,
    model: str | None = None,
    trashed: Trashed | None = None,
) -> Response:
    """The page of a chat that is not begun; with what could not be sent, and why, and how it is to be steered."""
    return _show(
        request,
        None,
        draft,
        error,
        page=None,
        bubbles=[],
        running=None,
        leaf="",
        undo=None,
        trashed=trashed,
        query="",
        gauge=gauge(parts, chosen, draft=draft, model=model),
        chosen=carried(chosen or {}),
        model=model or "",
    )


def _show(
    request: Request, conversation: Conversation | None, draft: str, error: AppError | None, **context: object
) -> Response:
    return pages_of(request).page(
        request,
        "conversations/show.html",
        error.status if error else 200,
        conversation=conversation,
        draft=draft,
        error=error.words if error else None,
        submission=new_submission(),
        **context,
    )


def _dialog(request: Request, name: str, conversation: Conversation) -> Response:
    """A question about a conversation: within the page by htmx, else a page of its own."""
    if by_htmx(request):
        return pages_of(request).partial(f"conversations/_{name}.html", conversation=conversation)
    return pages_of(request).page(request, f"conversations/{name}.html", conversation=conversation)
