"""The models that programs can ask for."""

from typing import Any

from app.api.parts import Parts
from app.engines.catalog import ModelState


def listed(parts: Parts) -> list[dict[str, Any]]:
    """Every model, as `GET /v1/models` tells it, the default first."""
    return [_entry(parts, state) for state in parts.catalog.models()]


def _entry(parts: Parts, state: ModelState) -> dict[str, Any]:
    engine = parts.catalog.loaded(state.model)
    return {
        "id": state.model,
        "object": "model",
        "created": parts.began,
        "owned_by": "rheo",
        "max_model_len": None if engine is None else engine.context_window,
        "state": state.state,
    }
