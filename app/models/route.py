"""The registered models, their schemas, and their decisions."""

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import JSONResponse, Response

from app import errors
from app.api.deps import ModelName, ServiceDep
from app.api.error_docs import BODY, JOB, LANE, QUESTION, refusals
from app.api.etag import UNCHANGED, IfNoneMatch, if_changed
from app.api.examples import FUTURES_EXAMPLES, PREDICT_EXAMPLES
from app.api.job_responses import ACCEPTED, answer_later
from app.api.prefer import DIRECT, PreferDep
from app.api.strict_route import guarded
from app.keys.scopes import Scope
from app.models.schema import (
    FuturesAnswer,
    FuturesRequest,
    Models,
    ModelSchema,
    ModelSummary,
    Predictions,
    PredictRequest,
)

router = APIRouter(prefix="/models", tags=["models"], route_class=guarded(Scope.MODELS))
training = APIRouter(route_class=guarded(Scope.AUDIT))


@router.get(
    "",
    name="list_models",
    summary="List registered models",
    response_model=Models,
    responses=UNCHANGED | refusals("/models", errors.InvalidRequest, errors.ModelUnusable),
)
async def list_models(service: ServiceDep, if_none_match: IfNoneMatch = None) -> Response:
    """Every version, active or not, by id and then in the order of registration."""
    return if_changed({"models": service.models.summaries()}, if_none_match)


@router.get(
    "/{id}",
    name="get_model",
    summary="Get a registered model",
    response_model=ModelSummary,
    responses=UNCHANGED
    | refusals("/models/consumer-loan", errors.InvalidRequest, errors.UnknownModel, errors.ModelUnusable),
)
async def get_model(name: ModelName, service: ServiceDep, if_none_match: IfNoneMatch = None) -> Response:
    """The newest active version of a model, or the named version, active or not."""
    return if_changed(service.models.summary(name), if_none_match)


@router.get(
    "/{id}/schema",
    name="get_model_schema",
    summary="Get the feature schema of a model",
    response_model=ModelSchema,
    responses=UNCHANGED
    | refusals(
        "/models/consumer-loan/schema",
        errors.InvalidRequest,
        errors.UnknownModel,
        errors.ModelUnusable,
        *LANE,
        errors.LaneTimeout,
        errors.DailyBudgetSpent,
    ),
)
async def get_model_schema(name: ModelName, service: ServiceDep, if_none_match: IfNoneMatch = None) -> Response:
    """The features with their limits and how each may change, and sample records that the model refuses."""
    return if_changed(await service.models.schema(name), if_none_match)


@training.post(
    "/{id}/futures",
    name="create_futures",
    summary="Make the future models of a version",
    response_model=FuturesAnswer,
    responses=ACCEPTED
    | refusals(
        "/models/consumer-loan/futures",
        *BODY,
        *JOB,
        errors.RehearsalFailed,
        errors.RehearsalRunning,
    ),
)
async def make_futures(
    name: ModelName,
    service: ServiceDep,
    prefer: PreferDep,
    request: Annotated[FuturesRequest | None, Body(openapi_examples=FUTURES_EXAMPLES)] = None,
) -> Response:
    """Trains models that the lender might have next; they measure how long recourse stays valid. Always a job.

    Models made before stay in use until the new ones are complete. A job that is interrupted resumes after the last
    model that was made.
    """
    changes = {} if request is None else request.model_dump()
    return await answer_later(await service.rehearsals.start(name, changes), prefer, service)


@router.post(
    "/{id}/predict",
    name="predict_decisions",
    summary="Get the model's decisions",
    dependencies=[DIRECT],
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
    """The model's decision about each record, in order.

    `Prefer: respond-async` is refused.
    """
    return JSONResponse(await service.models.predict(name, request.records))


router.include_router(training)
