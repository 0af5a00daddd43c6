"""POST /reasons."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Response

from app.api.bodies import JSON
from app.api.deps import ServiceDep
from app.api.described import describe
from app.api.error_docs import BODY, QUESTION, refusals
from app.api.examples import APPLICANT, DEMO_MODEL
from app.api.prefer import DIRECT
from app.api.strict import to_record, with_fields_of
from app.api.strict_route import guarded
from app.keys.scopes import Scope
from app.models.schema import Record
from app.questions.schema import AnyQuestion, Reference
from app.questions.use_cases import REASONS
from app.reasons import answer
from app.reasons.answer import ReasonsQuestion
from app.recourse.reasons import ReasonsParams


@with_fields_of(ReasonsParams)
class ReasonsRequest(AnyQuestion):
    """The features that lowered the score most."""

    applicant: Record
    reference: Reference | None = None
    """Your own name for this case; returned in the answer."""

    def question(self) -> ReasonsQuestion:
        """The question of the request, without the applicant's record."""
        return ReasonsQuestion(reasons=to_record(ReasonsParams, self), seed=self.seed)


ReasonsAnswer: Any = describe(answer.ReasonsAnswer)

REASONS_EXAMPLES: Any = {
    "accepted": {
        "summary": "Compared with those whom the model just accepts",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT},
    },
    "everyone": {
        "summary": "The two largest, compared with all reference records",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT, "against": "everyone", "count": 2},
    },
}

router = APIRouter(tags=["recourse"], route_class=guarded(Scope.RECOURSE))


@router.post(
    "/reasons",
    name="state_reasons",
    summary="State the reasons for a refusal",
    response_model=ReasonsAnswer,
    responses=refusals("/reasons", *BODY, *QUESTION),
)
async def reasons(
    request: Annotated[ReasonsRequest, Body(openapi_examples=REASONS_EXAMPLES)],
    service: ServiceDep,
    _no_job: Annotated[None, DIRECT],
) -> Response:
    """The features that lowered the applicant's score most, compared with reference records of the model.

    Reasons are not recourse: features that cannot be changed are named, too. Protected
    features are never named; the answer says which share they have.

    `Prefer: respond-async` is refused.
    """
    asked = (REASONS, request.question(), request.applicant, request.terms())
    return Response(await service.questions.ask(*asked), media_type=JSON)
