"""A report: every figure recomputed from all legal records of each person; through the child and through a server."""

import csv
import hashlib
import io
import itertools
import json
import time
from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import httpx
import numpy as np
import pytest

from app.api.bodies import NDJSON, validated
from app.jobs import kinds
from app.ledger.ledger import FILE, Ledger
from app.models import tasks
from app.portfolio.report_command import summary
from app.portfolio.report_page import page
from app.portfolio.report_schema import ReportAnswer, ReportRequest
from app.questions.question import job_payload
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.store.engine import open_engine
from tests.api.asking import problem
from tests.conftest import until
from tests.forks import forks
from tests.registry.loan import loan_records, make_linear
from tests.remote.serving import make_remote, serving
from tests.servers import Start, on_sqlite

ASYNC = {"Prefer": "respond-async"}

FIXED = {"immutable": ["age", "income", "amount"]}
"""Leaves 18 records: savings, guarantor and housing."""

CHOICES = {"savings": ("none", "some", "much"), "guarantor": (False, True), "housing": ("rented", "owned", "free")}

Figures = tuple[list[dict[str, Any]], dict[str, Any]]


def reported(store: Path | Store, applicants: list[dict[str, Any]], **more: Any) -> Figures:
    """The lines of applicants and the figures, computed in this process."""
    opened = store if isinstance(store, Store) else Store(root=str(store))
    ref = ModelRef.of(opened, opened.open().find("loan@2", include_inactive=True))
    asked = validated(ReportRequest, {"constraints": FIXED, **more})
    payload = {
        **job_payload(ref, asked.question(), {}), "source": {"kind": "records"},
        **asked.figures(), "deadline_s": 60.0, "plan_s": 1.0, "first": 0,
    }  # fmt: skip
    rows = [
        {"applicant": one, "reference": str(i), "groups": {"branch": "north" if i % 3 else "south"}}
        for i, one in enumerate(applicants)
    ]
    compute = kinds.JOB_KINDS[kinds.REPORT]
    texts = compute(opened, {**payload, "rows": rows}, deadline_s=60.0, progress=lambda *_: None)
    with NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write("\n".join(texts))
        file.flush()
        (result,) = compute(opened, {**payload, "lines": file.name}, deadline_s=60.0, progress=lambda *_: None)
    return [json.loads(text) for text in texts], json.loads(result)


def accepted(store: Path, records: list[dict[str, Any]]) -> list[bool]:
    black_box = Registry(store).find("loan@2", include_inactive=True).load().black_box
    rows = black_box.space.read_many(records, pointer="")
    found: list[bool] = black_box.accepts(black_box.score_raw(rows)).tolist()
    return found


def every(record: dict[str, Any], names: tuple[str, ...]) -> list[dict[str, Any]]:
    """All records that change no other features than these."""
    choices = itertools.product(*(CHOICES[name] for name in names))
    return [{**record, **dict(zip(names, one, strict=True))} for one in choices]


def reachable(store: Path, record: dict[str, Any], names: tuple[str, ...] = tuple(CHOICES)) -> bool:
    return any(accepted(store, every(record, names)))


@pytest.fixture(scope="module")
def applicants() -> list[dict[str, Any]]:
    return loan_records(160, seed=5)


@pytest.fixture(scope="module")
def figures(loans: Path, applicants: list[dict[str, Any]]) -> Figures:
    by = [{"feature": "age", "edges": [40]}, {"column": "branch"}]
    return reported(loans, applicants, groups={"by": by, "permutations": 199})


def test_who_has_recourse_is_who_has_an_accepted_legal_record(
    loans: Path, figures: Figures, applicants: list[dict[str, Any]]
) -> None:
    lines, result = figures
    yes = accepted(loans, applicants)
    assert [line["decision"] for line in lines] == ["accepted" if one else "refused" for one in yes]
    refused = [record for record, one in zip(applicants, yes, strict=True) if not one]
    have = [reachable(loans, record) for record in refused]
    assert 0 < sum(have) < len(have)
    assert result["records"] == {
        "scored": 160, "accepted": 160 - len(refused), "refused": len(refused), "unscored": 0,
    }  # fmt: skip
    assert result["recourse"]["found"] == sum(have)
    assert result["recourse"]["share"] == pytest.approx(sum(have) / len(have), rel=1e-5)
    assert result["preclusion"]["proven"] == {"enumerated": len(have) - sum(have), "optimised": 0}
    assert result["preclusion"]["open"] == 0
    changes = Counter(str(line["answer"]["changes"]) for line in lines if (line["answer"] or {}).get("changes"))
    assert result["recourse"]["changes"] == dict(changes)
    costs = [line["answer"]["cost"] for line in lines if line["answer"] and line["answer"]["status"] == "found"]
    assert result["recourse"]["cost"]["p50"] == pytest.approx(float(np.median(costs)), rel=1e-5)


