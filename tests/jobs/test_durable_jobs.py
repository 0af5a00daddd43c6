"""Jobs in real server processes: computed once whatever happens to the server, stopped when they should be."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.pool.pool import GRACE_S
from tests.api.asking import APPLICANT, problem, question
from tests.api.odd_model import LOOPS
from tests.conftest import until
from tests.jobs.serving import Server, drop_connections
from tests.processes import gone
from tests.servers import Start, on_sqlite

linux = pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends children with their parent")


def entries(ledger: Path, word: str) -> list[int]:
    """Process ids of the children that wrote a word."""
    return [int(line.split()[1]) for line in ledger.read_text().splitlines() if line.startswith(word)]


def events(server: Server, address: str, **headers: str) -> Iterator[dict[str, Any]]:
    """What the event stream of a job says, until it ends; a minute at most, since it also says that it goes on."""
    give_up = time.monotonic() + 60
    with server.client.stream("GET", f"{address}/events", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found: dict[str, Any] = {}
        for line in response.iter_lines():
            assert time.monotonic() < give_up, found
            if line and not line.startswith(":"):
                key, _, value = line.partition(": ")
                found[key] = json.loads(value) if key == "data" else value
            elif found:
                yield found
                found = {}


def test_a_job_can_be_followed(server: Server, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    gate.touch()
    address = server.submit("step", {"while": str(gate)})
    told = []
    for event in events(server, address):
        progress = event["data"]["progress"]
        told.append((event["event"], event["data"]["status"], progress["done"], progress["total"]))
        if event["data"]["status"] == "running" and event["data"]["progress"]["total"] == 3:
            with gate.open("ab") as file:
                file.write(b".")
    assert told[0][0] == "progress"
    assert told[-1] == ("succeeded", "succeeded", 3, 3)
    assert ("progress", "running", 1, 3) in told
    assert ("progress", "running", 2, 3) in told
    assert told == sorted(set(told), key=told.index)
    (last,) = events(server, address)
    assert last["event"] == "succeeded"
    assert last["data"] == server.job(address)
    (again,) = events(server, address, **{"Last-Event-ID": last["id"]})
    assert again == last


def test_a_client_that_comes_back_is_not_told_again_what_it_knows(server: Server, tmp_path: Path, ledger: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    address = server.submit("hold", {"ledger": str(ledger), "while": str(held)})
    until(lambda: entries(ledger, "began"))
    first = next(events(server, address))
    assert (first["event"], first["data"]["status"]) == ("progress", "running")
    following = events(server, address, **{"Last-Event-ID": first["id"]})
    held.unlink()
    assert next(following)["event"] == "succeeded"


@pytest.mark.slow
def test_cancelling_kills_native_code_within_a_second(server: Server, ledger: Path) -> None:
    address = server.submit("loop", {"ledger": str(ledger)})
    until(lambda: entries(ledger, "began"))
    (pid,) = entries(ledger, "began")
    running = server.job(address)
    assert running["status"] == "running"
    problem(server.client.get(f"{address}/results"), 409, "job-unfinished")
    began = time.monotonic()
    cancelled = server.client.delete(address)
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert cancelled.json()["started_at"] == running["started_at"]
    until(lambda: gone(pid))
    assert time.monotonic() - began < 10
    assert server.client.delete(address).json() == cancelled.json()
    problem(server.client.get(f"{address}/results"), 409, "job-cancelled")
    (event,) = events(server, address)
    assert event["event"] == "cancelled"
    # The lane computes on, and nobody takes the cancelled job up again.
    another = server.submit("hold", {"ledger": str(ledger), "while": "/nowhere"})
    assert server.ended(another)["status"] == "succeeded"
    assert server.job(address)["status"] == "cancelled"
    assert entries(ledger, "began")[0] == pid
    assert len(entries(ledger, "began")) == 2


def test_a_job_can_be_cancelled_before_it_is_taken_up(server: Server, tmp_path: Path, ledger: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    first = server.submit("hold", {"ledger": str(ledger), "while": str(held)})
    until(lambda: entries(ledger, "began"))
    second = server.submit("hold", {"ledger": str(ledger), "while": str(held)})
    assert server.job(second)["status"] == "queued"
    assert server.client.delete(second).json()["status"] == "cancelled"
    held.unlink()
    assert server.ended(first)["status"] == "succeeded"
    problem(server.client.delete(first), 409, "job-finished")
    assert len(entries(ledger, "began")) == 1


@pytest.mark.slow
def test_a_job_is_killed_at_its_limit_and_not_tried_again(server: Server, ledger: Path) -> None:
    address = server.submit("loop", {"ledger": str(ledger)}, timeout_s=0.5)
    until(lambda: entries(ledger, "began"))
    began = time.monotonic()
    (pid,) = entries(ledger, "began")
    until(lambda: gone(pid))
    job = server.ended(address)
    assert time.monotonic() - began < 0.5 + GRACE_S + 10
    assert (job["status"], job["error"]["code"], job["error"]["status"]) == ("failed", "lane-timeout", 504)
    assert job["error"]["instance"] == address
    assert job["result"] is None
    assert len(entries(ledger, "began")) == 1
    problem(server.client.get(f"{address}/results"), 504, "lane-timeout")
    (event,) = events(server, address)
    assert (event["event"], event["data"]) == ("failed", job)


def test_a_question_that_never_ends_fails_while_its_client_waits(odd_server: Server) -> None:
    body = question(model="odd", applicant={**APPLICANT, "age": LOOPS}, deadline_ms=300)
    response = odd_server.client.post(
        "/recourse", json=body, headers={"Prefer": "wait=30", "X-Request-ID": "request-1"}
    )
    problem(response, 504, "lane-timeout")
    job = odd_server.client.get("/jobs").json()["jobs"][0]
    assert (job["status"], job["error"]["request_id"]) == ("failed", "request-1")


@pytest.mark.slow
def test_a_job_that_kills_its_child_is_tried_three_times(server: Server, ledger: Path) -> None:
    job = server.ended(server.submit("segfault", {"ledger": str(ledger)}))
    assert (job["status"], job["error"]["code"]) == ("failed", "lane-crashed")
    assert len(set(entries(ledger, "began"))) == 3


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [("stumble", "internal-error"), ("refuse", "invalid-record")])
def test_a_job_that_fails_is_not_tried_again(server: Server, ledger: Path, kind: str, code: str) -> None:
    job = server.ended(server.submit(kind, {"ledger": str(ledger)}))
    assert (job["status"], job["error"]["code"]) == ("failed", code)
    assert len(entries(ledger, "began")) == 1
    assert "secret" not in server.log.read_text()


@linux
def test_a_job_survives_its_killed_server_and_is_finished_once(start: Start, tmp_path: Path, ledger: Path) -> None:
    server = start().ready()
    held = tmp_path / "held"
    held.touch()
    address = server.submit("hold", {"ledger": str(ledger), "while": str(held)})
    waiting = server.submit("hold", {"ledger": str(ledger), "while": str(held)})
    until(lambda: entries(ledger, "began"))
    pids = server.children()
    assert not entries(ledger, "ended"), "in flight when the server is killed"
    server.kill()
    until(lambda: all(gone(pid) for pid in pids))
    held.unlink()
    again = start().ready()
    for name in (address, waiting):
        job = again.ended(name)
        assert (job["status"], job["error"]) == ("succeeded", None)
        assert again.client.get(job["result"]).json() == {"held": str(held)}
    assert len(entries(ledger, "began")) == 3, "the one in flight twice, the other one once"
    assert len(entries(ledger, "ended")) == 2
    again.stop()
    once_more = start().ready()
    assert once_more.job(waiting) == job
    assert len(entries(ledger, "began")) == 3, "nothing is left to do"


def test_a_job_outlives_a_server_that_is_told_to_stop(start: Start, tmp_path: Path, ledger: Path) -> None:
    server = start(RECOURSE_SHUTDOWN_S="60").ready()
    held = tmp_path / "held"
    held.touch()
    address = server.submit("hold", {"ledger": str(ledger), "while": str(held), "name": "the applicant's secret"})
    until(lambda: entries(ledger, "began"))
    stream = events(server, address)
    assert next(stream)["data"]["status"] == "running"
    pids = server.children()
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 15, "whoever follows a job is let go"
    assert list(stream) == []
    until(lambda: all(gone(pid) for pid in pids))
    assert "secret" not in server.log.read_text()
    held.unlink()
    assert start().ready().ended(address)["status"] == "succeeded"
    assert (len(entries(ledger, "began")), len(entries(ledger, "ended"))) == (2, 1)


@linux
def test_a_job_that_kills_every_server_is_given_up(start: Start, tmp_path: Path, ledger: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    server = start().ready()
    address = server.submit("hold", {"ledger": str(ledger), "while": str(held)})
    for attempt in range(1, 5):
        until(lambda n=attempt: len(entries(ledger, "began")) == n)
        server.kill()
        server = start()
    job = server.ready().ended(address)
    assert (job["status"], job["error"]["code"]) == ("failed", "job-abandoned")
    assert len(entries(ledger, "began")) == 4


def test_requests_are_answered_while_jobs_are_computed_and_pages_follow_each_other(start: Start, ledger: Path) -> None:
    server = start().ready()
    server.submit("loop", {"ledger": str(ledger)})
    until(lambda: entries(ledger, "began"))
    addresses = [server.submit("hold", {"ledger": str(ledger), "while": "/nowhere"}) for _ in range(6)]
    assert server.client.post("/recourse", json=question()).json()["status"] == "found"
    newest_first = [address.rpartition("/")[2] for address in reversed(addresses)]
    whole = server.client.get("/jobs").json()
    assert [job["id"] for job in whole["jobs"]][:5] == newest_first[:5]
    assert (len(whole["jobs"]), whole["next_cursor"]) == (7, None)
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = server.client.get("/jobs", params={"limit": 3, **cursor}).json()
        found += [job["id"] for job in page["jobs"]]
        server.submit("hold", {"ledger": str(ledger), "while": "/nowhere"})
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert found == [job["id"] for job in whole["jobs"]]


def test_a_second_server_of_the_same_name_leaves_the_jobs_alone(start: Start, tmp_path: Path, ledger: Path) -> None:
    first = start(RECOURSE_EXECUTOR_ID="one").ready()
    held = tmp_path / "held"
    held.touch()
    address = first.submit("hold", {"ledger": str(ledger), "while": str(held)})
    until(lambda: entries(ledger, "began"))
    second = start(RECOURSE_EXECUTOR_ID="one")
    until(lambda: second.lines("job-store-not-opened"))
    document = problem(second.client.get("/health/ready"), 503, "not-ready")
    assert any("Another process" in fault["detail"] for fault in document["errors"])
    problem(second.client.get("/jobs"), 503, "not-ready")
    until(lambda: second.client.post("/recourse", json=question()).status_code == 200)
    held.unlink()
    assert first.ended(address)["status"] == "succeeded"
    assert len(entries(ledger, "began")) == 1
    # It takes over once the first has gone, however that went.
    first.kill()
    second.ready()
    assert second.job(address)["status"] == "succeeded"


@pytest.mark.parametrize("start", ["postgres"], indirect=True)
def test_servers_on_one_database_finish_their_own_jobs(start: Start, tmp_path: Path, ledger: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    payload = {"ledger": str(ledger), "while": str(held)}
    one = start(RECOURSE_EXECUTOR_ID="one").ready()
    address = one.submit("hold", payload, timeout_s=250)
    until(lambda: entries(ledger, "began"))
    two = start(RECOURSE_EXECUTOR_ID="two").ready()
    other = two.submit("hold", payload, timeout_s=250)
    until(lambda: len(entries(ledger, "began")) == 2)
    assert set(entries(ledger, "began")) <= set(one.children()) | set(two.children())
    orphans = one.children()
    one.kill()
    until(lambda: all(map(gone, orphans)))
    # The other server computes on and does not touch what the dead one had begun.
    third = two.submit("hold", payload, timeout_s=250)
    held.unlink()
    assert two.ended(other)["status"] == "succeeded"
    assert two.ended(third)["status"] == "succeeded"
    assert two.job(address)["status"] == "running"
    assert len(entries(ledger, "began")) == 3
    one = start(RECOURSE_EXECUTOR_ID="one").ready()
    assert two.ended(address)["status"] == "succeeded"
    assert (len(entries(ledger, "began")), len(entries(ledger, "ended"))) == (4, 3)


@pytest.mark.parametrize("start", ["postgres"], indirect=True)
def test_a_job_of_another_server_is_cancelled_too(start: Start, ledger: Path) -> None:
    one = start(RECOURSE_EXECUTOR_ID="one").ready()
    address = one.submit("loop", {"ledger": str(ledger)})
    until(lambda: entries(ledger, "began"))
    (pid,) = entries(ledger, "began")
    two = start(RECOURSE_EXECUTOR_ID="two", RECOURSE_RUN_JOBS="false").ready()
    assert two.client.delete(address).json()["status"] == "cancelled"
    until(lambda: gone(pid))
    assert one.job(address)["status"] == "cancelled"


def test_a_server_can_be_stopped_while_it_opens_its_jobs(start: Start) -> None:
    server = start()
    server.stop()
    start().ready()


@on_sqlite
def test_the_server_answers_before_its_jobs_are_there(start: Start, tmp_path: Path) -> None:
    server = start()
    until(lambda: server.client.post("/recourse", json=question()).status_code == 200)
    assert server.ready()
    (opened,) = server.lines("job-store-opened")
    assert opened["ms"] < 60_000
    assert not server.lines("child-warm")[1:], "children for jobs are started with the first one"


@pytest.mark.parametrize("start", ["sqlite"], indirect=True)
def test_a_database_that_is_away_costs_jobs_and_the_ledger_only(start: Start) -> None:
    # Where keys may be asked for, nobody is let in: they are in the same database.
    server = start(RECOURSE_DATABASE_URL="postgresql://nobody@127.0.0.1:9/nowhere", RECOURSE_AUTH="off")
    until(lambda: server.lines("job-store-not-opened") and server.lines("ledger-not-opened"))
    told = [*server.lines("job-store-not-opened"), *server.lines("ledger-not-opened")]
    assert all("port 9 failed: Connection refused" in line["refusal"] for line in told)
    until(lambda: server.client.post("/recourse", json=question(store=False)).status_code == 200)
    answer = server.client.post("/recourse", json=question(), headers={"Prefer": "respond-async"})
    problem(answer, 503, "not-ready")
    assert answer.headers["retry-after"] == "1"
    problem(server.client.post("/recourse", json=question()), 503, "ledger-unavailable")
    problem(server.client.get("/health/ready"), 503, "not-ready")
    server.stop()


@pytest.mark.parametrize("start", ["postgres"], indirect=True)
def test_a_database_that_drops_all_connections_costs_no_job(start: Start, tmp_path: Path, ledger: Path) -> None:
    server = start().ready()
    held = tmp_path / "held"
    held.touch()
    address = server.submit("hold", {"ledger": str(ledger), "while": str(held)})
    until(lambda: entries(ledger, "began"))
    assert drop_connections(server.database) > 0
    until(lambda: server.client.get(address).status_code == 200)
    held.unlink()
    until(lambda: server.client.get(address).json().get("status") == "succeeded")
    assert len(entries(ledger, "began")) == 1
    assert server.ended(server.submit("hold", {"ledger": str(ledger), "while": "/nowhere"}))["status"] == "succeeded"


def test_children_of_jobs_give_way(server: Server, ledger: Path) -> None:
    address = server.submit("loop", {"ledger": str(ledger)})
    until(lambda: entries(ledger, "began"))
    (pid,) = entries(ledger, "began")
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    server.client.delete(address)
    assert int(fields[16]) == min(os.nice(0) + 10, 19)
