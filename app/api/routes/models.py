"""The registered models, their schemas, and their decisions."""

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import JSONResponse, Response

from app import errors
from app.api.deps import ModelName, ServiceDep
from app.api.documented import BODY, LANE, QUESTION, refusals
from app.api.examples import PREDICT_EXAMPLES
from app.api.fresh import UNCHANGED, IfNoneMatch, if_changed
from app.api.json_route import guarded
from app.api.schemas.models import Models, ModelSchema, ModelSummary, Predictions, PredictRequest
from app.store.keys import Scope

router = APIRouter(prefix="/models", tags=["models"], route_class=guarded(Scope.MODELS))


@router.get(
    "",
    name="list_models",
    summary="All registered models",
    response_model=Models,
    responses=UNCHANGED | refusals("/models", errors.InvalidRequest),
)
async def list_models(service: ServiceDep, if_none_match: IfNoneMatch = None) -> Response:
    """Every version, by id and then in the order of registration; also those that are not active."""
    return if_changed({"models": service.models.summaries()}, if_none_match)


@router.get(
    "/{id}",
    name="get_model",
    summary="One registered model",
    response_model=ModelSummary,
    responses=UNCHANGED
    | refusals("/models/consumer-loan", errors.InvalidRequest, errors.UnknownModel, errors.ModelUnusable),
)
async def get_model(name: ModelName, service: ServiceDep, if_none_match: IfNoneMatch = None) -> Response:
    """The newest active version of a name, or the version named; that one also where it is not active."""
    return if_changed(service.models.summary(name), if_none_match)


@router.get(
    "/{id}/schema",
    name="get_model_schema",
    summary="What a record of this model looks like",
    response_model=ModelSchema,
    responses=UNCHANGED
    | refusals(
        "/models/consumer-loan/schema",
        errors.InvalidRequest,
        errors.UnknownModel,
        errors.ModelUnusable,
        *LANE,
        errors.LaneTimeout,
    ),
)
async def get_model_schema(name: ModelName, service: ServiceDep, if_none_match: IfNoneMatch = None) -> Response:
    """The features with their limits, what a person can do about each, and a refused record to try things out with."""
    return if_changed(await service.models.schema(name), if_none_match)


@router.post(
    "/{id}/predict",
    name="predict",
    summary="The model's own decisions",
    response_model=Predictions,
    responses=refusals(
        "/models/consumer-loan/predict",
        *BODY,
        *QUESTION,
        errors.BudgetExceeded,
        errors.DeadlineExceeded,
    ),
)
async def predict(
    name: ModelName, request: Annotated[PredictRequest, Body(openapi_examples=PREDICT_EXAMPLES)], service: ServiceDep
) -> JSONResponse:
    """What the model says about each record, in their order. Always at once: `Prefer` does not make a job of it."""
    return JSONResponse(await service.models.predict(name, request.records))
