"""Every question as a job, and joint bounds that take longer than a client wants to wait for."""

from typing import Any

import pytest

from tests.api.asking import APPLICANT, problem, question
from tests.jobs.serving import Server
from tests.servers import Start

PLAN: dict[str, Any] = {
    "model": "loan",
    "applicant": APPLICANT,
    "counterfactuals": [{**APPLICANT, "income": APPLICANT["income"] + 500.0 * k} for k in (1, 2, 3)],
    "certificate": {"ambiguity_radius": 0.02},
    "deadline_ms": 30_000,
}

RECOURSE = question(
    seed=3, reference="case-1", constraints={"immutable": ["age"], "bounds": {"amount": {"min": 100}}},
    cost={"weights": {"income": 2.0}}, deadline_ms=30_000,
)  # fmt: skip

CURVE: dict[str, Any] = {
    **question(),
    "reference": "case 7",
    "method": {"name": "probe"},
    "sweep": {"parameter": "target_invalidation_rate", "values": [0.3, 0.05]},
    "deadline_ms": 30_000,
}


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what differs each time."""
    answer = {key: value for key, value in answer.items() if key not in ("id", "created_at", "expires_at")}
    return {**answer, "diagnostics": answer.get("diagnostics") and {**answer["diagnostics"], "elapsed_ms": None}}


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/recourse", "recourse", RECOURSE),
        ("/recourse/frontier", "frontier", CURVE),
        ("/recourse/validity", "validity", PLAN),
        ("/recourse/correct", "correction", {**PLAN, "correction": {"kind": "mahalanobis", "max_shift": 0.5}}),
    ],
)
def test_a_job_has_the_answer_that_the_request_would_have_had(
    server: Server, path: str, kind: str, body: dict[str, Any]
) -> None:
    directly = server.client.post(path, json=body)
    assert (directly.status_code, directly.headers["vary"]) == (200, "Prefer"), directly.text
    answer = directly.json()
    assert kind != "recourse" or answer["status"] == "found"
    accepted = server.client.post(path, json=body, headers={"Prefer": "respond-async"})
    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "respond-async")
    address = accepted.headers["location"]
    assert address == f"/jobs/{accepted.json()['id']}"
    job = server.ended(address)
    assert (job["kind"], job["status"], job["error"]) == (kind, "succeeded", None)
    assert job["progress"] == {"done": 1, "total": 1, "refused": None}
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]
    stored = server.client.get(job["result"]).json()
    assert list(stored) == list(answer)
    waited = server.client.post(path, json=body, headers={"Prefer": "wait=30"})
    assert (waited.status_code, waited.headers["preference-applied"]) == (200, "wait=30")
    assert timeless(stored) == timeless(waited.json()) == timeless(answer)


def test_bounds_beyond_the_budget_are_a_bracket_now_and_tight_later(start: Start) -> None:
    """Of records of the caller, and of a plan that the service has found."""
    server = start(RECOURSE_PLAN_BUDGET_MS="1").ready()
    members = [
        {**APPLICANT, "income": 2000.0 + 300.0 * k, "amount": 19000.0 - 1000.0 * (k % 4), "age": 30 + k % 5}
        for k in range(18)
    ]
    brought = server.client.post("/recourse/validity", json={**PLAN, "counterfactuals": members}).json()
    asked = question(
        method={"name": "copa", "objective": "paper", "count": 20, "validity_weight": 0.05}, deadline_ms=30_000,
        constraints={"immutable": ["housing"]}, certificate={"ambiguity_radius": 0.02}, store=False,
    )  # fmt: skip
    found = server.client.post("/recourse", json=asked).json()
    assert len(found["counterfactuals"]) == 20
    assert all(one["applicant"]["housing"] == APPLICANT["housing"] for one in found["counterfactuals"])
    for answer in (brought, found):
        wide = answer["plan"]["validity"]
        assert (wide["status"], wide["exact"]) == ("pending", False)
        job = server.ended(wide["job"])
        assert job["status"] == "succeeded", job
        judged = server.client.get(job["result"]).json()
        shown = [one["applicant"] for one in answer["counterfactuals"]]
        assert [one["applicant"] for one in judged["counterfactuals"]] == shown
        tight = judged["plan"]["validity"]
        assert (tight["status"], tight["exact"], tight["job"]) == ("complete", True, None)
        assert wide["lower"] - 1e-9 <= tight["lower"] <= tight["upper"] <= wide["upper"] + 1e-9
    # It was not stored, so the job is all there is to erase.
    assert server.client.delete(f"/recourse/{found['id']}").status_code == 204
    problem(server.client.get(found["plan"]["validity"]["job"]), 404, "unknown-job")
