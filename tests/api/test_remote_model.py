"""The whole service over a remote model: what it costs, and what clients hear when the model's server misbehaves."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.recourse.solve import MAX_CALLS
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.settings import Settings
from tests.api.asking import APPLICANT, ask, problem, question
from tests.conftest import NO_TLS, Running, run
from tests.remote.serving import ModelServer, make_remote, shared

PROTOCOLS = {"tensors": ("oip-v2", "encoded"), "mlflow": ("mlflow", "raw")}
POOR = {"tight": {"max_calls": 2}, "meagre": {"max_rows": 1_600}}


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The service, with models that are asked at the shared server."""
    root, server = tmp_path_factory.mktemp("remote"), shared()
    server.behave()
    registry = Registry(root / "store", Trust(hosts=server.hosts))
    for name, (protocol, kind) in PROTOCOLS.items():
        registry.register(make_remote(root / name, server, protocol, kind).write(id=name))
    for name, budget in POOR.items():
        registry.register(make_remote(root / name, server, **budget).write(id=name))
    yield from run(Settings(models_store=root / "store", remote_hosts=server.hosts, lanes_sync=1))


@pytest.fixture
def server(remote: Running) -> Iterator[ModelServer]:
    shared().behave()
    yield shared()
    shared().behave()


@pytest.fixture
def client(remote: Running, server: ModelServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=remote.url, timeout=30, verify=NO_TLS) as client:
        yield client


@pytest.mark.parametrize("model", PROTOCOLS)
def test_an_answer_is_found_in_five_requests_and_confirmed(
    client: httpx.Client, server: ModelServer, model: str
) -> None:
    answer = ask(client, model=model)
    assert answer["status"] == "found"
    asked = server.asked()
    assert len(asked) == answer["diagnostics"]["model_calls"] <= MAX_CALLS
    assert len({request["from"] for request in asked}) == 1
    (found,) = answer["counterfactuals"]
    said = client.post(f"/models/{model}/predict", json={"records": [APPLICANT, found["applicant"]]}).json()
    assert [one["favourable"] for one in said["predictions"]] == [False, True]


@pytest.mark.parametrize("model", ["tensors", "meagre"])
def test_reasons_share_the_budget_of_the_answer(client: httpx.Client, server: ModelServer, model: str) -> None:
    """One request for the decision, one for the contributions, and what is left for recourse."""
    answer = ask(client, model=model, reasons=True)
    assert answer["reasons"]["status"] == "found"
    assert all(one["std_error"] >= 0.0 for one in answer["reasons"]["reasons"])
    asked = server.asked()
    assert len(asked) == answer["diagnostics"]["model_calls"] <= MAX_CALLS + 2
    if model == "meagre":
        assert answer["diagnostics"]["model_rows"] <= POOR["meagre"]["max_rows"]


@pytest.mark.slow
def test_starting_the_service_asks_nothing(remote: Running, server: ModelServer, tmp_path: Path) -> None:
    for running in run(remote.service.settings):
        assert httpx.get(f"{running.url}/health/ready").status_code == 200
    assert server.asked() == []


@pytest.mark.parametrize("how", ["slow", "dripping"])
def test_a_slow_server_is_a_verdict_in_time(client: httpx.Client, server: ModelServer, how: str) -> None:
    server.behave(how, after=2)
    began = time.monotonic()
    answer = ask(client, model="tensors", deadline_ms=600)
    assert time.monotonic() - began < 5.0
    assert (answer["status"], answer["reason"]) == ("not_found", "deadline")
    server.behave()
    assert ask(client, model="tensors")["status"] == "found"


@pytest.mark.parametrize("budget", POOR)
def test_a_budget_that_is_spent_is_a_verdict(client: httpx.Client, server: ModelServer, budget: str) -> None:
    answer = ask(client, model=budget)
    asked = server.asked()
    assert len(asked) <= POOR[budget].get("max_calls", 5)
    assert sum(request["rows"] for request in asked) <= POOR[budget].get("max_rows", 50_000)
    if answer["status"] == "not_found":
        assert answer["reason"] == "budget"
        assert "request budget" in answer["detail"]
    else:
        assert budget == "meagre"


@pytest.mark.parametrize(
    ("how", "mode", "status", "code"),
    [
        ("status", {"status": 503, "retry_after": "9"}, 503, "model-unavailable"),
        ("hanging up", {}, 503, "model-unavailable"),
        ("garbage", {}, 502, "model-output-invalid"),
        ("few", {}, 502, "model-output-invalid"),
        ("other model", {}, 503, "model-unusable"),
    ],
)
@pytest.mark.parametrize("after", [0, 3])
def test_a_server_that_misbehaves_is_a_typed_problem(
    client: httpx.Client, server: ModelServer, how: str, mode: dict[str, Any], status: int, code: str, after: int
) -> None:
    server.behave(how, after=after, **mode)
    response = client.post("/recourse", json=question(model="mlflow"))
    problem(response, status, code)
    assert str(APPLICANT["income"]) not in response.text
    if code == "model-unavailable":
        assert response.headers["retry-after"] == mode.get("retry_after", "1")


def test_an_applicant_without_a_score_is_a_verdict(client: httpx.Client, server: ModelServer) -> None:
    server.behave("nan", all=True)
    answer = ask(client, model="tensors")
    assert (answer["status"], answer["reason"]) == ("not_found", "model_output_invalid")


def test_the_server_of_a_model_hears_for_which_request_it_is_asked(client: httpx.Client, server: ModelServer) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"X-Request-ID": "case-7", "traceparent": parent}
    for given, heard in [(headers, ["case-7", parent]), ({"X-Request-ID": "case-8"}, ["case-8", None])]:
        server.behave()
        response = client.post("/recourse", json=question(model="tensors"), headers=given)
        assert response.status_code == 200, response.text
        origins = [one["origin"] for one in server.asked()]
        assert origins
        assert all(origin == heard for origin in origins)
