"""POST /recourse and the other questions about one applicant."""

from collections.abc import Sequence
from inspect import cleandoc
from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from app import errors
from app.api.bodies import JSON
from app.api.deps import ServiceDep
from app.api.error_docs import BODY, QUESTION, refusals
from app.api.examples import RECOURSE_EXAMPLES
from app.api.job_responses import ACCEPTED, VARY, answer_later
from app.api.prefer import PreferDep
from app.api.strict_route import guarded
from app.errors import RecourseError
from app.keys.scopes import Scope
from app.questions.correction_schema import CORRECT_EXAMPLES, CorrectAnswer, CorrectRequest
from app.questions.frontier_schema import FRONTIER_EXAMPLES, FrontierAnswer, FrontierRequest
from app.questions.offers_schema import OFFERS_EXAMPLES, OffersAnswer, OffersRequest
from app.questions.schema import RecourseAnswer, RecourseRequest
from app.questions.use_cases import CORRECTION, FRONTIER, OFFERS, RECOURSE, VALIDITY
from app.questions.validity_schema import VALIDITY_EXAMPLES, ValidityAnswer, ValidityRequest

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))


def _add(
    use_case: str, schema: Any, answer: Any, examples: Any, *, path: str, name: str, summary: str, description: str,
    fails: Sequence[type[RecourseError]],
) -> None:  # fmt: skip
    """Add the route of a use case, which answers at once, or by a job where the client prefers that.

    `fails` are the errors that not every question has.
    """

    async def endpoint(
        request: Annotated[schema, Body(openapi_examples=examples)], service: ServiceDep, prefer: PreferDep
    ) -> Response:
        asked = (
            use_case,
            request.question(),
            request.applicant,
            request.terms(),
            getattr(request, "counterfactuals", ()),
        )
        if prefer.wants_job:
            return await answer_later(await service.questions.submit(*asked), prefer, service)
        # A finished response: to check our own answer against its schema again would cost more than to make it. A test
        # does that.
        return Response(await service.questions.ask(*asked), media_type=JSON, headers=VARY)

    router.post(
        path,
        name=name,
        summary=summary,
        description=cleandoc(description),
        response_model=answer,
        responses=ACCEPTED | refusals(path, *BODY, *QUESTION, errors.NotReady, *fails),
    )(endpoint)


_add(
    RECOURSE, RecourseRequest, RecourseAnswer, RECOURSE_EXAMPLES,
    path="/recourse",
    name="create_recourse",
    summary="Find recourse",
    description="""
    What the applicant could change; the model itself accepted every record in `counterfactuals`.

    Nothing found is an answer (`status: not_found`, with the reason), not an error. The same request with the same seed
    and model version has the same answer, apart from `id` and times.

    With `Prefer: respond-async` or `Prefer: wait=N` it becomes a job, which outlives connection and server.
    """,
    fails=(errors.ConstraintClash, errors.LedgerUnavailable),
)  # fmt: skip

_add(
    FRONTIER, FrontierRequest, FrontierAnswer, FRONTIER_EXAMPLES,
    path="/recourse/frontier",
    name="create_frontier",
    summary="Trade cost for robustness",
    description="""
    The same question at several values of a parameter that trades cost for robustness.

    The points share model calls. A less robust point never costs more than a more robust one: it may have the same
    record, and is then `dominated`.
    """,
    fails=(errors.ConstraintClash,),
)  # fmt: skip

_add(
    OFFERS, OffersRequest, OffersAnswer, OFFERS_EXAMPLES,
    path="/recourse/offers",
    name="list_offers",
    summary="Find terms that are accepted",
    description="""
    What the applicant is accepted for as they are, if the lender changes the terms of the contract alone.

    Terms are the features with `terms: true` in the manifest, which limits what can be offered. The model
    accepts every offer; none is an answer (`status: not_found`). Nothing is recorded: the ledger has the best offer of
    `POST /recourse`.
    """,
    fails=(errors.ConstraintClash,),
)  # fmt: skip

_add(
    VALIDITY, ValidityRequest, ValidityAnswer, VALIDITY_EXAMPLES,
    path="/recourse/validity",
    name="certify_counterfactuals",
    summary="Certify existing counterfactuals",
    description="""
    The certificate of each record, for exactly the values given, and the joint bounds of all of them as a plan.

    The counterfactuals may come from any source: nothing is changed or searched. Joint bounds of many members can take
    seconds: the answer then has wider bounds, `status: pending`, and the job that computes tight ones.
    """,
    fails=(errors.DeadlineExceeded, errors.BudgetExceeded),
)  # fmt: skip

_add(
    CORRECTION, CorrectRequest, CorrectAnswer, CORRECT_EXAMPLES,
    path="/recourse/correct",
    name="correct_plan",
    summary="Correct an existing plan",
    description="""
    The plan with some records moved, so that the lower bound of its joint validity rises.

    Moved records respect the constraints, and the model accepts them. A record moves only if that raises the bound (for
    `requirement`: does not reduce it); each says whether it moved, and if not, why.
    """,
    fails=(errors.ConstraintClash, errors.BudgetExceeded, errors.DeadlineExceeded),
)  # fmt: skip
