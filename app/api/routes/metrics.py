"""The numbers for Prometheus."""

from fastapi import APIRouter
from starlette.responses import Response

from app.api.gate import METRICS
from app.api.parts import PartsOf
from app.metrics import MEDIA_TYPE

router = APIRouter()


@router.get(METRICS, operation_id="metrics")
def show_metrics(parts: PartsOf) -> Response:
    return Response(parts.metrics.text(), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})
