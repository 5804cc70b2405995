"""Models: which one a conversation has, and which are in memory."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.conversations.queries import conversation_of
from app.errors import Invalid, NotFound
from app.web.access import Owner
from app.web.model_forms import ChosenModel, check_model
from app.web.pages import by_htmx, pages_of
from app.web.parts import Parts, PartsOf

router = APIRouter()


@router.get("/model-state")
def show_state(request: Request, model: str = "") -> Response:
    """The lines about a model; while it loads, the page asks for them again and again."""
    return _state(request, model)


@router.post("/conversations/{conversation_id}/model")
def change_model(
    request: Request, owner: Owner, parts: PartsOf, conversation_id: str, model: ChosenModel
) -> Response:
    """For the answers that are asked for from now on. Nothing is loaded yet."""
    check_model(parts, model)
    with parts.database.write() as session:
        conversation_of(session, owner, conversation_id).model = model
    if by_htmx(request):
        return _state(request, model or "")
    return pages_of(request).see(f"/conversations/{conversation_id}")


@router.get("/models")
def show_models(request: Request, parts: PartsOf) -> Response:
    """Every model, and whether it is in memory."""
    return _models(request, parts)


@router.post("/models/loading")
def create_loading(request: Request, parts: PartsOf, model: ChosenModel) -> Response:
    """Load a model before it is asked."""
    parts.catalog.load(_named(parts, model))
    return _models(request, parts)


@router.post("/models/unloading")
def create_unloading(request: Request, parts: PartsOf, model: ChosenModel) -> Response:
    """Take a model out of memory, where nobody uses it."""
    parts.catalog.unload(_named(parts, model))
    return _models(request, parts)


def _named(parts: Parts, model: str | None) -> str:
    if model is None:
        raise Invalid("Say which model.")
    if not parts.catalog.has(model):
        raise NotFound(f"There is no model {model} here.")
    return model


def _state(request: Request, model: str) -> Response:
    return pages_of(request).partial("models/_polled.html", model=model, running=None)


def _models(request: Request, parts: Parts) -> Response:
    states = parts.catalog.models()
    if by_htmx(request):
        return pages_of(request).partial("models/_list.html", states=states)
    if request.method == "POST":
        return pages_of(request).see("/models")
    return pages_of(request).page(request, "models/index.html", states=states)
