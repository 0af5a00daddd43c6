"""POST /recourse/correct: a plan that somebody already has, made more valid."""

from typing import Any

import httpx
import pytest

from app.questions.correction_schema import CorrectAnswer
from tests.api.asking import APPLICANT, document

PLAN: list[dict[str, Any]] = [
    {**APPLICANT, "income": 9000.0, "amount": 5000.0},
    {**APPLICANT, "income": 8000.0, "savings": "much", "guarantor": True},
    {**APPLICANT, "amount": 1500.0, "income": 6000.0, "guarantor": True},
]


def body(**changes: Any) -> dict[str, Any]:
    """A valid body."""
    return {
        "model": "loan",
        "applicant": APPLICANT,
        "counterfactuals": PLAN,
        "certificate": {"moments": "isotropic", "isotropic_variance": 0.005},
        "correction": {"kind": "mahalanobis", "count": 2, "max_shift": 0.5},
        **changes,
    }


def correct(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    answer = document(client.post("/recourse/correct", json=body(**changes)))
    CorrectAnswer.model_validate(answer)
    assert set(answer) == set(CorrectAnswer.model_fields)
    before = body(**changes)["counterfactuals"]
    for sent, one in zip(before, answer["counterfactuals"], strict=True):
        assert one["correction"]["changed"] == (one["applicant"] != sent)
        assert one["correction"]["changed"] == (one["correction"]["outcome"] == "corrected")
        assert one["correction"]["detail"]
        if one["correction"]["changed"]:
            assert one["validity"]["current"]["favourable"]
    return answer


def test_a_correction_raises_the_bound_and_says_what_it_changed(client: httpx.Client) -> None:
    answer = correct(client)
    assert answer["status"] == "corrected"
    assert answer["id"].startswith("cor_")
    plan = answer["plan"]
    assert plan["validity"]["lower"] > plan["before"]["validity"]["lower"]
    outcomes = [one["correction"]["outcome"] for one in answer["counterfactuals"]]
    assert outcomes.count("not_selected") == 1
    records = [one["applicant"] for one in answer["counterfactuals"]]
    judged = client.post(
        "/recourse/validity",
        json={key: body()[key] for key in ("model", "applicant", "certificate")} | {"counterfactuals": records},
    ).json()
    assert judged["plan"]["validity"] == pytest.approx(plan["validity"])
    assert judged["plan"]["diversity"] == pytest.approx(plan["diversity"])
    predicted = client.post("/models/loan/predict", json={"records": records}).json()["predictions"]
    assert [one["validity"]["current"] for one in answer["counterfactuals"]] == predicted


def test_a_requirement_that_is_met_changes_nothing(client: httpx.Client) -> None:
    answer = correct(client, correction={"kind": "requirement", "margin": 0.0}, counterfactuals=PLAN[:1])
    assert answer["status"] == "unchanged"
    assert answer["counterfactuals"][0]["correction"]["outcome"] == "met"
    assert answer["plan"]["before"]["validity"] == answer["plan"]["validity"]


def test_a_requirement_beyond_reach_is_a_verdict(client: httpx.Client) -> None:
    answer = correct(client, correction={"kind": "requirement", "margin": 90.0})
    assert (answer["status"], answer["reason"]) == ("not_found", "infeasible_constraints")
    assert answer["detail"]
    assert {one["correction"]["outcome"] for one in answer["counterfactuals"]} == {"infeasible"}


def test_constraints_bind_what_is_corrected(client: httpx.Client) -> None:
    answer = correct(client, constraints={"immutable": ["savings", "age"]})
    assert any(one["correction"]["changed"] for one in answer["counterfactuals"])
    for sent, one in zip(PLAN, answer["counterfactuals"], strict=True):
        if one["correction"]["changed"]:
            assert one["applicant"]["age"] == APPLICANT["age"]
            assert one["applicant"]["savings"] in (APPLICANT["savings"], sent["savings"])
