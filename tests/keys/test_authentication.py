"""API keys over HTTP: who is let in, and what the others are told."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx
import pytest

from app.keys.keys import Keys, parts
from app.keys.scopes import Scope
from app.settings import Settings
from app.store.migrate import opened
from tests.api.asking import problem, question
from tests.api.test_large_bodies import head_alone
from tests.api.test_openapi import OPERATIONS
from tests.conftest import NO_TLS, Running, run, until

get = partial(httpx.get, timeout=30, verify=NO_TLS)

NOW = datetime(2026, 3, 1, tzinfo=UTC)

OPEN = {"/health/live", "/health/ready", "/problems/{code}"}
"""What is described and asks for no key."""


@pytest.fixture(scope="module")
def locked(loan_store: Path) -> Iterator[Running]:
    """A service that asks for keys."""
    yield from run(Settings(models_store=loan_store, lanes_sync=1, auth="required"))


def make_key(running: Running, *scopes: Scope) -> str:
    with opened(running.service.settings) as engine:
        return Keys(engine).create("test", scopes, NOW)


def asking(running: Running, key: str) -> httpx.Client:
    return httpx.Client(base_url=running.url, headers={"Authorization": f"Bearer {key}"}, timeout=30, verify=NO_TLS)


def let_in(client: httpx.Client, path: str = "/methods") -> bool:
    return client.get(path).status_code == 200


def test_without_a_key_one_is_told_so_before_anything_is_read(locked: Running) -> None:
    response = httpx.post(f"{locked.url}/recourse", content=b"{")
    problem(response, 401, "key-required")
    assert response.headers["www-authenticate"] == 'Bearer realm="recourse"'
    assert response.headers["ratelimit-policy"] == '"default";q=6000;w=60'


@pytest.mark.parametrize("offered", ["Bearer nonsense", "Bearer rk_000000000000_guess", "bearer rk__", "Basic eDp5"])
def test_a_wrong_key_opens_nothing(locked: Running, offered: str) -> None:
    response = get(f"{locked.url}/models", headers={"Authorization": offered})
    code = "key-required" if offered.startswith("Basic") else "invalid-key"
    problem(response, 401, code)
    assert response.headers["www-authenticate"].startswith('Bearer realm="recourse"')
    assert ("invalid_token" in response.headers["www-authenticate"]) == (code == "invalid-key")


def test_a_key_opens_what_its_scope_is_for(locked: Running) -> None:
    with asking(locked, make_key(locked, Scope.RECOURSE)) as client:
        until(lambda: let_in(client))
        assert client.post("/recourse", json=question()).status_code == 200
        response = client.get("/models")
        assert "the scope models." in problem(response, 403, "insufficient-scope")["detail"]
        assert response.headers["www-authenticate"] == (
            'Bearer realm="recourse", error="insufficient_scope", scope="models"'
        )
    with asking(locked, make_key(locked, Scope.MODELS, Scope.AUDIT)) as client:
        until(lambda: let_in(client, "/models"))
        problem(client.post("/recourse", json=question()), 403, "insufficient-scope")
        assert client.get("/metrics").status_code == 200
        assert client.get("/jobs").status_code == 200


@pytest.mark.slow
def test_a_revoked_key_soon_opens_nothing(locked: Running) -> None:
    key = make_key(locked, Scope.RECOURSE)
    with asking(locked, key) as client:
        until(lambda: let_in(client))
        with opened(locked.service.settings) as engine:
            Keys(engine).revoke(parts(key)[0], NOW)
        until(lambda: not let_in(client))
        problem(client.get("/methods"), 401, "invalid-key")


def test_health_and_documentation_are_open_and_nothing_else(locked: Running) -> None:
    for path in ("/health/live", "/health/ready", "/docs", "/redoc", "/openapi.json", "/problems/invalid-key"):
        assert get(locked.url + path).status_code == 200, path
    for method, path in OPERATIONS:
        if path not in OPEN:
            problem(httpx.request(method, locked.url + path, verify=NO_TLS), 401, "key-required")


def test_every_operation_says_which_scopes_open_it(locked: Running) -> None:
    description = get(f"{locked.url}/openapi.json").json()
    assert description["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    for path, item in description["paths"].items():
        for operation in item.values():
            if path in OPEN:
                assert "security" not in operation
            else:
                assert {"401", "403", "429", "503"} <= set(operation["responses"])
                assert {scope for one in operation["security"] for scope in one["key"]} <= {*Scope}
    assert description["paths"]["/models/{id}/audits"]["post"]["security"] == [{"key": ["audit"]}]


@pytest.mark.slow
def test_a_service_on_loopback_is_open_until_there_is_a_key(loan_store: Path) -> None:
    settings = Settings(models_store=loan_store, lanes_sync=1)
    for running in run(settings):
        assert get(f"{running.url}/methods").status_code == 200
        key = make_key(running, Scope.RECOURSE)
        until(lambda: get(f"{running.url}/methods").status_code == 401)  # noqa: B023
        with asking(running, key) as client:
            assert let_in(client)
            # Taking the last key away does not open the door.
            with opened(running.service.settings) as engine:
                Keys(engine).revoke(parts(key)[0], NOW)
            until(lambda: not let_in(client))
        problem(get(f"{running.url}/methods"), 401, "key-required")


@pytest.mark.slow
def test_the_page_of_another_site_reads_nothing_of_an_open_service(client: httpx.Client) -> None:
    """Its name points here by now (DNS rebinding), so to its browser these requests are of the same origin."""
    given = client.post("/recourse", json=question(reference="case-7")).json()["id"]
    page = {"Host": "evil.example", "Origin": "http://evil.example"}
    for method, path in (("GET", "/recourse"), ("GET", f"/recourse/{given}"), ("DELETE", f"/recourse/{given}")):
        document = problem(client.request(method, path, headers=page), 421, "misdirected")
        assert "localhost" in document["detail"]
        assert given not in document["detail"]
    for host in ("localhost", "localhost:8000", "127.0.0.1"):
        assert client.get(f"/recourse/{given}", headers={"Host": host}).status_code == 200


def test_whoever_has_a_key_may_use_any_name(locked: Running) -> None:
    with asking(locked, make_key(locked, Scope.RECOURSE)) as client:
        until(lambda: let_in(client))
        assert client.get("/recourse", headers={"Host": "credit.example"}).status_code == 200


@pytest.mark.slow
def test_who_asks_too_often_is_told_when_to_come_back(loan_store: Path) -> None:
    for running in run(Settings(models_store=loan_store, lanes_sync=1, rate_limit=3)):
        answers = [get(f"{running.url}/methods") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert [answer.headers["ratelimit"].partition(";t=")[0] for answer in answers] == [
            '"default";r=2', '"default";r=1', '"default";r=0', '"default";r=0'
        ]  # fmt: skip
        problem(answers[-1], 429, "too-many-requests")
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
        assert get(f"{running.url}/health/ready").status_code == 200


@pytest.mark.parametrize(("method", "path"), [one for one in OPERATIONS if one[0] == "post"])
def test_no_body_is_read_for_a_caller_without_a_key(locked: Running, method: str, path: str) -> None:
    assert head_alone(locked.url, method, path) == b"HTTP/1.1 401 Unauthorized"
