"""Letters that were sent, reviews, and the case file of a recourse."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from app import errors
from app.api.bodies import JSON
from app.api.deps import RECOURSE_EXAMPLE, RecourseId, ServiceDep
from app.api.error_docs import BODY, LANE, QUESTION, refusals
from app.api.page_form import Accept, PageForm, wants_page
from app.api.prefer import DIRECT
from app.api.strict_route import guarded
from app.cases import page
from app.cases.schema import (
    NOTICE_EXAMPLES,
    REVIEW_EXAMPLES,
    CaseFile,
    NoticeRequest,
    Review,
    ReviewRequest,
    SentLetter,
)
from app.keys.scopes import Scope
from app.letters.markup import policy_of
from app.questions.answers import plain

router = APIRouter(tags=["ledger"], route_class=guarded(Scope.RECOURSE, Scope.AUDIT))
writing = APIRouter(route_class=guarded(Scope.RECOURSE))

LETTER_EXAMPLE = "let_01KAHQ0W3MZC9Y7T5X2V8RDB4E"

PRIVATE = {"Vary": "Accept", "Cache-Control": "private, no-cache"}

KEPT = (errors.InvalidRequest, errors.UnknownRecourse, errors.Erased, errors.LedgerUnavailable)
"""How what is recorded about a recourse can fail to be read."""

REASONS = (errors.UnknownModel, errors.ModelUnusable, errors.ModelOutputInvalid, errors.ModelUnavailable)
"""How the reasons that an answer does not state can fail to be computed."""

FORMS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "In the form of the request.",
        "content": {"text/html": {"schema": {"type": "string"}}},
    }
}


@writing.post(
    "/recourse/{id}/notice",
    name="record_notice",
    summary="Record a letter as sent",
    dependencies=[DIRECT],
    response_model=SentLetter,
    responses=refusals(
        f"{RECOURSE_EXAMPLE}/notice", *BODY, *KEPT, errors.NoticeIncomplete, *REASONS, *LANE, errors.LaneTimeout
    ),
)
async def record_notice(
    recourse_id: RecourseId,
    request: Annotated[NoticeRequest, Body(openapi_examples=NOTICE_EXAMPLES)],
    service: ServiceDep,
) -> Response:
    """Records how and when a letter was sent: that of `GET /recourse/{id}/notice`, or a text of your own.

    It is on disk before it is returned: print and send what this returns. The chain covers it; it is erased with the
    recourse.
    """
    return Response(await service.cases.send(recourse_id, **dict(request)), media_type=JSON)


@router.get(
    "/recourse/{id}/letters/{letter}",
    name="get_letter",
    summary="Get a letter that was sent",
    response_model=SentLetter,
    responses=FORMS | refusals(f"{RECOURSE_EXAMPLE}/letters/{LETTER_EXAMPLE}", *KEPT),
)
async def get_letter(
    recourse_id: RecourseId,
    letter: Annotated[str, Path(max_length=40, openapi_examples={"letter": {"value": LETTER_EXAMPLE}})],
    service: ServiceDep,
    form: PageForm = None,
    accept: Accept = "",
) -> Response:
    """The letter as recorded; `text/html` is the page that prints, or plain text for the lender's own text."""
    found = await service.cases.letter(recourse_id, letter)
    if not wants_page(form, accept):
        return JSONResponse(found, headers=PRIVATE)
    if found["page"] is None:
        return PlainTextResponse(found["text"], headers=PRIVATE)
    return HTMLResponse(found["page"], headers={**PRIVATE, "Content-Security-Policy": policy_of(found["page"])})


@writing.post(
    "/recourse/{id}/reviews",
    name="create_review",
    summary="Record a review",
    dependencies=[DIRECT],
    response_model=Review,
    responses=refusals(f"{RECOURSE_EXAMPLE}/reviews", *BODY, *KEPT, *QUESTION, errors.ConstraintClash),
)
async def create_review(
    recourse_id: RecourseId,
    request: Annotated[ReviewRequest, Body(openapi_examples=REVIEW_EXAMPLES)],
    service: ServiceDep,
) -> Response:
    """Wrong data corrected and the model asked again, a decision by a person with its reason, or both.

    The same question is asked about the corrected record, of the newest active version unless one is named. The answer
    is a recourse of its own, with the same reference.
    """
    return Response(await service.cases.review(recourse_id, **dict(request)), media_type=JSON)


@router.get(
    "/recourse/{id}/case",
    name="get_case",
    summary="Get the case file",
    response_model=CaseFile,
    responses=FORMS | refusals(f"{RECOURSE_EXAMPLE}/case", *KEPT, errors.ModelUnusable, *LANE, errors.LaneTimeout),
)
async def get_case(
    recourse_id: RecourseId, service: ServiceDep, form: PageForm = None, accept: Accept = ""
) -> Response:
    """All that is known of a recourse: request and answer, reasons, later versions, letters, reviews, and the proof.

    The ten newest later versions are asked now, as by `POST /recourse/{id}/verify`, whether they accept every way;
    remote ones are not. `text/html` is one file that prints.
    """
    found = await service.cases.file(recourse_id)
    if wants_page(form, accept):
        written = page.html(found, service.models)
        return HTMLResponse(written, headers={**PRIVATE, "Content-Security-Policy": policy_of(written)})
    return JSONResponse(plain(found), headers=PRIVATE)


router.include_router(writing)
