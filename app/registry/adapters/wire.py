"""POST to one allowed address, with limits of time and size, over a kept connection.

* The host is resolved here, every address is checked (`RemoteHost.permits`), and the connection goes to a checked
  address; the certificate and the `Host` header still use the name. A later change of the DNS entry has no effect.
* No redirects, no proxies, no compressed responses: neither the server nor the environment can change the target.
* Only connecting is retried. A request that was sent may have been computed, and charged.
* One time limit for everything: resolving, connecting, TLS, sending and receiving.

Uses httpcore, the layer below httpx, because it can connect to a given address.
"""

import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import httpcore

from app.errors import ModelUnavailable
from app.observability import origin_headers
from app.remote_hosts import RemoteHost
from app.tracing import child_span

RETRIES = 2
"""Further attempts to connect, after half a second and one second."""

KEEP_S = 1.0
"""Idle connections are closed after this time, before a server closes them, which would fail a request."""

LONGEST_RETRY_AFTER_S = 3600

_FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


class OutOfTime(Exception):
    """Raised where the time limit of a request has passed."""


class TooLarge(Exception):
    """Raised where a response exceeds its size limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response of a server; `body` is empty unless `status` is 200."""

    status: int
    body: bytes
    retry_after_s: int | None
    """Seconds of its Retry-After header; None where that is absent or a date."""


class Wire:
    """A connection to one host, which sends one request at a time. The first request opens the connection.

    `url` is the address for POST. Requests raise `ModelUnavailable` where `host` does not allow this address.
    """

    def __init__(self, url: str, host: RemoteHost, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = [*headers.items(), ("Accept-Encoding", "identity"), ("Accept", "application/json")]
        self._backend = _Guard(host)
        self._pool = httpcore.ConnectionPool(
            # The system's certificates, to which an operator can add those of the company.
            ssl_context=ssl.create_default_context() if url.startswith("https:") else None,
            max_connections=1,
            keepalive_expiry=KEEP_S,
            retries=RETRIES,
            network_backend=self._backend,
        )
        self._turn = threading.Lock()
        # Closes the connection when the model is garbage-collected.
        weakref.finalize(self, self._pool.close)

    def post(self, content: bytes, *, limit: int, until: float) -> Answer:
        """The response to a POST of JSON `content` to the wire's own address.

        Parameters
        ----------
        limit : largest response, in bytes
        until : end of the time limit, as a `time.monotonic()`

        Raises `OutOfTime` and `TooLarge`; `ModelUnavailable` where the host is unreachable, has no allowed address, or
        closes the connection.
        """
        sent = [("Content-Length", str(len(content))), ("Content-Type", "application/json")]
        return self._ask("POST", self._url, sent, content, limit, until)

    def get(self, url: str, *, limit: int, until: float) -> Answer:
        """The response to a GET of `url`, which is on the model's host.

        Parameters
        ----------
        limit : largest response, in bytes
        until : end of the time limit, as a `time.monotonic()`

        Raises `OutOfTime` and `TooLarge`; `ModelUnavailable` where the host is unreachable, has no allowed address, or
        closes the connection.
        """
        return self._ask("GET", url, [], None, limit, until)

    def _ask(
        self, verb: str, url: str, headers: list[tuple[str, str]], content: bytes | None, limit: int, until: float
    ) -> Answer:
        with self._turn:
            self._backend.until = until
            try:
                with child_span("model call", verb=verb):
                    return self._send(verb, url, [*self._headers, *origin_headers(), *headers], content, limit)
            except _FAILURES as error:
                if time.monotonic() >= until:
                    raise OutOfTime from error
                doing = "cannot be reached" if isinstance(error, httpcore.ConnectError) else "hung up"
                raise ModelUnavailable(f"the server of the model {doing} ({type(error).__name__})") from error

    def _send(self, verb: str, url: str, headers: list[tuple[str, str]], content: bytes | None, limit: int) -> Answer:
        with self._pool.stream(verb, url, headers=headers, content=content) as response:
            fields = {name.lower(): value for name, value in response.headers}
            body = bytearray()
            # Read whatever the status is, or the connection could not be used again.
            for piece in response.iter_stream():
                body += piece
                if len(body) > limit:
                    raise TooLarge
            # The body of another status is not kept; it may repeat the records.
            kept = bytes(body) if response.status == 200 else b""
            return Answer(status=response.status, body=kept, retry_after_s=_seconds(fields.get(b"retry-after", b"")))


def _seconds(text: bytes) -> int | None:
    return min(int(text), LONGEST_RETRY_AFTER_S) if text.isdigit() and len(text) < 10 else None


class _Guard(httpcore.NetworkBackend):
    """Connects to allowed addresses only, and enforces the time limit `until`."""

    def __init__(self, host: RemoteHost) -> None:
        self._host = host
        self._sockets = httpcore.SyncBackend()
        self.until = 0.0

    def left(self) -> float:
        """Seconds until the time limit of the request. Raises `OutOfTime` where none are left."""
        left = self.until - time.monotonic()
        if left <= 0.0:
            raise OutOfTime
        return left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the one time limit counts
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """A connection to the first allowed address of the host to which the service can connect."""
        addresses = _resolve(host, port, self.left())
        permitted = [address for address in addresses if self._host.permits(address)]
        if not permitted:
            raise ModelUnavailable("the host of the model has no address that RECOURSE_REMOTE_HOSTS allows")
        for address in permitted[:-1]:
            try:
                return self._connect(address, port, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue  # the next address of the same host
        return self._connect(permitted[-1], port, local_address, socket_options)

    def _connect(
        self, address: str, port: int, local_address: str | None, socket_options: Iterable[Any] | None
    ) -> httpcore.NetworkStream:
        stream = self._sockets.connect_tcp(address, port, self.left(), local_address, socket_options)
        return _Stream(stream, self)

    def sleep(self, seconds: float) -> None:
        """Pause before another attempt to connect."""
        time.sleep(min(seconds, self.left()))


class _Stream(httpcore.NetworkStream):
    """A connection on which every step is limited by the time left, instead of a timeout of its own."""

    def __init__(self, stream: httpcore.NetworkStream, guard: _Guard) -> None:
        self._stream = stream
        self._guard = guard

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """At most `max_bytes` bytes that the server has sent."""
        return self._stream.read(max_bytes, self._guard.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send all bytes of `buffer`."""
        self._stream.write(buffer, self._guard.left())

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore.NetworkStream:
        """An encrypted stream over this connection."""
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._guard.left()), self._guard)

    def get_extra_info(self, info: str) -> Any:
        """The fact about the socket that `info` names, as httpcore asks for it; None for an unknown name."""
        return self._stream.get_extra_info(info)


def lookup(host: str, port: int) -> list[str]:
    """IP addresses of a host, from the system's resolver and in its order. Raises `OSError`."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _resolve(host: str, port: int, timeout_s: float) -> list[str]:
    """Addresses of a host. The system's resolver has no time limit, so it runs in a thread of its own.

    Raises `OutOfTime`; `httpcore.ConnectError` where there is no such host.
    """
    answers: SimpleQueue[list[str] | OSError] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(lookup(host, port))
        except OSError as error:
            answers.put(error)

    threading.Thread(target=ask, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=timeout_s)
    except Empty:
        raise OutOfTime from None
    if isinstance(answer, OSError):
        raise httpcore.ConnectError("the name cannot be resolved") from answer
    return answer
