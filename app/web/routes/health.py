"""For those who run it: is it up, and can the model answer?"""

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

import app
from app.engines.catalog import Catalog

router = APIRouter()

_STATUS = {"ready": "ok", "unloaded": "ok", "loading": "loading", "failed": "failed"}
"""By the state of the default. One that is out of memory, for another, is loaded when it is asked."""


@router.get("/health")
async def health(request: Request) -> dict[str, Any]:
    catalog: Catalog = request.app.state.catalog
    state, engine = catalog.state(), catalog.loaded()
    # Not on the event loop: it looks into the models folder.
    models = await asyncio.to_thread(catalog.models)
    return {
        "status": _STATUS[state.state],
        "model": state.model,
        "progress": round(state.progress, 3),
        # Servers of a model come and go: the engine knows it first.
        "detail": state.detail if engine is None else engine.detail,
        "rebuilt": 0 if engine is None else engine.counters.rebuilt,
        "models": [
            {"model": one.model, "state": one.state, "progress": round(one.progress, 3), "detail": one.detail}
            for one in models
        ],
        "version": app.__version__,
    }


@router.get("/ready")
async def ready(request: Request) -> Response:
    catalog: Catalog = request.app.state.catalog
    state = catalog.state()
    is_ready = state.state in ("ready", "unloaded")
    return JSONResponse({"ready": is_ready, "detail": state.detail}, 200 if is_ready else 503)
