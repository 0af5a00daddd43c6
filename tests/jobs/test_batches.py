"""Batches in real processes: one line for each row, in order, whatever happens to whoever computes them."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.jobs.lines import GROUP, SEEDS
from app.jobs.records import LEAST
from tests.api.asking import APPLICANT, faults, problem
from tests.api.odd_model import DIES, GIVES_NAN, GIVES_TOO_MUCH, LOOPS, STUMBLES
from tests.conftest import until
from tests.jobs.serving import OwnPostgres, Server, drop_connections, own_postgres
from tests.processes import gone
from tests.servers import Start, on_sqlite

PATH = "/recourse/batch"

PATIENCE_S = 180
"""Children for jobs have low priority: on a machine that is busy otherwise they are long in starting."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends children with their parent")


def rows(count: int) -> list[dict[str, Any]]:
    """Different applicants, most of them refused by `loan`."""
    return [
        {"reference": f"case-{i}", "applicant": {**APPLICANT, "income": 1000.0 + i % 700, "age": 20 + i % 60}}
        for i in range(count)
    ]


def many(hundreds: int) -> list[dict[str, Any]]:
    """Rows for several chunks, or as many as TEST_BATCH_ROWS says: how long a batch is must not matter."""
    return rows(int(os.environ.get("TEST_BATCH_ROWS", hundreds * 100)))


def submit(server: Server, applicants: list[Any], **common: Any) -> str:
    """The address of a new batch."""
    response = server.client.post(PATH, json={"model": "loan", "detail": "full", **common, "applicants": applicants})
    assert response.status_code == 202, response.text
    assert response.headers["location"] == f"/jobs/{response.json()['id']}"
    return response.headers["location"]


def lines(server: Server, address: str) -> list[dict[str, Any]]:
    """The results of a batch that has succeeded."""
    job = server.ended(address, within_s=PATIENCE_S)
    assert (job["status"], job["error"]) == ("succeeded", None)
    response = server.client.get(job["result"])
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def same(line: dict[str, Any]) -> str:
    """The bytes of an answer or problem, but for what differs each time."""
    line = {key: value for key, value in line.items() if key not in ("id", "created_at", "expires_at")}
    line = {key: value for key, value in line.items() if key not in ("instance", "request_id")}
    if "diagnostics" in line:
        line["diagnostics"] = {**line["diagnostics"], "elapsed_ms": None}
    return json.dumps(line)


def directly(server: Server, row: dict[str, Any], **common: Any) -> str:
    """What the single request says."""
    response = server.client.post("/recourse", json={"model": "loan", "detail": "full", **common, **row})
    answer = response.json()
    return same(answer if response.is_success else {**answer, "reference": row.get("reference")})


def test_each_row_has_the_answer_that_a_request_of_its_own_would_have_had(server: Server) -> None:
    common = {
        "seed": 5, "constraints": {"immutable": ["age"], "bounds": {"amount": {"min": 100}}}, "deadline_ms": 30_000,
        "cost": {"weights": {"income": 2.0}}, "method": {"name": "robust_mpm", "radius_unfavourable": 2.0},
    }  # fmt: skip
    applicants = rows(5 * LEAST + 5)
    found = lines(server, submit(server, applicants, **common))
    assert [line["reference"] for line in found] == [row["reference"] for row in applicants]
    assert len({line["id"] for line in found}) == len(found)
    for i in (0, 1, GROUP - 1, GROUP, LEAST - 1, LEAST, 3 * LEAST + GROUP, 5 * LEAST + 4):
        assert same(found[i]) == directly(server, applicants[i], **{**common, "seed": 5 + i})


def test_after_the_last_seed_comes_the_first(server: Server) -> None:
    applicants = rows(2)
    found = lines(server, submit(server, applicants, seed=SEEDS - 1))
    assert [line["seed"] for line in found] == [SEEDS - 1, 0]
    assert same(found[1]) == directly(server, applicants[1], seed=0)


