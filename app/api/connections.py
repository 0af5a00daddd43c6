"""Limits of connections, below any route: how large the head of a request is, how slow a client, how many they are.

uvicorn leaves these to a proxy: its fast parser collects a header of any length, and waits for its end without limit.
"""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import IPv6Address, ip_address
from typing import Any, cast

import httptools
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.api.errors import problem_response
from app.api.middleware import HEADERS
from app.errors import (
    AddressTooLong,
    HeadersTooLarge,
    MalformedHttp,
    RecourseError,
    RequestTimeout,
    TooManyConnections,
)
from app.metrics import Metrics
from app.observability import request_id

SLICE = 65_536
"""Bytes that are parsed at once; what is refused has been read to the end of its slice at most."""

MOST_PIPELINED = 8
"""Requests that may wait on one connection for the answer to an earlier one."""

NO_ID, NO_DATE = str(uuid.UUID(int=0)), "Thu, 01 Jan 1970 00:00:00 GMT"
"""Where the id and the time of a refusal come."""

NETWORK_BITS = 64
"""Of an IPv6 address: a host usually has all addresses of such a network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of connections; times in seconds, sizes in bytes."""

    connections: int = 1000
    """Most connections at once."""
    connections_per_address: int = 250
    """Most connections at once of one IPv4 address, or one /64 of IPv6."""
    head_bytes: int = 65_536
    """Largest head: address and headers with their separators, and the trailers of a body."""
    headers: int = 100
    """Most headers, trailers included."""
    address_bytes: int = 8192
    """Longest address (target) of a request."""
    head_s: float = 10.0
    """From the connection, or the first byte of a later request, to the end of the head."""
    body_s: float = 30.0
    """Each period of this length must bring the end of the body or `body_bytes` of it."""
    body_bytes: int = 32_768
    linger_s: float = 5.0
    """For the rest of a body that was answered before its end."""
    linger_bytes_s: float = 40e6
    """Bytes of such bodies that are read in a second, of all connections together: reading them takes time from the
    requests that are answered."""
    idle_s: float = 60.0
    """Between two requests."""
    stalled_s: float = 60.0
    """A client that reads nothing of an answer for this time is cut off."""


class Connections:
    """The connections of one process, counted; used from one event loop."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self._by_block: Counter[str] = Counter()
        self._lingered_until = 0.0
        """The time by which what has been read of answered bodies is within their rate."""

    def linger(self, size: int) -> float:
        """Seconds until more is read of bodies that were answered, after so many bytes."""
        now = time.monotonic()
        self._lingered_until = max(self._lingered_until, now) + size / self.limits.linger_bytes_s
        return self._lingered_until - now

    def enter(self, address: str) -> bool:
        """Count a connection of a client, unless it is one too many."""
        count = self._by_block[key := block(address)]
        if self._by_block.total() >= self.limits.connections or count >= self.limits.connections_per_address:
            return False
        self._by_block[key] += 1
        return True

    def leave(self, address: str) -> None:
        """Stop to count a connection that was counted."""
        self._by_block[key := block(address)] -= 1
        if not self._by_block[key]:
            del self._by_block[key]


def block(address: str) -> str:
    """The addresses that count as one client."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(found, IPv6Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(int(found) >> (128 - NETWORK_BITS))


def protocol(connections: Connections) -> type[asyncio.Protocol]:
    """What `uvicorn.Config` takes as `http`."""
    return cast(type[asyncio.Protocol], partial(LimitedProtocol, connections=connections))


