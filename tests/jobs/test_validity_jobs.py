"""Joint bounds that take longer than a client wants to wait for."""

from typing import Any

from tests.api.asking import APPLICANT
from tests.jobs.serving import Server
from tests.servers import Start

QUESTION: dict[str, Any] = {
    "model": "loan",
    "applicant": APPLICANT,
    "counterfactuals": [{**APPLICANT, "income": APPLICANT["income"] + 500.0 * k} for k in (1, 2, 3)],
    "certificate": {"ambiguity_radius": 0.02},
    "deadline_ms": 30_000,
}


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "diagnostics": {**answer["diagnostics"], "elapsed_ms": None}}


def test_a_job_has_the_certificates_that_the_request_would_have_had(server: Server) -> None:
    directly = server.client.post("/recourse/validity", json=QUESTION)
    assert directly.status_code == 200, directly.text
    assert directly.json()["plan"]["validity"]["status"] == "complete"
    accepted = server.client.post("/recourse/validity", json=QUESTION, headers={"Prefer": "respond-async"})
    assert accepted.status_code == 202
    job = server.ended(accepted.headers["location"])
    assert (job["kind"], job["status"]) == ("validity", "succeeded")
    assert timeless(server.client.get(job["result"]).json()) == timeless(directly.json())


def test_bounds_beyond_the_budget_are_a_bracket_now_and_tight_later(start: Start) -> None:
    server = start(RECOURSE_PLAN_BUDGET_MS="1").ready()
    members = [
        {**APPLICANT, "income": 2000.0 + 300.0 * k, "amount": 19000.0 - 1000.0 * (k % 4), "age": 30 + k % 5}
        for k in range(18)
    ]
    answer = server.client.post("/recourse/validity", json={**QUESTION, "counterfactuals": members})
    assert answer.status_code == 200, answer.text
    wide = answer.json()["plan"]["validity"]
    assert (wide["status"], wide["exact"]) == ("pending", False)
    job = server.ended(wide["job"])
    assert job["status"] == "succeeded", job
    tight = server.client.get(job["result"]).json()["plan"]["validity"]
    assert (tight["status"], tight["exact"], tight["job"]) == ("complete", True, None)
    assert wide["lower"] <= tight["lower"] <= tight["upper"] <= wide["upper"]
