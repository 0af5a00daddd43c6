"""How the rows of jobs read."""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from app.errors import Fault, InvalidRecord, JobCancelled, NoRowAnswered
from app.jobs.ids import new_id
from app.jobs.job import JOB_ID, UNFINISHED, Job, JobStatus
from app.jobs.tables import jobs


def job(**changes: Any) -> Job:
    row = dict.fromkeys(jobs.c.keys()) | {
        "id": new_id("job"), "status": "running", "kind": "recourse", "created_at": 1000, "done": 0, "total": 1,
        "refused": 0, "timeout_s": 1.0, "parts": 1, "detail": "full",
    }  # fmt: skip
    return Job.of(SimpleNamespace(**(row | changes)))


def test_ids_of_jobs_are_recognised() -> None:
    assert all(JOB_ID.fullmatch(new_id("job")) for _ in range(1000))


def test_a_job_has_ended_or_not() -> None:
    assert [status for status in JobStatus if not status.finished] == [*UNFINISHED]


def test_times_are_those_of_the_row() -> None:
    ended = job(status="succeeded", started_at=2500, finished_at=4000)
    assert (ended.seconds, ended.outcome) == (1.5, "succeeded")
    assert (ended.created_at.timestamp(), job().started_at) == (1.0, None)
    assert job(status="cancelled", finished_at=4000).outcome == JobCancelled.code


def test_errors_come_back_as_themselves() -> None:
    error = InvalidRecord("No.", faults=[Fault("/a", "b")])
    found = job(status="failed", error=json.dumps(error.to_dict()))
    assert found.error is not None
    assert found.error.to_dict() == error.to_dict()
    assert (found.outcome, found.has_result) == (error.code, False)


@pytest.mark.parametrize(
    ("status", "error", "refused"),
    [
        ("running", None, None),
        ("succeeded", None, 2),
        ("failed", NoRowAnswered(), 2),
        ("failed", InvalidRecord(), None),
    ],
)
def test_refused_rows_are_told_once_a_batch_has_lines(status: str, error: Any, refused: int | None) -> None:
    found = job(timeout_s=None, status=status, refused=2, total=2, error=error and json.dumps(error.to_dict()))
    assert found.refused == refused
    assert found.has_result == (refused is not None)
    assert job(status="succeeded").refused is None
