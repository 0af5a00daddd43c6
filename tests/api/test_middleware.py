"""What every response carries, and what the log says about it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.api.middleware import HEADERS
from app.main import create_app
from app.observability import trace
from app.settings import Settings
from tests.api.asking import question
from tests.logged import logged

ADDRESSES = ["/health/live", "/nope", "/models/x", "/docs", "/docs/static/favicon.png", "/problems/error"]


@pytest.mark.parametrize("path", ADDRESSES)
def test_every_response_has_an_id_and_the_headers(client: httpx.Client, path: str) -> None:
    response = client.get(path)
    assert len(response.headers["x-request-id"]) == 36
    assert set(map(str.lower, HEADERS)) <= set(response.headers)
    assert "server" not in response.headers


@pytest.mark.parametrize(
    "offered", ["a.b-c_d9", "x" * 128, "7", "Root=1-67891233-abcdef;Parent=53/9,a+b:c==", "!#$%&'()*<>?@[]^`{|}~"]
)
def test_the_callers_id_is_kept(client: httpx.Client, offered: str) -> None:
    assert client.get("/health/live", headers={"x-request-id": offered}).headers["x-request-id"] == offered


@pytest.mark.parametrize("offered", ["", "x" * 129, "with space", 'quote"quote', "back\\slash", "tab\tbed", "ü"])
def test_an_id_that_could_do_harm_is_replaced(client: httpx.Client, offered: str) -> None:
    answered = client.get("/health/live", headers={"x-request-id": offered.encode()}).headers["x-request-id"]
    assert len(answered) == 36


@pytest.mark.parametrize("path", [*ADDRESSES, "/methods", "/workbench"])
def test_head_is_answered_as_get_without_a_body(client: httpx.Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    for response in (head, get):
        for name in ("x-request-id", "date"):
            response.headers.pop(name)
    assert head.headers == get.headers


def test_head_where_nothing_is_read_is_refused(client: httpx.Client) -> None:
    response = client.head("/recourse/rec_1/verify")
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the log says."""
    with logged(monkeypatch, "app.api.middleware", "app.pool.pool") as written:
        yield written


def read(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


async def test_a_request_is_one_line_without_anything_the_client_sent(lines: io.StringIO) -> None:
    app = create_app(Settings(auth="off"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        body = question(model="nobody-tiger", reference="case-tiger")
        await client.post("/recourse?q=tiger", json=body, headers={"x-request-id": "request-1"})
        await client.get("/models/tiger", headers={"x-request-id": "request-2"})
    assert "tiger" not in lines.getvalue()
    # A service of other tests may write to the same log.
    first, second = (line for line in read(lines) if line.get("request_id") in ("request-1", "request-2"))
    assert first["event"] == "request"
    assert (first["method"], first["route"], first["status"]) == ("POST", "/recourse", 422)
    assert first["request_id"] == "request-1"
    assert first["ms"] >= 0
    assert (second["route"], second["status"], second["request_id"]) == ("/models/{id}", 404, "request-2")


def test_lines_of_other_libraries_are_json_and_tell_of_an_exception_only_where_it_was(lines: io.StringIO) -> None:
    try:
        raise ValueError("income tiger")
    except ValueError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    (line,) = (line for line in read(lines) if line["event"] == "Exception in ASGI application")
    assert line["trace"][0] == "ValueError"
    assert "tiger" not in json.dumps(line)


def test_a_trace_names_class_file_and_line() -> None:
    try:
        raise KeyError("income")
    except KeyError as error:
        name, place = trace(error)
    assert name == "KeyError"
    assert place.startswith("test_middleware.py:")
