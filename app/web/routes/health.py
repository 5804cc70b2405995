"""For those who run it: is it up, and can the model answer? And the model's state as the page shows it."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

import app
from app.engines.catalog import Catalog
from app.web.pages import pages_of

router = APIRouter()
page_router = APIRouter()

_STATUS = {"ready": "ok", "loading": "loading", "failed": "failed"}


@router.get("/health")
async def health(request: Request) -> dict[str, Any]:
    catalog: Catalog = request.app.state.catalog
    state, engine = catalog.state(), catalog.loaded()
    return {
        "status": _STATUS[state.state],
        "model": state.model,
        "progress": round(state.progress, 3),
        # Servers of a model come and go: the engine knows it first.
        "detail": state.detail if engine is None else engine.detail,
        "rebuilt": 0 if engine is None else engine.counters.rebuilt,
        "version": app.__version__,
    }


@router.get("/ready")
async def ready(request: Request) -> Response:
    catalog: Catalog = request.app.state.catalog
    state = catalog.state()
    is_ready = state.state == "ready"
    return JSONResponse({"ready": is_ready, "detail": state.detail}, 200 if is_ready else 503)


@page_router.get("/model-state")
async def model_state(request: Request) -> Response:
    """The line about the model; while it loads, the page asks for it again and again."""
    return pages_of(request).partial("layouts/_model_polled.html")
