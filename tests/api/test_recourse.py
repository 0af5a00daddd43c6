"""POST /recourse: what is said is true, and time is kept."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.questions.schema import RecourseAnswer
from app.registry.registry import Registry
from tests.api.asking import APPLICANT, CARRIED, document, faults, problem, question
from tests.api.odd_model import GIVES_NAN, LOOPS
from tests.conftest import Running
from tests.registry.loan import WEIGHTS

NUMBERS = ("age", "income", "amount")


def ask(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    answer = document(client.post("/recourse", json=question(**changes)))
    RecourseAnswer.model_validate(answer)
    assert set(answer) == set(RecourseAnswer.model_fields)
    return answer


def score(models_store: Path, record: dict[str, Any]) -> float:
    """The logit of `loan@1`, computed from its weights alone."""
    registered = Registry(models_store).find("loan@1")
    encoding = registered.registration.encoding
    values = {name: record[name] for name in NUMBERS}
    values["savings"] = ["none", "some", "much"].index(record["savings"])
    values["guarantor"] = float(record["guarantor"])
    total = -0.5 + WEIGHTS[f"housing={record['housing']}"]
    for name, value in values.items():
        center, scale = encoding[name]
        total += WEIGHTS[name] * (value - center) / scale
    return total


def test_a_refused_applicant_learns_what_to_change(client: httpx.Client, models_store: Path) -> None:
    answer = ask(client, reference="application-81723", seed=7)
    assert answer["status"] == "found"
    assert answer["reference"] == "application-81723"
    assert answer["seed"] == 7
    assert answer["factual"]["favourable"] is False
    assert answer["factual"]["score"] == pytest.approx(score(models_store, APPLICANT), rel=CARRIED)
    (found,) = answer["counterfactuals"]
    assert found["rank"] == 1
    assert set(found["applicant"]) == set(APPLICANT)
    current = found["validity"]["current"]
    assert current["favourable"] is True
    assert current["score"] == pytest.approx(score(models_store, found["applicant"]), rel=CARRIED)
    assert current["probability"] == pytest.approx(1 / (1 + math.exp(-current["score"])), rel=CARRIED)
    assert answer["diagnostics"]["model_calls"] >= 1
    assert answer["reason"] is answer["detail"] is answer["nearest"] is answer["relax"] is answer["plan"] is None


def test_the_model_says_yes_to_exactly_the_record_shown(client: httpx.Client) -> None:
    for seed in range(5):
        (found,) = ask(client, seed=seed)["counterfactuals"]
        response = client.post("/models/loan/predict", json={"records": [found["applicant"], APPLICANT]})
        yes, no = response.json()["predictions"]
        assert yes == found["validity"]["current"]
        assert no["favourable"] is False


def test_changes_tell_the_difference_between_the_records(client: httpx.Client) -> None:
    (found,) = ask(client)["counterfactuals"]
    told = {change["feature"]: (change["from"], change["to"]) for change in found["changes"]}
    differ = {k: (APPLICANT[k], found["applicant"][k]) for k in APPLICANT if APPLICANT[k] != found["applicant"][k]}
    assert told == differ
    assert found["cost"]["changed_features"] == len(differ)
    assert found["cost"]["norm"] == "l1"
    for change in found["changes"]:
        assert change["text"].endswith(".")
        if change["delta"] is not None:
            assert change["delta"] == pytest.approx(change["to"] - change["from"])


def test_the_cost_is_the_distance_in_standard_deviations(client: httpx.Client, models_store: Path) -> None:
    encoding = Registry(models_store).find("loan").registration.encoding
    weights = {"income": 3.0}
    (found,) = ask(client, constraints={"immutable": ["housing", "savings", "guarantor"]}, cost={"weights": weights})[
        "counterfactuals"
    ]
    expected = sum(
        weights.get(name, 1.0) * abs(found["applicant"][name] - APPLICANT[name]) / encoding[name][1] for name in NUMBERS
    )
    assert found["cost"]["total"] == pytest.approx(expected, rel=CARRIED)


def test_constraints_hold_in_the_answer(client: httpx.Client) -> None:
    constraints = {
        "immutable": ["savings", "housing", "guarantor"],
        "direction": {"amount": "decrease"},
        "bounds": {"income": {"min": 1500, "max": 6000}, "amount": {"min": 500}},
        "max_changes": 3,
    }
    method = {"name": "robust_mpm", "divergence": "none"}
    (found,) = ask(client, constraints=constraints, method=method)["counterfactuals"]
    record = found["applicant"]
    assert all(record[name] == APPLICANT[name] for name in ("savings", "housing", "guarantor"))
    assert 500 <= record["amount"] <= APPLICANT["amount"]
    assert 1500 <= record["income"] <= 6000
    assert record["age"] >= APPLICANT["age"]  # the model's own rule
    assert len(found["changes"]) <= 3


def test_limits_that_people_think_in_hold_in_the_answer(client: httpx.Client) -> None:
    """Income at most +20 %, an amount by 3,000 or not at all; bounds that exclude the applicant's age force nothing."""
    constraints = {
        "max_change": {"income": {"relative": 0.2}, "amount": {"absolute": 12_000}},
        "least_change": {"amount": 3_000},
        "bounds": {"age": {"min": 40}, "amount": {"max": 15_000}},
    }
    for method in ("robust_mpm", "wachter", "growing_spheres"):
        for found in ask(client, constraints=constraints, method={"name": method})["counterfactuals"]:
            record = found["applicant"]
            assert 1200 <= record["income"] <= 1800
            assert record["amount"] == 20_000 or 8_000 <= record["amount"] <= 15_000
            assert record["age"] == 30 or record["age"] >= 40
            assert found["takes_months"] == 0
            assert all(change["takes_months"] == 0 for change in found["changes"])


