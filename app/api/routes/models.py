"""The registered models, their schemas, and their decisions."""

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ModelName, ServiceDep
from app.api.documented import BODY, LANE, refusals
from app.api.examples import PREDICT_EXAMPLES
from app.api.json_route import StrictRoute
from app.api.schemas.models import Models, ModelSchema, ModelSummary, Predictions, PredictRequest

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute)


@router.get(
    "",
    name="list_models",
    summary="All registered models",
    response_model=Models,
    responses=refusals("/models", errors.InvalidRequest),
)
async def list_models(service: ServiceDep) -> JSONResponse:
    """Every version, by id and then in the order of registration; retired ones are not active."""
    return JSONResponse({"models": service.models()})


@router.get(
    "/{id}",
    name="get_model",
    summary="One registered model",
    response_model=ModelSummary,
    responses=refusals("/models/consumer-loan", errors.InvalidRequest, errors.UnknownModel, errors.ModelUnusable),
)
async def get_model(name: ModelName, service: ServiceDep) -> JSONResponse:
    """The newest active version of a name, or the version named; that one also after it was retired."""
    return JSONResponse(service.model(name))


@router.get(
    "/{id}/schema",
    name="get_model_schema",
    summary="What a record of this model looks like",
    response_model=ModelSchema,
    responses=refusals(
        "/models/consumer-loan/schema",
        errors.InvalidRequest,
        errors.UnknownModel,
        errors.ModelUnusable,
        *LANE,
        errors.LaneTimeout,
    ),
)
async def get_model_schema(name: ModelName, service: ServiceDep) -> JSONResponse:
    """The features with their limits, what a person can do about each, and a refused record to try things out with."""
    return JSONResponse(await service.schema(name))


@router.post(
    "/{id}/predict",
    name="predict",
    summary="The model's own decisions",
    response_model=Predictions,
    responses=refusals(
        "/models/consumer-loan/predict",
        *BODY,
        errors.InvalidRecord,
        errors.UnknownModel,
        errors.ModelUnusable,
        errors.ModelOutputInvalid,
        *LANE,
        errors.LaneTimeout,
    ),
)
async def predict(
    name: ModelName, request: Annotated[PredictRequest, Body(openapi_examples=PREDICT_EXAMPLES)], service: ServiceDep
) -> JSONResponse:
    """What the model says about each record, in their order."""
    return JSONResponse(await service.predict(name, request.records))
