"""The workbench: one static page that calls nothing but the public API."""

import gzip
import os
import re
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

STATIC = "/workbench/static"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Own files, own API, no inline script or style, and no way for a text to become markup."""

FILES = files("app.api") / "static" / "workbench"

COMMENT = re.compile(r"^[ \t]*(?:/\*(?:(?!\*/).)*\*/|//[^\n]*)\n", re.DOTALL | re.MULTILINE)
"""Lines of comment, an eighth of what a browser would read."""

router = APIRouter(include_in_schema=False)


class RevalidatedFiles(StaticFiles):
    """Static files without comments, which a browser may keep, but has to revalidate by their ETag before each use.

    So no page mixes files of two releases.
    """

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """The response with the file; or 304 if the browser already has the file."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        if not isinstance(response, FileResponse) or not str(full_path).endswith((".js", ".css")):
            return response
        kept = {name: response.headers[name] for name in ("Cache-Control", "ETag", "Last-Modified")}
        return Response(
            _uncommented(str(full_path), stat_result.st_mtime_ns), media_type=response.media_type, headers=kept
        )


@cache
def _uncommented(path: str, _changed_at: int) -> str:
    """A text file without lines of comment, read once for each time at which it was changed."""
    with open(path, encoding="utf-8") as file:
        return COMMENT.sub("", file.read())


static = GZipMiddleware(RevalidatedFiles(directory=str(FILES)))


@router.get("/workbench", name="workbench")
async def workbench(request: Request) -> HTMLResponse:
    """The workbench page, with its own content security policy; like the files of the page, it is compressed."""
    page = (FILES / "page.html").read_bytes()
    headers = {"Content-Security-Policy": POLICY, "Vary": "Accept-Encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return HTMLResponse(page, headers=headers)
    return HTMLResponse(gzip.compress(page), headers={**headers, "Content-Encoding": "gzip"})
