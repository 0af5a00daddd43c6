"""Erased records are in no file of the jobs any more."""

from pathlib import Path

import pytest

from tests.jobs.serving import Server
from tests.jobs.test_batches import lines, rows, submit
from tests.servers import Start, on_sqlite


def holding(server: Server, text: str) -> list[str]:
    """The files of the jobs with this text."""
    return [path.name for path in Path(server.state).glob("jobs.sqlite*") if text.encode() in path.read_bytes()]


@on_sqlite
def test_an_erased_record_leaves_the_files_of_the_jobs_at_once(start: Start) -> None:
    server = start().ready()
    mark = "case-of-a-tiger"
    applicants = rows(3)
    applicants[1]["reference"] = mark
    address = submit(server, applicants, store=True)
    found = lines(server, address)
    response = server.client.post(
        "/recourse", json={"model": "loan", "store": True, **applicants[1]}, headers={"Prefer": "wait=30"}
    )
    assert response.status_code == 200, response.text
    assert holding(server, mark)
    for recourse in (found[1]["id"], response.json()["id"]):
        assert server.client.delete(f"/recourse/{recourse}").status_code == 200
    assert holding(server, mark) == []


@on_sqlite
@pytest.mark.slow
def test_a_deleted_job_leaves_the_files_at_once(start: Start) -> None:
    server = start().ready()
    mark = "case-of-a-tiger"
    address = submit(server, [{**row, "reference": f"{mark}-{i}"} for i, row in enumerate(rows(300))], store=False)
    lines(server, address)
    assert server.client.delete(f"{address}/results").status_code == 204
    assert holding(server, mark) == []
