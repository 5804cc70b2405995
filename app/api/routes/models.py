"""The models that can be asked for."""

from typing import Any

from fastapi import APIRouter

from app.api.faults import UnknownModel
from app.api.models import listed
from app.api.parts import PartsOf

router = APIRouter()


@router.get("/v1/models", operation_id="listModels")
def list_models(parts: PartsOf) -> dict[str, Any]:
    return {"object": "list", "data": listed(parts)}


@router.get("/v1/models/{model:path}", operation_id="retrieveModel")
def show_model(parts: PartsOf, model: str) -> dict[str, Any]:
    found = next((entry for entry in listed(parts) if entry["id"] == model), None)
    if found is None:
        raise UnknownModel(model)
    return found
