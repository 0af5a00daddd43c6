"""POST /recourse and what else can be asked about one applicant."""

from typing import Annotated

from fastapi import APIRouter, Body
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.documented import BODY, LANE, refusals
from app.api.examples import RECOURSE_EXAMPLES, VALIDITY_EXAMPLES
from app.api.json_route import StrictRoute
from app.api.later import ACCEPTED, VARY, answer_later
from app.api.prefer import PreferDep
from app.api.schemas.recourse import RecourseAnswer, RecourseRequest
from app.api.schemas.strict import to_record
from app.api.schemas.validity import ValidityAnswer, ValidityRequest
from app.recourse.actionability import Constraints
from app.recourse.certificate import CertificateParams
from app.recourse.solve import METHODS
from app.service import RecourseQuery, ValidityQuery

router = APIRouter(tags=["recourse"], route_class=StrictRoute)


@router.post(
    "/recourse",
    name="recourse",
    summary="What could this applicant change so that the model says yes?",
    response_model=RecourseAnswer,
    responses=ACCEPTED
    | refusals(
        "/recourse",
        *BODY,
        errors.InvalidRecord,
        errors.ConstraintClash,
        errors.UnknownModel,
        errors.ModelUnusable,
        errors.ModelOutputInvalid,
        *LANE,
        errors.LaneTimeout,
        errors.NotReady,
    ),
)
async def recourse(
    request: Annotated[RecourseRequest, Body(openapi_examples=RECOURSE_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> JSONResponse:
    """Every record in `counterfactuals` was confirmed by the model itself on exactly the values shown.

    That nothing was found is an answer (`status: not_found`, with the reason), not an error. The same request with the
    same seed and model version has the same answer, apart from `id`, times and timings.

    With `Prefer: respond-async` or `Prefer: wait=N` it becomes a job, which outlives the connection and the server.
    """
    method = METHODS[request.method.name]
    query = RecourseQuery(
        model=request.model,
        applicant=request.applicant,
        method=method.name,
        params=to_record(method.params, request.method),
        reference=request.reference,
        constraints=to_record(Constraints, request.constraints),
        cost_weights=request.cost.weights,
        certificate=to_record(CertificateParams, request.certificate),
        deadline_ms=request.deadline_ms,
        seed=request.seed,
    )
    if prefer.wants_job:
        return await answer_later(await service.start_recourse(query), prefer, service)
    # A finished response: checking our own answer against its schema again would cost more than making it. A test does.
    return JSONResponse(await service.recourse(query), headers=VARY)


@router.post(
    "/recourse/validity",
    name="validity",
    summary="What are counterfactuals worth that somebody already has?",
    response_model=ValidityAnswer,
    responses=refusals(
        "/recourse/validity",
        *BODY,
        errors.InvalidRecord,
        errors.UnknownModel,
        errors.ModelUnusable,
        errors.ModelOutputInvalid,
        *LANE,
        errors.LaneTimeout,
        errors.DeadlineExceeded,
    ),
)
async def validity(
    request: Annotated[ValidityRequest, Body(openapi_examples=VALIDITY_EXAMPLES)], service: ServiceDep
) -> JSONResponse:
    """The certificate of each record, for exactly the values given, and the joint bounds of all of them as a plan.

    Whoever made the counterfactuals: nothing is changed and nothing is searched.
    """
    query = ValidityQuery(
        model=request.model,
        factual=request.factual,
        counterfactuals=request.counterfactuals,
        certificate=to_record(CertificateParams, request.certificate),
        deadline_ms=request.deadline_ms,
        seed=request.seed,
    )
    return JSONResponse(await service.validity(query))
