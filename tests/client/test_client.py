"""The client on a live service: the same operations, blocking and to await."""

import asyncio
import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from recourse_client import AsyncClient, Client, Fault, ProblemError
from recourse_client.operations import LONGEST_RETRY_S, Operations, Pause, Send, sent

from tests.api.asking import APPLICANT, question
from tests.conftest import NO_TLS, Running

Ask = Callable[..., Any]
"""Calls one operation of a client by its name."""


def blocking(url: str) -> Ask:
    def ask(name: str, *args: Any, **kwargs: Any) -> Any:
        with Client(url, verify=NO_TLS) as client:
            found = getattr(client, name)(*args, **kwargs)
            return list(found) if inspect.isgenerator(found) else found

    return ask


def awaiting(url: str) -> Ask:
    async def asked(name: str, *args: Any, **kwargs: Any) -> Any:
        async with AsyncClient(url, verify=NO_TLS) as client:
            found = getattr(client, name)(*args, **kwargs)
            return [one async for one in found] if inspect.isasyncgen(found) else await found

    return lambda name, *args, **kwargs: asyncio.run(asked(name, *args, **kwargs))


@pytest.fixture(params=[blocking, awaiting])
def ask(request: pytest.FixtureRequest, running: Running) -> Ask:
    asking: Ask = request.param(running.url)
    return asking


def test_it_asks_every_question(ask: Ask) -> None:
    answer = ask("recourse", question())
    assert answer["status"] == "found"
    found = answer["counterfactuals"][0]["applicant"]
    certified = ask("certify", {"model": "loan", "applicant": APPLICANT, "counterfactuals": [found]})
    assert certified["counterfactuals"][0]["validity"]["current"]["favourable"] is True
    decided = ask("predict", "loan@1", iter([APPLICANT, found]))
    assert [one["favourable"] for one in decided["predictions"]] == [False, True]
    values = [0, 10]
    curve = ask("frontier", question(sweep={"parameter": "radius_unfavourable", "values": values}))
    assert [point["value"] for point in curve["points"]] == values
    two = {"model": "loan", "applicant": APPLICANT, "counterfactuals": [found, {**found, "guarantor": True}]}
    assert len(ask("correct", two)["counterfactuals"]) == 2


def test_it_reads_models_and_methods(ask: Ask) -> None:
    assert {"loan", "open"} <= {model["id"] for model in ask("models")}
    assert ask("model", "loan@1")["title"]
    assert {feature["name"] for feature in ask("schema", "loan")["features"]} == set(APPLICANT)
    assert "robust_mpm" in {method["name"] for method in ask("methods")}


def test_it_looks_up_verifies_and_erases_what_was_given(ask: Ask) -> None:
    given = ask("recourse", question())
    assert ask("given", given["id"])["counterfactuals"][0]["applicant"] == given["counterfactuals"][0]["applicant"]
    assert ask("verify", given["id"])["still_valid"] is True
    assert ask("verify", given["id"], "loan@1")["model"]["version"] == "1"
    assert ask("erase", given["id"])["status"] == "erased"
    with pytest.raises(ProblemError) as raised:
        ask("given", given["id"])
    assert raised.value.status == 410


def test_it_follows_pages(ask: Ask, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    reference = f"pages of {request.node.name}"
    given = [ask("recourse", question(reference=reference, seed=seed))["id"] for seed in range(3)]
    page = Operations.page
    monkeypatch.setattr(Operations, "page", lambda self, path, params: page(self, path, {**params, "limit": "2"}))
    assert [one["id"] for one in ask("list_recourse", reference)] == given[::-1]


def test_a_problem_is_an_exception_with_its_document(ask: Ask) -> None:
    with pytest.raises(ProblemError) as raised:
        ask("recourse", question(applicant={**APPLICANT, "age": "old", "housing": "a castle"}))
    error = raised.value
    assert (error.code, error.status) == ("invalid-record", 422)
    assert {fault.pointer for fault in error.errors} == {"/applicant/age", "/applicant/housing"}
    assert error.problem["request_id"] == error.request_id
    assert f"\n  {error.errors[0].pointer}: {error.errors[0].detail}" in str(error)
    assert isinstance(error.errors[0], Fault)


def test_a_key_opens_one_promise(ask: Ask, request: pytest.FixtureRequest) -> None:
    key = f"key-{request.node.callspec.indices['ask']}"
    assert len({ask("recourse", question(), idempotency_key=key)["id"] for _ in range(2)}) == 1


def test_what_failed_for_a_moment_is_sent_again_under_one_key(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    handle = httpx.HTTPTransport.handle_request

    def broken_at_first(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            return httpx.Response(503, headers={"Retry-After": "0"}, request=request)
        return handle(self, request)

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", broken_at_first)
    assert blocking(running.url)("recourse", question())["status"] == "found"
    assert len(keys) == 2
    assert len(set(keys)) == 1


# --- retries, step by step -------------------------------------------------------------------------------------------

LOOK = Send("GET", "/models")


def response(status: int, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, headers=named, request=httpx.Request("GET", "http://test/"), json={})


@pytest.mark.parametrize(
    ("retry_after", "pause_s"),
    [("7", 7.0), ("0", 0.0), ("100000", LONGEST_RETRY_S), ("Wed, 21 Oct 2026 07:28:00 GMT", 1.0)],
)
def test_a_refusal_says_how_long_to_wait(retry_after: str, pause_s: float) -> None:
    steps = sent(LOOK, attempts=2)
    assert next(steps) == LOOK
    assert steps.send(response(429, Retry_After=retry_after)) == Pause(pause_s)
    assert next(steps) == LOOK
    with pytest.raises(StopIteration) as end:
        steps.send(response(200))
    assert end.value.value.status_code == 200


def test_a_lost_connection_is_tried_again_and_then_raised() -> None:
    steps = sent(LOOK, attempts=2)
    next(steps)
    assert isinstance(steps.throw(httpx.ConnectError("lost")), Pause)
    assert next(steps) == LOOK
    with pytest.raises(httpx.ConnectError):
        steps.throw(httpx.ConnectError("lost"))


@pytest.mark.parametrize("status", [400, 502])
def test_what_does_not_say_when_is_not_tried_again(status: int) -> None:
    steps = sent(LOOK, attempts=4)
    next(steps)
    with pytest.raises(httpx.HTTPStatusError):
        steps.send(response(status))


# --- both clients, and what they load --------------------------------------------------------------------------------


def test_both_clients_have_the_same_operations() -> None:
    def public(one: type) -> set[str]:
        return {name for name in vars(one) if not name.startswith("_")}

    assert public(Client) == public(AsyncClient)
    operations = {name for name in public(Operations) if name != "page"}
    assert operations <= public(Client)
    assert Client.recourse.__doc__ == AsyncClient.recourse.__doc__ == Operations.recourse.__doc__


def test_it_loads_httpx_and_nothing_heavy() -> None:
    script = (
        "import sys, time; began = time.perf_counter(); import httpx; httpx_s = time.perf_counter() - began\n"
        "import recourse_client\n"
        "print(time.perf_counter() - began - httpx_s)\n"
        "print(*(name for name in sys.modules if name.split('.')[0] in ('app', 'numpy', 'pydantic', 'fastapi')))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    own_s, names = done.stdout.splitlines()
    assert names == ""
    assert float(own_s) < 0.5
