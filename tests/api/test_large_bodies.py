"""Bodies that are large, or become large: refused before they are built, stored as they come, never all at once."""

import asyncio
import json
import socket
import tracemalloc
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from app.api.bodies import LONGEST_LINE, MOST_VALUES, READ_AT_ONCE, read_json
from app.api.many_rows import LARGEST_WHOLE
from app.api.middleware import BodyLimit
from app.errors import BodyTooLarge, InvalidRequest, Overloaded
from app.questions.batch_route import PATH
from tests.api.asking import APPLICANT, problem, question

JSON = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * MOST_VALUES + b"[]]",
        b"[" + b"1," * MOST_VALUES + b"1]",
        b'{"a":{"a":1}},' * MOST_VALUES,
        (b"[" * 200 + b"]" * 200 + b",") * (MOST_VALUES // 200),
    ],
    ids=["lists", "numbers", "objects", "deep"],
)
def test_so_many_values_are_refused_before_any_is_built(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="more than 100,000 values"):
            read_json(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_as_many_values_as_allowed_are_read() -> None:
    assert len(read_json(b"[" + b"1," * (MOST_VALUES - 2) + b"1]")) == MOST_VALUES - 1


def test_a_large_body_is_answered_as_a_small_one(client: httpx.Client) -> None:
    padded = json.dumps(question()) + " " * READ_AT_ONCE
    found, plain = client.post("/recourse", content=padded, headers=JSON), client.post("/recourse", json=question())
    assert found.status_code == 200
    assert found.json()["counterfactuals"] == plain.json()["counterfactuals"]
    problem(client.post("/recourse", content=padded + "{", headers=JSON), 400, "malformed-json")


def test_a_batch_as_one_text_has_5_mb(client: httpx.Client) -> None:
    told = {"model": "loan", "applicants": [{"applicant": APPLICANT}], "reference": "x" * LARGEST_WHOLE}
    assert "5,000,000" in problem(client.post(PATH, json=told), 413, "body-too-large")["detail"]


def test_a_batch_in_lines_may_be_larger(client: httpx.Client) -> None:
    def body() -> Iterator[bytes]:
        yield b'{"model": "loan"}\n'
        for _ in range(2 * LARGEST_WHOLE // LONGEST_LINE):
            yield b"x" * (LONGEST_LINE - 1) + b"\n"

    response = client.post(PATH, content=body(), headers=LINES)
    assert response.status_code == 202
    assert response.json()["progress"]["total"] == 2 * LARGEST_WHOLE // LONGEST_LINE


def test_a_line_has_1_mb(client: httpx.Client) -> None:
    rows = b'{"model": "loan"}\n' + json.dumps({"applicant": APPLICANT}).encode() + b"\n"
    problem(client.post(PATH, content=rows + b"x" * (LONGEST_LINE + 1), headers=LINES), 413, "body-too-large")
    problem(client.post(PATH, content=b"x" * (LONGEST_LINE + 1) + b"\n", headers=LINES), 413, "body-too-large")


def test_lines_that_are_sent_again_are_the_same_request(client: httpx.Client) -> None:
    rows = b'{"model": "loan"}\n' + json.dumps({"applicant": APPLICANT}).encode() + b"\n"
    headers = LINES | {"Idempotency-Key": "lines-sent-again"}
    first, again, other = (client.post(PATH, content=body, headers=headers) for body in (rows, rows, rows + b"\n"))
    assert (first.status_code, again.content) == (202, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    problem(other, 422, "idempotency-key-reused")


async def test_the_bodies_of_all_requests_are_limited() -> None:
    async def ask(limit: BodyLimit, parts: list[bytes], hold: asyncio.Event | None = None) -> None:
        messages = iter(parts)

        async def receive() -> Any:
            return {"type": "http.request", "body": next(messages), "more_body": True}

        await limit(
            {
                "type": "http",
                "path": "/",
                "headers": [(b"transfer-encoding", b"chunked")],
                "parts": len(parts),
                "hold": hold,
            },
            receive,
            ask_send,
        )

    async def ask_send(message: Any) -> None:
        raise AssertionError

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for _ in range(scope["parts"]):
            await receive()
        if scope["hold"]:
            await scope["hold"].wait()

    limit = BodyLimit(app, 60, all_bytes=100)
    hold = asyncio.Event()
    first = asyncio.create_task(ask(limit, [b"x" * 30, b"x" * 30], hold))
    await asyncio.sleep(0)
    with pytest.raises(BodyTooLarge):
        await ask(limit, [b"x" * 61])
    await ask(limit, [b"x" * 40])
    with pytest.raises(Overloaded):
        await ask(limit, [b"x" * 41])
    hold.set()
    await first
    await ask(limit, [b"x" * 60])


def head_alone(url: str, method: str, path: str) -> bytes:
    """The first line of the answer to a request whose body never comes."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=20) as connection:
        request = f"{method.upper()} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        connection.sendall(f"{request}Content-Type: application/x-ndjson\r\nIdempotency-Key: x\r\n\r\n".encode())
        return connection.recv(65536).partition(b"\r\n")[0]
