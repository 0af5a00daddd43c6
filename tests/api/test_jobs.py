"""Addresses of jobs, asked of a service that keeps jobs but computes none; see `tests/jobs` for those that do."""

from contextlib import ExitStack

import httpx
import pytest

from app.jobs import followers
from app.jobs.ids import new_id
from app.jobs.schema import JobAnswer, JobList
from tests.api.asking import faults, problem, question
from tests.conftest import until


def later(client: httpx.Client, prefer: str = "respond-async") -> httpx.Response:
    response = client.post("/recourse", json=question(), headers={"Prefer": prefer})
    assert response.status_code == 202
    return response


def test_a_job_is_told_at_once(client: httpx.Client) -> None:
    response = later(client)
    job = JobAnswer.model_validate(response.json(), strict=False)
    assert (job.kind, job.status, job.result, job.error) == ("recourse", "queued", None, None)
    assert set(response.json()) == set(JobAnswer.model_fields)
    assert response.headers["location"] == f"/jobs/{job.id}"
    assert response.headers["vary"] == "Prefer"
    assert response.headers["retry-after"] == "1"
    assert client.get(response.headers["location"]).json() == response.json()


def test_who_waits_is_told_the_job_when_the_time_is_over(client: httpx.Client) -> None:
    response = later(client, "wait=1")
    assert response.headers["preference-applied"] == "wait=1"
    assert response.elapsed.total_seconds() >= 1
    assert later(client, "wait=0").elapsed.total_seconds() < 10


def test_preferences_in_several_headers_count_together(client: httpx.Client) -> None:
    headers = [("Prefer", "foo"), ("Prefer", "respond-async"), ("Prefer", "wait=0")]
    response = client.post("/recourse", json=question(), headers=headers)
    assert (response.status_code, response.headers["preference-applied"]) == (202, "respond-async, wait=0")


@pytest.mark.parametrize("prefer", ["wait=soon", "return=minimal", "respond_async", '"'])
def test_other_preferences_are_ignored(client: httpx.Client, prefer: str) -> None:
    response = client.post("/recourse", json=question(), headers={"Prefer": prefer})
    assert response.status_code == 200
    assert "preference-applied" not in response.headers


def test_what_is_wrong_with_a_question_is_told_before_it_becomes_a_job(client: httpx.Client) -> None:
    before = client.get("/jobs").json()["jobs"]
    prefer = {"Prefer": "respond-async"}
    problem(client.post("/recourse", json=question(model="nobody"), headers=prefer), 404, "unknown-model")
    response = client.post("/recourse", json=question(applicant={"age": 3}), headers=prefer)
    assert "/applicant/age" in faults(response, code="invalid-record")
    assert client.get("/jobs").json()["jobs"] == before


def test_a_job_that_nobody_has_taken_up_can_be_cancelled(client: httpx.Client) -> None:
    address = later(client).headers["location"]
    problem(client.get(f"{address}/results"), 409, "job-unfinished")
    assert client.delete(address).json()["status"] == "cancelled"
    problem(client.get(f"{address}/results"), 409, "job-cancelled")
    assert client.get(f"{address}/events").text.startswith("event: cancelled\n")


def test_a_job_is_deleted_with_all_it_holds_once_it_has_ended(client: httpx.Client) -> None:
    address = later(client).headers["location"]
    problem(client.delete(f"{address}/results"), 409, "job-unfinished")
    client.delete(address)
    assert client.delete(f"{address}/results").status_code == 204
    for method, path in (("get", address), ("get", f"{address}/results"), ("delete", f"{address}/results")):
        problem(client.request(method, path), 404, "unknown-job")


@pytest.mark.parametrize(
    "name",
    ["x", "job_x", "%00", "job_" + "0" * 25, "job_" + "u" * 26]
    + [pytest.param(new_id(kind), id=f"new {kind}") for kind in ("rec", "job")],
)
def test_unknown_jobs(client: httpx.Client, name: str) -> None:
    problem(client.get(f"/jobs/{name}"), 404, "unknown-job")
    problem(client.get(f"/jobs/{name}/results"), 404, "unknown-job")
    problem(client.get(f"/jobs/{name}/events"), 404, "unknown-job")
    problem(client.delete(f"/jobs/{name}"), 404, "unknown-job")
    problem(client.delete(f"/jobs/{name}/results"), 404, "unknown-job")


def test_jobs_are_listed_newest_first_in_pages(client: httpx.Client) -> None:
    made = [later(client).json()["id"] for _ in range(5)]
    first = client.get("/jobs", params={"limit": 2}).json()
    JobList.model_validate(first, strict=False)
    second = client.get("/jobs", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [job["id"] for job in first["jobs"] + second["jobs"]] == made[:0:-1]
    oldest = client.get("/jobs", params={"limit": 200}).json()
    assert oldest["next_cursor"] is None
    assert client.get("/jobs", params={"cursor": oldest["jobs"][-1]["id"]}).json() == {"jobs": [], "next_cursor": None}


def test_a_caller_follows_so_many_jobs_at_once_and_no_more(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followers, "MOST_STREAMS", 2)
    address = later(client).headers["location"]
    with ExitStack() as stack:
        # What is no longer read is closed.
        reading = [stack.enter_context(client.stream("GET", f"{address}/events")).iter_lines() for _ in range(2)]
        assert [next(lines) for lines in reading] == ["event: progress"] * 2
        document = problem(client.get(f"{address}/events"), 429, "too-many-requests")
        assert document["detail"].startswith("This caller has 2 event streams open, the most that are possible.")
        assert client.get(address).status_code == 200
    # The server notices a moment later that the clients have left.
    until(lambda: client.delete(address).is_success and client.get(f"{address}/events").status_code == 200)
