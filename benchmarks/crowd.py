"""Many connections of one caller that ask without a pause: ``python -m benchmarks.crowd URL KEY PATH CONNECTIONS``.

Reads the body as a line of JSON, writes a line once all are connected, goes on until its input ends, and then writes
how many requests a second were answered and refused. Bytes in and bytes out: a crowd of real clients is on other
machines, so this one must not take the time of the service.
"""

import asyncio
import re
import sys
import time
from typing import cast
from urllib.parse import urlsplit

import uvloop

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
WAIT = re.compile(rb"\r\nretry-after: *(\d+)", re.IGNORECASE)


class Connection(asyncio.Protocol):
    """Asks again as soon as it is answered; after a refusal, when it may."""

    def __init__(self, request: bytes, counts: dict[bool, int]) -> None:
        self._request = request
        self._counts = counts
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask."""
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def data_received(self, data: bytes) -> None:
        """Take a part of the answer."""
        self._answer += data
        head, end, rest = self._answer.partition(b"\r\n\r\n")
        if not end or not (length := LENGTH.search(head)) or len(rest) < int(length[1]):
            return
        self._counts[head.split(b" ", 2)[1] == b"200"] += 1
        wait = WAIT.search(head)
        asyncio.get_running_loop().call_later(min(float(wait[1]), 1.0) if wait else 0.0, self._ask)

    def _ask(self) -> None:
        self._answer = b""
        self._transport.write(self._request)


async def crowd(url: str, key: str, path: str, connections: int, body: bytes) -> tuple[float, float]:
    """Answers and refusals per second."""
    to = urlsplit(url)
    assert to.hostname is not None
    assert to.port is not None
    host, port = to.hostname, to.port
    head = f"POST {path} HTTP/1.1\r\nHost: {to.netloc}\r\nAuthorization: Bearer {key}\r\n"
    request = f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    counts = {True: 0, False: 0}
    loop, began = asyncio.get_running_loop(), time.perf_counter()
    for _ in range(connections):
        await loop.create_connection(lambda: Connection(request, counts), host, port)
    await asyncio.sleep(1.0)
    print("asking", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    seconds = time.perf_counter() - began
    return counts[True] / seconds, counts[False] / seconds


if __name__ == "__main__":
    url, key, path, connections = sys.argv[1:]
    print(*uvloop.run(crowd(url, key, path, int(connections), sys.stdin.readline().encode())), flush=True)