def test_a_verdict_names_what_the_request_limits(client: httpx.Client) -> None:
    constraints = {
        "immutable": ["savings", "housing", "guarantor", "amount"], "max_change": {"income": {"relative": 0.01}},
    }  # fmt: skip
    answer = ask(client, constraints=constraints)
    assert answer["status"] == "not_found"
    assert answer["relax"]["constraint"] in {"max_change", "immutable"}
    assert answer["relax"]["feature"] in {"income", "savings", "housing", "guarantor", "amount"}


def test_that_nothing_can_be_done_is_an_answer_with_a_reason(client: httpx.Client) -> None:
    bounds = {"income": {"max": 1600}, "amount": {"min": 19_000}, "age": {"max": 31}}
    answer = ask(client, constraints={"immutable": ["savings", "housing", "guarantor"], "bounds": bounds})
    assert answer["status"] == "not_found"
    assert answer["reason"] in {"infeasible_constraints", "target_not_reached"}
    assert answer["detail"].endswith(".")
    assert answer["counterfactuals"] == []
    assert answer["relax"]["text"].endswith(".")
    if answer["nearest"] is not None:
        assert answer["nearest"]["score"] < 0


def test_an_accepted_applicant_is_told_so(client: httpx.Client) -> None:
    answer = ask(client, applicant={**APPLICANT, "income": 19_000.0})
    assert answer["status"] == "already_favourable"
    assert answer["factual"]["favourable"] is True
    assert answer["counterfactuals"] == []
    assert answer["reason"] is None


def test_every_parameter_is_given_back_with_its_default(client: httpx.Client) -> None:
    assert ask(client)["method"]["name"] == "robust_mpm"
    given = ask(client, method={"name": "robust_mpm", "divergence": "none", "samples": 100.0})["method"]
    assert given["divergence"] == "none"
    assert given["samples"] == 100
    properties = client.get("/methods").json()["methods"][0]["parameters"]["properties"]
    assert set(given) == set(properties)


