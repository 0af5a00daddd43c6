"""Metrics for Prometheus."""

from fastapi import APIRouter
from starlette.responses import Response

from app import errors
from app.api.deps import ServiceDep
from app.api.error_docs import refusals
from app.api.strict_route import guarded
from app.keys.scopes import Scope
from app.metrics import CONTENT_TYPE

router = APIRouter(tags=["operations"], route_class=guarded(Scope.AUDIT))


@router.get(
    "/metrics",
    name="get_metrics",
    summary="Metrics",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **refusals("/metrics", errors.InvalidRequest),
    },
)
async def metrics(service: ServiceDep) -> Response:
    """Counts and times of this process and its children, in the text format of Prometheus."""
    return Response(await service.measured(), media_type=CONTENT_TYPE)
