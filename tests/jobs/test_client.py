"""The client with jobs: it waits for them, and reads batches as lines."""

import pytest
from recourse_client import AsyncClient, Client, ProblemError

from tests.api.asking import APPLICANT, question
from tests.conftest import NO_TLS
from tests.jobs.serving import Server

ROWS = [{"applicant": APPLICANT, "reference": "first"}, {"applicant": {}, "reference": "second"}]


def url_of(server: Server) -> str:
    return str(server.client.base_url)


def test_it_waits_for_a_job(server: Server) -> None:
    with Client(url_of(server), verify=NO_TLS) as client:
        direct, later = client.recourse(question()), client.recourse(question(), later=True)
        assert direct["counterfactuals"] == later["counterfactuals"]
        assert next(client.list_jobs())["kind"] == "recourse"
        assert client.audit("loan", {"model": "loan@1"})["broken"] == 0


async def test_it_reads_the_lines_of_a_batch(server: Server) -> None:
    with Client(url_of(server), verify=NO_TLS) as client:
        answer, problem = client.batch({"model": "loan"}, iter(ROWS))
        assert (answer["status"], answer["reference"]) == ("found", "first")
        assert (problem["code"], problem["reference"]) == ("invalid-record", "second")
        job = client.submit_batch({"model": "loan"}, ROWS, idempotency_key="one-batch")
        assert client.submit_batch({"model": "loan"}, ROWS, idempotency_key="one-batch")["id"] == job["id"]
        assert client.wait(job["id"])["status"] == "succeeded"
    async with AsyncClient(url_of(server), verify=NO_TLS) as awaiting:
        assert [line["reference"] async for line in awaiting.batch({"model": "loan"}, ROWS)] == ["first", "second"]


def test_a_cancelled_job_has_a_problem_for_a_result(server: Server) -> None:
    with Client(url_of(server), verify=NO_TLS) as client:
        many = [{"applicant": APPLICANT}] * 500
        job = client.submit_batch({"model": "loan"}, many)
        assert client.cancel(job["id"])["status"] == "cancelled"
        with pytest.raises(ProblemError) as raised:
            list(client.lines(job["id"]))
    assert raised.value.code == "job-cancelled"
