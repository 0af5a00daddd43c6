"""What the proxy has to hold, by the standard library alone: ``python tests/proxy_attacks.py URL`` for the image."""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from select import select
from urllib.parse import urlsplit

ATTACKER = "127.0.0.2"
"""The address of the attacker, where it can have one of its own: connections are limited by address."""

PENDING = (
    b"POST /recourse HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
)
"""A request whose body does not go on."""

HALF_OPEN = b"POST /recourse HTTP/1.1\r\nHost: 127.0.0.1\r\n"


def opened(url: str, source: str = ATTACKER) -> socket.socket:
    to = urlsplit(url)
    return socket.create_connection((to.hostname or "", to.port or 80), timeout=30, source_address=(source, 0))


@contextmanager
def held(url: str, count: int, sent: bytes, source: str = ATTACKER) -> Iterator[list[socket.socket]]:
    """So many connections that have sent this."""
    with ExitStack() as stack:
        connections = []
        for _ in range(count):
            connections.append(stack.enter_context(opened(url, source)))
            connections[-1].sendall(sent)
        yield connections


def answers(connections: list[socket.socket], within_s: float) -> list[bytes]:
    """What each has been sent, or its end; nothing where it still waits after this time."""
    found, until = [], time.monotonic() + within_s
    for connection in connections:
        connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            found.append(connection.recv(65536) or b"end")
        except TimeoutError:
            found.append(b"")
        except ConnectionError:
            found.append(b"end")
    return found


def bytes_until_refused(url: str, most: int = 200_000_000, source: str = ATTACKER) -> int:
    """Bytes of one header that were sent until the answer, which must say that they are too many."""
    sent = 0
    with opened(url, source) as connection:
        connection.sendall(HALF_OPEN + b"X-Long: ")
        while sent < most and not select([connection], [], [], 0)[0]:
            sent += connection.send(b"a" * 65_536)
        assert connection.recv(65536).startswith(b"HTTP/1.1 431 ")
    return sent


if __name__ == "__main__":
    url, own = sys.argv[1], "127.0.0.1"
    assert bytes_until_refused(url, source=own) < 10_000_000, "a header of 200 MB"
    with held(url, 2000, HALF_OPEN, own) as connections:
        print("half-open", flush=True)
        assert set(answers(connections, 30.0)) <= {b"end"}, "half-open heads are closed"
    with held(url, 2000, PENDING, own) as connections:
        found = answers(connections, 3.0)
        assert sum(answer.startswith(b"HTTP/1.1 503 ") for answer in found) >= 1700, "2,000 connections"
        assert all(answer == b"" or b'"too-many-connections"' in answer for answer in found)