def test_answers_of_a_batch_are_in_the_ledger_unless_that_is_not_wanted(server: Server) -> None:
    address = submit(server, rows(3), seed=1)
    found = lines(server, address)
    kept = server.client.get(f"/recourse/{found[1]['id']}")
    assert kept.json() == found[1]
    assert kept.text in server.client.get(f"{address}/results").text.split("\n")
    (listed,) = [
        one for one in server.client.get("/recourse?reference=case-1").json()["recourse"] if one["id"] == found[1]["id"]
    ]
    assert server.client.delete(f"/recourse/{listed['id']}").json()["status"] == "erased"
    after = lines(server, address)
    assert (after[1]["code"], after[1]["reference"]) == ("erased", None)
    assert [after[0], after[2]] == [found[0], found[2]], "the others stay"
    address = submit(server, rows(2), store=False)
    unkept, other = lines(server, address)
    assert unkept["stored"] is False
    problem(server.client.get(f"/recourse/{unkept['id']}"), 404, "unknown-recourse")
    assert server.client.delete(f"/recourse/{unkept['id']}").status_code == 204
    problem(server.client.delete(f"/recourse/{unkept['id']}"), 404, "unknown-recourse")
    gone, left = lines(server, address)
    assert (gone["code"], left) == ("erased", other)
    assert server.client.delete(f"{address}/results").status_code == 204
    problem(server.client.delete(f"/recourse/{other['id']}"), 404, "unknown-recourse")


def test_batches_are_measured(server: Server) -> None:
    def measured(start: str) -> float:
        lines = server.client.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(start))

    jobs, rows_asked = (
        'recourse_job_duration_seconds_count{kind="batch",outcome="succeeded"}',
        "recourse_model_rows_total",
    )
    before = measured(jobs), measured(rows_asked)
    found = lines(server, submit(server, rows(3)))
    until(lambda: measured(jobs) == before[0] + 1)
    spent = sum(line["diagnostics"]["model_rows"] for line in found)
    assert measured(rows_asked) == before[1] + spent


def test_a_bad_row_is_a_problem_in_its_place(server: Server) -> None:
    good = rows(4)
    bad = [
        {"reference": "no age", "applicant": {key: value for key, value in APPLICANT.items() if key != "age"}},
        {"reference": "too much", "applicant": APPLICANT, "colour": "red"},
        {"reference": 7, "applicant": APPLICANT},
        {"applicant": {**APPLICANT, "savings": "a fortune", "income": "much"}},
        "nobody",
    ]
    mixed = [good[0], *bad[:3], good[1], *bad[3:], *good[2:]]
    found = lines(server, submit(server, mixed))
    expected = ["case-0", "no age", "too much", None, "case-1", None, None, "case-2", "case-3"]
    assert [line["reference"] for line in found] == expected
    assert ["code" in line for line in found] == [row not in good for row in mixed]
    pointers = [[fault["pointer"] for fault in line["errors"]] for line in found if "code" in line]
    assert pointers == [
        ["/applicant/age"],
        ["/colour"],
        ["/reference"],
        ["/applicant/income", "/applicant/savings"],
        [""],
    ]
    assert same(found[1]) == directly(server, bad[0])
    assert {line["status"] for line in found if "code" in line} == {422}


def test_lines_in_are_the_same_as_json_in(server: Server) -> None:
    applicants = rows(3)
    body = "\n".join(json.dumps(line) for line in [{"model": "loan", "seed": 2, "detail": "full"}, *applicants])
    body = body + '\n{"reference": "torn", "appl\n\n' + json.dumps(applicants[0]) + "\n"
    response = server.client.post(PATH, content=body, headers={"Content-Type": "application/x-ndjson"})
    assert response.status_code == 202, response.text
    found = lines(server, response.headers["location"])
    whole = lines(server, submit(server, applicants, seed=2))
    assert [same(line) for line in found[:3]] == [same(line) for line in whole]
    assert (found[3]["code"], found[3]["status"]) == ("malformed-json", 400)
    assert (found[4]["reference"], found[4]["seed"]) == ("case-0", 2 + 4)


