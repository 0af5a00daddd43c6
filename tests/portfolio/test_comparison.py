"""Two versions compared: every figure recomputed from all legal records, through the command and the server."""

import csv
import hashlib
import io
import itertools
import json
import math
import os
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pytest

from app.api.bodies import validated
from app.jobs import kinds
from app.ledger.ledger import FILE, Ledger
from app.portfolio.comparison_page import comparison_page
from app.portfolio.schema import ComparisonAnswer, ComparisonRequest
from app.questions.question import job_payload
from app.registry.ref import ModelRef, Store, model_payload
from app.registry.registry import Registry
from app.store.engine import open_engine
from tests.conftest import until
from tests.forks import forks
from tests.jobs.serving import Server
from tests.portfolio.conftest import TIGHTER
from tests.processes import gone
from tests.registry.loan import WEIGHTS, loan_records
from tests.servers import Start, on_sqlite, starting

FIXED = {"immutable": ["age", "income", "amount"]}
"""Leaves 18 records: savings, guarantor and housing."""

CHOICES = [("none", "some", "much"), (False, True), ("rented", "owned", "free")]


def compared(store: Path, applicants: list[dict[str, Any]], **more: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The lines of applicants and the figures, computed in this process."""
    opened = Store(root=str(store))
    refs = [ModelRef.of(opened, opened.open().find(name, include_inactive=True)) for name in ("loan@1", "loan@2")]
    asked = {"baseline": "loan@1", "candidate": "loan@2", "constraints": FIXED, **more}
    payload = {
        **job_payload(refs[0], validated(ComparisonRequest, asked).question(), {}),
        "candidate": model_payload(refs[1]), "source": {"kind": "records"}, "fail_if": ["lost>1%"],
        "deadline_s": 60.0, "plan_s": 1.0, "first": 0,
    }  # fmt: skip
    rows = [{"applicant": one, "reference": str(i)} for i, one in enumerate(applicants)]
    compute = kinds.JOB_KINDS[kinds.COMPARISON]
    texts = compute(opened, {**payload, "rows": rows}, deadline_s=60.0, progress=lambda *_: None)
    with NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("\n".join(texts))
        file.flush()
        (result,) = compute(opened, {**payload, "lines": file.name}, deadline_s=60.0, progress=lambda *_: None)
    return [json.loads(text) for text in texts], json.loads(result)


class Scores:
    """The loan model once more, from its weights and the means of its reference."""

    def __init__(self) -> None:
        records = loan_records()
        self._scale = {
            name: (float(np.mean([r[name] for r in records])), float(np.std([r[name] for r in records])))
            for name in ("age", "income", "amount")
        }

    def probability(self, record: dict[str, Any]) -> float:
        z = -0.5 + sum(WEIGHTS[n] * (record[n] - mean) / std for n, (mean, std) in self._scale.items())
        z += WEIGHTS["savings"] * ["none", "some", "much"].index(record["savings"]) / 1.0
        z += WEIGHTS["guarantor"] * record["guarantor"] + WEIGHTS[f"housing={record['housing']}"]
        return 1.0 / (1.0 + math.exp(-z))


def reachable(store: Path, record: dict[str, Any], name: str) -> bool:
    """Whether any of the 18 records is accepted, by asking the model about each."""
    black_box = Registry(store).find(name, include_inactive=True).load().black_box
    every = [{**record, "savings": s, "guarantor": g, "housing": h} for s, g, h in itertools.product(*CHOICES)]
    rows = black_box.space.read_many(every, pointer="")
    return bool(black_box.accepts(black_box.score_raw(rows)).any())


@pytest.fixture(scope="module")
def figures(loans: Path) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]:
    applicants = loan_records(160, seed=5)
    return *compared(loans, applicants), applicants


def test_recourse_gained_and_lost_are_those_of_all_legal_records(
    loans: Path, figures: tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]]
) -> None:
    lines, result, applicants = figures
    lost = 0
    for line, record in zip(lines, applicants, strict=True):
        assert (line["before"] is None) == (line["baseline"] == "accepted")
        if line["before"] is not None:
            before, after = reachable(loans, record, "loan@1"), reachable(loans, record, "loan@2")
            assert (line["before"]["status"] == "found") is before
            assert (line["after"]["status"] == "found") is after
            lost += before and not after
    assert lost > 0
    recourse = result["comparison"]["recourse"]
    assert (recourse["gained"], recourse["lost"]) == (0, lost)
    assert recourse["p"] == pytest.approx(min(1.0, 2 * 0.5**lost))
    (condition,) = result["conditions"]
    refused = sum(line["baseline"] == "refused" for line in lines)
    assert condition["value"] == pytest.approx(lost / refused, rel=1e-5)


def test_decisions_promises_and_costs_are_those_of_the_lines(
    figures: tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, Any]]],
) -> None:
    lines, result, _ = figures
    found = result["comparison"]
    decided = [(line["baseline"], line["candidate"]) for line in lines]
    assert found["decisions"]["yes_no"] == decided.count(("accepted", "refused")) > 0
    assert found["decisions"]["no_yes"] == decided.count(("refused", "accepted")) == 0
    kept = [line["kept"] for line in lines if line["kept"] is not None]
    assert found["promises"]["given"] == len(kept)
    assert found["promises"]["broken"] == kept.count(False)
    pairs = [
        line["after"]["cost"] - line["before"]["cost"]
        for line in lines
        if line["after"] and line["after"]["cost"] and line["before"]["cost"]
    ]
    assert found["cost"]["pairs"] == len(pairs)
    assert found["cost"]["median_change"] == pytest.approx(float(np.median(pairs)), abs=1e-4)
    assert found["beyond_retraining"] is None
    assert any("no future models" in warning for warning in result["warnings"])


def test_a_promise_is_kept_where_its_record_has_the_candidates_probability(loans: Path) -> None:
    """`loan@2` has the weights of `loan@1`, so its decision on an answer follows from the probability."""
    box = {n: Registry(loans).find(f"loan@{n}", include_inactive=True).load().black_box for n in (1, 2)}
    rows = box[1].space.read_many(loan_records(50, seed=9), pointer="")
    probability = box[1].probability(box[1].score_raw(rows))
    assert probability is not None
    assert (box[2].accepts(box[2].score_raw(rows)) == (probability >= TIGHTER)).all()


def test_the_same_request_has_the_same_bytes(loans: Path) -> None:
    applicants = loan_records(12, seed=3)
    assert compared(loans, applicants) == compared(loans, applicants)


def test_a_bad_record_is_counted_and_stops_nobody(loans: Path) -> None:
    applicants = loan_records(6, seed=3)
    lines, result = compared(loans, [*applicants[:3], {"age": 7}, *applicants[3:]])
    assert "refused" in lines[3]
    assert result["records"]["scored"] == 6
    assert result["records"]["unscored"] == 1


# --- the command -----------------------------------------------------------------------------------------------------


def run(store: Path, state: Path, *arguments: object) -> Any:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("RECOURSE_")}
    settings = {
        "RECOURSE_MODELS_STORE": str(store), "RECOURSE_LANES_BOUNDS": "1", "RECOURSE_STATE_DIR": str(state),
    }  # fmt: skip
    return forks().run("app.cli", "compare", *arguments, env=inherited | settings, strict=True)


def test_the_command_has_four_exit_codes(loans: Path, tmp_path: Path) -> None:
    data, figures = tmp_path / "some.ndjson", tmp_path / "figures.json"
    data.write_text("".join(json.dumps({"applicant": one}) + "\n" for one in loan_records(60, seed=5)))
    both = "loan@1", "loan@2", "--data", data
    told = json.loads(figures.read_text()) if figures.exists() else None
    assert told is None
    site = tmp_path / "page.html"
    passed = run(loans, tmp_path, *both, "--fail-if", "gained>50%", "--json", figures, "--html", site)
    assert passed.returncode == 0, passed.stderr
    assert "Yes: all conditions hold." in site.read_text()
    assert json.loads(figures.read_text())["records"]["scored"] == 60
    failed = run(loans, tmp_path, *both, "--fail-if", "refused > 0.1%")
    assert failed.returncode == 1
    assert "FAIL  refused > 0.1%" in failed.stdout
    wrong = run(loans, tmp_path, *both, "--fail-if", "breach>1")
    assert wrong.returncode == 2
    assert "must be a measure" in wrong.stderr
    assert run(loans, tmp_path, "loan@1", "loan@3").returncode == 2
    value = json.loads(figures.read_text())["comparison"]["decisions"]["yes_no"] / 60
    assert run(loans, tmp_path, *both, "--fail-if", f"refused > {value:.4f}", "--sure").returncode == 3


# --- the server ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(loans: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with starting("sqlite", loans, tmp_path_factory.mktemp("server")) as begin:
        yield begin().ready()


REQUEST = {"baseline": "loan@1", "candidate": "loan@2", "fail_if": ["refused > 1%", "lost > 50%"]}


def asked(server: Server, **more: Any) -> str:
    response = server.client.post("/models/loan/comparisons", json=REQUEST | more)
    assert response.status_code == 202, response.text
    return str(response.headers["location"])


def result_of(server: Server, address: str) -> bytes:
    job = server.ended(address)
    assert (job["kind"], job["status"]) == ("comparison", "succeeded"), job
    return server.client.get(job["result"]).content


def test_a_comparison_is_a_job_whose_digest_the_ledger_has(server: Server) -> None:
    address = asked(server)
    content = result_of(server, address)
    answer = ComparisonAnswer.model_validate_json(content)
    assert (answer.records.scored, answer.source.kind) == (200, "reference")
    assert [one.holds for one in answer.conditions] == [False, True]
    lines = server.client.get(f"{address}/results", headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert len(lines) == 200
    assert sum(json.loads(line)["kept"] is False for line in lines) == answer.comparison.promises.broken
    one = f"/reports/{address.rpartition('/')[2]}"
    assert server.client.get(one).content == content
    page = server.client.get(one, params={"format": "html"}).raise_for_status()
    assert page.headers["content-type"].startswith("text/html")
    assert page.text == comparison_page(json.loads(content))
    engine = open_engine(f"sqlite:///{server.state / FILE}")
    try:
        with engine.connect() as connection:
            query = "select digest, version from ledger_entries where id = ?"
            ((digest, version),) = connection.exec_driver_sql(query, (address.rpartition("/")[2],)).all()
        assert (digest, version) == (hashlib.sha256(content).hexdigest(), "2")
        assert Ledger(engine).prove().broken is None
    finally:
        engine.dispose()


def test_lines_and_tables_are_compared_as_records_of_a_json_body(server: Server) -> None:
    records = loan_records(60, seed=6)
    rows = [{"applicant": one} for one in records]
    table = io.StringIO()
    writer = csv.DictWriter(table, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    whole = {**REQUEST, "seed": 5, "source": {"kind": "records", "records": rows}}
    lines = "\n".join(json.dumps(one) for one in ({**REQUEST, "seed": 5}, *rows))
    query: dict[str, Any] = {**REQUEST, "seed": 5}
    results = []
    for content, kind, params in (
        (json.dumps(whole), "application/json", {}),
        (lines, "application/x-ndjson", {}),
        (table.getvalue(), "text/csv", query),
    ):
        sent = server.client.post(
            "/models/loan/comparisons", content=content, headers={"Content-Type": kind}, params=params
        )
        assert sent.status_code == 202, sent.text
        results.append(result_of(server, sent.headers["location"]))
    assert results[0] == results[1] == results[2]
    assert json.loads(results[0])["records"]["scored"] == 60
    other = server.client.post(
        "/models/loan/comparisons", content=table.getvalue(), headers={"Content-Type": "text/csv"},
        params={"baseline": "other@1", "candidate": "loan@2"},
    )  # fmt: skip
    assert other.status_code == 422
    assert "is not a version of loan" in other.text


@pytest.mark.parametrize(
    ("more", "status", "code"),
    [
        ({"candidate": "loan@3"}, 422, "schema-differs"),
        ({"candidate": "loan@9"}, 404, "unknown-model"),
        ({"candidate": "other@1"}, 422, "invalid-request"),
        ({"fail_if": ["broken >= 1"]}, 422, "invalid-request"),
        ({"sources": 1}, 422, "invalid-request"),
        ({"constraints": {"immutable": ["height"]}}, 422, "invalid-request"),
    ],
)
def test_what_cannot_be_compared_is_refused(server: Server, more: dict[str, Any], status: int, code: str) -> None:
    response = server.client.post("/models/loan/comparisons", json=REQUEST | more)
    assert (response.status_code, response.json()["code"]) == (status, code), response.text


def test_a_comparison_can_be_cancelled_and_deleted(server: Server) -> None:
    records = [{"applicant": one} for one in loan_records(400, seed=2)]
    address = asked(server, source={"kind": "records", "records": records})
    assert server.client.delete(address).json()["status"] == "cancelled"
    assert server.client.delete(f"{address}/results").status_code == 204


@on_sqlite
def test_kills_repeat_a_part_and_change_no_byte(start: Start, loans: Path) -> None:
    server = start(RECOURSE_MODELS_STORE=str(loans)).ready()
    whole = result_of(server, asked(server))
    address = asked(server)
    for done in (0, 1):
        until(lambda own=server, done=done: own.job(address)["progress"]["done"] >= done and own.children())
        pids = server.children()
        server.kill()
        until(lambda pids=pids: all(gone(pid) for pid in pids))
        server = start(RECOURSE_MODELS_STORE=str(loans)).ready()
    assert result_of(server, address) == whole
