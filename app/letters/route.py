"""GET /recourse/{id}/notice: the letter to an applicant."""

from datetime import date
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from app import errors
from app.api.deps import RECOURSE_EXAMPLE, RecourseId, ServiceDep
from app.api.described import describe
from app.api.error_docs import LANE, refusals
from app.api.strict_route import guarded
from app.keys.scopes import Scope
from app.letters.markup import policy
from app.letters.notice import Notice as Letter
from app.letters.regime import preferred
from app.questions.answers import plain
from app.questions.schema import MOST_LINES, Line

router = APIRouter(tags=["ledger"], route_class=guarded(Scope.RECOURSE, Scope.AUDIT))

Notice: Any = describe(Letter)

Format = Literal["json", "text", "html"]

MEDIA_TYPES: dict[str, Format] = {
    "application/json": "json",
    "application/*": "json",
    "*/*": "json",
    "text/html": "html",
    "text/plain": "text",
    "text/*": "text",
}
"""What each media type of an `Accept` gets."""

AS_TEXT: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The letter, in the form and language of the request.",
        "content": {"text/plain": {"schema": {"type": "string"}}, "text/html": {"schema": {"type": "string"}}},
    }
}


@router.get(
    "/recourse/{id}/notice",
    name="get_notice",
    summary="Write the letter about recourse",
    response_model=Notice,
    responses=AS_TEXT
    | refusals(
        f"{RECOURSE_EXAMPLE}/notice",
        errors.InvalidRequest,
        errors.NoticeIncomplete,
        errors.UnknownRecourse,
        errors.Erased,
        errors.LedgerUnavailable,
        errors.UnknownModel,
        errors.ModelUnusable,
        errors.ModelOutputInvalid,
        errors.ModelUnavailable,
        *LANE,
        errors.LaneTimeout,
    ),
)
async def notice(
    recourse_id: RecourseId,
    service: ServiceDep,
    form: Annotated[
        Format | None, Query(alias="format", description="The form of the letter; else `Accept` decides.")
    ] = None,
    lang: Annotated[
        str | None, Query(max_length=35, description="The language of the letter; else `Accept-Language` decides.")
    ] = None,
    draft: Annotated[bool, Query(description="Whether a letter that lacks settings is written as a draft.")] = False,
    addressee: Annotated[
        list[Line] | None, Query(max_length=MOST_LINES, description="Lines of name and address.")
    ] = None,
    applied_on: Annotated[date | None, Query(description="Date of the application.")] = None,
    accept: Annotated[str, Header(description="`application/json`, `text/plain` or `text/html`.")] = "",
    accept_language: Annotated[str, Header(description="Languages, the most wanted first.")] = "",
) -> Response:
    """The decision, its principal reasons, the ways to a yes, and what is promised, as a letter to the applicant.

    It needs its sender and other settings; a `draft` says which are missing. Reasons that were not asked for are
    computed now, by the version that answered.
    """
    templates = service.notices.templates
    language = templates.language(accept_language) if lang is None else lang
    found = await service.notices.notice(
        recourse_id, language, addressee=tuple(addressee or ()), applied_on=applied_on, draft=draft
    )
    headers = {
        "Content-Language": found.language,
        "Vary": "Accept, Accept-Language",
        "Cache-Control": "private, no-cache",
    }
    match form or next((MEDIA_TYPES[one] for one in preferred(accept) if one in MEDIA_TYPES), "json"):
        case "html":
            headers |= {"Content-Security-Policy": policy(templates.css)}
            return HTMLResponse(templates.html(found), headers=headers)
        case "text":
            return PlainTextResponse(templates.text(found), headers=headers)
    return JSONResponse(plain(found), headers=headers)
