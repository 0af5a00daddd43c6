"""What holds of every question about an applicant: the same answer again, faults with their places, models by name."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from app.questions.validity_schema import MOST_MEMBERS
from tests.api.asking import APPLICANT, ask, document, faults, problem, question
from tests.api.odd_model import DIES, GIVES_TOO_FEW, GIVES_TOO_MUCH, LOOPS, STUMBLES
from tests.conftest import Running

BETTER: dict[str, Any] = {**APPLICANT, "income": 9000.0, "amount": 5000.0}
RICHER: dict[str, Any] = {**APPLICANT, "income": 9500.0, "savings": "much", "guarantor": True}

PLAN: dict[str, Any] = {
    "model": "loan",
    "applicant": APPLICANT,
    "counterfactuals": [BETTER, RICHER],
    "certificate": {"noise_samples": 50},
}

QUESTIONS: dict[str, dict[str, Any]] = {
    "/recourse": question(),
    "/reasons": {"model": "loan", "applicant": APPLICANT},
    "/recourse/frontier": question(sweep={"parameter": "radius_unfavourable", "values": [0, 10, 2]}),
    "/recourse/validity": PLAN,
    "/recourse/correct": {**PLAN, "correction": {"kind": "mahalanobis", "count": 2, "max_shift": 0.5}},
}
"""A valid body for each path."""


def post(client: httpx.Client, path: str, **changes: Any) -> httpx.Response:
    """The response to a valid body with these changes; fields that change to an ellipsis are left out."""
    body = {**QUESTIONS[path], **changes}
    return client.post(path, json={name: value for name, value in body.items() if value is not ...})


@pytest.mark.parametrize("path", QUESTIONS)
def test_the_same_question_has_the_same_answer(client: httpx.Client, path: str) -> None:
    def lasting(_: int) -> str:
        answer = document(post(client, path, seed=11))
        answer["diagnostics"].pop("elapsed_ms")
        return json.dumps([answer[name] for name in answer if name not in ("id", "created_at", "expires_at")])

    with ThreadPoolExecutor(4) as pool:  # both children take part
        assert len(set(pool.map(lasting, range(8)))) == 1


FAULTS: dict[tuple[str, str], list[tuple[dict[str, Any], set[str]]]] = {
    ("/recourse/frontier", "invalid-request"): [
        ({"model": ..., "sweep": {"values": [-1]}}, {"/model"}),
        ({"sweep": None, "method": {"name": "dice"}}, {"/sweep/parameter"}),
    ],
    ("/recourse/frontier", "invalid-record"): [({"applicant": {**APPLICANT, "age": 3}}, {"/applicant/age"})],
    ("/recourse/validity", "invalid-request"): [
        ({"model": ...}, {"/model"}),
        ({"applicant": ...}, {"/applicant"}),
        ({"applicant": None}, {"/applicant"}),
        ({"counterfactuals": ...}, {"/counterfactuals"}),
        ({"counterfactuals": []}, {"/counterfactuals"}),
        ({"counterfactuals": [BETTER] * (MOST_MEMBERS + 1)}, {"/counterfactuals"}),
        ({"counterfactuals": BETTER}, {"/counterfactuals"}),
        ({"counterfactuals": [7]}, {"/counterfactuals/0"}),
        ({"certificate": {"noise_std": {"housing": 0.1}}}, {"/certificate/noise_std/housing"}),
        ({"certificate": {"noise_std": {"height": 0.1}}}, {"/certificate/noise_std/height"}),
        ({"certificate": {"ambiguity_radius": -1}}, {"/certificate/ambiguity_radius"}),
        ({"certificate": {"moments": "guess"}}, {"/certificate/moments"}),
        ({"certificate": {"noise_samples": 1_000_000}}, {"/certificate/noise_samples"}),
        ({"certificate": {"radius": 1}}, {"/certificate/radius"}),
        ({"deadline_ms": 0}, {"/deadline_ms"}),
        ({"seed": -1}, {"/seed"}),
        ({"method": "robust_mpm"}, {"/method"}),
        (
            {"counterfactuals": [{**BETTER, "age": 1000}], "certificate": {"noise_std": {"housing": 1}}},
            {"/counterfactuals/0/age", "/certificate/noise_std/housing"},
        ),
        (
            {"counterfactuals": [BETTER, {**BETTER, "amount": -1}], "applicant": {**APPLICANT, "housing": "ship"}},
            {"/counterfactuals/1/amount", "/applicant/housing"},
        ),
    ],
    ("/recourse/validity", "invalid-record"): [
        ({"applicant": {**APPLICANT, "age": 7}}, {"/applicant/age"}),
        ({"counterfactuals": [BETTER, {**BETTER, "amount": "a lot"}]}, {"/counterfactuals/1/amount"}),
        ({"counterfactuals": [{**BETTER, "colour": "red"}]}, {"/counterfactuals/0/colour"}),
    ],
    ("/recourse/correct", "invalid-request"): [
        ({"correction": {"kind": "magic"}}, {"/correction/kind"}),
        ({"correction": {"count": 0}}, {"/correction/count"}),
        ({"correction": {"max_shift": 0}}, {"/correction/max_shift"}),
        ({"correction": {"size": 1}}, {"/correction/size"}),
        ({"constraints": {"immutable": ["hat"]}}, {"/constraints/immutable/0"}),
        ({"counterfactuals": []}, {"/counterfactuals"}),
        ({"method": "copa"}, {"/method"}),
    ],
    ("/recourse/correct", "invalid-record"): [({"applicant": {**APPLICANT, "age": 7}}, {"/applicant/age"})],
    ("/recourse/correct", "constraint-clash"): [
        ({"constraints": {"direction": {"age": "decrease"}}}, {"/constraints/direction/age"})
    ],
}


@pytest.mark.parametrize(
    ("path", "code", "changes", "pointers"), [(*where, *each) for where, rows in FAULTS.items() for each in rows]
)
def test_a_fault_is_told_with_its_place(
    client: httpx.Client, path: str, code: str, changes: dict[str, Any], pointers: set[str]
) -> None:
    assert set(faults(post(client, path, **changes), 422, code)) == pointers


@pytest.mark.parametrize("path", QUESTIONS)
@pytest.mark.parametrize(
    "name", ["nobody", "loan@2", "../loan", "loan@1/", "a" * 200, "löan", "loan\x00", "@", "loan@"]
)
def test_an_unknown_model_is_not_found(client: httpx.Client, path: str, name: str) -> None:
    assert set(faults(post(client, path, model=name), 404, "unknown-model")) == {"/model"}


@pytest.mark.parametrize(
    ("path", "age", "status", "code"),
    [
        ("/recourse", DIES, 500, "lane-crashed"),
        ("/recourse", STUMBLES, 502, "model-output-invalid"),
        ("/recourse", GIVES_TOO_MUCH, 502, "model-output-invalid"),
        ("/recourse/validity", LOOPS, 504, "lane-timeout"),
        pytest.param("/recourse/validity", DIES, 500, "lane-crashed", marks=pytest.mark.slow),
        ("/recourse/validity", GIVES_TOO_MUCH, 502, "model-output-invalid"),
        ("/recourse/correct", GIVES_TOO_MUCH, 502, "model-output-invalid"),
        ("/models/odd/predict", DIES, 500, "lane-crashed"),
        ("/models/odd/predict", GIVES_TOO_FEW, 502, "model-output-invalid"),
    ],
)
def test_a_model_that_misbehaves_is_named_and_costs_one_answer(
    running: Running, client: httpx.Client, path: str, age: int, status: int, code: str
) -> None:
    running.until_loaded()
    record = {**APPLICANT, "age": age}
    odd: dict[str, Any] = {"model": "odd", "deadline_ms": 300} if age == LOOPS else {"model": "odd"}
    if path == "/models/odd/predict":
        response = client.post(path, json={"records": [record]})
    elif path == "/recourse":
        response = post(client, path, applicant=record, **odd)
    else:
        response = post(client, path, counterfactuals=[{**BETTER, "age": age}], **odd)
    told = problem(response, status, code)
    assert "secret" not in json.dumps(told), "what the model said is not repeated"
    assert age != GIVES_TOO_MUCH or "probability" in told["detail"]
    assert ask(client, deadline_ms=30_000)["status"] == "found"
