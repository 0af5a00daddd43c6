"""POST /reasons, and the reasons beside recourse."""

from typing import Any

import httpx
import pytest

from app.reasons.route import REASONS_EXAMPLES, ReasonsAnswer
from tests.api.asking import APPLICANT, faults, problem
from tests.conftest import Running

RICH = {**APPLICANT, "income": 6000.0, "amount": 1000.0, "guarantor": True}


def question(**changes: Any) -> dict[str, Any]:
    """A valid body for POST /reasons."""
    return {"model": "loan", "applicant": APPLICANT, **changes}


def reasons(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    response = client.post("/reasons", json=question(**changes))
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    ReasonsAnswer.model_validate(answer)
    return answer


def test_the_largest_contributions_come_first_and_add_up(client: httpx.Client) -> None:
    answer = reasons(client, reference="case 7", seed=3)
    assert (answer["status"], answer["reference"], answer["seed"]) == ("found", "case 7", 3)
    assert answer["factual"]["favourable"] is False
    assert answer["against"]["kind"] == "accepted"
    assert str(answer["against"]["records"]) in answer["against"]["text"]
    contributed = [one["contribution"] for one in answer["reasons"]]
    assert contributed == sorted(contributed)
    assert max(contributed) < 0.0
    # A linear model: exact, and asked twice.
    assert {one["std_error"] for one in answer["reasons"]} == {0.0}
    assert answer["diagnostics"]["model_calls"] == 2
    assert all(one["value"] == APPLICANT[one["feature"]] for one in answer["reasons"])


def test_everyone_is_another_comparison(client: httpx.Client) -> None:
    near, everyone = reasons(client), reasons(client, against="everyone", count=1)
    assert len(everyone["reasons"]) == 1
    assert everyone["against"]["records"] > near["against"]["records"]
    assert everyone["against"]["text"].startswith("all ")


def test_an_accepted_applicant_has_none(client: httpx.Client) -> None:
    answer = reasons(client, applicant=RICH)
    assert (answer["status"], answer["reasons"], answer["against"]) == ("already_favourable", [], None)
    assert answer["reason"] is answer["detail"] is None


def test_the_same_question_has_the_same_answer(demo: Running) -> None:
    """Of a network, whose contributions are sampled."""
    body = {**REASONS_EXAMPLES["everyone"]["value"], "count": 4}
    first, again, other = (httpx.post(f"{demo.url}/reasons", json={**body, "seed": seed}).json() for seed in (1, 1, 2))
    assert first["reasons"] == again["reasons"] != other["reasons"]
    assert all(one["std_error"] > 0.0 for one in first["reasons"])
    assert first["reasons"][0]["code"].startswith("R")  # the manifest's own


def test_recourse_states_reasons_on_request(client: httpx.Client) -> None:
    plain = client.post("/recourse", json=question(detail="full")).json()
    assert plain["reasons"] is None
    asked = client.post("/recourse", json=question(detail="full", reasons=True)).json()
    alone = reasons(client)
    parts = ("status", "against", "reasons", "protected_share", "reason", "detail")
    assert asked["reasons"] == {part: alone[part] for part in parts}
    assert asked["counterfactuals"] == plain["counterfactuals"]
    calls = [one["diagnostics"]["model_calls"] for one in (asked, plain, alone)]
    assert calls[0] == calls[1] + calls[2]
    one = client.post("/recourse", json=question(detail="full", reasons={"against": "everyone", "count": 1})).json()[
        "reasons"
    ]
    assert (one["against"]["kind"], len(one["reasons"])) == ("everyone", 1)


def test_faults_are_reported_together(client: httpx.Client) -> None:
    response = client.post("/reasons", json=question(against="me", count=5, applicant={**APPLICANT, "age": 3}))
    assert faults(response) == {
        "/against": "must be 'accepted' or 'everyone'",
        "/count": "must be at most 4",
        "/applicant/age": "must be at least 18",
    }
    assert set(faults(client.post("/reasons", json=question(method={"name": "probe"})))) == {"/method"}
    record = client.post("/reasons", json=question(applicant={**APPLICANT, "age": 3}))
    assert "/applicant/age" in faults(record, code="invalid-record")
    problem(client.post("/reasons", json=question(model="none")), 404, "unknown-model")


@pytest.mark.parametrize("asked", ["yes", 1, {"count": 0}])
def test_reasons_of_recourse_are_a_choice_or_its_parameters(client: httpx.Client, asked: Any) -> None:
    found = faults(client.post("/recourse", json=question(detail="full", reasons=asked)))
    assert all(pointer.startswith("/reasons") for pointer in found)
