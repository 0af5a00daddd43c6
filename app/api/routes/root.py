"""GET /: where the page, the documentation and the description are."""

from html import escape

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from app import __version__

router = APIRouter(include_in_schema=False)

PLACES = {
    "workbench": ("/workbench", "Try it in the browser"),
    "docs": ("/docs", "The HTTP interface, to try out"),
    "reference": ("/redoc", "The HTTP interface, to read"),
    "openapi": ("/openapi.json", "Its description in OpenAPI 3.1"),
    "health": ("/health/ready", "Whether the service is ready"),
}
"""Addresses, and what is there."""

PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>recourse</title>
</head>
<body>
<h1>recourse</h1>
<p>What could this applicant change so that the model says yes, and stays at yes?</p>
<ul>
{}
</ul>
</body>
</html>
"""

POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@router.get("/", name="root")
async def root(request: Request) -> Response:
    """Links to the workbench, the documentation and the OpenAPI description: HTML for browsers, JSON for programs."""
    prefix = request.scope.get("root_path", "")
    vary = {"Vary": "Accept"}
    if "text/html" not in request.headers.get("accept", ""):
        places = {name: prefix + path for name, (path, _) in PLACES.items()}
        return JSONResponse({"service": "recourse", "version": __version__, **places}, headers=vary)
    links = (f'<li><a href="{escape(prefix + path)}">{escape(sentence)}</a></li>' for path, sentence in PLACES.values())
    return HTMLResponse(PAGE.format("\n".join(links)), headers={**vary, "Content-Security-Policy": POLICY})