TABLE = {"Content-Type": "text/csv"}


def table(applicants: list[dict[str, Any]]) -> str:
    """A table with a column more than the model needs, as Excel writes it."""
    headings = [*APPLICANT, "reference", "branch"]
    cells = [[*row["applicant"].values(), row["reference"], "north"] for row in applicants]
    return "\ufeff" + "".join(",".join(map(str, line)) + "\r\n" for line in [headings, *cells])


def test_a_table_in_is_the_same_as_json_in(server: Server) -> None:
    applicants = [*rows(2), {"reference": "odd", "applicant": {**APPLICANT, "age": "old"}}]
    path = f"{PATH}?model=loan&seed=2&method=probe&count=1"
    response = server.client.post(path, content=table(applicants), headers=TABLE)
    assert response.status_code == 202, response.text
    *found, refused = lines(server, response.headers["location"])
    whole = lines(server, submit(server, applicants, seed=2, method={"name": "probe"}, detail="short"))
    assert [same(line) for line in found] == [same(line) for line in whole[:2]]
    assert (refused["reference"], refused["errors"]) == ("odd", whole[2]["errors"])


def test_a_batch_without_any_answer_has_failed_with_a_problem_for_each_row(server: Server) -> None:
    address = submit(server, [{"applicant": {}}, {"applicant": {**APPLICANT, "age": "old"}}])
    job = server.ended(address, within_s=PATIENCE_S)
    assert (job["status"], job["error"]["code"]) == ("failed", "no-row-answered")
    assert job["progress"] == {"done": 2, "total": 2, "refused": 2}
    results = server.client.get(job["result"])
    assert [json.loads(line)["code"] for line in results.text.splitlines()] == ["invalid-record"] * 2


def test_a_batch_counts_the_rows_without_an_answer(server: Server) -> None:
    address = submit(server, [*rows(2), {"applicant": {}}])
    assert len(lines(server, address)) == 3
    assert server.job(address)["progress"] == {"done": 3, "total": 3, "refused": 1}


def test_what_is_no_table_of_the_model_is_refused_at_once(server: Server) -> None:
    def post(content: str | bytes, query: str = "model=loan", **headers: str) -> Any:
        return server.client.post(f"{PATH}?{query}", content=content, headers={**TABLE, **headers})

    whole = table(rows(1))
    lacking = post(whole.replace("age,", "years,").replace("income,", "wage,"))
    said = problem(lacking, 422, "invalid-request")["detail"]
    assert "lacks these columns, which the model needs: age, income" in said
    assert faults(lacking) == {"/applicant/age": "is missing", "/applicant/income": "is missing"}
    assert "twice: age" in problem(post(whole.replace("branch", "age")), 422, "invalid-request")["detail"]
    problem(post(whole.split("\r\n")[0]), 422, "invalid-request")
    problem(post(""), 422, "invalid-request")
    problem(post(whole.encode("utf-16")), 422, "invalid-request")
    problem(post(whole + '"'), 422, "invalid-request")
    assert faults(post(whole, query="seed=-1")) == {"/model": "is missing", "/seed": "must be at least 0"}
    problem(post(whole, query="model=unknown"), 404, "unknown-model")
    in_json = server.client.post(f"{PATH}?model=loan", json={"model": "loan", "applicants": rows(1)})
    assert "text/csv" in problem(in_json, 422, "invalid-request")["detail"]
    key = {"Idempotency-Key": "a-table"}
    assert post(whole, **key).headers["location"] == post(whole, **key).headers["location"]
    problem(post(whole, query="model=loan&seed=1", **key), 422, "idempotency-key-reused")


