"""POST /v1/models/{id}:explain and GET /v1/models/{id}, as KServe's V1 protocol has them."""

import json
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import Field
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ModelName, ServiceDep
from app.api.described import Described
from app.api.error_docs import BODY, QUESTION, refusals
from app.api.examples import APPLICANT
from app.api.prefer import DIRECT
from app.api.strict import Strict
from app.api.strict_route import guarded
from app.errors import InvalidRequest
from app.keys.scopes import Scope
from app.models.schema import Record
from app.questions.schema import RecourseAnswer, RecourseRequest
from app.questions.use_cases import RECOURSE

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))


class ExplainRequest(Strict):
    """An instance to explain."""

    instances: Annotated[list[Record], Field(min_length=1, max_length=1)]
    """One record, in the model's own features; POST /recourse/batch answers many."""


class ExplainAnswer(Described):
    """The decision about the instance, and its recourse."""

    predictions: list[int]
    """1 where the model accepts the instance, else 0."""
    explanations: list[RecourseAnswer]
    """The answer of POST /recourse about the instance."""


EXPLAIN_EXAMPLES: Any = {"refused": {"summary": "One applicant", "value": {"instances": [APPLICANT]}}}


@router.get("/v1/models/{id}", include_in_schema=False)
async def readiness(name: ModelName, service: ServiceDep) -> dict[str, object]:
    """KServe's clients ask this first. A model that does not answer leads to a problem document with the reason."""
    service.models.require_answering(name)
    return {"name": name, "ready": True}


@router.post(
    "/v1/models/{id}:explain",
    name="explain_instance",
    summary="Find recourse, by KServe's V1 protocol",
    response_model=ExplainAnswer,
    dependencies=[DIRECT],
    responses=refusals(
        "/v1/models/consumer-loan:explain",
        *BODY,
        *QUESTION,
        errors.NotReady,
        errors.LedgerUnavailable,
    ),
)
async def explain(
    name: ModelName, request: Annotated[ExplainRequest, Body(openapi_examples=EXPLAIN_EXAMPLES)], service: ServiceDep
) -> JSONResponse:
    """What POST /recourse without options answers, recorded in the same way.

    `Prefer: respond-async` is refused.
    """
    asked = RecourseRequest.model_validate({"model": name, "applicant": request.instances[0]})
    try:
        sent = await service.questions.ask(RECOURSE, asked.question(), asked.applicant, asked.terms())
    except InvalidRequest as error:
        error.faults = tuple(replace(fault, pointer=_pointer(fault.pointer)) for fault in error.faults)
        raise
    answer = json.loads(sent)
    return JSONResponse({"predictions": [int(answer["factual"]["favourable"])], "explanations": [answer]})


def _pointer(pointer: str) -> str:
    """Where in this request a fault stands that stands at `pointer` in POST /recourse."""
    rest = pointer.removeprefix("/applicant")
    return pointer if rest == pointer else f"/instances/0{rest}"
