"""A page for each error code; a problem document's `type` is its address."""

from html import escape
from string import Template
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from app import errors
from app.api.described import Described
from app.api.error_docs import refusals
from app.api.errors import MEANINGS
from app.api.strict_route import StrictRoute
from app.errors import ERRORS, NotFound

router = APIRouter(tags=["operations"], route_class=StrictRoute)

PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>$title</title>
</head>
<body>
<h1>$title</h1>
<p><code>$code</code>, HTTP status $status</p>
<h2>What it means</h2>
<p>$meaning</p>
<h2>What to do</h2>
<p>$remedy</p>
</body>
</html>
""")


class ProblemPage(Described):
    """The meaning of an error code."""

    code: str
    """The error code."""
    status: int
    """Its HTTP status."""
    title: str
    """Its short name."""
    meaning: str
    """What it means."""
    remedy: str
    """What to do about it."""


@router.get(
    "/problems/{code}",
    name="get_problem",
    summary="Get the meaning of an error code",
    response_model=ProblemPage,
    responses={
        200: {"content": {"text/html": {}}},
        **refusals("/problems/overloaded", errors.InvalidRequest, errors.NotFound),
    },
)
async def get_problem(
    code: Annotated[str, Path(openapi_examples={"record": {"value": errors.InvalidRecord.code}})], request: Request
) -> Response:
    """An HTML page, or JSON with `Accept: application/json`."""
    error_class = ERRORS.get(code)
    if error_class is None:
        raise NotFound("There is no problem of this name.")
    meaning = MEANINGS[error_class]
    page = {
        "code": code,
        "status": meaning.status,
        "title": meaning.title,
        "meaning": (error_class.__doc__ or "").strip(),
        "remedy": meaning.remedy,
    }
    if "json" in request.headers.get("accept", ""):
        return JSONResponse(page)
    return HTMLResponse(PAGE.substitute({key: escape(str(value)) for key, value in page.items()}))
