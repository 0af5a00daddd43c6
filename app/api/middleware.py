"""What surrounds every request: its id, the headers of its response, the line in the log, and a limit on its body.

Plain ASGI, so that responses are neither buffered nor moved to another task.
"""

import re
import time
import uuid
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.authentication import extra_headers
from app.api.errors import problem_response
from app.api.media_type import media_type
from app.errors import BodyTooLarge, InternalError, Overloaded
from app.metrics import Metrics
from app.observability import log, request_id, trace, traceparent

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

_REQUEST_ID = re.compile(r"[!#-\[\]-~]{1,128}")
"""Visible ASCII; no quote or backslash, which some log tools trip over. `app.api.openapi` describes it."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    # Answers are about people: no cache may keep them.
    "Cache-Control": "no-store",
}
"""On every response, unless the route has set its own."""

_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

CLIENT_LEFT = 499
"""Logged as the status of a request whose client hung up while it was being read."""


class RequestContext:
    """Gives every request an id, every response its headers, and the log one line without applicant data."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        offered = Headers(scope=scope)
        current = offered.get("x-request-id", "")
        if not _REQUEST_ID.fullmatch(current):
            current = str(uuid.uuid4())
        parent = offered.get("traceparent", "")
        tokens = request_id.set(current), traceparent.set(parent if _TRACEPARENT.fullmatch(parent) else None)
        began, status = time.perf_counter(), 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = message.get("headers", ())
                names = {name for name, _ in own}
                more = {"x-request-id": current, **extra_headers(scope)}
                message["headers"] = [
                    *own,
                    *((name.lower().encode(), value.encode()) for name, value in more.items()),
                    *(header for header in _RAW_HEADERS if header[0] not in names),
                ]
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        except ClientDisconnect:
            status = CLIENT_LEFT
        except Exception as error:
            # The boundary of the application: whatever happened, the client gets a problem document.
            log.error("unforeseen-error", trace=trace(error))
            if status:
                raise  # the response has begun; all that is left is to cut it off
            await problem_response(InternalError(), scope["path"])(scope, receive, send_with_headers)
        finally:
            seconds = time.perf_counter() - began
            route = getattr(scope.get("route"), "path", None)
            self.metrics.request(scope["method"], route, status, seconds)
            log.info(
                "request",
                method=scope["method"],
                route=route,
                status=status,
                ms=round(1000 * seconds, 2),
                key_id=scope.get("key_id"),
            )
            request_id.reset(tokens[0])
            traceparent.reset(tokens[1])


class HeadRequests:
    """Answers HEAD where GET is answered, with the same headers."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as GET, and drop what comes after the headers."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The server must know that the declared length is not that of a body.
                scope["method"] = "HEAD"
                await send(message)
                # At once, because a stream may go on for long.
                await send({"type": "http.response.body"})

        scope["method"] = "GET"
        try:
            await self.app(scope, receive, send_headers)
        finally:
            scope["method"] = "HEAD"


class BodyLimit:
    """Refuses to read more of a request body than the service accepts, whether its length was declared or not.

    Parameters
    ----------
    max_bytes : of one body
    larger : the same for paths and media types that have their own
    all_bytes : of the bodies of all requests in progress
    """

    def __init__(
        self, app: ASGIApp, max_bytes: int, larger: Mapping[tuple[str, str], int] | None = None, all_bytes: int = 2**63
    ) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.larger = larger or {}
        self.all_bytes = all_bytes
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with a `receive` that raises `BodyTooLarge`."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        declared = headers.get("content-length", "0")
        max_bytes = self.larger.get((scope["path"], media_type(headers)), self.max_bytes)
        received = 0

        async def receive_within_limit() -> Message:
            nonlocal received
            if declared.isdecimal() and int(declared) > max_bytes:
                raise BodyTooLarge(f"The request body must not exceed {max_bytes:,} bytes.")
            message = await receive()
            size = len(message.get("body", b""))
            received += size
            self._held += size
            if received > max_bytes:
                raise BodyTooLarge(f"The request body must not exceed {max_bytes:,} bytes.")
            if self._held > self.all_bytes:
                raise Overloaded("The requests in progress have too many bytes; try again shortly.")
            return message

        try:
            await self.app(scope, receive_within_limit, send)
        finally:
            self._held -= received
