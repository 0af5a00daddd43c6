"""Swagger UI and ReDoc, from files that are installed with the service: the pages work without internet."""

import base64
import hashlib
import re
from importlib.resources import files

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_redoc_html, get_swagger_ui_html
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from app.api.etag import IfNoneMatch, if_changed

STATIC = "/docs/static"

router = APIRouter(include_in_schema=False)

static = StaticFiles(directory=str(files("fastapi_offline") / "static"))


@router.get("/openapi.json", name="openapi")
async def openapi(request: Request, if_none_match: IfNoneMatch = None) -> Response:
    """The OpenAPI description of every endpoint; its `servers` names the root path of this request."""
    here = {"url": request.scope.get("root_path", "") or "/"}
    return if_changed({**request.app.openapi(), "servers": [here]}, if_none_match)


@router.get("/docs", name="swagger")
async def swagger(request: Request) -> HTMLResponse:
    """A page on which to try out every endpoint."""
    root = request.scope.get("root_path", "")
    page = get_swagger_ui_html(
        openapi_url=f"{root}/openapi.json",
        title="recourse: try it out",
        swagger_js_url=f"{root}{STATIC}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{STATIC}/swagger-ui.css",
        swagger_favicon_url=f"{root}{STATIC}/favicon.png",
        # Without this, Swagger asks a server on the internet whether the description is valid.
        swagger_ui_parameters={"validatorUrl": None, "tryItOutEnabled": True, "defaultModelsExpandDepth": 0},
    )
    return _with_policy(page)


@router.get("/redoc", name="redoc")
async def redoc(request: Request) -> HTMLResponse:
    """A page on which to read about every endpoint."""
    root = request.scope.get("root_path", "")
    page = get_redoc_html(
        openapi_url=f"{root}/openapi.json",
        title="recourse: reference",
        redoc_js_url=f"{root}{STATIC}/redoc.standalone.js",
        redoc_favicon_url=f"{root}{STATIC}/favicon.png",
        with_google_fonts=False,
    )
    return _with_policy(page)


def _with_policy(page: HTMLResponse) -> HTMLResponse:
    """The page with a content security policy that lets it load our own files and run exactly its own script."""
    digests = [
        base64.b64encode(hashlib.sha256(script).digest()).decode()
        for script in re.findall(rb"<script>(.*?)</script>", bytes(page.body), re.DOTALL)
    ]
    scripts = " ".join(["'self'", *(f"'sha256-{digest}'" for digest in digests)])
    page.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
        "font-src 'self' data:; connect-src 'self'; worker-src blob:; frame-ancestors 'none'"
    )
    return page
