"""GET /metrics, and the alerts of docs/operations/alerts.yml, which must be about metrics that exist."""

import re
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.metrics import LaneState, Metrics
from tests.api.asking import APPLICANT, question
from tests.api.odd_model import DIES

OPERATIONS = Path(__file__).parents[2] / "docs" / "operations"

MONITORING = OPERATIONS / "monitoring.md"

ALERTS = OPERATIONS / "alerts.yml"


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(client: httpx.Client) -> Samples:
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(response.text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def grown(client: httpx.Client, before: Samples, name: str, **labels: str) -> float:
    key = (name, frozenset(labels.items()))
    return samples(client)[key] - before.get(key, 0.0)


def test_an_answer_is_counted_with_its_method_verdict_and_questions(client: httpx.Client) -> None:
    before = samples(client)
    answer = client.post("/recourse", json=question()).json()
    labels = {"method": "robust_mpm", "verdict": "found"}
    assert grown(client, before, "recourse_answer_duration_seconds_count", **labels) == 1
    spent = answer["diagnostics"]
    assert grown(client, before, "recourse_model_calls_total", model="loan") == spent["model_calls"]
    assert grown(client, before, "recourse_model_rows_total", model="loan") == spent["model_rows"]
    http = {"method": "POST", "route": "/recourse", "status": "200"}
    assert grown(client, before, "recourse_http_request_duration_seconds_count", **http) == 1


def test_predictions_are_questions_too(client: httpx.Client) -> None:
    before = samples(client)
    client.post("/models/loan/predict", json={"records": [APPLICANT] * 3}).raise_for_status()
    assert grown(client, before, "recourse_model_calls_total", model="loan") == 1
    assert grown(client, before, "recourse_model_rows_total", model="loan") == 3


def test_records_to_try_are_no_question(client: httpx.Client) -> None:
    client.post("/models/loan/predict", json={"records": [APPLICANT]}).raise_for_status()
    before = samples(client)
    assert client.get("/models/loan/schema").json()["samples"]
    assert grown(client, before, "recourse_model_calls_total", model="loan") == 0
    assert grown(client, before, "recourse_model_rows_total", model="loan") == 0


def test_what_a_client_makes_up_is_no_label(client: httpx.Client) -> None:
    client.request("PROPFIND", "/tiger-path")
    client.get("/models/tiger-model?q=tiger")
    client.post("/recourse", json=question(reference="case-tiger", method={"name": "method-tiger"}))
    text = client.get("/metrics").text
    assert "tiger" not in text
    assert 'method="other",route="none"' in text


def test_a_child_that_dies_is_counted(client: httpx.Client) -> None:
    before = samples(client)
    client.post("/recourse", json=question(model="odd", applicant={**APPLICANT, "age": DIES}))
    assert grown(client, before, "recourse_lane_children_ended_total", lane="sync", reason="crash") == 1


def test_jobs_that_wait_are_counted(client: httpx.Client) -> None:
    before = samples(client)
    client.post("/recourse", json=question(), headers={"Prefer": "respond-async"})
    assert grown(client, before, "recourse_jobs", kind="recourse", state="queued") == 1


def test_parts_that_are_ready_say_so(client: httpx.Client) -> None:
    found = samples(client)
    for part in ("models", "lane", "ledger", "jobs"):
        assert found["recourse_ready", frozenset({("part", part)})] == 1


def test_audits_tell_the_broken_promises() -> None:
    metrics = Metrics()
    metrics.audited("loan", "2", 3)
    assert b'recourse_broken_promises{model="loan",version="2"} 3.0' in metrics.render({}, {})


def documented() -> str:
    return MONITORING.read_text().partition("## Metrics")[2].partition("\n## ")[0]


def known() -> set[str]:
    """Names of all metrics, each with one sample."""
    state = LaneState(busy=0, idle=0, warming=0, waiting=0, ended={})
    metrics = Metrics(lambda: {"sync": state}, lambda: ["loan@1"])
    metrics.request("GET", "/", 200, 0.1)
    metrics.answer("probe", {"status": "found"}, 0.1)
    metrics.job("audit", "succeeded", 0.1)
    metrics.asked("loan", {"diagnostics": {"model_calls": 1, "model_rows": 1}})
    metrics.audited("loan", "1", 0)
    metrics.budget("5f0c31a2b9d4", 0.5)
    families = text_string_to_metric_families(metrics.render({("audit", "queued"): 1}, {"jobs": True}).decode())
    return {sample.name for family in families for sample in family.samples}


def family(name: str) -> str:
    return re.sub(r"_(bucket|count|sum)$", "", name)


def test_the_documentation_names_only_metrics_that_exist_and_all_of_ours() -> None:
    told = {family(name) for name in re.findall(r"\brecourse_[a-z_]+", documented())}
    assert told == {family(name) for name in known() if name.startswith("recourse_") and not name.endswith("_created")}


@pytest.mark.parametrize("expression", re.findall(r"^ +expr: (.+)$", ALERTS.read_text(), re.MULTILINE))
def test_alerts_ask_for_labels_that_exist(expression: str) -> None:
    assert expression.count("(") == expression.count(")")
    for name, labels in re.findall(r"(recourse_[a-z_]+)\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)[=!~]", labels)) <= LABELS[name], name


LABELS = {
    "recourse_http_request_duration_seconds_count": {"method", "route", "status"},
    "recourse_answer_duration_seconds_count": {"method", "verdict"},
    "recourse_answer_duration_seconds_bucket": {"method", "verdict", "le"},
    "recourse_lane_children": {"lane", "state"},
    "recourse_lane_waiting": {"lane"},
    "recourse_lane_children_ended_total": {"lane", "reason"},
    "recourse_job_duration_seconds_count": {"kind", "outcome"},
    "recourse_jobs": {"kind", "state"},
    "recourse_ready": {"part"},
}
