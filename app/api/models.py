"""The models that programs can ask for."""

from typing import Any

from app.api.parts import Parts
from app.engines.catalog import ModelState


def listed(parts: Parts) -> list[dict[str, Any]]:
    """Every model, as `GET /v1/models` tells it, the default first."""
    return [_entry(parts, state) for state in parts.catalog.models()]


def _entry(parts: Parts, state: ModelState) -> dict[str, Any]:
    engine = parts.catalog.loaded(state.model)
    known: dict[str, Any] = {"max_model_len": None}
    if engine is not None:
        known = {
            "max_model_len": engine.context_window,
            "supported_parameters": sorted(engine.supports),
            "own_system": engine.own_system,
        }
    return {
        "id": state.model,
        "object": "model",
        "created": parts.began,
        "owned_by": "rheo",
        "state": state.state,
        **known,
    }
