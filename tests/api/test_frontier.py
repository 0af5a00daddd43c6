"""POST /recourse/frontier: what more certainty costs."""

from typing import Any

import httpx
import pytest

from app.questions.frontier_schema import MOST_POINTS, FrontierAnswer
from tests.api.asking import document, faults, question

SWEEP: dict[str, Any] = {"parameter": "radius_unfavourable", "values": [0, 10, 2]}


def post(client: httpx.Client, **changes: Any) -> httpx.Response:
    return client.post("/recourse/frontier", json={**question(), "sweep": SWEEP, **changes})


def test_a_curve_has_one_verified_point_per_value_in_their_order(client: httpx.Client) -> None:
    answer = document(post(client, reference="case 7", seed=3))
    FrontierAnswer.model_validate(answer)
    assert set(answer) == set(FrontierAnswer.model_fields)
    assert (answer["reference"], answer["seed"], answer["parameter"]) == ("case 7", 3, "radius_unfavourable")
    assert [point["value"] for point in answer["points"]] == [0, 10, 2]
    records = [point["counterfactual"]["applicant"] for point in answer["points"]]
    decisions = client.post("/models/loan/predict", json={"records": records}).json()["predictions"]
    assert all(decision["favourable"] for decision in decisions)
    costs = [point["cost"] for point in answer["points"]]
    assert costs[0] <= costs[2] <= costs[1]


def test_a_curve_of_another_method(client: httpx.Client) -> None:
    answer = post(
        client, method={"name": "probe"}, sweep={"parameter": "target_invalidation_rate", "values": [0.3, 0.02]}
    ).json()
    for point in answer["points"]:
        assert point["counterfactual"]["report"]["target"] == point["value"]
        assert point["counterfactual"]["report"]["interval"][0] <= point["value"]


@pytest.mark.parametrize(
    ("changes", "parameter", "values"),
    [
        ({}, "radius_unfavourable", [0, 1, 3, 10, 30]),
        ({"sweep": {"parameter": "margin"}}, "margin", [0, 0.03, 0.09, 0.3, 0.9]),
        ({"sweep": {"values": [2]}}, "radius_unfavourable", [2]),
        # Smaller is more robust, and 3.5 times the default is beyond the limit.
        ({"method": {"name": "probe"}, "sweep": None}, "target_invalidation_rate", [0.35, 0.105, 0.035]),
    ],
)
def test_a_sweep_has_defaults(client: httpx.Client, changes: dict[str, Any], parameter: str, values: list[int]) -> None:
    answer = client.post("/recourse/frontier", json=question(**changes)).json()
    assert answer["parameter"] == parameter
    assert [point["value"] for point in answer["points"]] == values


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        (
            {"parameter": "samples", "values": [100]},
            {"/sweep/parameter": "must be one of radius_unfavourable, margin, future_validity"},
        ),
        (
            {"parameter": "margin", "values": [1, -1, 1000, 1]},
            {
                "/sweep/values/1": "must be at least 0",
                "/sweep/values/2": "must be at most 100",
                "/sweep/values/3": "is there already",
            },
        ),
        ({"parameter": "margin", "values": []}, {"/sweep/values": "must not be empty"}),
        (
            {"parameter": "margin", "values": list(range(MOST_POINTS + 1))},
            {"/sweep/values": f"must have at most {MOST_POINTS} entries"},
        ),
        ({"parameter": "margin", "values": ["1"]}, {"/sweep/values/0": "must be a number"}),
        ({"values": [-1]}, {"/sweep/values/0": "must be at least 0"}),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused_with_its_places(
    client: httpx.Client, sweep: dict[str, Any], expected: dict[str, str]
) -> None:
    assert faults(post(client, sweep=sweep)) == expected