def test_a_lever_is_the_only_one_where_nothing_else_is_accepted(
    loans: Path, figures: Figures, applicants: list[dict[str, Any]]
) -> None:
    lines, result = figures
    only: Counter[str] = Counter()
    for line, record in zip(lines, applicants, strict=True):
        answer = line["answer"]
        if answer is None or answer["status"] != "found" or answer["changes"] > 2:
            continue
        needed = [
            name for name in answer["levers"]
            if not reachable(loans, record, tuple(other for other in CHOICES if other != name))
        ]  # fmt: skip
        assert sorted(line["only"]) == sorted(needed)
        only.update(needed)
    assert only
    assert {lever["feature"]: lever["only"] for lever in result["levers"] if lever["only"]} == dict(only)


def test_a_limit_is_in_the_way_where_a_record_beyond_it_is_accepted(
    loans: Path, figures: Figures, applicants: list[dict[str, Any]]
) -> None:
    """Income is kept by the request; without that it may rise as far as the schema says, and a fine grid shows it."""
    lines, result = figures
    blocked = 0
    for line, record in zip(lines, applicants, strict=True):
        if line["answer"] is None or line["answer"]["status"] == "found":
            assert line["limits"] == []
            continue
        incomes = np.linspace(record["income"], 20_000, 60)
        helps = any(
            any(accepted(loans, [{**one, "income": float(np.round(income))} for income in incomes]))
            for one in every(record, tuple(CHOICES))
        )
        found = [one for one in line["limits"] if (one["limit"], one["feature"]) == ("immutable", "income")]
        assert bool(found) == helps, (record, line["limits"])
        blocked += helps
    assert blocked > 0
    (one,) = [one for one in result["limits"] if (one["limit"], one["feature"]) == ("immutable", "income")]
    assert (one["blocks"], one["lender_set"]) == (blocked, False)
    people = [point["people"] for point in one["would_help"]]
    assert people == sorted(people)
    assert people[-1] <= blocked


def test_groups_are_those_of_the_records(figures: Figures, applicants: list[dict[str, Any]]) -> None:
    lines, result = figures
    ages, branches = result["groups"]
    refused = [record for line, record in zip(lines, applicants, strict=True) if line["answer"] is not None]
    assert {row["group"]: row["refused"] for row in ages["rows"]} == Counter(
        "below 40" if record["age"] < 40 else "40 and above" for record in refused
    )
    assert ages["suppressed"] == []
    assert branches["by"] == "branch"
    assert sum(row["refused"] for row in branches["rows"]) == len(refused)
    for row in ages["rows"]:
        assert {one["measure"] for one in row["harder"]} == {"none", "cost", "changes", "months"}
    # Two groups: what is harder for one is easier for the other.
    first, second = (row["harder"][0]["value"] for row in ages["rows"])
    assert first + second == pytest.approx(1.0, abs=1e-5)


def test_the_same_request_has_the_same_bytes_and_a_bad_row_is_counted(loans: Path) -> None:
    few = loan_records(12, seed=3)
    assert reported(loans, few) == reported(loans, few)
    _, result = reported(loans, [*few, {"age": 7}])
    assert result["records"]["unscored"] == 1
    assert "too few" in result["warnings"][0]
    assert result["warnings"][-1].startswith("1 record is in no figure")


def test_records_of_which_none_can_be_read_are_told(loans: Path) -> None:
    lines, result = reported(loans, [{"age": 7}, {"age": 8}])
    assert all("refused" in line for line in lines)
    assert result["records"] == {"scored": 0, "accepted": 0, "refused": 0, "unscored": 2}
    assert "2 records are in no figure" in summary(result)
    assert "2 records are in no figure" in page(result)