def test_a_short_answer_is_a_part_of_the_full_one(client: httpx.Client) -> None:
    full = client.post("/recourse", json=question()).json()
    short = client.post("/recourse", json=question(detail="short")).json()
    by_default = client.post("/recourse", json={"model": "loan", "applicant": APPLICANT}).json()
    assert short.keys() == by_default.keys() == full.keys() - {"method", "surrogate", "diagnostics", "seed"}
    (way,), (whole,) = short["counterfactuals"], full["counterfactuals"]
    assert way.keys() == whole.keys() - {"report"}
    assert way["validity"] == {name: whole["validity"][name] for name in ("current", "future", "noise")}
    assert [way[name] for name in ("changes", "applicant", "cost")] == [
        whole[name] for name in ("changes", "applicant", "cost")
    ]
    assert short["threshold"] == 0.5
    kept = client.get(f"/recourse/{short['id']}").json()
    assert kept.keys() == full.keys(), "the ledger has the full answer"
    assert kept["counterfactuals"] == full["counterfactuals"]
    later = client.post("/recourse/frontier", json=question(detail="short", sweep={"values": [0]})).json()
    assert not {"method", "diagnostics", "seed"} & later.keys()


def test_numbers_have_the_digits_that_they_carry_and_records_are_exact(client: httpx.Client) -> None:
    (found,) = client.post("/recourse", json=question()).json()["counterfactuals"]
    validity = found["validity"]
    current = [validity["current"][name] for name in ("probability", "score")]
    for number in (found["cost"]["total"], validity["noise"]["closed_form"], *current):
        assert number == float(f"{number:.6g}")
    (decision,) = client.post("/models/loan/predict", json={"records": [found["applicant"]]}).json()["predictions"]
    assert decision == found["validity"]["current"]


OPTIONAL = (
    "certificate", "constraints", "cost", "count", "deadline_ms", "exclude", "horizon_months", "method", "reference",
    "robustness",
)  # fmt: skip


def test_null_for_what_may_be_left_out_is_its_absence(client: httpx.Client) -> None:
    """As generated clients send it, in inner objects as well."""
    plainly = client.post("/recourse", json=question()).json()
    nulls = {"constraints": {"direction": None, "bounds": None, "max_change": None}, "cost": {"weights": None}}
    for sent in (dict.fromkeys(OPTIONAL), nulls):
        answer = client.post("/recourse", json=question(**sent)).json()
        assert answer["counterfactuals"] == plainly["counterfactuals"]
        assert answer["method"] == plainly["method"]


def test_null_in_a_record_is_a_missing_value(client: httpx.Client) -> None:
    response = client.post("/recourse", json=question(applicant={**APPLICANT, "income": None}))
    assert set(faults(response, code="invalid-record")) == {"/applicant/income"}


def test_ids_sort_by_time_and_answers_expire(client: httpx.Client) -> None:
    answers = [ask(client) for _ in range(3)]
    ids = [answer["id"] for answer in answers]
    assert len(set(ids)) == 3
    assert [identifier[:14] for identifier in ids] == sorted(identifier[:14] for identifier in ids)
    created, expires = (datetime.fromisoformat(answers[0][key]) for key in ("created_at", "expires_at"))
    assert expires == datetime(expires.year, expires.month, expires.day, tzinfo=UTC), (
        "every day of its validity is a whole one"
    )
    assert timedelta(days=100) <= expires - created < timedelta(days=101)
    assert abs((created - datetime.now(created.tzinfo)).total_seconds()) < 60


def test_a_model_is_named_with_or_without_its_version(client: httpx.Client) -> None:
    by_id, by_name = ask(client)["model"], ask(client, model="loan@1")["model"]
    assert by_id == by_name
    assert (by_id["id"], by_id["version"], len(by_id["sha256"])) == ("loan", "1", 64)


def test_a_tiny_deadline_is_an_answer_too(client: httpx.Client) -> None:
    """A fast machine finds a change within 1 ms."""
    answer = ask(client, deadline_ms=1)
    if answer["status"] == "found":
        assert answer["counterfactuals"]
    else:
        assert (answer["status"], answer["reason"]) == ("not_found", "deadline")


