"""Limits of heads and bodies that the service holds itself, without a proxy: raw sockets against a real server."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette import requests
from structlog.testing import capture_logs

from app import main
from app.api import middleware
from app.api.middleware import LARGEST_HEAD, BodyLimit, EarlyAnswers
from app.settings import Settings
from tests.conftest import NO_TLS, Running, until
from tests.proxy_attacks import opened


def exchanged(url: str, sent: bytes) -> bytes:
    """All that comes until the server closes."""
    found = b""
    with opened(url) as connection, suppress(ConnectionError):
        connection.sendall(sent)
        while part := connection.recv(65536):
            found += part
    return found


def status_and_code(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    document = json.loads(body)
    assert b"content-type: application/problem+json" in head
    return int(head.split()[1]), document["code"]


def get(*headers: bytes, path: bytes = b"/health/live") -> bytes:
    return b"\r\n".join([b"GET " + path + b" HTTP/1.1", b"Host: localhost", *headers, b"Connection: close", b"", b""])


COOKIES = [b'Cookie: a="' + rb"\"" * pairs + b'"' for pairs in (7_900, 32_000)]
"""Headers that the parser of cookies in Python before 3.11.10 and 3.12.6 takes long for: within the limit of the head
and beyond."""


@pytest.mark.parametrize("path", [b"/health/live", b"/recourse", b"/docs", b"/models", b"/problems/overloaded"])
def test_cookies_are_never_parsed(running: Running, path: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(requests, "cookie_parser", lambda cookie: parsed.append(cookie) or {})
    answers = [exchanged(running.url, get(cookie, path=path)) for cookie in COOKIES]
    assert parsed == []
    assert [answer.partition(b" ")[2][:3] == b"431" for answer in answers] == [False, True]
    with httpx.Client(base_url=running.url, verify=NO_TLS) as client:
        began = time.process_time()
        assert client.get("/health/live").status_code == 200
        assert time.process_time() - began < 0.25


def test_a_key_in_a_trailer_does_not_count(running: Running) -> None:
    """Also where the whole request is one packet."""
    trailer = b"Host: evil.example\r\nX-Request-ID: trailer"
    sent = (
        b"POST /models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
        b"Trailer: X-Request-ID\r\n\r\n2\r\n{}\r\n0\r\n" + trailer + b"\r\n\r\n"
    )
    answer = exchanged(running.url, sent)
    assert answer.startswith(b"HTTP/1.1 405 ")  # and not 421
    assert b"trailer" not in answer


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (get(*[b"a: b"] * 101), 431, "headers-too-large"),
        (get(b"a: " + b"b" * LARGEST_HEAD), 431, "headers-too-large"),
        (get(path=b"/" + b"a" * 8200), 414, "address-too-long"),
        (get(path=b"/?" + b"a" * 8200), 414, "address-too-long"),
    ],
)
def test_a_head_is_limited_although_it_comes_as_a_whole(running: Running, sent: bytes, status: int, code: str) -> None:
    assert status_and_code(exchanged(running.url, sent)) == (status, code)


def test_a_head_that_goes_on_is_refused_before_it_is_large(running: Running) -> None:
    sent = 0
    with opened(running.url) as connection, suppress(ConnectionError):
        connection.sendall(b"GET / HTTP/1.1\r\nA: ")
        while sent < 20_000_000:
            sent += connection.send(b"x" * 10_000)
    assert sent < 20_000_000


def test_a_body_that_drips_is_not_waited_for(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(middleware, "BODY_S", 0.3)
    head = (
        b"POST /recourse HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n"
    )
    answer = b""
    with opened(running.url) as connection, suppress(ConnectionError):
        connection.sendall(head)
        connection.settimeout(0.02)
        for _ in range(500):
            connection.sendall(b" ")
            with suppress(TimeoutError):
                if not (part := connection.recv(65536)):
                    break
                answer += part
    assert status_and_code(answer) == (408, "request-timeout")
    assert b"connection: close" in answer


def test_a_body_that_comes_steadily_has_all_the_time_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])  # which the event loop asks as well

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (message := await receive())["more_body"]:
            read.append(len(message["body"]))

    async def receive() -> Any:
        clock[0] += 0.6 * middleware.BODY_S
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"x" * 40_000, "more_body": len(read) < 10}

    scope = {"type": "http", "path": "/", "headers": [(b"transfer-encoding", b"chunked")]}
    asyncio.run(BodyLimit(app, 10_000_000)(scope, receive, lambda _: asyncio.sleep(0)))
    assert len(read) == 10


@contextmanager
def refusing() -> Iterator[str]:
    """A server that answers before it reads."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"no"})

    config = uvicorn.Config(EarlyAnswers(app), port=0, log_config=None, lifespan="off", ws="none", http="h11")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)


def test_after_an_early_answer_the_rest_of_a_body_is_read_slowly_and_not_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As fast as the network allows, it would hold the event loop: 29 bodies of 57 MB a second did."""
    monkeypatch.setattr(middleware, "LINGER_S", 1.0)
    monkeypatch.setattr(middleware, "LINGER_BYTES_S", 1e6)
    sent, part = 0, b"x" * 65_536
    with refusing() as url, opened(url) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
        with suppress(ConnectionError):
            for _ in range(2_000):
                sent += connection.send(part)
    assert sent < 30e6  # the most of it in the buffers of the sockets


def test_a_small_body_that_was_not_read_leaves_the_connection_open() -> None:
    with refusing() as url, opened(url) as connection:
        for _ in range(3):
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello")
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 401 ")
            assert answer.endswith(b"no")


def test_pipelined_requests_are_answered_in_order(running: Running) -> None:
    answer = exchanged(running.url, b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20 + get(path=b"/nope"))
    assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200"] * 20 + [b"404"]


def test_a_websocket_is_an_ordinary_request(running: Running) -> None:
    upgrade = (b"Upgrade: websocket", b"Sec-WebSocket-Key: x", b"Sec-WebSocket-Version: 13")
    assert exchanged(running.url, get(*upgrade)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("version", "warned"), [((3, 11, 9), True), ((3, 11, 10), False), ((3, 12, 5), True), ((3, 13, 0), False)]
)
def test_python_with_the_slow_parser_of_cookies_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: tuple[int, int, int], warned: bool
) -> None:
    assert main.outdated_python(version) == (main.COOKIES_MENDED[version[1]] if warned else None)
    monkeypatch.setattr(main, "outdated_python", lambda _: (3, 11, 10) if warned else None)
    monkeypatch.setattr(main, "configure_logging", lambda _: None)
    with capture_logs() as logged:
        main.begin(Settings(state_dir=tmp_path))
    assert [line["needed"] for line in logged if line["event"] == "python-outdated"] == ["3.11.10"] * warned
