"""Distances are measured in how far apart people are, whatever the model eats."""

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest
import yaml

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.futures.store import load_futures
from app.recourse import CertificateParams, RecourseProblem, action_set, solve
from app.recourse.features import Feature, FeatureType, fit_spread
from app.recourse.solve import METHODS
from app.registry.registry import Registry
from app.registry.version import RegisteredModel
from tests.optional import library

xgboost = library("xgboost")

NAMES = ["income", "capital_gain", "hours"]


def people(n: int, seed: int) -> np.ndarray:
    """Incomes, gains that are mostly zero with a few very large ones, hours."""
    rng = np.random.default_rng(seed)
    income = rng.normal(40_000, 12_000, n).round(-2).clip(5_000)
    gain = np.where(rng.random(n) < 0.9, 0.0, rng.exponential(5_000, n).round()) + 99_999 * (rng.random(n) < 0.004)
    return np.column_stack([income, gain, rng.integers(10, 70, n)])


def test_a_spread_is_that_of_a_normal_and_not_led_by_tails() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(5.0, 2.0, 100_000), people(100_000, 0)[:, 1], np.full(100_000, 3.0)])
    features = [Feature(name=name, type=FeatureType.CONTINUOUS) for name in "abc"]
    normal, gain, constant = fit_spread(features, rows)
    assert normal.scale == pytest.approx(2.0, rel=0.03)
    assert rows[:, 1].std() > 6_000
    assert gain.scale is not None
    assert 500 < gain.scale < 2_500
    assert constant.scale == 1.0
    stated = fit_spread([Feature(name="a", type=FeatureType.CONTINUOUS, spread=7.0)], rows[:, :1])
    assert stated[0].scale == 7.0


def test_states_take_no_part_in_a_spread() -> None:
    feature = Feature(name="a", type=FeatureType.INTEGER, min=0, max=10, special={-9: "no record"})
    plain = np.random.default_rng(0).integers(0, 11, 1_000).astype(float)
    (with_codes,) = fit_spread([feature], np.concatenate([plain, np.full(500, -9.0)])[:, None])
    (without,) = fit_spread([feature], plain[:, None])
    assert (with_codes.center, with_codes.scale) == (without.center, without.scale)


def registered(directory: Path, scaled: bool) -> RegisteredModel:
    """The same trees on numbers as they are, or behind a scaler."""
    rows = people(3_000, 0)
    logit = (rows[:, 0] - 45_000) / 12_000 + np.minimum(rows[:, 1], 8_000) / 4_000 + (rows[:, 2] - 40) / 15
    repaid = np.random.default_rng(1).random(len(rows)) < 1.0 / (1.0 + np.exp(-2.0 * logit))
    center, scale = (rows.mean(axis=0), rows.std(axis=0)) if scaled else (np.zeros(3), np.ones(3))
    data = xgboost.DMatrix((rows - center) / scale, repaid)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, num_boost_round=40)
    content = bytes(booster.save_raw("json"))
    directory.mkdir()
    (directory / "model.json").write_bytes(content)
    with (directory / "reference.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*NAMES, "repaid"])
        writer.writerows([*row, int(yes)] for row, yes in zip(rows.tolist(), repaid, strict=True))
    manifest = {
        "id": "trees", "version": "1", "title": "Trees",
        "artifact": {"format": "xgboost", "path": "model.json", "sha256": hashlib.sha256(content).hexdigest()},
        "input": "encoded", "output": "probability", "encoding": {"continuous": "standard" if scaled else "none"},
        "features": [{"name": name, "type": "continuous", "min": 0, "decimals": 0} for name in NAMES],
        "reference": "reference.csv", "label": "repaid",
    }  # fmt: skip
    (directory / "model.yaml").write_text(yaml.safe_dump(manifest))
    return Registry(directory.parent / f"store-{scaled}").register(directory)


def test_trees_on_unscaled_numbers_are_answered_as_those_behind_a_scaler(tmp_path: Path) -> None:
    plain, scaled = (registered(tmp_path / name, scaled=name == "scaled").load() for name in ("plain", "scaled"))
    np.testing.assert_allclose(plain.reference.scores, scaled.reference.scores, atol=1e-4)
    costs: list[list[float]] = []
    method = METHODS["robust_mpm"]
    refused = [row for row in people(300, 5) if plain.black_box.score_raw(row[None])[0] < -0.2][:20]
    for row_raw in refused:
        both = []
        for model in (plain, scaled):
            actions = action_set(model.black_box.space, row_raw)
            problem = RecourseProblem(black_box=model.black_box, reference=model.reference, action_set=actions)
            found = solve(problem, method, method.params(), CertificateParams(), plan_s=1.0).counterfactuals
            both.append(found[0].cost)
            assert found[0].row_raw[1] < 20_000  # nobody is asked for a gain that hardly anybody has
        costs.append(both)
    without, behind = np.array(costs).T
    assert without.mean() == pytest.approx(behind.mean(), rel=0.05)


def test_future_models_of_trees_on_unscaled_numbers_say_the_same(tmp_path: Path) -> None:
    models = [registered(tmp_path / name, scaled=name == "scaled") for name in ("plain", "scaled")]
    for model in models:
        rehearse(model, Choices(stress="none", search=8, held_back=8, records="same"))
    method = METHODS["robust_mpm"]
    measured: list[list[tuple[float, float]]] = []
    loaded = [(model.load(), load_futures(model)) for model in models]
    refused = [row for row in people(300, 5) if loaded[0][0].black_box.score_raw(row[None])[0] < -0.2][:8]
    for row_raw in refused:
        for share in (None, 0.7):
            both = []
            for one, futures in loaded:
                problem = RecourseProblem(
                    black_box=one.black_box, reference=one.reference, futures=futures, future_validity=share,
                    action_set=action_set(one.black_box.space, row_raw),
                )  # fmt: skip
                (found,) = solve(problem, method, method.params(), CertificateParams(), plan_s=1.0).counterfactuals
                assert found.future is not None
                both.append((found.cost, found.future.probability))
            measured.append(both)
    without, behind = np.array(measured).mean(axis=0)
    assert without == pytest.approx(behind, rel=0.05)
    assert 0.3 < without[1] < 1.0
