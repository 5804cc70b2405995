"""The models that programs can ask for."""

from typing import Any

from app.api.faults import UnknownModel
from app.api.parts import Parts
from app.engines.protocol import Engine
from app.errors import Unavailable


def engine_of(parts: Parts, model: str | None) -> Engine:
    """The engine of a model; of the default for None. Raises `UnknownModel`, or `Unavailable` while it loads."""
    state = parts.catalog.state
    if model is not None and model != state.model:
        raise UnknownModel(model)
    engine = parts.catalog.loaded()
    if engine is None and state.state == "failed":
        raise Unavailable(f"The model {state.model} can't be used: {state.detail}")
    if engine is None:
        raise Unavailable(f"The model {state.model} is being loaded ({state.progress:.0%}). Try again in a moment.")
    return engine


def listed(parts: Parts) -> list[dict[str, Any]]:
    """Every model, as `GET /v1/models` tells it."""
    state, engine = parts.catalog.state, parts.catalog.loaded()
    known: dict[str, Any] = {"max_model_len": None}
    if engine is not None:
        known = {
            "max_model_len": engine.context_window,
            "supported_parameters": sorted(engine.supports),
            "own_system": engine.own_system,
        }
    return [
        {
            "id": state.model,
            "object": "model",
            "created": parts.began,
            "owned_by": "rheo",
            "state": state.state,
            **known,
        }
    ]
