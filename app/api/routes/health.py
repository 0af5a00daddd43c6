"""Liveness and readiness."""

from fastapi import APIRouter
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.error_docs import refusals
from app.api.health import Live, Ready
from app.api.strict_route import StrictRoute

router = APIRouter(prefix="/health", tags=["operations"], route_class=StrictRoute)


@router.get(
    "/live",
    name="get_liveness",
    summary="Liveness",
    response_model=Live,
    responses=refusals("/health/live", errors.InvalidRequest),
)
async def live() -> JSONResponse:
    """Answers while the process runs; restart the service when it does not."""
    return JSONResponse({"status": "live"})


@router.get(
    "/ready",
    name="get_readiness",
    summary="Readiness",
    response_model=Ready,
    responses=refusals("/health/ready", errors.InvalidRequest, errors.NotReady),
)
async def ready(service: ServiceDep) -> JSONResponse:
    """200 while requests can be answered; otherwise 503 with the problems."""
    return JSONResponse(await service.readiness())
