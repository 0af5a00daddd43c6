"""POST /reasons."""

from typing import Annotated

from fastapi import APIRouter, Body, Response

from app.api.deps import ServiceDep
from app.api.error_docs import BODY, QUESTION, refusals
from app.api.media_type import JSON
from app.api.prefer import DIRECT
from app.api.strict_route import guarded
from app.keys.scopes import Scope
from app.questions.use_cases import REASONS
from app.reasons.schema import REASONS_EXAMPLES, ReasonsAnswer, ReasonsRequest

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

    Reasons are not recourse: a feature that nobody can change is a reason where it lowered the score, and what would
    help need not be a reason. Protected features are never named; the answer says which share they have.

    Always answered directly: `Prefer: respond-async` is refused.
    """
    asked = (REASONS, request.question(), request.applicant, request.terms())
    return Response(await service.questions.ask(*asked), media_type=JSON)
