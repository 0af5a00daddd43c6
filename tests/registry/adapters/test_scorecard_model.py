"""Scorecards against sums by hand, points of other formats, and how points become scores."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import LinearRegression

from app.futures.records import reference_records
from app.futures.spec import Choices, Material, specified
from app.recourse.models.score import Output
from app.registry.manifest import PARTIAL
from app.registry.registry import Registry
from tests.optional import library, skops_file
from tests.registry.adapters.boosted import try_mutants
from tests.registry.adapters.card import CARD, by_hand, carded
from tests.registry.adapters.table import frame, records
from tests.registry.loan import ModelDirectory, loan_records, make_linear

Refusal = Callable[[Path], dict[str, str]]


def fresh() -> list[dict[str, Any]]:
    found = records(frame(1_000, seed=1))
    for i, record in enumerate(found):
        if i % 20 == 0:
            record["months"] = -9
        if i % 7 == 0:
            record["income"] = [1500.0, 4000.5, 1499.99][i % 3]
    return found


def as_yaml() -> str:
    attributes: list[dict[str, Any]] = []
    for line in CARD.splitlines()[2:]:
        name, start, stop, category, points = line.split(",")
        row: dict[str, Any] = {"feature": name, "points": float(points)}
        row |= {key: float(value) for key, value in (("from", start), ("to", stop)) if value}
        if category == "missing":
            row["missing"] = True
        elif category == "-9":
            row["special"] = -9
        elif category:
            row["categories"] = [{"true": True, "false": False}.get(part, part) for part in category.split("|")]
        attributes.append(row)
    return yaml.safe_dump({"base": 300, "attributes": attributes})


@pytest.mark.parametrize("suffix", ["csv", "yaml"])
@pytest.mark.parametrize("better", ["higher", "lower"])
def test_the_score_is_the_distance_of_the_sum_to_the_threshold(
    path: Path, store: Registry, suffix: str, better: str
) -> None:
    box = store.register(carded(path, CARD if suffix == "csv" else as_yaml(), suffix, better=better).write()).load()
    told = np.array([by_hand(record) for record in fresh()])
    rows = box.black_box.space.read_many(fresh(), pointer="")
    sign = 1.0 if better == "higher" else -1.0
    np.testing.assert_allclose(box.black_box.score_raw(rows), sign * (told - 391.5) * math.log(2) / 20, atol=1e-12)
    assert (told == 391.5).any()
    np.testing.assert_array_equal(box.black_box.score_raw(rows) >= 0, sign * told >= sign * 391.5)
    assert box.black_box.probability_of(1.0) is None
    assert not box.black_box.fractional


@pytest.mark.parametrize(("better", "sign"), [("higher", 1.0), ("lower", -1.0)])
def test_odds_state_a_probability(path: Path, store: Registry, better: str, sign: float) -> None:
    odds = {"pdo": 40, "base_points": 400, "base_odds": 30}
    box = store.register(carded(path, better=better, odds=odds).write()).load().black_box
    rows = box.space.read_many(fresh(), pointer="")
    told = np.array([by_hand(record) for record in fresh()])
    expected = 30.0 * 2.0 ** (sign * (told - 400) / 40)
    found = box.probability(box.score_raw(rows))
    assert found is not None
    np.testing.assert_allclose(found / (1 - found), expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("old", "new", "pointer", "sentence"),
    [
        ("income,1500,", "incme,1500,", "/attributes/1/feature", '"incme" is not a feature; these are "income"'),
        ("income,1500,", "income,1600,", "", 'has no points for "income" from 1500 to 1600; `to` itself is not in'),
        ("income,1500,", "income,1400,", "", 'has points twice for "income" from 1400 to 1500'),
        ("income,4000.5,,", "income,4000.5,9000,", "", 'has no points for "income" from 9000 to inf'),
        ("income,,,missing,10\n", "", "", 'has no points for a missing "income"'),
        ("purpose,,,10|11,3\n", "purpose,,,10,3\n", "", 'has no points for "purpose": "11"'),
        ("purpose,,,10|11,3\n", "purpose,,,10|12,3\n", "/attributes/8", '"12" is not a level of "purpose"; these'),
        ("purpose,,,10|11,3\n", "purpose,,,10|1|11,3\n", "/attributes/8", 'is about "1" a second time'),
        ("months,,,-9,4", "months,,,-8,4", "/attributes/14", "one of its special codes, which are -9"),
        ("months,,,-9,4", "months,,,missing,4", "/attributes/14", "never leaves missing"),
        ("housing,,,rented,5", "housing,1,,rented,5", "/attributes/5", "name them in categories"),
        ("housing,,,rented,5", "housing,,,rented,x", "/attributes/5/points", "must be a number"),
        ("housing,,,rented,5", "housing,,,rented", "", "has 4 cells in row 8, and 5 in its header"),
        ("feature,from", "name,from", "", "must have the columns feature, from, to, category, points; it has"),
        (",,,,300", ",,,,300\n,,,,20", "", "has several rows without a feature"),
    ],
)  # fmt: skip
def test_a_card_that_does_not_say_all_is_refused(
    path: Path, refusal: Refusal, old: str, new: str, pointer: str, sentence: str
) -> None:
    assert old in CARD
    assert sentence in refusal(carded(path, CARD.replace(old, new)).write())[f"/artifact{pointer}"]


@pytest.mark.parametrize(
    ("changes", "pointer", "sentence"),
    [
        ({"threshold": None}, "/threshold", "is missing: the points from which"),
        ({"output": "probability", "threshold": 0.5}, "/output", "must be points"),
        ({"input": "encoded"}, "/input", "must be raw"),
        ({"favourable": 0}, "/favourable", "say better: lower"),
        ({"odds": {"pdo": 20, "base_odds": 50}}, "/odds", "together"),
        ({"odds": {"pdo": 0}}, "/odds/pdo", "must be above 0"),
        ({"better": "more"}, "/better", "'higher' or 'lower'"),
    ],
)
def test_a_manifest_of_points_says_all(
    path: Path, refusal: Refusal, changes: dict[str, Any], pointer: str, sentence: str
) -> None:
    assert sentence in refusal(carded(path).write(**changes))[pointer]


def test_points_belong_to_models_of_points(model: ModelDirectory, refusal: Refusal) -> None:
    assert set(refusal(model.write(better="lower", odds={"pdo": 20}))) == {"/better", "/odds"}


@pytest.mark.parametrize("content", ["", "junk", "feature,points\n", "a: *b", "a: &x [1]\nb: *x", "[" * 5_000, "\x00"])
@pytest.mark.parametrize("suffix", ["csv", "yaml"])
def test_what_is_no_card_is_refused(path: Path, refusal: Refusal, content: str, suffix: str) -> None:
    assert all(pointer.startswith("/artifact") for pointer in refusal(carded(path, content, suffix).write()))


@pytest.mark.parametrize("points", ["'1_000'", "true", "\u0661\u0662"])
def test_points_are_plain_numbers(path: Path, refusal: Refusal, points: str) -> None:
    content = f"base: 1\nattributes:\n- {{feature: age, points: {points}}}"
    assert refusal(carded(path, content, "yaml").write())["/artifact/attributes/0/points"] == "must be a number"
    table = f"feature,points\nage,{points.strip(chr(39))}"
    assert refusal(carded(path, table, "csv").write())["/artifact/attributes/0/points"] == "must be a number"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("base: 1\nattributes:\n- {points: 1, points: 2}", 'is not YAML: line 3: "points" is given twice'),
        ("base: &x 1\nattributes: *x", "is not YAML: line 2: has an alias"),
    ],
)
def test_yaml_of_a_card_says_each_thing_once(path: Path, refusal: Refusal, content: str, sentence: str) -> None:
    assert sentence in refusal(carded(path, content, "yaml").write())["/artifact"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "yaml"])
def test_damaged_cards_never_end_the_process(path: Path, suffix: str) -> None:
    counts = try_mutants(carded(path, CARD if suffix == "csv" else as_yaml(), suffix).write())
    assert counts["refused"] > 100
    assert counts["taken"] > 10


# --- points of other formats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["linear", "estimator", "boosted", "graph"])
def test_points_of_other_formats_are_those_of_the_library(tmp_path: Path, store: Registry, kind: str) -> None:
    columns = ["age", "income", "amount", "savings", "guarantor", "housing=rented", "housing=owned", "housing=free"]

    def encode(rows: list[dict[str, Any]]) -> np.ndarray:
        levels, places = ["none", "some", "much"], ["rented", "owned", "free"]
        return np.array([
            [r["age"], r["income"], r["amount"], levels.index(r["savings"]), r["guarantor"],
             *(r["housing"] == place for place in places)] for r in rows
        ], dtype=float)  # fmt: skip

    X, new = encode(loan_records(300)), encode(loan_records(1_000, seed=1))
    y = 400 + X[:, 1] / 50 - X[:, 2] / 300 + 20 * X[:, 6]
    fitted = (GradientBoostingRegressor(n_estimators=10) if kind == "boosted" else LinearRegression()).fit(X, y)
    expected = fitted.predict(new)
    content, file, form = skops_file(fitted), "m.skops", "sklearn"
    if kind == "linear":
        weights = dict(zip(columns, fitted.coef_.tolist(), strict=True))
        content, file, form = json.dumps({"intercept": fitted.intercept_, "weights": weights}).encode(), "m.json", kind
    if kind == "graph":
        library("onnxruntime")
        graph = library("skl2onnx").to_onnx(fitted, X[:1])
        content, file, form = graph.SerializeToString(), "m.onnx", "onnx"
    model = make_linear(tmp_path / "source")
    model.records = loan_records(300)
    model.set_artifact(content, format=form, path=file)
    changes = {"output": "points", "threshold": 450, "favourable": None, "encoding": {"continuous": "none"}}
    box = store.register(model.write(**changes)).load().black_box
    assert box.output is Output.POINTS
    found = box.score_raw(box.space.read_many(loan_records(1_000, seed=1), pointer=""))
    np.testing.assert_allclose(found, (expected - 450) * math.log(2) / 20, atol=1e-6)
    if kind == "linear":
        assert box.linear
        assert box.gradient is not None
        step = box.space.encode(box.space.read_many(loan_records(2), pointer=""))
        slope = (box.score(step)[1] - box.score(step)[0]) / ((step[1] - step[0]) @ box.gradient(step)[0])
        assert slope == pytest.approx(1.0)


def test_future_models_of_points_are_stand_ins(path: Path, store: Registry) -> None:
    loaded = store.register(carded(path).write()).load()
    (loaded.registered.directory / PARTIAL).mkdir()
    spec, recipe = specified(loaded, reference_records(loaded), Choices(search=2, held_back=2), Material(), {})
    assert spec.source == "stand_in"
    assert recipe.manifest(spec.tuned).points is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model"
