"""Promised shares of future models against what later versions of the model kept."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ModelId, ServiceDep
from app.api.described import describe
from app.api.error_docs import LANE, refusals
from app.api.strict_route import guarded
from app.calibration import report as calibration_report
from app.keys.scopes import Scope

CalibrationAnswer: Any = describe(calibration_report.CalibrationAnswer)


router = APIRouter(tags=["ledger"], route_class=guarded(Scope.MODELS, Scope.AUDIT))


@router.get(
    "/models/{id}/calibration",
    name="get_model_calibration",
    summary="Compare promises about future models with what later versions kept",
    response_model=CalibrationAnswer,
    responses=refusals(
        "/models/consumer-loan/calibration",
        errors.InvalidRequest,
        errors.UnknownModel,
        *LANE,
        errors.LaneTimeout,
        errors.LedgerUnavailable,
    ),
)
async def calibration(
    model_id: ModelId,
    service: ServiceDep,
) -> JSONResponse:
    """How many counterfactuals the next version accepts, by their `validity.future.probability`.

    The next version is the one registered next with the same columns. Covers the newest 5,000 answers,
    expired ones included; remote models are not asked. `validity.future.measured` of later answers follows from this.
    """
    return JSONResponse(await service.calibrations.of(model_id))
