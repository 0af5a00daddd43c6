"""Curves that a client does not wait for."""

from typing import Any

from tests.api.asking import question
from tests.jobs.serving import Server
from tests.jobs.test_validity_jobs import timeless

QUESTION: dict[str, Any] = {
    **question(),
    "reference": "case 7",
    "method": {"name": "probe"},
    "sweep": {"parameter": "target_invalidation_rate", "values": [0.3, 0.05]},
    "deadline_ms": 30_000,
}


def test_a_job_has_the_curve_that_the_request_would_have_had(server: Server) -> None:
    directly = server.client.post("/recourse/frontier", json=QUESTION)
    assert directly.status_code == 200, directly.text
    accepted = server.client.post("/recourse/frontier", json=QUESTION, headers={"Prefer": "respond-async"})
    assert accepted.status_code == 202
    job = server.ended(accepted.headers["location"])
    assert (job["kind"], job["status"]) == ("frontier", "succeeded")
    assert timeless(server.client.get(job["result"]).json()) == timeless(directly.json())
