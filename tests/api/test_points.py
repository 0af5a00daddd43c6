"""Points of scorecards in answers, against the sum of the card by hand."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from app.models.schema import Predictions
from app.registry.registry import Registry
from app.settings import Settings
from tests.api.asking import document
from tests.browser import says, text, workbench_of
from tests.conftest import NO_TLS, Running, run
from tests.registry.adapters.card import by_hand, carded
from tests.registry.adapters.table import frame, records

THRESHOLD = 391.5
ODDS = {"pdo": 40, "base_points": 400, "base_odds": 30}
BETTER = {"card": "higher", "odds": "higher", "fewer": "lower"}

PURPOSES = ("car", "furniture", "repairs", "business", "other")


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("cards")
    registry = Registry(root / "store")
    for name, better in BETTER.items():
        odds = {"odds": ODDS} if name == "odds" else {}
        model = carded(root / name, better=better, **odds)
        purpose = next(feature for feature in model.manifest["features"] if feature["name"] == "purpose")
        purpose["level_names"] = dict(zip(purpose["categories"], PURPOSES, strict=True))  # a letter states no codes
        registry.register(model.write(id=name))
    yield from run(Settings(models_store=root / "store", lanes_sync=1))


@pytest.fixture(scope="module")
def client(lender: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=lender.url, timeout=60, verify=NO_TLS) as client:
        yield client


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    return document(client.post(path, json=body))


def refused(name: str) -> dict[str, Any]:
    """A record that the card refuses."""
    sign = 1.0 if BETTER[name] == "higher" else -1.0
    return next(one for one in records(frame(200, seed=1)) if sign * (by_hand(one) - THRESHOLD) < -20.0)


def accepted(name: str, points: float) -> bool:
    return points >= THRESHOLD if BETTER[name] == "higher" else points <= THRESHOLD


@pytest.mark.parametrize("name", BETTER)
def test_decisions_state_the_sum_of_the_card(client: httpx.Client, name: str) -> None:
    asked = records(frame(200, seed=1))
    answer = post(client, f"/models/{name}/predict", records=asked)
    Predictions.model_validate(answer)
    for record, decision in zip(asked, answer["predictions"], strict=True):
        assert decision["points"] == by_hand(record)
        assert decision["favourable"] is accepted(name, decision["points"])
        assert (decision["probability"] is not None) is (name == "odds")


@pytest.mark.parametrize("name", BETTER)
def test_answers_state_the_points_of_every_decision(client: httpx.Client, name: str) -> None:
    applicant = refused(name)
    answer = post(client, "/recourse", model=name, applicant=applicant, reasons={})
    assert answer["factual"]["points"] == by_hand(applicant)
    assert answer["status"] == "found"
    for one in answer["counterfactuals"]:
        points = one["validity"]["current"]["points"]
        assert points == by_hand(one["applicant"])
        assert accepted(name, points)
        if one["steps"]:
            made = applicant
            for step in one["steps"]:
                made = made | {step["feature"]: one["applicant"][step["feature"]]}
                assert step["points"] == by_hand(made)
    given = [one["applicant"] for one in answer["counterfactuals"]]
    assessed = post(client, "/recourse/validity", model=name, applicant=applicant, counterfactuals=given)
    assert [one["validity"]["current"]["points"] for one in assessed["counterfactuals"]] == list(map(by_hand, given))
    kept = post(client, f"/recourse/{answer['id']}/verify")
    assert [one["points"] for one in kept["counterfactuals"]] == list(map(by_hand, given))


def test_a_frontier_states_points(client: httpx.Client) -> None:
    applicant = refused("fewer")
    curve = post(client, "/recourse/frontier", model="fewer", applicant=applicant)
    assert curve["factual"]["points"] == by_hand(applicant)
    shown = [point["counterfactual"] for point in curve["points"] if point["counterfactual"]]
    assert shown
    assert [one["validity"]["current"]["points"] for one in shown] == [by_hand(one["applicant"]) for one in shown]


def test_what_came_nearest_has_its_points(client: httpx.Client) -> None:
    applicant = refused("card")
    fixed = [name for name in applicant if name != "months"]
    answer = post(client, "/recourse", model="card", applicant=applicant, constraints={"immutable": fixed})
    assert answer["status"] == "not_found"
    assert answer["nearest"]["points"] == by_hand(answer["nearest"]["applicant"])


@pytest.mark.parametrize(("name", "words"), [("card", "or more"), ("odds", "or more"), ("fewer", "or fewer")])
def test_letters_state_points(client: httpx.Client, name: str, words: str) -> None:
    applicant = refused(name)
    answer = post(client, "/recourse", model=name, applicant=applicant)
    given = client.get(f"/recourse/{answer['id']}/notice", headers={"Accept": "text/plain"})
    assert given.status_code == 200, given.json()["detail"]
    letter = " ".join(given.text.split())
    then = by_hand(answer["counterfactuals"][0]["applicant"])
    now = (
        f"The model gives your application {by_hand(applicant):.1f} points; it accepts those with 391.5 points {words}."
    )
    assert now in letter
    assert f"The model then gives your application {then:.1f} points." in letter
    assert "rates" not in letter


def test_a_model_says_whether_more_points_are_better(client: httpx.Client) -> None:
    assert {model["id"]: model["better"] for model in client.get("/models").json()["models"]} == BETTER


@pytest.mark.slow
def test_the_page_states_points(browser: Any, lender: Running) -> None:
    with workbench_of(browser, lender.url) as open_page:
        page = open_page()
        page.wait_for_selector("#example:enabled")
        page.click("#example")
        page.wait_for_selector("#verdict b")
        with page.expect_response("**/recourse") as answered:
            page.click("#ask")
        answer = answered.value.json()
        now, then = (
            f"{given['points']:g} points"
            for given in (
                answer["factual"],
                answer["counterfactuals"][0]["validity"]["current"],
            )
        )
        needed = "391.5 or fewer" if answer["model"]["id"] == "fewer" else "391.5 or more"
        says(page, "#verdict", f"It gives {now}; a yes needs {needed}.")
        page.wait_for_selector(".path")
        path = text(page, ".path").replace(" ,", ",")  # a comma for who hears the page
        assert path.startswith(f"Now {now}, yes with {needed}")
        assert f"Then {then}, yes" in path
