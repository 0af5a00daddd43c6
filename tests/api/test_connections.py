"""Limits of connections: large, slow and many. Raw sockets against a server of uvicorn, with short times."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest
import uvicorn

from app.api.connections import Connections, Limits, ResponseTransport, block, protocol
from app.metrics import Metrics
from tests.conftest import NO_TLS, Running, until

QUICK = Limits(head_s=0.2, body_s=0.2, linger_s=0.2, idle_s=1.0, stalled_s=0.3)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the number of bytes of the body; at once with 401 below /closed, with much below /much."""
    assert scope["type"] == "http"
    size = 0
    while scope["path"] != "/closed":
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        if not message["more_body"]:
            break
    body = b"x" * 50_000_000 if scope["path"] == "/much" else str(size).encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send(
        {"type": "http.response.start", "status": 401 if scope["path"] == "/closed" else 200, "headers": headers}
    )
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(limits: Limits) -> Iterator[tuple[tuple[str, int], uvicorn.Server, Metrics]]:
    metrics = Metrics()
    config = uvicorn.Config(
        echo, port=0, log_config=None, lifespan="off", ws="none", http=protocol(Connections(limits, metrics))
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname(), server, metrics
    finally:
        server.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with served(QUICK) as (found, _, _):
        yield found


@contextmanager
def opened(address: tuple[str, int]) -> Iterator[socket.socket]:
    with socket.create_connection(address, timeout=10) as connection:
        yield connection


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server closes."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def problem(answer: bytes) -> dict[str, Any]:
    """The problem document of a refusal, which closes the connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert {"connection: close", "content-type: application/problem+json", "cache-control: no-store"} <= set(lines)
    document: dict[str, Any] = json.loads(body)
    assert lines[0].startswith(f"http/1.1 {document['status']} ")
    assert f"x-request-id: {document['request_id']}" in lines
    assert f"content-length: {len(body)}" in lines
    return document


def ask(address: tuple[str, int], request: bytes) -> bytes:
    with opened(address) as connection:
        connection.sendall(request)
        return rest(connection)


def get(*headers: bytes, path: bytes = b"/") -> bytes:
    return b"\r\n".join([b"GET " + path + b" HTTP/1.1", b"Host: x", *headers, b"", b""])


LAST = b"Connection: close"


@pytest.mark.parametrize("count", [0, 98, 99, 5000])
def test_a_request_has_at_most_100_headers(address: tuple[str, int], count: int) -> None:
    answer = ask(address, get(*[b"A: b"] * count, LAST))
    if count <= 98:
        assert answer.startswith(b"HTTP/1.1 200 ")
    else:
        assert (found := problem(answer))["code"] == "headers-too-large"
        assert found["status"] == 431


def test_headers_have_at_most_64_kib_in_all(address: tuple[str, int]) -> None:
    assert ask(address, get(*[b"A: " + b"b" * 6000] * 10, LAST)).startswith(b"HTTP/1.1 200 ")
    assert problem(ask(address, get(*[b"A: " + b"b" * 6000] * 11, LAST)))["status"] == 431


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nA: ", b"GET / HTTP/1.1\r\n", b"\r\n" * 40_000], ids=len)
def test_a_header_that_does_not_end_is_refused_before_it_is_large(address: tuple[str, int], start: bytes) -> None:
    with opened(address) as connection:
        sent = connection.send(start)
        try:
            while sent < 20_000_000:
                sent += connection.send(b"x" * 10_000)
        except OSError:
            pass
        assert sent < 20_000_000


def test_an_address_has_at_most_8_kib(address: tuple[str, int]) -> None:
    assert ask(address, get(LAST, path=b"/" + b"a" * 8000)).startswith(b"HTTP/1.1 200 ")
    assert problem(ask(address, get(LAST, path=b"/" + b"a" * 8200)))["status"] == 414


@pytest.mark.parametrize(
    "request_bytes", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"\x16\x03\x01\x00"]
)
def test_what_is_not_http_is_refused(address: tuple[str, int], request_bytes: bytes) -> None:
    assert problem(ask(address, request_bytes))["code"] == "malformed-http"


def test_the_trailers_of_a_body_are_limited_too(address: tuple[str, int]) -> None:
    begin = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n"
    with opened(address) as connection:
        try:
            connection.sendall(begin + b"0\r\n" + b"A: b\r\n" * 5000)
            connection.sendall(b"\r\n")
        except OSError:
            pass
        assert rest(connection).partition(b"\r\n")[0] in (b"", b"HTTP/1.1 431 Request Header Fields Too Large")


def test_the_extensions_of_a_chunk_are_limited_too(address: tuple[str, int]) -> None:
    with opened(address) as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        with pytest.raises(ConnectionError):
            connection.sendall(b"y" * 20_000_000)


def seconds(of: Callable[[], bytes]) -> tuple[float, bytes]:
    began = time.monotonic()
    answer = of()
    return time.monotonic() - began, answer


@pytest.mark.parametrize("part", [b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n", b"\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(address: tuple[str, int], part: bytes) -> None:
    took, answer = seconds(lambda: ask(address, part))
    assert problem(answer)["code"] == "request-timeout"
    assert QUICK.head_s <= took < 5.0


def drip(connection: socket.socket, part: bytes) -> bytes:
    """The answer to a request that goes on and on, a byte at a time."""
    give_up = time.monotonic() + 5.0
    connection.settimeout(0.02)
    while time.monotonic() < give_up:
        connection.sendall(part)
        try:
            if answer := connection.recv(65536):
                return answer
        except TimeoutError:
            pass
    raise AssertionError("waited in vain")


@pytest.mark.parametrize(("begin", "part"), [(b"GET /", b"x"), (b"GET / HTTP/1.1\r\nA: ", b"x"), (b"", b"\r\n")])
def test_a_head_that_drips_has_no_more_time(address: tuple[str, int], begin: bytes, part: bytes) -> None:
    with opened(address) as connection:
        connection.sendall(begin)
        assert problem(drip(connection, part))["status"] == 408


def test_a_connection_that_says_nothing_is_closed_without_an_answer(address: tuple[str, int]) -> None:
    took, answer = seconds(lambda: ask(address, b""))
    assert answer == b""
    assert QUICK.head_s <= took < 5.0


POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"


def test_a_body_that_does_not_come_is_not_waited_for(address: tuple[str, int]) -> None:
    took, answer = seconds(lambda: ask(address, POST + b"x"))
    assert problem(answer)["code"] == "request-timeout"
    assert QUICK.body_s <= took < 5.0


def test_a_body_that_drips_is_not_waited_for(address: tuple[str, int]) -> None:
    with opened(address) as connection:
        connection.sendall(POST)
        assert problem(drip(connection, b"x"))["status"] == 408


def test_a_body_that_comes_steadily_has_all_the_time_it_needs(address: tuple[str, int]) -> None:
    with opened(address) as connection:
        connection.sendall(POST)
        began = time.monotonic()
        for _ in range(20):
            connection.sendall(b"x" * 50_000)
            time.sleep(2.5 * QUICK.body_s / 20)
        assert time.monotonic() - began > 2 * QUICK.body_s
        assert connection.recv(65536).endswith(b"1000000")


def test_after_an_early_answer_the_rest_of_the_body_is_not_read_for_long(address: tuple[str, int]) -> None:
    with opened(address) as connection:
        connection.sendall(POST.replace(b"POST /", b"POST /closed"))
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
        with pytest.raises(ConnectionError):
            drip(connection, b"x")


def test_after_an_early_answer_the_rest_of_the_body_is_read_slowly() -> None:
    """As fast as the network allows, it would hold the event loop: 29 bodies of 57 MB a second did."""
    sent, part = 0, b"x" * 65_536
    with served(replace(QUICK, linger_s=1.0, linger_bytes_s=1e6)) as (where, _, _), opened(where) as connection:
        connection.sendall(b"POST /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n")
        with suppress(ConnectionError):
            for _ in range(2_000):
                sent += connection.send(part)
    assert sent < 30e6  # the most of it in the buffers of the sockets


def test_after_an_early_answer_a_body_that_ends_in_time_leaves_the_connection_open() -> None:
    body = b"x" * 3_000_000
    with served(replace(QUICK, linger_s=10.0, linger_bytes_s=3e6)) as (where, _, _), opened(where) as connection:
        connection.sendall(b"POST /closed HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" + body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
        connection.sendall(get())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_kept_connection_is_used_again_and_closed_when_idle(address: tuple[str, int]) -> None:
    with opened(address) as connection:
        for _ in range(3):
            connection.sendall(get())
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
            time.sleep(1.5 * QUICK.head_s)
        took, answer = seconds(lambda: rest(connection))
        assert (answer, took < 5.0) == (b"", True)


def test_an_idle_connection_is_not_kept_by_blank_lines(address: tuple[str, int]) -> None:
    with opened(address) as connection:
        connection.sendall(get())
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"\r\n")
        took, answer = seconds(lambda: rest(connection))
        assert problem(answer)["status"] == 408
        assert took < 5.0


def test_pipelined_requests_are_answered_in_order_and_few_wait(address: tuple[str, int]) -> None:
    bodies = [b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size for size in range(5)]
    answer = ask(address, b"".join(bodies) + get(LAST))
    assert [part[-1:] for part in answer.split(b"HTTP/1.1 200 OK")[1:]] == [b"0", b"1", b"2", b"3", b"4", b"0"]
    assert ask(address, get() * 3000).count(b"HTTP/1.1 200 OK") < 3000


def test_an_answer_that_is_not_read_is_not_kept_for_long() -> None:
    with served(QUICK) as (address, server, _), opened(address) as connection:
        connection.sendall(get(path=b"/much"))
        until(lambda: server.server_state.connections, within_s=5.0)
        until(lambda: not server.server_state.connections, within_s=5.0)


class Written:
    """A transport that notes what is written at once."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        self.writes.append(b"closed")


def test_the_head_of_an_answer_goes_out_with_its_body_and_waits_for_none() -> None:
    async def written(*parts: bytes, step_after: int) -> list[bytes]:
        transport = Written()
        response = ResponseTransport(cast(Any, transport), asyncio.get_running_loop())
        for k, part in enumerate(parts):
            response.write(part)
            if k == step_after:
                await asyncio.sleep(0)
        response.close()
        return transport.writes

    assert asyncio.run(written(b"head ", b"body", b"more", step_after=9)) == [b"head body", b"more", b"closed"]
    assert asyncio.run(written(b"head", b"event", step_after=0)) == [b"head", b"event", b"closed"]
    assert asyncio.run(written(b"head", step_after=9)) == [b"head", b"closed"]


def test_a_websocket_is_an_ordinary_request(address: tuple[str, int]) -> None:
    upgrade = get(b"Connection: Upgrade", b"Upgrade: websocket", b"Sec-WebSocket-Key: x", b"Sec-WebSocket-Version: 13")
    assert ask(address, upgrade).startswith(b"HTTP/1.1 200 ")


def test_so_many_connections_and_no_more() -> None:
    with served(replace(QUICK, head_s=30.0, connections=5, connections_per_address=3)) as (address, _, metrics):
        with ExitStack() as stack:
            held = [stack.enter_context(opened(address)) for _ in range(3)]
            assert problem(ask(address, b""))["code"] == "too-many-connections"
            # One that ends makes room.
            held.pop().close()
            until(lambda: ask(address, get(LAST)).startswith(b"HTTP/1.1 200 "), within_s=5.0)
        until(lambda: ask(address, get(LAST)).startswith(b"HTTP/1.1 200 "), within_s=5.0)
        assert b'recourse_connections_refused_total{reason="too-many-connections"}' in metrics.render({}, {})


def test_connections_are_counted_in_all_and_by_address() -> None:
    counted = Connections(Limits(connections=3, connections_per_address=2), Metrics())
    assert [counted.enter("a"), counted.enter("a"), counted.enter("a")] == [True, True, False]
    assert [counted.enter("b"), counted.enter("c")] == [True, False]
    counted.leave("a")
    assert [counted.enter("a"), counted.enter("c")] == [True, False]


def test_who_has_many_addresses_of_one_network_counts_as_one() -> None:
    assert block("2001:db8:1:2:3::1") == block("2001:db8:1:2::ffff") != block("2001:db8:1:3::1")
    assert block("::ffff:192.0.2.1") == block("192.0.2.1") != block("::ffff:192.0.2.2")
    assert block("") == ""


def test_the_service_has_these_limits(running: Running) -> None:
    with httpx.Client(base_url=running.url, verify=NO_TLS) as client:
        response = client.get("/health/live", headers=[("a", "b")] * 101)
        assert (response.status_code, response.json()["code"]) == (431, "headers-too-large")
        assert client.get("/health/live").status_code == 200
