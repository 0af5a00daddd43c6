"""What surrounds every request: its id, the headers of its response, the line in the log, limits on head and body.

Plain ASGI, so that responses are neither buffered nor moved to another task.
"""

import asyncio
import re
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress

from opentelemetry.trace import SpanKind
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.bodies import MANY, media_type
from app.api.errors import problem_response
from app.errors import (
    AddressTooLong,
    BodyTooLarge,
    HeadersTooLarge,
    InternalError,
    Overloaded,
    RecourseError,
    RequestTimeout,
)
from app.keys.authentication import extra_headers
from app.metrics import Metrics
from app.observability import log, request_id, trace, traceparent
from app.tracing import span

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

LARGEST_HEAD = 16_384
"""Bytes of the head of a request: address and headers with their separators."""

MOST_HEADERS = 100

LONGEST_ADDRESS = 8192
"""Bytes of the address (target) of a request."""

BODY_S, BODY_BYTES = 30.0, 32_768
"""So many seconds of waiting must bring the end of a body, or so many bytes of it."""

LINGER_S, LINGER_BYTES_S = 5.0, 40e6
"""How long the rest of a body is read that was answered before its end, and bytes of all such bodies in a second."""

SMALL_REST = 65_536
"""A body of at most so many bytes that was answered before its end does not end its connection."""

CLIENT_LEFT = 499
"""Logged as the status of a request whose client hung up while it was being read."""


class RequestContext:
    """Gives each request an id, adds headers to each response, and logs one line a request, without applicant data."""

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
            with span(scope["method"], SpanKind.SERVER, request_id=current) as whole:
                try:
                    await self.app(scope, receive, send_with_headers)
                finally:
                    route = getattr(scope.get("route"), "path", "")
                    whole.update_name(f"{scope['method']} {route}".strip())
                    whole.set_attributes({"http.route": route, "http.response.status_code": status})
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


class HeadLimit:
    """Refuses a request whose head is larger than any client needs, and removes cookies from the others.

    The service reads no cookies, but the framework parses them for every route. In releases of Python before
    `COOKIES_MENDED` of `app.main`, parsing can take seconds of processor time. uvicorn's own limit applies only to a
    head that has not arrived completely.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on without its cookies."""
        if scope["type"] == "http":
            headers = scope["headers"]
            address = len(scope.get("raw_path") or b"") + len(scope["query_string"])
            size = address + sum(len(name) + len(value) + len(b": \r\n") for name, value in headers)
            error: RecourseError | None = None
            if address > LONGEST_ADDRESS:
                error = AddressTooLong()
            elif size > LARGEST_HEAD or len(headers) > MOST_HEADERS:
                error = HeadersTooLarge()
            if error is not None:
                await problem_response(error, scope["path"][:LONGEST_ADDRESS])(scope, receive, send)
                return
            scope["headers"] = [header for header in headers if header[0] != b"cookie"]
        await self.app(scope, receive, send)


class EarlyAnswers:
    """Where a response is sent before the whole body has arrived, reads the rest slowly, then closes the connection.

    Reading stops after `LINGER_S` seconds. Without this class, the server would read the rest as fast as it arrives. If
    nobody read the rest, the connection would be reset, and the client might not see the response.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._lingered_until = 0.0
        """When what has been read of all such bodies is within their rate."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; nothing is done about a body that is small, or that the application has read."""
        size = _declared_size(scope) if scope["type"] == "http" else 0
        if size is not None and size <= SMALL_REST:
            await self.app(scope, receive, send)
            return
        more = True

        async def receive_and_see() -> Message:
            nonlocal more
            message = await receive()
            more = message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def send_and_linger(message: Message) -> None:
            if more and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            if not more or message["type"] != "http.response.body" or message.get("more_body", False):
                await send(message)
                return
            await send({**message, "more_body": True})
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_S):
                    while more:
                        await self._rest(len((await receive_and_see()).get("body", b"")))
            await send({"type": "http.response.body"})

        await self.app(scope, receive_and_see, send_and_linger)

    async def _rest(self, size: int) -> None:
        now = time.monotonic()
        self._lingered_until = max(self._lingered_until, now) + size / LINGER_BYTES_S
        await asyncio.sleep(self._lingered_until - now)


def _declared_size(scope: Scope) -> int | None:
    """Bytes of the body, 0 if there is none; None where it does not say."""
    headers = Headers(scope=scope)
    if "transfer-encoding" in headers:
        return None
    declared = headers.get("content-length", "0")
    return int(declared) if declared.isdecimal() else None


class HeadRequests:
    """Answers HEAD at every address that answers GET, with the same headers."""

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
    """Refuses a body that is larger or slower than the service accepts, whether or not the client declared its length.

    Parameters
    ----------
    max_bytes : most bytes of one body
    larger : by the end of a path and the media type, most bytes of one body where this differs from `max_bytes`
    all_bytes : most bytes of the bodies of all requests in progress, added up
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
        """Pass the request on with a `receive` that raises `BodyTooLarge`, `RequestTimeout` and `Overloaded`."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        declared = _declared_size(scope)
        max_bytes = self.larger.get((f"/{scope['path'].rpartition('/')[2]}", media_type(headers)), self.max_bytes)
        received, brought, left_s = 0, 0, BODY_S
        more = declared != 0

        async def receive_in_time() -> Message:
            nonlocal brought, left_s, more
            if not more:
                return await receive()
            began = time.monotonic()
            try:
                async with asyncio.timeout(left_s):
                    message = await receive()
            except TimeoutError:
                raise RequestTimeout from None
            brought += len(message.get("body", b""))
            left_s -= time.monotonic() - began
            if brought >= BODY_BYTES:
                brought, left_s = 0, BODY_S
            more = message.get("more_body", False)
            return message

        def too_large() -> BodyTooLarge:
            way_out = f" {MANY}" if max_bytes == self.max_bytes else ""
            return BodyTooLarge(f"The request body must not exceed {max_bytes:,} bytes.{way_out}")

        async def receive_within_limit() -> Message:
            nonlocal received
            if declared is not None and declared > max_bytes:
                raise too_large()
            message = await receive_in_time()
            size = len(message.get("body", b""))
            received += size
            self._held += size
            if received > max_bytes:
                raise too_large()
            if self._held > self.all_bytes:
                raise Overloaded("The requests in progress have too many bytes; try again shortly.")
            return message

        try:
            await self.app(scope, receive_within_limit, send)
        finally:
            self._held -= received