class LimitedProtocol(HttpToolsProtocol):
    """One connection. uvicorn's own, with the limits of `Connections`.

    A request that breaks one is answered with a problem document where no answer has begun, and the connection closed.
    """

    def __init__(self, *args: Any, connections: Connections, **options: Any) -> None:
        super().__init__(*args, **options)
        self._connections_of_all = connections
        self._limits = connections.limits
        self._address = ""
        self._counted = False
        self._refused: RecourseError | None = None
        self._in_head = True
        """Whether a head is awaited or has begun; False between requests."""
        self._any_head = False
        """Whether any byte of that head has come."""
        self._body_ended = True
        self._head_bytes = 0
        self._silent_bytes = 0
        """Parsed since the parser has last reported something: the length of what has not ended yet."""
        self._body_bytes = 0
        """Of the body, in this period."""
        self._timer: tuple[Callable[[], None], asyncio.TimerHandle] | None = None
        self._stalled: asyncio.TimerHandle | None = None

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, if there is room."""
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if isinstance(peer, tuple) else ""
        if not self._connections_of_all.enter(self._address):
            self.transport = transport
            self._refuse(TooManyConnections())
            return
        self._counted = True
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop_timers()
        if self._counted:
            self._counted = False
            self._connections_of_all.leave(self._address)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what has come, a slice at a time."""
        if not self._in_head and self._body_ended:
            self._begin_head()
        if self._in_head:
            self._any_head = True
        for start in range(0, len(data), SLICE):
            if self.transport.is_closing():
                return
            part = data[start : start + SLICE]
            self._silent_bytes += len(part)
            super().data_received(part)
            if self._silent_bytes > self._limits.head_bytes:
                self._refuse(HeadersTooLarge())
        self._watch()
        if self._timer is not None and self._timer[0] == self._end_lingering:
            self.flow.pause_reading()
            self.loop.call_later(self._connections_of_all.linger(len(data)), self._linger_on)

    def on_response_complete(self) -> None:
        """Go on with the next request."""
        super().on_response_complete()
        # Any byte would end uvicorn's timer permanently.
        self._unset_keepalive_if_required()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the client to take what it was sent, but not without limit."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._limits.stalled_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Write again."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    # --- the parser ---

    def _begin_head(self) -> None:
        self._in_head, self._any_head, self._head_bytes, self._silent_bytes = True, False, 0, 0

    def on_message_begin(self) -> None:
        """Begin a request."""
        if len(self.pipeline) >= MOST_PIPELINED:
            self._stop_parsing(TooManyConnections())
        if not self._in_head:
            self._begin_head()
        self._any_head, self._silent_bytes = True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Add a part of the address."""
        self._silent_bytes = 0
        self._head_bytes += len(url)
        super().on_url(url)
        if len(self.url) > self._limits.address_bytes:
            self._stop_parsing(AddressTooLong())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, or a trailer."""
        self._silent_bytes = 0
        self._head_bytes += len(name) + len(value) + len(b": \r\n")
        if self._head_bytes > self._limits.head_bytes or len(self.headers) >= self._limits.headers:
            self._stop_parsing(HeadersTooLarge())
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """End the head."""
        self._in_head, self._body_ended = False, False
        self._silent_bytes = self._body_bytes = 0
        super().on_headers_complete()
        self.cycle.transport = cast(asyncio.Transport, ResponseTransport(self.transport, self.loop))

    def on_body(self, body: bytes) -> None:
        """Add a part of the body."""
        self._silent_bytes = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End the request."""
        self._body_ended = True
        super().on_message_complete()

    def _stop_parsing(self, error: RecourseError) -> None:
        # The parser ends with an error of its own, after which uvicorn calls `send_400_response`.
        self._refused = error
        raise httptools.HttpParserError(error.code)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's text
        """Refuse what could not be parsed."""
        self._refuse(self._refused or MalformedHttp())

    # --- time ---

    def _watch(self) -> None:
        """Set the timer for what is awaited now; it goes on if it is for the same."""
        overdue: Callable[[], None] | None = None
        after_s = 0.0
        if self.transport.is_closing():
            pass
        elif not self._body_ended:
            if self.cycle.response_complete:
                overdue, after_s = self._end_lingering, self._limits.linger_s
            else:
                overdue, after_s = self._check_body, self._limits.body_s
        elif self.cycle is None or self.cycle.response_complete:
            if self._in_head:
                overdue, after_s = self._end_waiting, self._limits.head_s
            else:
                overdue, after_s = self.timeout_keep_alive_handler, self._limits.idle_s
        if self._timer is not None and self._timer[0] == overdue:
            return
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = None if overdue is None else (overdue, self.loop.call_later(after_s, overdue))

    def _stop_timers(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _end_waiting(self) -> None:
        if self._any_head:
            self._refuse(RequestTimeout())
        else:
            self.transport.close()

    def _check_body(self) -> None:
        # The client may wait for us.
        ours = self.flow.read_paused or self.cycle.waiting_for_100_continue
        if not ours and self._body_bytes < self._limits.body_bytes:
            self._refuse(RequestTimeout())
            return
        self._body_bytes = 0
        self._timer = None
        self._watch()

    def _linger_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _end_lingering(self) -> None:
        self.transport.close()

    # --- refusals ---

    def _refuse(self, error: RecourseError) -> None:
        """Answer where no answer has begun, and close."""
        if self.transport.is_closing():
            return
        self._connections_of_all.metrics.connection_refused(error.code)
        waiting = self.cycle is not None and not self.cycle.response_complete
        # An answer now would be taken for that to an earlier request.
        if not (waiting and (self._body_ended or self.cycle.response_started or self.pipeline)):
            self.transport.write(_rendered(error))
        if waiting:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


class ResponseTransport:
    """The transport as one response uses it: its head goes out with what comes of the body in the same step.

    A write of its own would cost as much as a tenth of the request, and wake the client for nothing.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head: bytes | None = None
        """What waits to be written."""
        self._begun = False
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write; the head by the end of this step."""
        if not self._begun:
            self._begun, self._head = True, data
            self._loop.call_soon(self._write_head)
        elif self._head is not None:
            self._write_head(data)
        else:
            self._transport.write(data)

    def close(self) -> None:
        """Close once all is written."""
        self._write_head()
        self._transport.close()

    def _write_head(self, body: bytes = b"") -> None:
        if self._head is not None:
            head, self._head = self._head, None
            self._transport.write(head + body)


def _rendered(error: RecourseError) -> bytes:
    """A problem document as it goes over the wire."""
    # mypy takes no class for hashable.
    template = _template(type(error))  # type: ignore[arg-type]
    return template.replace(NO_ID, str(uuid.uuid4())).replace(NO_DATE, _date()).encode("latin-1")


@cache
def _template(error: type[RecourseError]) -> str:
    """The answer to any connection that is refused with an error; many of them cost little."""
    token = request_id.set(NO_ID)
    try:
        response: Response = problem_response(error(), "")
        response.headers["X-Request-ID"] = NO_ID
    finally:
        request_id.reset(token)
    for name, value in {**HEADERS, "Connection": "close", "Date": NO_DATE}.items():
        response.headers[name] = value
    headers = [b"%s: %s\r\n" % header for header in response.raw_headers]
    rendered = b"".join([STATUS_LINE[response.status_code], *headers, b"\r\n", bytes(response.body)])
    return rendered.decode("latin-1")


def _date() -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
