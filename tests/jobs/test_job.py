"""How the records of DBOS read."""

from types import SimpleNamespace
from typing import Any, get_args

import pytest
from dbos import PortableWorkflowError
from dbos._sys_db import WorkflowStatuses

from app.errors import Fault, InternalError, InvalidRecord, JobAbandoned
from app.jobs.ids import new_id
from app.jobs.job import JOB_ID, STARTED, STATUSES, Job, JobStatus


def job(**changes: Any) -> Job:
    record = {
        "workflow_id": new_id("job"), "status": "PENDING", "attributes": {"kind": "recourse"}, "created_at": 1000,
        "dequeued_at": None, "completed_at": None, "error": None, "output": None,
    }  # fmt: skip
    return Job.of(SimpleNamespace(**(record | changes)))  # type: ignore[arg-type]


def test_every_status_of_dbos_means_something() -> None:
    assert set(STATUSES) == set(get_args(WorkflowStatuses))
    assert set(STATUSES.values()) == set(JobStatus)


def test_ids_of_jobs_are_recognised() -> None:
    assert all(JOB_ID.fullmatch(new_id("job")) for _ in range(1000))


@pytest.mark.parametrize(
    ("status", "progress", "told"),
    [
        ("ENQUEUED", None, (0, 1)),
        ("PENDING", None, (0, 1)),
        ("PENDING", [2, 5], (2, 5)),
        ("SUCCESS", None, (1, 1)),
        ("SUCCESS", [2, 5], (5, 5)),
        ("CANCELLED", [2, 5], (2, 5)),
    ],
)
def test_progress(status: str, progress: list[int] | None, told: tuple[int, int]) -> None:
    attributes = {"kind": "recourse"} | ({} if progress is None else {"progress": progress})
    found = job(status=status, attributes=attributes)
    assert (found.done, found.total) == told


def test_a_cancelled_job_was_taken_up_when_it_was() -> None:
    running = job(status="PENDING", dequeued_at=2000)
    assert job(status="CANCELLED", attributes={STARTED: 2000}).started_at == running.started_at
    assert job(status="CANCELLED").started_at is None


def test_errors_come_back_as_themselves() -> None:
    error = InvalidRecord("No.", faults=[Fault("/a", "b")])
    stored = PortableWorkflowError("No.", error.code, error.code, error.to_dict())
    found = job(status="ERROR", error=stored).error
    assert found is not None
    assert found.to_dict() == error.to_dict()


def test_errors_that_are_not_ours_are_not_told() -> None:
    assert isinstance(job(status="ERROR", error=ValueError("a secret")).error, InternalError)
    assert isinstance(job(status="MAX_RECOVERY_ATTEMPTS_EXCEEDED").error, JobAbandoned)
