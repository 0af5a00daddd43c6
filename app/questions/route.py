"""POST /recourse and the other questions about one applicant."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Body, Response

from app import errors
from app.api.deps import ServiceDep
from app.api.error_docs import BODY, QUESTION, refusals
from app.api.examples import RECOURSE_EXAMPLES
from app.api.job_responses import ACCEPTED, VARY, answer_later
from app.api.media_type import JSON
from app.api.prefer import Prefer, PreferDep
from app.api.strict_route import guarded
from app.keys.scopes import Scope
from app.models.schema import Record
from app.questions.correction_schema import CORRECT_EXAMPLES, CorrectAnswer, CorrectRequest
from app.questions.frontier_schema import FRONTIER_EXAMPLES, FrontierAnswer, FrontierRequest
from app.questions.offers_schema import OFFERS_EXAMPLES, OffersAnswer, OffersRequest
from app.questions.schema import RecourseAnswer, RecourseRequest
from app.questions.use_cases import CORRECTION, FRONTIER, OFFERS, RECOURSE, VALIDITY
from app.questions.validity_schema import VALIDITY_EXAMPLES, ValidityAnswer, ValidityRequest
from app.service import Service

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))


@router.post(
    "/recourse",
    name="create_recourse",
    summary="Find recourse",
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
) -> Response:
    """What the applicant could change; the model itself accepted every record in `counterfactuals`.

    Nothing found is an answer (`status: not_found`, with the reason), not an error. The same request with the same seed
    and model version has the same answer, apart from `id` and times.

    With `Prefer: respond-async` or `Prefer: wait=N` it becomes a job, which outlives the connection and the server.
    """
    return await _answer(RECOURSE, request, service, prefer)


@router.post(
    "/recourse/frontier",
    name="create_frontier",
    summary="Trade cost for robustness",
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
) -> Response:
    """The same question at several values of a parameter that trades cost for robustness.

    The points share model calls. A less robust point never costs more than a more robust one: it may have the same
    record, and is then `dominated`.
    """
    return await _answer(FRONTIER, request, service, prefer)


@router.post(
    "/recourse/offers",
    name="list_offers",
    summary="Find terms that are accepted",
    response_model=OffersAnswer,
    responses=ACCEPTED
    | refusals(
        "/recourse/offers",
        *BODY,
        *QUESTION,
        errors.ConstraintClash,
        errors.NotReady,
    ),
)
async def offers(
    request: Annotated[OffersRequest, Body(openapi_examples=OFFERS_EXAMPLES)],
    service: ServiceDep,
    prefer: PreferDep,
) -> Response:
    """What the applicant is accepted for as they are, if the lender changes the terms of the contract alone.

    Terms are the features with `terms: true` in the manifest, which also limits what can be offered. The model itself
    accepts every offer; none is an answer (`status: not_found`). Nothing is recorded: the ledger has the best offer of
    `POST /recourse`.
    """
    return await _answer(OFFERS, request, service, prefer)


@router.post(
    "/recourse/validity",
    name="certify_counterfactuals",
    summary="Certify existing counterfactuals",
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
) -> Response:
    """The certificate of each record, for exactly the values given, and the joint bounds of all of them as a plan.

    The counterfactuals may come from any source: nothing is changed or searched. Joint bounds of many members can take
    seconds: the answer then has wider bounds, `status: pending`, and the job that computes tight ones.
    """
    return await _answer(VALIDITY, request, service, prefer, request.counterfactuals)


@router.post(
    "/recourse/correct",
    name="correct_plan",
    summary="Correct an existing plan",
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
) -> Response:
    """The plan with some records moved, so that the lower bound of its joint validity rises.

    Moved records respect the constraints, and the model accepts them. A record moves only if that raises the bound (for
    `requirement`: does not reduce it); each says whether it moved, and if not, why.
    """
    return await _answer(CORRECTION, request, service, prefer, request.counterfactuals)


async def _answer(
    name: str,
    request: RecourseRequest | FrontierRequest | OffersRequest | ValidityRequest,
    service: Service,
    prefer: Prefer,
    counterfactuals: Sequence[Record] = (),
) -> Response:
    """The answer of a use case, or its job where the client prefers that."""
    asked = (name, request.question(), request.applicant, request.terms(), counterfactuals)
    if prefer.wants_job:
        return await answer_later(await service.questions.submit(*asked), prefer, service)
    # A finished response: checking our own answer against its schema again would cost more than making it. A test does.
    return Response(await service.questions.ask(*asked), media_type=JSON, headers=VARY)
