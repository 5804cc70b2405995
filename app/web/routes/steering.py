"""Steering: the settings of a conversation and of a chat that is not begun, and the context that they make."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.conversations.models import Conversation
from app.conversations.queries import conversation_of
from app.errors import NotFound
from app.generation.queries import last_ended
from app.texts import clean
from app.web.access import Owner
from app.web.contexts import Gauge, gauge, gauge_of
from app.web.forms import Fields
from app.web.model_forms import ChosenModel
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf
from app.web.routes.conversations import OwnConversation, new_conversation_page
from app.web.steering_forms import ChosenSteering, PostedSteering, carried, steering_form

router = APIRouter()


@router.get("/conversations/{conversation_id}/steering")
def show_steering(request: Request, parts: PartsOf, conversation: OwnConversation) -> Response:
    return _form(request, parts, conversation.steering, conversation, model=conversation.model)


@router.post("/conversations/{conversation_id}/steering")
def change_steering(
    request: Request, owner: Owner, parts: PartsOf, conversation_id: str, chosen: PostedSteering
) -> Response:
    """For the answers that are asked for from now on."""
    with parts.database.write() as session:
        conversation_of(session, owner, conversation_id).steering = chosen or None
    if by_htmx(request):
        return pages_of(request).partial("steering/_saved.html", chosen=None)
    return pages_of(request).see(f"/conversations/{conversation_id}")


@router.post("/steering-form")
def show_steering_of_new(
    request: Request, parts: PartsOf, chosen: ChosenSteering, model: ChosenModel, fields: Fields
) -> Response:
    """The settings of a chat that is not begun. Its composer is sent along: only it knows what was chosen before."""
    return _form(request, parts, chosen, None, draft=_draft(fields), model=model)


@router.post("/steering")
def choose_steering_of_new(
    request: Request, parts: PartsOf, chosen: PostedSteering, model: ChosenModel, fields: Fields
) -> Response:
    """Nothing is kept yet: the composer carries it to the first message."""
    if by_htmx(request):
        return pages_of(request).partial("steering/_saved.html", chosen=carried(chosen))
    return new_conversation_page(request, parts, _draft(fields), chosen=chosen, model=model)


@router.put("/context")
def count_context_of_new(
    request: Request, parts: PartsOf, chosen: ChosenSteering, model: ChosenModel, fields: Fields
) -> Response:
    """The gauge of what would be sent as the first message. Asks only; not by GET, as a draft may be long."""
    return _gauge(request, gauge(parts, chosen, draft=_draft(fields), model=model))


@router.put("/conversations/{conversation_id}/context")
def count_context(
    request: Request, *, owner: Owner, parts: PartsOf, conversation_id: str, model: ChosenModel, fields: Fields
) -> Response:
    """The same for the next message of a conversation.

    A page counts by itself, also while its conversation is being deleted: then it is told nothing, and no error.
    """
    try:
        with parts.database.read() as session:
            conversation = conversation_of(session, owner, conversation_id)
    except NotFound:
        if by_htmx(request):
            return Response(status_code=204)
        raise
    return _gauge(request, gauge_of(parts, conversation, _draft(fields), model), conversation)


@router.post("/context")
def show_context_of_new(
    request: Request, parts: PartsOf, chosen: ChosenSteering, model: ChosenModel, fields: Fields
) -> Response:
    """All that there is to know of what would be sent. Asks only; it is posted because a form can do that."""
    return _detail(request, parts, gauge(parts, chosen, draft=_draft(fields), model=model), chosen, model=model)


@router.post("/conversations/{conversation_id}/context")
def show_context(
    request: Request, parts: PartsOf, conversation: OwnConversation, model: ChosenModel, fields: Fields
) -> Response:
    """The same for the next message of a conversation."""
    counted = gauge_of(parts, conversation, _draft(fields), model)
    return _detail(request, parts, counted, conversation.steering, conversation, model=model or conversation.model)


def _draft(fields: Mapping[str, str]) -> str:
    return clean(fields.get("text", ""))


def _form(
    request: Request,
    parts: Parts,
    own: Mapping[str, Any] | None,
    conversation: Conversation | None,
    draft: str = "",
    *,
    model: str | None,
) -> Response:
    form = steering_form(parts, own, model)
    shown: dict[str, Any] = {"form": form, "conversation": conversation, "draft": draft, "model": model}
    if by_htmx(request):
        return pages_of(request).partial("steering/_form.html", **shown)
    return pages_of(request).page(request, "steering/form.html", **shown)


def _gauge(request: Request, counted: Gauge, conversation: Conversation | None = None) -> Response:
    return pages_of(request).partial("contexts/_gauge.html", gauge=counted, conversation=conversation)


def _detail(
    request: Request,
    parts: Parts,
    counted: Gauge,
    own: Mapping[str, Any] | None,
    conversation: Conversation | None = None,
    *,
    model: str | None,
) -> Response:
    engine = parts.catalog.loaded(model)
    with parts.database.read() as session:
        last = last_ended(session, conversation) if conversation is not None else None
    shown: dict[str, Any] = {
        "gauge": counted,
        "conversation": conversation,
        "steering": parts.steering.changed_by(own),
        "own_system": engine.own_system if engine is not None else "",
        "text": engine.decode(counted.context.token_ids) if engine is not None and counted.context else "",
        "last": last,
    }
    if by_htmx(request):
        return pages_of(request).partial("contexts/_detail.html", **shown)
    return pages_of(request).page(request, "contexts/detail.html", **shown)