def test_rows_that_kill_or_stop_the_model_are_alone_in_their_trouble(odd_server: Server) -> None:
    ages = [30, LOOPS, 31, DIES, 32, STUMBLES, 33, GIVES_NAN, GIVES_TOO_MUCH, 34]
    applicants = [{"applicant": {**APPLICANT, "age": age}} for age in ages]
    address = submit(odd_server, applicants, model="odd", deadline_ms=1000)
    found = lines(odd_server, address)
    told = [line.get("code") or line["reason"] or line["status"] for line in found]
    assert told == [
        "found", "deadline", "found", "lane-crashed", "found", "model-output-invalid", "found", "model_output_invalid",
        "model-output-invalid", "found",
    ]  # fmt: skip
    assert "secret" not in odd_server.log.read_text()


def test_what_all_rows_have_in_common_is_refused_at_once(server: Server) -> None:
    def post(body: Any, **headers: str) -> httpx.Response:
        content = body if isinstance(body, str) else json.dumps(body)
        return server.client.post(PATH, content=content, headers={"Content-Type": "application/json", **headers})

    common = {"model": "loan", "applicants": rows(1)}
    problem(post({**common, "model": "unknown"}), 404, "unknown-model")
    problem(post({**common, "constraints": {"direction": {"age": "decrease"}}}), 422, "constraint-clash")
    problem(post({**common, "certificate": {"moments": "registered"}}), 422, "invalid-request")
    problem(post({**common, "applicants": []}), 422, "invalid-request")
    problem(post({**common, "applicant": APPLICANT}), 422, "invalid-request")
    problem(post("[]"), 422, "invalid-request")
    problem(post("{"), 400, "malformed-json")
    problem(post(common, **{"Content-Type": "text/plain"}), 415, "unsupported-media-type")
    problem(post(json.dumps({"model": "loan"}), **{"Content-Type": "application/x-ndjson"}), 422, "invalid-request")


@on_sqlite
def test_a_batch_has_limits(start: Start) -> None:
    server = start(RECOURSE_MAX_BATCH_ROWS="3", RECOURSE_MAX_BATCH_BYTES="2000", RECOURSE_MAX_BODY_BYTES="1024").ready()
    problem(server.client.post(PATH, json={"model": "loan", "applicants": rows(4)}), 413, "body-too-large")
    problem(server.client.post(PATH, json={"model": "loan", "applicants": rows(30)}), 413, "body-too-large")
    assert len(lines(server, submit(server, rows(3)))) == 3
    told = "\n\n".join(map(json.dumps, [{"model": "loan"}, *rows(3)])) + "\n\n"
    headers = {"Content-Type": "application/x-ndjson"}
    assert server.client.post(PATH, content=told, headers=headers).status_code == 202, "empty lines are no applicants"
    more = told + json.dumps(rows(1)[0])
    problem(server.client.post(PATH, content=more, headers=headers), 413, "body-too-large")


def test_a_batch_that_is_cancelled_says_how_far_it_was_and_which_promises_it_had_recorded(
    start: Start, ledger: Path
) -> None:
    server = start(TEST_LEDGER=str(ledger)).ready()
    address = submit(server, rows(600))
    until(lambda: server.job(address)["progress"]["done"] > 0, within_s=PATIENCE_S)
    job = server.job(address)
    assert job["progress"]["done"] in range(LEAST, 600, GROUP)
    assert (job["kind"], job["status"], job["progress"]["total"]) == ("batch", "running", 600)
    problem(server.client.get(f"{address}/results"), 409, "job-unfinished")
    assert server.client.delete(address).json()["status"] == "cancelled"
    computed = len(ledger.read_text().splitlines())
    after = submit(server, rows(3))
    assert len(lines(server, after)) == 3
    assert len(ledger.read_text().splitlines()) <= computed + 2, "one that had begun, and the other batch"
    name = address.rpartition("/")[2]
    detail = problem(server.client.get(f"{address}/results"), 409, "job-cancelled")["detail"]
    assert detail.endswith(f"GET /recourse?job={name} lists what it had recorded.")
    assert [job["id"] for job in server.client.get("/jobs").json()["jobs"]] == [after.rpartition("/")[2], name]
    given = server.client.get("/recourse", params={"job": name, "limit": 200}).json()["recourse"]
    references = {one["reference"] for one in given}
    assert LEAST <= len(references) == len(given)
    assert references <= {f"case-{i}" for i in range(600)}
    assert server.client.get(f"/recourse/{given[0]['id']}").json()["reference"] == given[0]["reference"]


