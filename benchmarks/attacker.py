"""Connections that attack a server until the input ends: ``python -m benchmarks.attacker URL KEY ATTACK``.

Writes a line once they have attacked for a second, and at the end how many times one of them ended.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import uvloop

PART = 65_536
"""Bytes that are sent at once."""

FROM = "127.0.0.2"
"""The attacker's address: connections are limited by address, and the other caller has one of its own."""

BATCH = "/recourse/batch"

DEPTH = 150


@dataclass(frozen=True, slots=True)
class Attack:
    """What each of some connections sends, again and again."""

    connections: int
    parts: Callable[[str, str], Iterator[bytes]]
    """Of a request, from host and key."""
    pause_s: float = 0.01
    """Before a connection that was closed is made again: an attacker on the same machine must not take its
    processors."""


def _repeated(text: bytes, total: int) -> Iterator[bytes]:
    part = text * (PART // len(text))
    for _ in range(total // len(part)):
        yield part


def _long_header(host: str, _key: str) -> Iterator[bytes]:
    yield f"POST /recourse HTTP/1.1\r\nHost: {host}\r\nX-Long: ".encode()
    yield from _repeated(b"a", 60_000_000)


def _many_headers(host: str, _key: str) -> Iterator[bytes]:
    yield f"POST /recourse HTTP/1.1\r\nHost: {host}\r\n".encode()
    yield from _repeated(b"a: b\r\n", 12_000_000)


def _posted(host: str, key: str, path: str, body: Iterator[bytes], length: int) -> Iterator[bytes]:
    head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    credential = f"Authorization: Bearer {key}\r\n" if key else ""
    yield f"{head}{credential}Content-Length: {length}\r\n\r\n".encode()
    yield from body


def _nested_lists(host: str, key: str) -> Iterator[bytes]:
    part = (b"[" * DEPTH + b"]" * DEPTH + b",") * 200
    count = 57_000_000 // len(part)
    return _posted(host, key, BATCH, (part for _ in range(count)), count * len(part))


def _nested_lists_without_key(host: str, _key: str) -> Iterator[bytes]:
    return _nested_lists(host, "")


def _many_values(host: str, key: str) -> Iterator[bytes]:
    body = json.dumps({"model": "consumer-loan", "applicant": {"income": [1.5] * 90_000}}).encode()
    return _posted(host, key, "/recourse", iter([body]), len(body))


def _half_open(host: str, _key: str) -> Iterator[bytes]:
    yield f"POST /recourse HTTP/1.1\r\nHost: {host}\r\n".encode()


ATTACKS = {
    "4 x a header of 60 MB": Attack(4, _long_header),
    "4 x 2,000,000 headers": Attack(4, _many_headers),
    "4 x 57 MB of nested lists, without a key": Attack(4, _nested_lists_without_key),
    "4 x 57 MB of nested lists": Attack(4, _nested_lists),
    "4 x 90,000 values": Attack(4, _many_values),
    "900 half-open connections": Attack(900, _half_open, pause_s=1.0),
}
"""By the name in the table."""


async def _again_and_again(attack: Attack, host: str, port: int, key: str, ended: list[int]) -> None:
    netloc = f"{host}:{port}"
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection(host, port, local_addr=(FROM, 0))
            try:
                for part in attack.parts(netloc, key):
                    writer.write(part)
                    await writer.drain()
                await reader.read(PART)
            finally:
                writer.close()
        ended[0] += 1
        await asyncio.sleep(attack.pause_s)


async def attack(url: str, key: str, name: str) -> int:
    """Attack until the input ends; how many times a connection ended."""
    to = urlsplit(url)
    assert to.hostname is not None
    assert to.port is not None
    ended = [0]
    chosen = ATTACKS[name]
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(_again_and_again(chosen, to.hostname, to.port, key, ended))
            for _ in range(chosen.connections)
        ]
        await asyncio.sleep(1.0)
        print("attacking", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        for one in running:
            one.cancel()
    return ended[0]


if __name__ == "__main__":
    print(uvloop.run(attack(*sys.argv[1:])), flush=True)
