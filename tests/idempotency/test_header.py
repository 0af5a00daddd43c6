"""The header `Idempotency-Key`: a request that is sent again is carried out once."""

import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from app.errors import LedgerUnavailable
from app.idempotency.header import READ_AT_ONCE
from app.keys.access import FRESH_S
from app.ledger.ledger import NewRecord
from tests.api.asking import APPLICANT, faults, problem, question
from tests.api.odd_model import DIES, LOOPS
from tests.api.test_openapi import OPERATIONS
from tests.conftest import Running, until


@pytest.fixture
def key() -> str:
    return str(uuid.uuid4())


def ask(client: httpx.Client, key: str, path: str = "/recourse", **changes: Any) -> httpx.Response:
    return client.post(path, json=question(**changes), headers={"Idempotency-Key": key})


def test_the_first_answer_is_given_again(client: httpx.Client, key: str) -> None:
    first = ask(client, key)
    again = ask(client, f'"{key}"')
    assert first.status_code == again.status_code == 200
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert again.content == first.content
    for name in ("content-type", "vary", "cache-control"):
        assert again.headers[name] == first.headers[name]
    assert again.headers["x-request-id"] != first.headers["x-request-id"]
    assert client.get(f"/recourse/{first.json()['id']}").json() == first.json()


def test_how_the_json_was_written_makes_no_difference(client: httpx.Client, key: str) -> None:
    first = ask(client, key)
    body = json.dumps(dict(reversed(question().items())), indent=3)
    headers = {"Idempotency-Key": key, "Content-Type": "application/json; charset=utf-8"}
    assert client.post("/recourse", content=body, headers=headers).content == first.content


def test_a_large_body_is_not_read_to_compare_it(client: httpx.Client, key: str) -> None:
    """To read it would hold up everybody else, so another way to write the same is another request."""
    written = json.dumps({"model": "loan", "applicants": [{"applicant": APPLICANT}] * 900})
    assert len(written) > READ_AT_ONCE
    headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
    first, again, other = (
        client.post("/recourse/batch", content=body, headers=headers) for body in (written, written, f" {written}")
    )
    assert first.status_code == 202
    assert again.headers["idempotent-replayed"] == "true"
    problem(other, 422, "idempotency-key-reused")


@pytest.mark.parametrize("path", ["/recourse", "/recourse/batch"])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 90_000], ids=["nothing", "half", "bytes", "deep"])
def test_a_body_that_is_not_json_is_refused_as_without_a_key(
    client: httpx.Client, key: str, path: str, body: bytes
) -> None:
    for _ in range(2):
        headers = {"Idempotency-Key": key, "Content-Type": "application/json"}
        problem(client.post(path, content=body, headers=headers), 400, "malformed-json")


def test_another_request_is_refused(client: httpx.Client, key: str) -> None:
    assert ask(client, key).status_code == 200
    problem(ask(client, key, seed=1), 422, "idempotency-key-reused")
    body = {"records": [APPLICANT]}
    elsewhere = client.post("/models/loan/predict", json=body, headers={"Idempotency-Key": key})
    problem(elsewhere, 422, "idempotency-key-reused")


def test_who_comes_while_the_first_is_answered_is_asked_to_wait(
    client: httpx.Client, running: Running, key: str
) -> None:
    slow = {"model": "odd", "applicant": {**APPLICANT, "age": LOOPS}, "deadline_ms": 1500}
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, client, key, **slow)
        until(lambda: running.service.metrics._registry.get_sample_value(
            "recourse_lane_children", {"lane": "sync", "state": "busy"}
        ))  # fmt: skip
        waiting = ask(client, key, **slow)
        problem(waiting, 409, "idempotency-in-progress")
        assert waiting.headers["retry-after"] == "1"
    assert first.result().json()["reason"] == "deadline"
    assert ask(client, key, **slow).content == first.result().content


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "status"),
    [({"model": "nobody"}, 404), ({"model": "odd", "applicant": {**APPLICANT, "age": DIES}}, 500), ({"x": 1}, 422)],
)
def test_what_was_refused_or_failed_may_be_sent_again(
    client: httpx.Client, key: str, changes: dict[str, Any], status: int
) -> None:
    assert ask(client, key, **changes).status_code == status
    # A child that died may have to be replaced first.
    until(lambda: ask(client, key).status_code == 200)


