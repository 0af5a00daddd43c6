"""Liveness and readiness."""

from typing import Literal

from fastapi import APIRouter
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.described import Described
from app.api.error_docs import refusals
from app.api.strict_route import StrictRoute


class Live(Described):
    """The process answers."""

    status: Literal["live"]
    """Always `live`: the process answers."""


class Ready(Described):
    """Requests can be answered."""

    status: Literal["ready", "degraded"]
    """`degraded`: a model is in quarantine, named in `warnings`; all others are answered."""
    models: int
    """Active models."""
    workers: int
    """Child processes that are ready."""
    loading: list[str]
    """Models that some child process is loading now; requests for the others do not wait for that."""
    warnings: list[str]
    """Active models that cannot be used, and why; that no model is active; that the clock is doubted."""


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
