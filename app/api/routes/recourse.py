"""POST /recourse and what else can be asked about one applicant."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import ValidationError
from starlette.responses import JSONResponse

from app import errors
from app.api.deps import ServiceDep
from app.api.documented import BODY, QUESTION, refusals
from app.api.errors import faults_of
from app.api.examples import CORRECT_EXAMPLES, FRONTIER_EXAMPLES, RECOURSE_EXAMPLES, VALIDITY_EXAMPLES
from app.api.json_route import guarded
from app.api.later import ACCEPTED, VARY, answer_later
from app.api.prefer import PreferDep
from app.api.schemas.corrections import CorrectAnswer, CorrectRequest
from app.api.schemas.frontier import FrontierAnswer, FrontierRequest
from app.api.schemas.methods import CHOICES
from app.api.schemas.recourse import RecourseAnswer, RecourseQuestion, RecourseRequest
from app.api.schemas.strict import to_record
from app.api.schemas.validity import ValidityAnswer, ValidityRequest
from app.errors import Fault
from app.recourse.actionability import Constraints
from app.recourse.certificate import CertificateParams
from app.recourse.corrections import CorrectionParams
from app.recourse.solve import METHODS
from app.service import CorrectionQuery, FrontierQuery, RecourseQuery, ValidityQuery
from app.store.keys import Scope

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))


@router.post(
    "/recourse",
    name="recourse",
    summary="What could this applicant change so that the model says yes?",
    response_model=RecourseAnswer,
    responses=ACCEPTED
    | refusals(
        "/recourse",
        *BODY,
        *QUESTION,
        errors.ConstraintClash,
        errors.NotReady,
        errors.LedgerUnavailable,
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
    query = replace(query_of(request), store=request.store)
    if prefer.wants_job:
        return await answer_later(await service.start_recourse(query), prefer, service)
    # A finished response: checking our own answer against its schema again would cost more than making it. A test does.
    return JSONResponse(await service.recourse(query), headers=VARY)


def query_of(request: RecourseQuestion) -> RecourseQuery:
    """What is asked, in the words of the core; without an applicant where the request has several."""
    method = METHODS[request.method.name]
    return RecourseQuery(
        model=request.model,
        applicant=getattr(request, "applicant", {}),
        method=method.name,
        params=to_record(method.params, request.method),
        reference=getattr(request, "reference", None),
        constraints=to_record(Constraints, request.constraints),
        cost_weights=request.cost.weights,
        certificate=to_record(CertificateParams, request.certificate),
        deadline_ms=request.deadline_ms,
        seed=request.seed,
    )


@router.post(
    "/recourse/frontier",
    name="frontier",
    summary="What would more certainty cost this applicant?",
    response_model=FrontierAnswer,
    responses=ACCEPTED
    | refusals(
        "/recourse/frontier",
        *BODY,
        *QUESTION,
        errors.ConstraintClash,
        errors.NotReady,
    ),
)
async def frontier(
    request: Annotated[FrontierRequest, Body(openapi_examples=FRONTIER_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> JSONResponse:
    """The same question at several values of a parameter that trades cost for robustness.

    All points share what the model was asked, so a curve costs little more than its most expensive point or two. A less
    robust point is never dearer than a more robust one: it may be content with its record, and is then `dominated`.
    """
    query = FrontierQuery(question=query_of(request), parameter=request.sweep.parameter, values=_swept_values(request))
    if prefer.wants_job:
        return await answer_later(await service.start_frontier(query), prefer, service)
    return JSONResponse(await service.frontier(query), headers=VARY)


def _swept_values(request: FrontierRequest) -> tuple[float, ...]:
    """The values once each is possible for the parameter; else an error with every fault."""
    if faults := value_faults(request.method, request.sweep.parameter, dict(enumerate(request.sweep.values))):
        raise errors.InvalidRequest(faults=faults)
    return tuple(request.sweep.values)


def value_faults(method: Any, parameter: str, values: Mapping[int, float]) -> list[Fault]:
    """What is wrong with values of a method's parameter, by their positions in the sweep."""
    name = method.name
    knobs = METHODS[name].knobs
    if parameter not in knobs:
        known = f"must be one of {', '.join(knobs)}" if knobs else f"is none of {name}, which has no robustness knob"
        return [Fault("/sweep/parameter", known)]
    faults: list[Fault] = []
    for i, value in values.items():
        try:
            CHOICES[name].model_validate({**method.model_dump(), parameter: value})
        except ValidationError as error:
            body = {parameter: value}
            found = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
            faults += [Fault(f"/sweep/values/{i}", fault.detail) for fault in faults_of(found, body)]
        if any(value == before for j, before in values.items() if j < i):
            faults.append(Fault(f"/sweep/values/{i}", "is there already"))
    return faults


@router.post(
    "/recourse/validity",
    name="validity",
    summary="What are counterfactuals worth that somebody already has?",
    response_model=ValidityAnswer,
    responses=ACCEPTED
    | refusals(
        "/recourse/validity",
        *BODY,
        *QUESTION,
        errors.DeadlineExceeded,
        errors.BudgetExceeded,
        errors.NotReady,
    ),
)
async def validity(
    request: Annotated[ValidityRequest, Body(openapi_examples=VALIDITY_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> JSONResponse:
    """The certificate of each record, for exactly the values given, and the joint bounds of all of them as a plan.

    Whoever made the counterfactuals: nothing is changed and nothing is searched. Joint bounds of many members can take
    seconds: then the answer has wider ones at once, `status: pending`, and the job that computes the tight ones.
    """
    query = ValidityQuery(
        model=request.model,
        factual=request.factual,
        counterfactuals=request.counterfactuals,
        certificate=to_record(CertificateParams, request.certificate),
        deadline_ms=request.deadline_ms,
        seed=request.seed,
    )
    if prefer.wants_job:
        return await answer_later(await service.start_validity(query), prefer, service)
    return JSONResponse(await service.validity(query), headers=VARY)


@router.post(
    "/recourse/correct",
    name="correct",
    summary="Make a plan that somebody already has withstand retraining of the model better.",
    response_model=CorrectAnswer,
    responses=ACCEPTED
    | refusals(
        "/recourse/correct",
        *BODY,
        *QUESTION,
        errors.ConstraintClash,
        errors.BudgetExceeded,
        errors.DeadlineExceeded,
        errors.NotReady,
    ),
)
async def correct(
    request: Annotated[CorrectRequest, Body(openapi_examples=CORRECT_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> JSONResponse:
    """The same plan with some records moved: legal for this applicant, accepted by the model, jointly never less valid.

    A record changes only if that raises the proven joint validity (or, for `requirement`, does not lower it); each says
    whether it changed, and if not, why. That nothing legal meets what is asked for is an answer, not an error.
    """
    query = CorrectionQuery(
        model=request.model,
        factual=request.factual,
        counterfactuals=request.counterfactuals,
        certificate=to_record(CertificateParams, request.certificate),
        correction=to_record(CorrectionParams, request.correction),
        constraints=to_record(Constraints, request.constraints),
        deadline_ms=request.deadline_ms,
        seed=request.seed,
    )
    if prefer.wants_job:
        return await answer_later(await service.start_correction(query), prefer, service)
    return JSONResponse(await service.correct(query), headers=VARY)
