"""POST to one address: guarded, within a time and a size, with a kept connection.

* The host is resolved here, every address is checked (`RemoteHost.permits`), and the connection goes to a checked
  address; the certificate and the `Host` header are still about the name. A name that resolves otherwise a moment later
  changes nothing.
* No redirects, no proxies, no compressed answers: nothing that somebody else's answer or environment could choose.
* Only connecting is tried again. What has been sent may have been computed, and paid for.
* One time limit for all of it: resolving, connecting, TLS, sending and every piece of the answer.

This is httpcore, the layer below httpx, because it lets us say which address to connect to.
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
from app.remote_hosts import RemoteHost

RETRIES = 2
"""Further attempts to connect, after half a second and a second."""

KEEP_S = 1.0
"""Idle connections are closed after this, before a server would: one that closes meanwhile would cost an answer."""

LONGEST_RETRY_AFTER_S = 3600

_FAILURES = (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException)


class OutOfTime(Exception):
    """The time limit of a request has passed."""


class TooLarge(Exception):
    """The answer is longer than it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said."""

    status: int
    body: bytes
    retry_after_s: int | None
    """From its Retry-After header, where that is a number of seconds."""


class Wire:
    """Connections to one host; nothing is opened before the first request. Requests wait for each other.

    Parameters
    ----------
    url : whose scheme, host and port `host` covers
    """

    def __init__(self, url: str, host: RemoteHost, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = [*headers.items(), ("Accept-Encoding", "identity"), ("Accept", "application/json")]
        self._backend = _Guard(host)
        self._pool = httpcore.ConnectionPool(
            # The system's certificates, to which an operator can add the company's own.
            ssl_context=ssl.create_default_context() if url.startswith("https:") else None,
            max_connections=1,
            keepalive_expiry=KEEP_S,
            retries=RETRIES,
            network_backend=self._backend,
        )
        self._turn = threading.Lock()
        # A model that nobody holds any more leaves no connection behind.
        weakref.finalize(self, self._pool.close)

    def post(self, content: bytes, *, limit: int, until: float) -> Answer:
        """The answer to a request.

        Parameters
        ----------
        limit : bytes of the answer
        until : `time.monotonic()`

        Raises
        ------
        OutOfTime, TooLarge
        ModelUnavailable : the host is not reached, or not at an address that is allowed, or hangs up
        """
        with self._turn:
            self._backend.until = until
            try:
                return self._post(content, limit)
            except _FAILURES as error:
                if time.monotonic() >= until:
                    raise OutOfTime from error
                doing = "cannot be reached" if isinstance(error, httpcore.ConnectError) else "hung up"
                raise ModelUnavailable(f"the server of the model {doing} ({type(error).__name__})") from error

    def _post(self, content: bytes, limit: int) -> Answer:
        headers = [*self._headers, ("Content-Length", str(len(content))), ("Content-Type", "application/json")]
        with self._pool.stream("POST", self._url, headers=headers, content=content) as response:
            said = {name.lower(): value for name, value in response.headers}
            body = bytearray()
            # Of another status nobody reads the body; it may repeat the records.
            if response.status == 200:
                for piece in response.iter_stream():
                    body += piece
                    if len(body) > limit:
                        raise TooLarge
            return Answer(
                status=response.status, body=bytes(body), retry_after_s=_seconds(said.get(b"retry-after", b""))
            )


def _seconds(text: bytes) -> int | None:
    return min(int(text), LONGEST_RETRY_AFTER_S) if text.isdigit() and len(text) < 10 else None


class _Guard(httpcore.NetworkBackend):
    """Connects to checked addresses only, and lets nothing last beyond `until`."""

    def __init__(self, host: RemoteHost) -> None:
        self._host = host
        self._sockets = httpcore.SyncBackend()
        self.until = 0.0

    def left(self) -> float:
        """Seconds until the time limit."""
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
        """A connection to the first checked address that takes one."""
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
        """The pause before connecting is tried again."""
        time.sleep(min(seconds, self.left()))


class _Stream(httpcore.NetworkStream):
    """A connection on which every step takes what is left of the time, not a time of its own."""

    def __init__(self, stream: httpcore.NetworkStream, guard: _Guard) -> None:
        self._stream = stream
        self._guard = guard

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        """Bytes of the answer."""
        return self._stream.read(max_bytes, self._guard.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        """Send bytes."""
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
        """The same connection, encrypted."""
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, self._guard.left()), self._guard)

    def get_extra_info(self, info: str) -> Any:
        """What httpcore asks about the socket."""
        return self._stream.get_extra_info(info)


def lookup(host: str, port: int) -> list[str]:
    """What the system's resolver says, in its order; `OSError` where it says nothing."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _resolve(host: str, port: int, timeout_s: float) -> list[str]:
    """Addresses of a host; the system's resolver knows no time limit, so it is asked in a thread of its own.

    Raises
    ------
    OutOfTime
    httpcore.ConnectError : there is no such host
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
