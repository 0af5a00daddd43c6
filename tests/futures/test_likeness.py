"""Whether today's model looks like one of the recipe: a recipe that is the lender's, and one that is not."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices, Material
from app.futures.store import load_futures, read_record, status
from app.recourse.actions.action_set import action_set
from app.recourse.models.committee import Futures
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.share_interval import share_interval
from app.recourse.solve import METHODS, solve
from app.registry.version import LoadedModel
from tests.futures.models import registered
from tests.optional import library

CHOICES = Choices(stress="none", search=19, held_back=40)
"""With too few models for a search to halve the records."""


def weighted(weight: float) -> Any:
    """A logistic regression that counts losses so many times, which no file says and no recipe of ours does."""

    def fit(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        w, c = trained(X, y, weight)
        content = {"intercept": c, "weights": dict(zip(columns, w.tolist(), strict=True))}
        directory.set_artifact(json.dumps(content).encode())

    return fit


def trained(X: np.ndarray, y: np.ndarray, weight: float) -> tuple[np.ndarray, float]:
    regression = library("sklearn.linear_model").LogisticRegression(class_weight={0: weight, 1: 1.0}, max_iter=5_000)
    found = regression.fit(X, y)
    return found.coef_[0], float(found.intercept_[0])


@pytest.mark.slow
@pytest.mark.parametrize("fit", ["linear", pytest.param("torch", marks=pytest.mark.release), "xgboost"])
def test_a_model_of_its_own_recipe_looks_like_one(tmp_path: Path, fit: str) -> None:
    model = registered(tmp_path, fit, records=600)
    assert rehearse(model, CHOICES).likeness == "alike"
    futures = load_futures(model)
    assert futures is not None
    assert (futures.recipe, futures.apart) == ("alike", None)
    assert (status(model)["recipe"], status(model)["advice"]) == ("alike", None)


def told(loaded: LoadedModel, futures: Futures) -> tuple[np.ndarray, list[Any]]:
    rows, found = [], []
    for row_raw in loaded.reference.rows_raw[loaded.reference.scores < 0.0][:25]:
        problem = RecourseProblem(
            black_box=loaded.black_box, reference=loaded.reference, futures=futures,
            action_set=action_set(loaded.black_box.space, row_raw),
        )  # fmt: skip
        for one in solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params()).counterfactuals[:1]:
            rows.append(one.row_raw)
            found.append(one.future)
    return np.array(rows), found


def test_another_recipe_is_said_and_its_interval_has_what_the_lenders_own_trainings_do(tmp_path: Path) -> None:
    model = registered(tmp_path, weighted(0.2), records=600)
    record = rehearse(model, CHOICES)
    assert record.likeness == "differs"
    assert record.apart > 1.0
    assert status(model)["recipe"] == "differs"
    assert "--command" in status(model)["advice"]
    assert "--from" in status(model)["advice"]
    loaded, futures = model.load(), load_futures(model)
    assert futures is not None
    rows_raw, found = told(loaded, futures)
    assert {one.recipe for one in found} == {"differs"}

    path = model.directory / "reference.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    y = np.array([int(row[lines[0].index("repaid")]) for row in lines[1:]])
    X, points, rng = loaded.reference.X, loaded.black_box.space.encode(rows_raw), np.random.default_rng(0)
    # Half the records: as many as the spread of models of other records.
    own = [trained(X[half], y[half], 0.2) for half in (rng.choice(len(y), len(y) // 2) for _ in range(100))]
    true = np.mean([points @ w + c >= 0.0 for w, c in own], axis=0)
    probability = np.array([one.probability for one in found])
    assert np.abs(probability - true).mean() > 0.2, "the recipe is wrong about the lender"
    low, high = np.array([one.interval for one in found]).T
    assert np.mean((low <= true) & (true <= high)) >= 0.95
    narrow = np.array([share_interval(round(p * 40), 40, "fresh") for p in probability])
    assert np.mean((narrow[:, 0] <= true) & (true <= narrow[:, 1])) < 0.9


def test_supplied_models_are_the_lenders_own(tmp_path: Path) -> None:
    model = registered(tmp_path, weighted(0.2), records=600)
    (tmp_path / "models").mkdir()
    content = json.loads((model.directory / "model.json").read_text())
    for k in range(60):
        moved = {**content, "intercept": content["intercept"] + 0.01 * (k + 1)}
        (tmp_path / "models" / f"{k}.json").write_text(json.dumps(moved))
    assert rehearse(model, CHOICES, Material(folder=tmp_path / "models")).likeness is None


def test_too_few_models_show_nothing(tmp_path: Path) -> None:
    model = registered(tmp_path, weighted(0.2), records=600)
    assert rehearse(model, Choices(stress="none", search=4, held_back=18)).likeness is None
    record = read_record(model.directory)
    assert record is not None
    assert record.apart == 0.0


@pytest.mark.parametrize("hits", [0, 3, 20, 37, 40])
@pytest.mark.parametrize("records", ["fresh", "same", None])
def test_an_interval_moves_by_as_many_deviations_as_today_is_apart(hits: int, records: Any) -> None:
    low, high = share_interval(hits, 40, records)
    moved = 1.2 * (2**0.5 if records == "fresh" else 1.0)
    expected = norm.cdf(norm.ppf(low) - moved), norm.cdf(norm.ppf(high) + moved)
    assert share_interval(hits, 40, records, 1.2) == pytest.approx(expected, abs=1e-12)
    assert share_interval(hits, 40, records, 0.0) == (low, high)
