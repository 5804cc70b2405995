"""The door for programs: an application of its own, which stands alone or in another's addresses."""

from fastapi import FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

import app
from app.api import faults
from app.api.bodies import AlwaysJson
from app.api.gate import Gate
from app.api.parts import Parts
from app.api.routes import chat, completions, generate, metrics, models, tokenize

DESCRIPTION = "The API of Rheo: the part of OpenAI's that a chat needs, and POST /generate for those who want less."
ADDRESSES = ("/v1/{rest:path}", "/generate", "/tokenize", "/detokenize", "/metrics")


def door_of(parts: Parts) -> FastAPI:
    """The door alone: it answers in its own shape of errors, and describes itself at /v1/openapi.json."""
    door = FastAPI(
        title="Rheo",
        description=DESCRIPTION,
        version=app.__version__,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    door.state.parts = parts
    for router in (models.router, chat.router, completions.router, generate.router, tokenize.router, metrics.router):
        door.include_router(router)
    faults.install(door)
    door.add_middleware(AlwaysJson)
    door.add_middleware(Gate, settings=parts.settings, keys=parts.keys)
    if parts.settings.origins:
        # In front of the gate: a browser's question whether it may ask comes without a key.
        door.add_middleware(
            CORSMiddleware,
            allow_origins=parts.settings.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Request-ID", "Retry-After"],
        )
    return door


def mount(application: FastAPI, parts: Parts) -> None:
    """Put the door into an application."""
    door = door_of(parts)
    application.router.routes.extend(Route(address, door, include_in_schema=False) for address in ADDRESSES)
