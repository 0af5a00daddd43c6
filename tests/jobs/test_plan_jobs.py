"""Plans and corrections as jobs, and joint bounds that a plan's answer had no time for."""

from typing import Any

from tests.api.asking import APPLICANT, problem, question
from tests.jobs.serving import Server
from tests.jobs.test_validity_jobs import QUESTION, timeless
from tests.servers import Start

ASKED: dict[str, Any] = {**QUESTION, "correction": {"kind": "mahalanobis", "max_shift": 0.5}}


def test_a_job_has_the_correction_that_the_request_would_have_had(server: Server) -> None:
    directly = server.client.post("/recourse/correct", json=ASKED)
    assert directly.status_code == 200, directly.text
    accepted = server.client.post("/recourse/correct", json=ASKED, headers={"Prefer": "respond-async"})
    assert accepted.status_code == 202
    job = server.ended(accepted.headers["location"])
    assert (job["kind"], job["status"]) == ("correction", "succeeded")
    one, other = (timeless(answer) for answer in (server.client.get(job["result"]).json(), directly.json()))
    own = ("id", "created_at")
    assert {k: v for k, v in one.items() if k not in own} == {k: v for k, v in other.items() if k not in own}


def test_a_plan_whose_bounds_take_long_is_answered_now_and_tight_later(start: Start) -> None:
    server = start(RECOURSE_PLAN_BUDGET_MS="1").ready()
    method = {"name": "copa", "objective": "paper", "count": 20, "validity_weight": 0.05}
    constraints = {"immutable": ["housing"]}
    certificate = {"ambiguity_radius": 0.02}
    asked = question(method=method, constraints=constraints, certificate=certificate, deadline_ms=30_000, store=False)
    answer = server.client.post("/recourse", json=asked)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["counterfactuals"]) == 20
    wide = answer.json()["plan"]["validity"]
    assert (wide["status"], wide["exact"]) == ("pending", False)
    job = server.ended(wide["job"])
    assert job["status"] == "succeeded", job
    judged = server.client.get(job["result"]).json()
    shown = [one["applicant"] for one in answer.json()["counterfactuals"]]
    assert [one["applicant"] for one in judged["counterfactuals"]] == shown
    assert all(one["housing"] == APPLICANT["housing"] for one in shown)
    tight = judged["plan"]["validity"]
    assert (tight["status"], tight["exact"]) == ("complete", True)
    assert wide["lower"] - 1e-9 <= tight["lower"] <= tight["upper"] <= wide["upper"] + 1e-9
    # It was not stored, so the job is all there is to erase.
    assert server.client.delete(f"/recourse/{answer.json()['id']}").status_code == 204
    problem(server.client.get(wide["job"]), 404, "unknown-job")
