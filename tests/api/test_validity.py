"""POST /recourse/validity: certificates of counterfactuals from any source."""

from typing import Any

import httpx
import pytest

from app.questions.validity_schema import MOST_MEMBERS, ValidityAnswer
from tests.api.asking import APPLICANT, document, problem, question
from tests.api.odd_model import GIVES_NAN

BETTER: dict[str, Any] = {**APPLICANT, "income": 9000.0, "amount": 5000.0}
RICHER: dict[str, Any] = {**APPLICANT, "income": 9500.0, "savings": "much", "guarantor": True}
WORSE: dict[str, Any] = {**APPLICANT, "income": 1000.0}


def brought(*counterfactuals: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A valid body for POST /recourse/validity."""
    return {"model": "loan", "applicant": APPLICANT, "counterfactuals": list(counterfactuals or (BETTER,)), **changes}


def post(client: httpx.Client, body: dict[str, Any]) -> httpx.Response:
    return client.post("/recourse/validity", json=body)


def judge(client: httpx.Client, *counterfactuals: dict[str, Any], **changes: Any) -> dict[str, Any]:
    answer = document(post(client, brought(*counterfactuals, **changes)))
    ValidityAnswer.model_validate(answer)
    assert set(answer) == set(ValidityAnswer.model_fields)
    return answer


def assert_same(one: Any, other: Any) -> None:
    """Equal, but for the last digits: a model is asked about records in batches, and sums depend on the batch."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            assert_same(value, other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == (pytest.approx(other, rel=1e-9) if isinstance(one, float) else other)


@pytest.mark.parametrize("model", ["loan", "open"])
@pytest.mark.parametrize(
    "certificate",
    [
        {},
        {"ambiguity_radius": 0.1, "noise_std": 0.5, "noise_samples": 300},
        {"moments": "isotropic", "isotropic_variance": 0.01, "noise_std": {"income": 0.2, "age": 0.1}},
    ],
)
def test_our_own_answer_is_judged_as_it_was_given(
    client: httpx.Client, model: str, certificate: dict[str, Any]
) -> None:
    body = question(model=model, certificate=certificate, seed=5)
    (found,) = client.post("/recourse", json=body).json()["counterfactuals"]
    (judged,) = judge(client, found["applicant"], model=model, certificate=certificate, seed=5)["counterfactuals"]
    assert_same(judged, found)
    assert judged["validity"]["noise"] is not None
    assert 0.0 <= judged["validity"]["joint"]["lower"] <= 1.0
    if "noise_samples" in certificate:
        assert judged["validity"]["noise"]["monte_carlo"] == pytest.approx(
            judged["validity"]["noise"]["closed_form"], abs=0.15
        )


def test_every_record_is_judged_in_its_order_also_those_that_the_model_refuses(client: httpx.Client) -> None:
    records = [BETTER, WORSE, RICHER, APPLICANT]
    answer = judge(client, *records)
    assert [one["applicant"] for one in answer["counterfactuals"]] == records
    assert [one["rank"] for one in answer["counterfactuals"]] == [1, 2, 3, 4]
    predicted = client.post("/models/loan/predict", json={"records": [*records, APPLICANT]}).json()["predictions"]
    assert [one["validity"]["current"] for one in answer["counterfactuals"]] == predicted[:-1]
    assert [one["favourable"] for one in predicted] == [True, False, True, False, False]
    assert answer["factual"] == predicted[-1]
    for one in answer["counterfactuals"]:
        gelbrich = one["validity"]["shift"]["gelbrich"]
        assert (gelbrich["lower"] == 0.0) or (gelbrich["upper"] == 1.0)
        assert (one["validity"]["noise"]["closed_form"] < 0.5) == one["validity"]["current"]["favourable"]
        differ = {name for name in APPLICANT if one["applicant"][name] != APPLICANT[name]}
        assert {change["feature"] for change in one["changes"]} == differ


def test_what_the_model_forbids_this_person_is_judged_all_the_same(client: httpx.Client) -> None:
    """Nobody gets younger, but somebody may ask about it."""
    (younger,) = judge(client, {**BETTER, "age": 20})["counterfactuals"]
    assert {change["feature"] for change in younger["changes"]} == {"age", "income", "amount"}
    assert younger["validity"]["noise"] is not None


def test_a_plan_is_no_better_than_its_weakest_member(client: httpx.Client) -> None:
    answer = judge(client, BETTER, RICHER, certificate={"ambiguity_radius": 0.05})
    lowers = [one["validity"]["shift"]["gelbrich"]["lower"] for one in answer["counterfactuals"]]
    validity = answer["plan"]["validity"]
    assert max(0.0, sum(lowers) - 1.0) - 1e-9 <= validity["lower"] <= min(lowers) + 1e-6
    assert validity["upper"] == 1.0
    assert (validity["exact"], validity["status"]) == (True, "complete")
    assert 0.0 < answer["plan"]["diversity"] < 1.0
    assert answer["plan"]["proximity"] > 0.0
    with_refused = judge(client, BETTER, WORSE)["plan"]["validity"]
    assert with_refused["lower"] == 0.0
    assert with_refused["upper"] < 1.0


def test_a_full_plan_is_answered(client: httpx.Client) -> None:
    plan = [{**BETTER, "income": 9000.0 + 100.0 * k, "amount": 5000.0 - 100.0 * k} for k in range(MOST_MEMBERS)]
    answer = judge(client, *plan)
    assert len(answer["counterfactuals"]) == MOST_MEMBERS
    assert answer["plan"]["validity"]["lower"] <= 1.0


def test_who_is_accepted_already_has_nothing_to_protect(client: httpx.Client) -> None:
    answer = judge(client, BETTER, applicant=RICHER)
    assert answer["factual"]["favourable"] is True
    (one,) = answer["counterfactuals"]
    assert one["validity"]["current"]["favourable"] is True
    assert one["validity"]["noise"] is one["validity"]["shift"] is one["validity"]["joint"] is answer["plan"] is None
    assert len(answer["warnings"]) == 1


def test_a_record_without_a_score_is_no_decision(client: httpx.Client) -> None:
    answer = judge(client, {**BETTER, "age": GIVES_NAN}, model="odd")
    (one,) = answer["counterfactuals"]
    assert one["validity"]["current"] == {"probability": None, "score": None, "points": None, "favourable": False}


@pytest.mark.parametrize("path", ["/recourse/validity", "/recourse/correct"])
def test_the_record_may_be_called_factual(client: httpx.Client, path: str) -> None:
    """Its name of an earlier release, and of the papers; faults are told where they are."""
    body = {"model": "loan", "counterfactuals": [{**APPLICANT, "age": APPLICANT["age"] + 1}]}
    plain = client.post(path, json={**body, "applicant": APPLICANT}).json()
    other = client.post(path, json={**body, "factual": APPLICANT})
    assert other.status_code == 200, other.text
    assert other.json()["factual"] == plain["factual"]
    for more in ({}, {"seed": -1}):
        refused = client.post(path, json={**body, **more, "factual": {**APPLICANT, "age": "old"}})
        assert "/factual/age" in {fault["pointer"] for fault in refused.json()["errors"]}
    both = client.post(path, json={**body, "applicant": APPLICANT, "factual": APPLICANT})
    assert [fault["pointer"] for fault in problem(both, 422, "invalid-request")["errors"]] == ["/factual"]
