"""POST /recourse with `learning_augmented`: on continuous features the record returned is the optimum."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cvxpy as cp
import httpx
import numpy as np
import pytest

from app.registry.registry import Registry
from app.settings import Settings
from tests.api.asking import CARRIED, document, faults
from tests.conftest import NO_TLS, run
from tests.registry.loan import ModelDirectory, make_linear

NAMES = ("income", "amount", "age", "debt")
WEIGHTS = np.array([1.1, -0.9, 0.3, -0.5])
INTERCEPT = -1.5
SCALES = {"income": 2000.0, "amount": 9000.0, "age": 12.0, "debt": 3.0}
APPLICANT = {"income": 1500.0, "amount": 12000.0, "age": -2.5, "debt": 1.25}


def plane(path: Path, version: str, weights: np.ndarray, intercept: float) -> ModelDirectory:
    """Four continuous features without limits, with known scales."""
    model = make_linear(path)
    model.columns = list(NAMES)
    model.manifest["features"] = [
        {"name": name, "type": "continuous", "center": 0.0, "scale": SCALES[name]} for name in NAMES
    ]
    rng = np.random.default_rng(0)
    model.records = [{name: float(rng.normal(0.0, 2.0 * SCALES[name])) for name in NAMES} for _ in range(200)]
    named = dict(zip(NAMES, weights.tolist(), strict=True))
    model.set_artifact(_linear(named, intercept), format="linear", path="weights.json")
    model.manifest |= {"id": "plane", "version": version}
    return model


def _linear(weights: dict[str, float], intercept: float) -> bytes:
    import json

    return json.dumps({"space": "encoded", "intercept": intercept, "weights": weights}).encode()


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    root = tmp_path_factory.mktemp("planes")
    registry = Registry(root / "store")
    registry.register(plane(root / "next", "1", 0.5 * WEIGHTS + 0.3, -2.0).write())
    registry.register(make_linear(root / "loan").write())
    registry.register(plane(root / "now", "2", WEIGHTS, INTERCEPT).write())
    registry.register(plane(root / "waiting", "3", 0.5 * WEIGHTS + 0.3, -2.0).write(), active=False)
    for running in run(Settings(models_store=root / "store", lanes_sync=1)):
        with httpx.Client(base_url=running.url, timeout=30, verify=NO_TLS) as client:
            yield client


def ask(client: httpx.Client, **method: Any) -> dict[str, Any]:
    body = {
        "model": "plane@2",
        "detail": "full",
        "applicant": APPLICANT,
        "method": {"name": "learning_augmented", **method},
    }
    return document(client.post("/recourse", json=body))


def encoded(record: dict[str, float]) -> np.ndarray:
    return np.array([record[name] / SCALES[name] for name in NAMES])


def optimum(radius: float, weight: float, share: float, predicted: tuple[np.ndarray, float] | None) -> float:
    x, x0 = cp.Variable(4), encoded(APPLICANT)
    worst = WEIGHTS @ x + INTERCEPT - radius * (cp.norm1(x) + 1.0)
    value = share * cp.logistic(-worst) + weight * cp.norm1(x - x0)
    if predicted is not None:
        value += (1.0 - share) * cp.logistic(-(predicted[0] @ x + predicted[1]))
    problem = cp.Problem(cp.Minimize(value))
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def objective(record: dict[str, float], radius: float, weight: float, share: float, predicted: Any) -> float:
    x, x0 = encoded(record), encoded(APPLICANT)
    worst = float((WEIGHTS - radius * np.sign(x)) @ x) + INTERCEPT - radius
    value = share * math.log1p(math.exp(-worst)) + weight * float(np.abs(x - x0).sum())
    if predicted is not None:
        value += (1.0 - share) * math.log1p(math.exp(-float(predicted[0] @ x + predicted[1])))
    return value


SHIFTED = (WEIGHTS, INTERCEPT - 0.7)
NEXT = (0.5 * WEIGHTS + 0.3, -2.0)
STATED = (np.array([0.4, -0.9, 0.3, -1.5]), -1.0)


@pytest.mark.parametrize(("radius", "weight"), [(0.0, 0.1), (0.1, 0.1), (0.1, 0.05), (0.3, 0.02), (0.05, 0.3)])
@pytest.mark.parametrize(
    ("prediction", "share", "predicted"),
    [
        (None, 1.0, None),
        ({"threshold_shift": 0.7}, 0.5, SHIFTED),
        ({"threshold_shift": 0.7}, 0.0, SHIFTED),
        ({"model": "plane@1"}, 0.3, NEXT),
        ({"weights": {"income": 0.4, "debt": -1.5}, "intercept": -1.0}, 0.6, STATED),
        ({"weights": {"income": 0.4, "debt": -1.5}, "intercept": -1.0}, 1.0, STATED),
    ],
)
def test_the_record_is_the_optimum(
    client: httpx.Client, radius: float, weight: float, prediction: Any, share: float, predicted: Any
) -> None:
    answer = ask(client, weight_radius=radius, cost_weight=weight, robustness_weight=share, prediction=prediction)
    (found,) = answer["counterfactuals"]
    least = optimum(radius, weight, share, predicted)
    reached = objective(found["applicant"], radius, weight, share, predicted)
    report = found["report"]
    assert report["objective"] == pytest.approx(reached, rel=CARRIED)
    assert report["optimum"] == pytest.approx(least, rel=CARRIED, abs=1e-6)
    if report["objective"] > report["optimum"] + 1e-4:  # only where the model refuses the optimum
        assert prediction is not None
        assert share < 1.0
    else:
        assert reached == pytest.approx(least, abs=1e-4)
    assert report["robustness"] >= 0.0
    assert (report["consistency"] is None) == (prediction is None)


def test_the_prediction_may_be_a_version_that_waits_to_go_live(client: httpx.Client) -> None:
    twin, waiting = (ask(client, robustness_weight=0.3, prediction={"model": name}) for name in ("plane@1", "plane@3"))
    for answer in (twin, waiting):
        for own in ("id", "method", "diagnostics", "created_at", "expires_at"):
            answer.pop(own)
    assert waiting == twin
    body = {"model": "plane@3", "applicant": APPLICANT}
    assert client.post("/recourse", json=body).status_code == 404, "it still answers nobody"


def test_only_the_worst_model_or_only_the_prediction(client: httpx.Client) -> None:
    shift = {"threshold_shift": 1.0}
    robust = ask(client, robustness_weight=1.0, prediction=shift)["counterfactuals"][0]["report"]
    trusting = ask(client, robustness_weight=0.0, prediction=shift)["counterfactuals"][0]["report"]
    assert robust["robustness"] == pytest.approx(0.0, abs=1e-9)
    assert trusting["consistency"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("prediction", "pointer", "words"),
    [
        ({"weights": {"shoe/size": 1.0}}, "/method/prediction/weights/shoe~1size", "is not a column"),
        ({"weights": {"age": "much"}}, "/method/prediction/weights/age", "must be a number"),
        ({"model": "plane@9"}, "/method/prediction/model", "is not the name of an active model"),
        ({"model": "loan@1"}, "/method/prediction/model", "other features"),
        ({"model": 7}, "/method/prediction/model", "must be a text"),
        ({"threshold_shift": 21}, "/method/prediction/threshold_shift", "at most 20"),
        ({"threshold_shift": 1, "model": "plane@1"}, "/method/prediction/threshold_shift", "not a field"),
        ({}, "/method/prediction", "must be an object with one of the fields weights, model, threshold_shift"),
        ("up", "/method/prediction", "must be an object with one of the fields"),
    ],
)
def test_a_prediction_that_makes_no_sense(client: httpx.Client, prediction: Any, pointer: str, words: str) -> None:
    method = {"name": "learning_augmented", "prediction": prediction}
    body = {"model": "plane@2", "applicant": APPLICANT, "method": method}
    (found,) = faults(client.post("/recourse", json=body)).items()
    assert found[0] == pointer
    assert words in found[1]


def test_the_cost_weight_is_chosen_so_that_the_worst_model_just_accepts(client: httpx.Client) -> None:
    answer = ask(client, cost_weight="auto", weight_radius=0.1)
    (found,) = answer["counterfactuals"]
    x = encoded(found["applicant"])
    worst = float((WEIGHTS - 0.1 * np.sign(x)) @ x) + INTERCEPT - 0.1
    assert worst == pytest.approx(0.0, abs=1e-4)
    assert worst >= 0.0
    cheapest = cp.Variable(4)
    cost = cp.norm1(cheapest - encoded(APPLICANT))
    problem = cp.Problem(cp.Minimize(cost), [WEIGHTS @ cheapest + INTERCEPT - 0.1 * (cp.norm1(cheapest) + 1) >= 0])
    problem.solve(solver=cp.CLARABEL)
    assert found["cost"]["total"] == pytest.approx(float(problem.value), rel=1e-4)
    assert answer["method"]["cost_weight"] == "auto"
    assert ask(client, cost_weight="paper")["counterfactuals"]


def test_a_job_gives_the_same_question_its_prediction(client: httpx.Client) -> None:
    body = {
        "model": "plane@2",
        "applicant": APPLICANT,
        "method": {"name": "learning_augmented", "prediction": {"model": "plane@1"}, "robustness_weight": 0.5},
    }
    response = client.post("/recourse", json=body, headers={"Prefer": "respond-async"})
    assert response.status_code == 202