def test_a_busy_machine_changes_no_figure(loans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The effort of proofs is counted, and not its time, which runs ten times as fast here."""
    monkeypatch.setattr("app.portfolio.preclusion.MOST_ROWS", 0)
    few, clock = loan_records(40, seed=5), time.monotonic
    lines, _ = figures = reported(loans, few)
    assert any((line["answer"] or {}).get("proof") == "optimised" for line in lines)
    monkeypatch.setattr(time, "monotonic", lambda: 10.0 * clock())
    assert reported(loans, few) == figures


def test_all_that_the_model_is_asked_counts_against_a_budget(loans: Path) -> None:
    opened = Store(root=str(loans))
    black_box = tasks.load(ModelRef.of(opened, opened.open().find("loan@2", include_inactive=True))).black_box
    predict, asked = black_box.predict, 0

    def counting(rows: np.ndarray) -> np.ndarray:
        nonlocal asked
        asked += len(rows)
        return predict(rows)

    object.__setattr__(black_box, "predict", counting)
    try:
        # With a seed of its own, as a process keeps the choice of common ways.
        lines, _ = reported(loans, loan_records(60, seed=5), seed=9)
    finally:
        object.__setattr__(black_box, "predict", predict)
    assert any(line["only"] for line in lines)
    assert any(line["limits"] for line in lines)
    # A proof confirms a record that it has found without counting it.
    assert 0.99 * asked <= sum(line["diagnostics"]["model_rows"] for line in lines) <= asked


def test_a_remote_model_is_asked_for_answers_alone(tmp_path: Path) -> None:
    with serving() as server:
        opened = Store(root=str(tmp_path / "store"), trust=Trust(hosts=server.hosts))
        opened.open().register(make_remote(tmp_path / "model", server).write(version="2"))
        applicants = loan_records(30, seed=5)
        server.behave()
        lines, result = reported(opened, applicants)
        asked = len(server.asked())
        server.behave()
        bare = reported(opened, applicants, parts=[])
        assert asked == len(server.asked())
    assert result["recourse"]["found"] < result["records"]["refused"]
    assert (result["limits"], {lever["only"] for lever in result["levers"]}) == (None, {None})
    assert any("remote" in sentence for sentence in result["warnings"])
    assert result["common_ways"] is None
    assert [line["limits"] for line in lines] == [[]] * len(lines)
    assert bare[1]["recourse"] == result["recourse"]


@on_sqlite
def test_a_server_reports_as_the_child_does(start: Start, loans: Path, applicants: list[dict[str, Any]]) -> None:
    server = start(RECOURSE_MODELS_STORE=str(loans)).ready()
    until(lambda: server.client.get("/jobs").status_code == 200)
    by = [{"feature": "age", "edges": [40]}, {"column": "branch"}]
    records = [
        {"applicant": one, "reference": str(i), "groups": {"branch": "north" if i % 3 else "south"}}
        for i, one in enumerate(applicants)
    ]
    body = {
        "constraints": FIXED, "source": {"kind": "records", "records": records},
        "groups": {"by": by, "permutations": 199},
    }  # fmt: skip
    accepted_job = server.client.post("/models/loan@2/reports", json=body)
    assert accepted_job.status_code == 202, accepted_job.text
    address = accepted_job.headers["location"]
    job = server.ended(address)
    assert (job["kind"], job["status"]) == ("report", "succeeded"), job
    content = server.client.get(f"{address}/results").content
    result = json.loads(content)
    ReportAnswer.model_validate(result)
    lines = server.client.get(f"{address}/results", headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert len(lines) == 160
    _, alone = reported(loans, applicants)
    assert (result["recourse"], result["limits"]) == (alone["recourse"], alone["limits"])
    engine = open_engine(f"sqlite:///{server.state / FILE}")
    with engine.connect() as connection:
        query = "select digest, kind, version from ledger_entries where id = ?"
        ((digest, kind, version),) = connection.exec_driver_sql(query, (address.rpartition("/")[2],)).all()
    assert Ledger(engine).prove().broken is None
    engine.dispose()
    assert (digest, kind, version) == (hashlib.sha256(content).hexdigest(), "reported", "2")

    assert result["source"] == {"kind": "records", "records": 160, "erased": None, "repeated": None}

    report = f"/reports/{address.rpartition('/')[2]}"
    assert server.client.get(report).content == content
    html = server.client.get(report, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (html.text, html.headers["content-type"]) == (page(result), "text/html; charset=utf-8")
    assert "style-src 'sha256-" in html.headers["content-security-policy"]
    assert server.client.get(report, params={"format": "html"}).text == html.text

    later = server.client.post("/models/loan@2/reports", json={"constraints": FIXED, "parts": []}).headers["location"]
    server.ended(later)
    first = server.client.get("/models/loan/reports", params={"limit": 1}).json()
    second = server.client.get("/models/loan/reports", params={"cursor": first["next_cursor"]}).json()
    listed = [f"/jobs/{one['id']}" for one in (*first["reports"], *second["reports"])]
    assert (listed, second["next_cursor"]) == ([later, address], None)
    problem(server.client.get("/models/nobody/reports"), 404, "unknown-model")
    problem(server.client.get("/models/loan/reports", params={"cursor": "x"}), 422, "invalid-request")
    asked = server.client.post("/recourse", json={"model": "loan", "applicant": applicants[0]}, headers=ASYNC)
    problem(server.client.get(asked.headers["location"].replace("/jobs/", "/reports/")), 404, "unknown-job")

    wrong = {"groups": {"by": [{"feature": "wealth"}]}}
    found = problem(server.client.post("/models/loan/reports", json=wrong), 422, "invalid-request")
    assert found["errors"][0]["pointer"] == "/groups/by/0/feature"
    assert "age" in found["errors"][0]["detail"]
    wrong = {"groups": {"by": [{"column": "branch"}]}}
    found = problem(server.client.post("/models/loan/reports", json=wrong), 422, "invalid-request")
    assert found["errors"][0]["pointer"] == "/groups/by/0/column"
    found = problem(
        server.client.post("/models/loan/reports", json={"ways": {"future_validity": 0.9}}), 422, "invalid-request"
    )
    assert found["errors"][0]["pointer"] == "/ways/future_validity"
    for one in ({}, {"feature": "age", "column": "x"}, {"feature": "age", "edges": [3, 1]}):
        problem(server.client.post("/models/loan/reports", json={"groups": {"by": [one]}}), 422, "invalid-request")
    many = json.dumps({"source": {"kind": "records", "records": records * 50}})
    headers = {"Content-Type": "application/json"}
    found = problem(server.client.post("/models/loan/reports", content=many, headers=headers), 413, "body-too-large")
    assert len(many) > 1_000_000
    assert "recourse report" in found["detail"]


@on_sqlite
def test_lines_and_tables_are_reported_on_as_records_of_a_json_body(start: Start, loans: Path) -> None:
    server = start(RECOURSE_MODELS_STORE=str(loans)).ready()
    until(lambda: server.client.get("/jobs").status_code == 200)
    records: list[dict[str, Any]] = [
        {"applicant": one, "reference": str(i), "groups": {"branch": "north" if i % 3 else "south"} if i % 10 else {}}
        for i, one in enumerate(loan_records(80, seed=6))
    ]
    common = {"seed": 5, "groups": {"by": [{"feature": "age", "edges": [40]}, {"column": "branch"}]}}
    whole = json.dumps({**common, "source": {"kind": "records", "records": records}})
    names = [*records[0]["applicant"], "reference", "branch", "name"]
    table = io.StringIO()
    writer = csv.DictWriter(table, names)
    writer.writeheader()
    for one in records:
        writer.writerow({**one["applicant"], "reference": one["reference"], "name": "Ann", **one["groups"]})
    lines = [json.dumps(one) for one in (common, *records)]

    def sent(content: str, kind: str, query: str = "") -> httpx.Response:
        address = f"/models/loan@2/reports{query}"
        return server.client.post(address, content=content, headers={"Content-Type": kind})

    by = "?seed=5&by=age:40&by=branch"
    results = []
    for response in (
        sent(whole, "application/json"), sent("\n".join(lines), NDJSON), sent(table.getvalue(), "text/csv", by),
    ):  # fmt: skip
        assert response.status_code == 202, response.text
        address = response.headers["location"]
        assert server.ended(address)["status"] == "succeeded"
        results.append(server.client.get(f"{address}/results").content)
    assert results[0] == results[1] == results[2]
    branches = json.loads(results[0])["groups"][1]
    assert {row["group"] for row in branches["rows"]} | set(branches["suppressed"]) == {"north", "south"}

    # A bad line fails alone; a body of lines may be larger than a JSON text.
    many = "\n".join([lines[0], "{", *(lines[1:] * 80)])
    assert len(many) > 1_000_000
    response = sent(many, NDJSON)
    assert response.status_code == 202, response.text
    assert response.json()["progress"]["total"] == 1 + 80 * len(records)
    server.client.delete(response.headers["location"])

    for content, kind, query, word in (
        (whole, "application/json", by, "Query parameters"),
        (lines[0], NDJSON, "", "first line"),
        ("\n".join([whole, lines[1]]), NDJSON, "", "source"),
        ("\n".join(lines[1:]), NDJSON, "", "applicant"),
        (table.getvalue(), "text/csv", "?by=wealth", "wealth"),
        (table.getvalue(), "text/csv", "?by=age:old", "Edges"),
        (table.getvalue(), "text/csv", "?by=wealth:3", "must be one of"),
        (table.getvalue(), "text/csv", "?seed=-1", "seed"),
        (table.getvalue().partition("\n")[0], "text/csv", by, "headings"),
        (table.getvalue().replace("income", "wage"), "text/csv", by, "income"),
    ):
        assert word in sent(content, kind, query).text
        problem(sent(content, kind, query), 422, "invalid-request")
    problem(sent(whole, "text/plain"), 415, "unsupported-media-type")


@on_sqlite
def test_the_newest_question_of_each_reference_in_a_period_is_reported_on(start: Start, loans: Path) -> None:
    server = start(RECOURSE_MODELS_STORE=str(loans)).ready()
    records = loan_records(8, seed=5)
    for i, record in enumerate(records):
        body = {"model": "loan", "applicant": record, "reference": f"case {i % 6}"}
        assert server.client.post("/recourse", json=body).status_code == 200
    found = server.client.get("/recourse", params={"model": "loan"}).json()["recourse"]
    middle = found[2]["created_at"]
    until(lambda: server.client.get("/jobs").status_code == 200)

    def source(**period: str) -> dict[str, Any]:
        accepted_job = server.client.post("/models/loan/reports", json={"source": {"kind": "ledger", **period}})
        assert accepted_job.status_code == 202, accepted_job.text
        job = server.ended(accepted_job.headers["location"])
        assert job["status"] == "succeeded", job
        result = server.client.get(job["result"]).json()
        assert result["records"]["unscored"] == 0
        return dict(result["source"])

    assert source() == {"kind": "ledger", "records": 6, "erased": 0, "repeated": 2}
    assert source(since=middle) == {"kind": "ledger", "records": 3, "erased": 0, "repeated": 0}
    assert server.client.delete(f"/recourse/{found[0]['id']}").status_code in (200, 204)
    # The erased one was the newest of its reference: the one before takes its place.
    assert source() == {"kind": "ledger", "records": 6, "erased": 1, "repeated": 1}
    assert source(until=middle) == {"kind": "ledger", "records": 5, "erased": 0, "repeated": 0}
    empty = {"source": {"kind": "ledger", "until": "2020-01-01T00:00:00Z"}}
    refused = problem(server.client.post("/models/loan/reports", json=empty), 422, "invalid-request")
    assert refused["errors"][0]["pointer"] == "/source"


def test_the_command_says_what_the_figures_are(loans: Path, tmp_path: Path) -> None:
    output = tmp_path / "report.json"
    env = {"RECOURSE_MODELS_STORE": str(loans), "RECOURSE_STATE_DIR": str(tmp_path), "PATH": ""}
    run = partial(forks().run, "app.cli", "report", "loan@2", f"--json={output}", env=env)
    site = tmp_path / "report.html"
    done = run("--by=age:40", "--by=housing", f"--html={site}", "--candidate=loan@1")
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    ReportAnswer.model_validate(result)
    records, recourse = result["records"], result["recourse"]
    assert f"{records['refused']} of 200 applicants are refused" in done.stdout
    assert f"{recourse['found']} have such a change." in done.stdout
    assert f"By {result['labels']['age']}: " in done.stdout
    assert "<h2>May loan@1 replace loan@2?</h2>" in site.read_text()
    for wrong, sentence in (
        (["--by=wealth"], "must be one of"), (["--by=age:old"], "as in age:25,35,50"),
        (["--candidate=loan@1"], "add --html FILE"), ([f"--html={site}", "--candidate=loan@3"], "the same features"),
    ):  # fmt: skip
        done = run(*wrong)
        assert (done.returncode, done.stdout) == (1, "")
        assert sentence in done.stderr


def test_terms_alone_are_those_who_are_accepted_with_the_smallest_amount(tmp_path: Path) -> None:
    """The score falls with the amount, so somebody gets a yes by it alone where the smallest is accepted."""
    directory = make_linear(tmp_path / "model")
    amount = next(one for one in directory.manifest["features"] if one["name"] == "amount")
    amount |= {"terms": True, "better": "more"}
    registry = Registry(tmp_path / "store")
    registry.register(directory.write(version="2"))
    applicants = loan_records(60, seed=8)
    lines, result = reported(tmp_path / "store", applicants, constraints={}, parts=[])
    smallest = accepted(tmp_path / "store", [{**one, "amount": 0.0} for one in applicants])
    refused = [k for k, line in enumerate(lines) if line["decision"] == "refused"]
    assert [lines[k]["by_terms"] for k in refused] == [smallest[k] for k in refused]
    share = sum(smallest[k] for k in refused) / len(refused)
    assert 0.0 < share < 1.0
    assert result["terms_alone"] == pytest.approx(share, rel=1e-5)