def each_exactly_once(server: Server, address: str, applicants: list[dict[str, Any]]) -> None:
    """Every applicant has one result, in its place."""
    found = lines(server, address)
    assert [line["reference"] for line in found] == [row["reference"] for row in applicants]
    assert len({line["id"] for line in found}) == len(applicants)
    assert [line["seed"] for line in found] == list(range(len(applicants)))
    assert all(line["status"] in ("found", "already_favourable") for line in found)
    assert server.job(address)["progress"] == {"done": len(applicants), "total": len(applicants), "refused": 0}
    for line in found[:: len(found) // 7]:
        assert server.client.get(f"/recourse/{line['id']}").json() == line


def in_the_middle(server: Server, address: str, ledger: Path) -> None:
    """Wait until some chunks are stored and others are being computed."""
    until(lambda: server.job(address)["progress"]["done"] > 0, within_s=PATIENCE_S)
    before = len(ledger.read_text().splitlines())
    until(lambda: len(ledger.read_text().splitlines()) > before, within_s=PATIENCE_S)
    assert server.job(address)["finished_at"] is None


@linux
def test_a_batch_survives_its_killed_server(start: Start, ledger: Path) -> None:
    applicants = many(5)
    server = start(TEST_LEDGER=str(ledger)).ready()
    address = submit(server, applicants)
    for _ in range(2):
        in_the_middle(server, address, ledger)
        pids = server.children()
        server.kill()
        until(lambda pids=pids: all(gone(pid) for pid in pids))
        server = start(TEST_LEDGER=str(ledger)).ready()
    each_exactly_once(server, address, applicants)
    computed = ledger.read_text().split()[::2]
    assert len(computed) > len(set(computed)), "a chunk was in flight"


@on_sqlite
def test_a_batch_survives_its_killed_children(start: Start, ledger: Path) -> None:
    applicants = many(3)
    server = start(TEST_LEDGER=str(ledger)).ready()
    address = submit(server, applicants)
    in_the_middle(server, address, ledger)

    def alive() -> set[int]:
        """Children that were given chunks; on a busy machine, those of the first chunks may have been replaced."""
        return {int(word) for word in ledger.read_text().split()[1::2]} & set(server.children())

    until(alive)
    for pid in alive():
        os.kill(pid, signal.SIGKILL)
    each_exactly_once(server, address, applicants)


@pytest.mark.parametrize("start", ["postgres"], indirect=True)
def test_a_batch_survives_a_database_that_drops_all_connections(start: Start, ledger: Path) -> None:
    applicants = many(5)
    server = start(TEST_LEDGER=str(ledger)).ready()
    address = submit(server, applicants)
    for _ in range(2):
        in_the_middle(server, address, ledger)
        assert drop_connections(server.database) > 0
        until(lambda: server.client.get(address).status_code == 200)
    each_exactly_once(server, address, applicants)
    assert server.ready()


@pytest.fixture
def postgres() -> Iterator[OwnPostgres]:
    """A database server that may be killed."""
    with own_postgres() as running:
        yield running


@pytest.mark.parametrize("start", ["postgres"], indirect=True)
def test_a_batch_survives_its_killed_database(start: Start, ledger: Path, postgres: OwnPostgres) -> None:
    applicants = many(5)
    server = start(TEST_LEDGER=str(ledger), RECOURSE_DATABASE_URL=postgres.address).ready()
    address = submit(server, applicants)
    for _ in range(2):
        in_the_middle(server, address, ledger)
        postgres.kill()
        problem(server.client.get(address), 503, "not-ready")
        postgres.run()
        until(lambda: server.client.get(address).status_code == 200, within_s=PATIENCE_S)
    each_exactly_once(server, address, applicants)
    assert server.client.get("/recourse", params={"reference": "case-0"}).json()["recourse"]
    server.stop()
