"""The proxy of `docs/operations/nginx.conf` before a real service: what it refuses, and that others do not notice."""

import json
import re
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from app import errors
from app.api.errors import problem
from app.errors import RecourseError
from app.settings import Settings
from tests.api.asking import question
from tests.conftest import NO_TLS, Running
from tests.proxied import CONFIGURATION, NGINX, proxied
from tests.proxy_attacks import HALF_OPEN, PENDING, answers, bytes_until_refused, held, opened

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")


@pytest.fixture(scope="module")
def proxy(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with proxied(running.url, tmp_path_factory.mktemp("proxy")) as url:
        yield url


@pytest.fixture
def client(proxy: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=proxy, timeout=30, verify=NO_TLS) as client:
        yield client


@contextmanager
def alive(url: str) -> Iterator[None]:
    """Another caller's `GET /health/live` takes at most 250 ms meanwhile, and 2 s at worst."""
    waits: list[float] = []
    ending = threading.Event()

    def look() -> None:
        with httpx.Client(base_url=url, timeout=60, verify=NO_TLS) as client:
            while not waits or not ending.wait(0.05):
                began = time.perf_counter()
                client.get("/health/live").raise_for_status()
                waits.append(1e3 * (time.perf_counter() - began))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        ending.set()
        looking.join()
    # Other tests use the machine too: the usual wait says whether the caller was held up, the longest whether it stood.
    assert statistics.median(waits) <= 250.0
    assert max(waits) <= 2_000.0


def refused(url: str, sent: bytes) -> tuple[str, dict[str, Any]]:
    with opened(url) as connection:
        connection.sendall(sent)
        answer = b""
        while b'"code"' not in answer:
            part = connection.recv(65536)
            assert part, answer
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"Content-Type: application/problem+json" in head
    return head.decode(), json.loads(body)


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"nonsense\r\n\r\n", errors.MalformedHttp),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", errors.MalformedHttp),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 17_000 + b"\r\n\r\n", errors.HeadersTooLarge),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", errors.AddressTooLong),
        (b"POST /recourse HTTP/1.1\r\nHost: x\r\nContent-Length: 1000001\r\n\r\n", errors.BodyTooLarge),
    ],
)
def test_what_it_refuses_is_the_problem_that_the_service_has_for_it(
    proxy: str, sent: bytes, error: type[RecourseError]
) -> None:
    head, document = refused(proxy, sent)
    (given,) = re.findall(r"^X-Request-ID: (.*)$", head, re.MULTILINE)
    assert document == problem(error(), "", request=given.strip())
    assert head.split()[1] == str(document["status"])


def test_a_question_is_answered_through_it(client: httpx.Client) -> None:
    response = client.post("/recourse", json=question(), headers={"Cookie": "a=b", "X-Request-ID": "mine"})
    assert (response.status_code, response.headers["x-request-id"]) == (200, "mine")
    assert client.post("/recourse", json=question(seed="x")).status_code == 422
    assert client.get("/health/live", headers={"Host": "elsewhere.example"}).status_code == 200
    assert client.get("/models", headers={"Host": "elsewhere.example"}).status_code == 421


def test_a_batch_comes_in_and_its_lines_go_out_as_they_are(client: httpx.Client) -> None:
    def body() -> Iterator[bytes]:
        yield b'{"model": "loan"}\n'
        for _ in range(30):
            yield b"x" * 100_000 + b"\n"

    taken = client.post("/recourse/batch", content=body(), headers={"Content-Type": "application/x-ndjson"})
    assert taken.status_code == 202
    with client.stream("GET", f"{taken.headers['location']}/events") as events:
        assert next(events.iter_lines()).startswith(("event:", "id:", "retry:", ":", "data:"))


def test_large_bodies_are_refused_before_their_end_without_a_502(proxy: str) -> None:
    """Each on a connection of its own: after a refusal the proxy closes one, perhaps as the next body begins."""
    for size in (1_000_001, 6_000_000):
        for _ in range(10):
            with httpx.Client(base_url=proxy, timeout=30, verify=NO_TLS) as client:
                json_type = {"Content-Type": "application/json"}
                response = client.post("/recourse/batch", content=b" " * size, headers=json_type)
            assert response.status_code == (413 if size > 5_000_000 else 400), response.text


def test_who_asks_is_the_address_that_the_proxy_sees(tmp_path: Path, loan_store: Path) -> None:
    """Not one that the client names."""
    from tests.conftest import run

    for service in run(Settings(models_store=loan_store, lanes_sync=1, rate_limit=3)):
        with proxied(service.url, tmp_path) as url, httpx.Client(base_url=url, verify=NO_TLS) as client:
            found = [client.get("/models", headers={"X-Forwarded-For": f"192.0.2.{i}"}).status_code for i in range(4)]
    assert found == [200, 200, 200, 429]


def test_a_header_of_200_mb_is_refused_at_its_beginning(proxy: str) -> None:
    with alive(proxy):
        assert [bytes_until_refused(proxy) < 10_000_000 for _ in range(5)] == [True] * 5


def test_2000_half_open_heads_are_closed_in_time_and_hold_nobody_up(proxy: str, running: Running) -> None:
    with alive(proxy), held(proxy, 2000, HALF_OPEN) as connections:
        assert set(answers(connections, 25.0)) == {b"end"}


def test_of_2000_connections_with_slow_bodies_250_stay_and_the_service_sees_none(proxy: str) -> None:
    with alive(proxy), held(proxy, 2000, PENDING) as connections:
        found = answers(connections, 3.0)
    kept = [answer for answer in found if not answer]
    assert len(kept) == 250
    assert all(b"HTTP/1.1 503 " in answer and b'"too-many-connections"' in answer for answer in found if answer)


def test_a_service_that_is_away_is_not_ready(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with proxied(url, tmp_path) as proxy:
        response = httpx.get(f"{proxy}/health/live", verify=NO_TLS)
    assert (response.status_code, response.json()["code"], response.headers["retry-after"]) == (503, "not-ready", "1")


def test_its_sizes_are_those_of_the_settings() -> None:
    sizes = re.findall(r"client_max_body_size (\d+);  # (?:RECOURSE_)(\w+)", CONFIGURATION.read_text())
    assert {name.lower(): int(size) for size, name in sizes} == {
        name: Settings.model_fields[name].default for name in ("max_body_bytes", "max_batch_bytes")
    }
    (most,) = re.findall(r"limit_conn all (\d+);", CONFIGURATION.read_text())
    assert int(most) < Settings.model_fields["max_connections"].default
    assert urlsplit(f"//{re.findall(r'server (.*);', CONFIGURATION.read_text())[0]}").port == 8000