def test_what_was_recorded_although_it_seemed_to_fail_is_not_recorded_again(
    client: httpx.Client, running: Running, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = running.service.ledger.record

    async def record_too_late(*records: NewRecord) -> None:
        await record(*records)
        raise LedgerUnavailable

    with monkeypatch.context() as patched:
        patched.setattr(running.service.ledger, "record", record_too_late)
        problem(ask(client, key, reference=key), 503, "ledger-unavailable")
    answer = ask(client, key, reference=key)
    assert answer.status_code == 200
    listed = client.get("/recourse", params={"reference": key}).json()["recourse"]
    assert [one["id"] for one in listed] == [answer.json()["id"]]
    assert client.get(f"/recourse/{answer.json()['id']}").content == answer.content


def test_a_job_is_made_once(client: httpx.Client, key: str) -> None:
    headers = {"Idempotency-Key": key, "Prefer": "respond-async"}
    first, again = (client.post("/recourse", json=question(), headers=headers) for _ in range(2))
    assert first.status_code == again.status_code == 202
    assert again.headers["location"] == first.headers["location"]
    assert again.headers["preference-applied"] == "respond-async"
    assert again.headers["idempotent-replayed"] == "true"


def test_what_is_erased_is_not_given_again(client: httpx.Client, key: str) -> None:
    first = ask(client, key).json()
    assert client.delete(f"/recourse/{first['id']}").status_code == 200
    again = ask(client, key)
    assert "idempotent-replayed" not in again.headers
    assert again.json()["id"] != first["id"]


def test_what_was_not_stored_can_be_erased(client: httpx.Client, key: str) -> None:
    first = ask(client, key, store=False)
    assert ask(client, key, store=False).content == first.content
    address = f"/recourse/{first.json()['id']}"
    erased = client.delete(address)
    assert (erased.status_code, erased.content) == (204, b"")
    again = ask(client, key, store=False)
    assert "idempotent-replayed" not in again.headers
    assert again.json()["id"] != first.json()["id"]
    problem(client.delete(address), 404, "unknown-recourse")


@pytest.mark.parametrize("path", ["/recourse", "/recourse/validity"])
def test_a_deleted_job_is_not_told_again(client: httpx.Client, key: str, path: str) -> None:
    body = {
        "/recourse": question(),
        "/recourse/validity": {"model": "loan", "applicant": APPLICANT, "counterfactuals": [APPLICANT]},
    }[path]
    headers = {"Idempotency-Key": key, "Prefer": "respond-async"}
    first = client.post(path, json=body, headers=headers).headers["location"]
    assert client.post(path, json=body, headers=headers).headers["location"] == first
    client.delete(first)
    assert client.delete(f"{first}/results").status_code == 204
    again = client.post(path, json=body, headers=headers)
    assert again.status_code == 202
    assert again.headers["location"] != first
    assert client.get(again.headers["location"]).status_code == 200


@pytest.mark.parametrize("offered", ["", "x" * 256, "a b", '"', '"open', '""', "ü"])
def test_what_is_no_key_is_refused(client: httpx.Client, offered: str) -> None:
    response = client.post("/recourse", json=question(), headers={"Idempotency-Key": offered.encode()})
    assert "Idempotency-Key must be 1 to 255 visible ASCII characters" in faults(response)[""]
    assert "with spaces, in double quotes" in faults(response)[""]


def test_requests_without_the_header_do_not_ask_the_database(client: httpx.Client, running: Running) -> None:
    asked: list[object] = []
    began = time.monotonic()
    before = running.service.ledger.run
    running.service.ledger.run = lambda work: asked.append(work) or before(work)  # type: ignore[assignment,func-returns-value,method-assign]
    try:
        body = {"records": [APPLICANT]}
        assert client.post("/models/loan/predict", json=body).status_code == 200
        assert client.post("/models/loan/predict", json=body).status_code == 200
    finally:
        running.service.ledger.run = before  # type: ignore[method-assign]
    # The keys of callers, once a second at most.
    assert len(asked) <= 1 + (time.monotonic() - began) / FRESH_S


@pytest.mark.parametrize("path", [path for method, path in OPERATIONS if method == "post"])
def test_every_post_takes_it(client: httpx.Client, path: str) -> None:
    operation = client.get("/openapi.json").json()["paths"][path]["post"]
    assert {"$ref": "#/components/parameters/Idempotency-Key"} in operation["parameters"]
    assert {"409", "422"} <= set(operation["responses"])