def odd(age: int) -> dict[str, Any]:
    return {"model": "odd", "applicant": {**APPLICANT, "age": age}}


def test_a_model_that_never_answers_is_stopped_soon_after_the_deadline(running: Running, client: httpx.Client) -> None:
    running.until_loaded()
    began = time.monotonic()
    answer = ask(client, **odd(LOOPS), deadline_ms=300)
    assert time.monotonic() - began < 0.3 + 0.5 + 5.0
    assert answer["status"] == "not_found"
    assert answer["reason"] == "deadline"
    assert answer["factual"] is None
    assert ask(client)["status"] == "found"


def test_a_model_without_an_opinion_is_an_answer(client: httpx.Client) -> None:
    answer = ask(client, **odd(GIVES_NAN))
    assert answer["status"] == "not_found"
    assert answer["reason"] == "model_output_invalid"
    unread = {"probability": None, "score": None, "points": None, "favourable": False, "future": None}
    assert answer["factual"] == unread


def test_the_service_stays_responsive_while_all_children_are_busy(running: Running, client: httpx.Client) -> None:
    running.until_loaded()
    with ThreadPoolExecutor(6) as pool:
        busy = [pool.submit(ask, client, **odd(LOOPS), deadline_ms=800) for _ in range(6)]
        latencies = []
        while not all(call.done() for call in busy):
            began = time.monotonic()
            assert client.get("/health/live").status_code == 200
            latencies.append(time.monotonic() - began)
            if len(latencies) > 2000:
                break
    assert np.median(latencies) < 0.4
    outcomes = [call.exception() for call in busy]
    # Two run into their deadline in a child; who waited in line until the deadline is told that the service is busy.
    assert sum(outcome is None for outcome in outcomes) >= 2


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/recourse", question(certificate={"moments": "registered"})),
        (
            "/recourse/validity",
            {
                "model": "loan",
                "applicant": APPLICANT,
                "counterfactuals": [APPLICANT],
                "certificate": {"moments": "registered"},
            },
        ),
    ],
)
def test_moments_that_were_not_registered_are_refused(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    detail = faults(client.post(path, json=body))["/certificate/moments"]
    assert "only a linear model whose manifest names a label" in detail


def test_noise_of_what_is_no_numeric_feature_is_refused(client: httpx.Client) -> None:
    method = {"name": "probe", "noise_std": {"age": 0.1, "housing": 0.1, "a/b": 0.2}}
    found = faults(client.post("/recourse", json=question(method=method, cost={"weights": {"hat": 1}})))
    assert set(found) == {"/method/noise_std/housing", "/method/noise_std/a~1b", "/cost/weights/hat"}
    assert "is not a numeric feature of this model" in found["/method/noise_std/housing"]


def test_an_answer_of_probe_tells_its_measured_rate(client: httpx.Client) -> None:
    body = question(method={"name": "probe", "target_invalidation_rate": 0.1, "noise_std": {"income": 0.2}})
    answer = client.post("/recourse", json=body).json()
    assert answer["status"] == "found"
    invalidation = answer["counterfactuals"][0]["report"]
    assert invalidation["target"] == 0.1
    assert invalidation["interval"][0] <= invalidation["rate"] <= 0.12


def test_a_promise_is_verified_without_a_body_as_well(client: httpx.Client) -> None:
    # Another test may just have killed the children.
    given = ask(client, deadline_ms=25_000)
    address = f"/recourse/{given['id']}/verify"
    for response in (
        client.post(address),
        client.post(address, headers={"content-type": "application/json"}),
        client.post(address, json={}),
        client.post(address, headers={"Idempotency-Key": address}),
    ):
        assert response.status_code == 200, response.text
        assert response.json()["still_valid"] is True
    problem(client.post(address, content=b"loan@1"), 415, "unsupported-media-type")
