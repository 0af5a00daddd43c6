"""POST /recourse/offers, and the offer beside an answer of POST /recourse."""

from typing import Any

import httpx
import pytest

from app.questions.offers_schema import OFFERS_EXAMPLES, REGULAR, OffersAnswer
from app.recourse.offers import NoOffer
from tests.api.asking import document, faults
from tests.conftest import Running

MODEL = "consumer-loan"


@pytest.fixture(scope="module")
def demo_client(demo: Running) -> Any:
    with httpx.Client(base_url=demo.url, timeout=60.0) as client:
        yield client


def post(client: httpx.Client, **changes: Any) -> httpx.Response:
    return client.post("/recourse/offers", json={"model": MODEL, "applicant": REGULAR, **changes})


def decisions(client: httpx.Client, offers: list[dict[str, Any]], record: dict[str, Any]) -> list[dict[str, Any]]:
    records = [{**record, **one["terms"]} for one in offers]
    found: list[dict[str, Any]] = client.post(f"/models/{MODEL}/predict", json={"records": records}).json()[
        "predictions"
    ]
    return found


@pytest.mark.parametrize("name", OFFERS_EXAMPLES)
def test_examples_of_offers_work_at_the_first_click(demo_client: httpx.Client, name: str) -> None:
    answer = document(demo_client.post("/recourse/offers", json=OFFERS_EXAMPLES[name]["value"]))
    OffersAnswer.model_validate(answer)
    assert set(answer) == set(OffersAnswer.model_fields)
    assert answer["status"] == "found"
    assert answer["complete"]
    found = decisions(demo_client, answer["offers"], REGULAR)
    assert [one["current"]["favourable"] for one in answer["offers"]] == [True] * len(found)
    assert [one["probability"] for one in found] == pytest.approx(
        [one["current"]["probability"] for one in answer["offers"]], abs=1e-5
    )


def test_one_step_more_is_refused(demo_client: httpx.Client) -> None:
    answer = post(demo_client, reference="case 7", seed=3).json()
    assert (answer["reference"], answer["seed"], answer["better"]) == ("case 7", 3, {"amount": "more"})
    assert len({one["terms"]["term"] for one in answer["offers"]}) == len(answer["offers"])
    more = [{"terms": {**one["terms"], "amount": one["terms"]["amount"] + 100}} for one in answer["offers"]]
    assert not any(one["favourable"] for one in decisions(demo_client, more, REGULAR))
    best = answer["offers"][0]
    assert best["share"] == pytest.approx(best["terms"]["amount"] / REGULAR["amount"], rel=1e-5)
    assert f"loan amount {best['terms']['amount']:,} EUR instead of 9,200 EUR" in best["text"]
    assert "accepts it now" in best["text"]


def test_a_direction_of_the_request_leaves_fewer_offers(demo_client: httpx.Client) -> None:
    every, shorter = post(demo_client).json(), post(demo_client, better={"term": "less"}).json()
    assert shorter["better"] == {"amount": "more", "term": "less"}
    kept = [one["terms"] for one in shorter["offers"]]
    for one in (offer["terms"] for offer in every["offers"]):
        beaten = any(o["amount"] >= one["amount"] and o["term"] <= one["term"] and o != one for o in kept)
        assert (one in kept) is not beaten


def test_a_share_of_future_models_is_kept(demo_client: httpx.Client) -> None:
    surer = post(demo_client, future_validity=0.8).json()["offers"]
    assert all(one["future"]["probability"] >= 0.7 for one in surer)
    assert all(one["future"]["asked"] == 0.8 for one in surer)
    assert surer[0]["terms"]["amount"] < post(demo_client).json()["offers"][0]["terms"]["amount"]


def test_without_an_offer_there_is_a_sentence(demo_client: httpx.Client) -> None:
    refused = post(demo_client, applicant={**REGULAR, "late_payments": 6}).json()
    assert (refused["status"], refused["reason"], refused["offers"]) == ("not_found", NoOffer.ALL_REFUSED, [])
    assert refused["detail"].startswith("As the applicant is, the model refuses every combination")
    assert refused["complete"]
    accepted = post(demo_client, applicant={**REGULAR, "amount": 1000, "guarantor": True}).json()
    assert (accepted["status"], accepted["factual"]["favourable"], accepted["reason"]) == (
        "already_favourable", True, None,
    )  # fmt: skip


def test_what_is_not_stated_is_asked_for(demo_client: httpx.Client, client: httpx.Client) -> None:
    assert faults(post(demo_client, better={"age": "more"})) == {
        "/better/age": "is not a term with an order; these are amount, term"
    }
    assert set(faults(post(demo_client, better={"term": "longer"}))) == {"/better/term"}
    assert set(faults(post(demo_client, constraints={"immutable": ["x"]}, future_validity=2))) >= {"/future_validity"}
    record = client.get("/models/loan/schema").json()["sample"]
    found = faults(client.post("/recourse/offers", json={"model": "loan", "applicant": record}))
    assert found["/model"].endswith("has no feature with terms: true, so that nothing can be offered")


def test_recourse_states_the_best_offer_and_keeps_it(demo_client: httpx.Client) -> None:
    answer = demo_client.post("/recourse", json={"model": MODEL, "applicant": REGULAR}).json()
    as_asked = [one for one in post(demo_client).json()["offers"] if one["terms"]["term"] == REGULAR["term"]]
    assert answer["offer"] == as_asked[0]
    assert demo_client.get(f"/recourse/{answer['id']}").json()["offer"] == answer["offer"]
    assert answer["offer"]["applicant"] == {**REGULAR, **answer["offer"]["terms"]}
    checked = demo_client.post(f"/recourse/{answer['id']}/verify", json={}).json()["offer"]
    assert checked["favourable"]
    assert checked["probability"] == pytest.approx(answer["offer"]["current"]["probability"], abs=1e-5)


def test_recourse_asks_its_share_of_future_models_of_the_offer_too(demo_client: httpx.Client) -> None:
    question = {"model": MODEL, "applicant": REGULAR, "store": False, "robustness": {"future_validity": 0.8}}
    offer = demo_client.post("/recourse", json=question).json()["offer"]
    listed = post(demo_client, future_validity=0.8).json()["offers"]
    assert offer == next(one for one in listed if one["terms"]["term"] == REGULAR["term"])
    assert (offer["future"]["asked"], offer["future"]["under"]) == (0.8, "same")


def test_an_offer_keeps_the_constraints_of_the_question(demo_client: httpx.Client) -> None:
    question = {"model": MODEL, "applicant": REGULAR, "store": False}
    limited = {"constraints": {"bounds": {"amount": {"min": 8000}}}}
    assert demo_client.post("/recourse", json={**question, **limited}).json()["offer"] is None
    fixed = {"exclude": {"features": ["term"]}}
    offer = demo_client.post("/recourse", json={**question, **fixed}).json()["offer"]
    assert offer["terms"]["term"] == REGULAR["term"]
    included = {"must_include": ["guarantor"]}
    assert demo_client.post("/recourse", json={**question, **included}).json()["offer"] is None
