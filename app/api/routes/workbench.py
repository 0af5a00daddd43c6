"""The workbench: one static page that calls nothing but the public API."""

from importlib.resources import files

from fastapi import APIRouter
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse
from starlette.staticfiles import StaticFiles

STATIC = "/workbench/static"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Own files, own API, no inline script or style, and no way for a text to become markup."""

FILES = files("app.api") / "static"

router = APIRouter(include_in_schema=False)

static = GZipMiddleware(StaticFiles(directory=str(FILES)))


@router.get("/workbench", name="workbench")
async def workbench() -> HTMLResponse:
    """The page, with a content security policy of its own."""
    page = (FILES / "workbench.html").read_text(encoding="utf-8")
    return HTMLResponse(page, headers={"Content-Security-Policy": POLICY})
