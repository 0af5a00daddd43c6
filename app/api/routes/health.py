"""Whether the service is up, for whoever restarts it and whoever sends it traffic."""

from fastapi import APIRouter
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.documented import refusals
from app.api.json_route import StrictRoute
from app.api.schemas.health import Live, Ready

router = APIRouter(prefix="/health", tags=["operations"], route_class=StrictRoute)


@router.get(
    "/live",
    name="live",
    summary="The process answers",
    response_model=Live,
    responses=refusals("/health/live", errors.InvalidRequest),
)
async def live() -> JSONResponse:
    """Restart the service when this does not answer."""
    return JSONResponse({"status": "live"})


@router.get(
    "/ready",
    name="ready",
    summary="Requests can be answered",
    response_model=Ready,
    responses=refusals("/health/ready", errors.InvalidRequest, errors.NotReady),
)
async def ready(service: ServiceDep) -> JSONResponse:
    """Send traffic only while this answers 200; otherwise it lists what is amiss."""
    return JSONResponse(await service.readiness())
