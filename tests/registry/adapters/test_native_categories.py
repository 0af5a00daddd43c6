"""Boosted trees that split by categories, and that know missing values, against the libraries that made them."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from app.recourse.models.black_box import input_of_rows
from app.recourse.models.score import sigmoid
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from tests.optional import library
from tests.registry.adapters.boosted import try_mutants
from tests.registry.adapters.table import FEATURES, HOUSING, frame, make, outcomes, records
from tests.registry.loan import ModelDirectory

xgboost, lightgbm = library("xgboost"), library("lightgbm")

Refusal = Callable[[Path], dict[str, str]]

TABLE = frame()
FRESH = frame(1_000, seed=1)
LIGHT = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_per_group": 2, "cat_smooth": 1.0}


def xgboosted(table: pd.DataFrame = TABLE, rounds: int = 8, **params: Any) -> Any:
    data = xgboost.DMatrix(table, outcomes(TABLE), enable_categorical=True)
    return xgboost.train({"objective": "binary:logistic", "nthread": 1, **params}, data, rounds)


def lightgbmed(table: pd.DataFrame = TABLE, rounds: int = 8, **params: Any) -> Any:
    return lightgbm.train({**LIGHT, **params}, lightgbm.Dataset(table, outcomes(TABLE)), rounds)


def of_xgboost(path: Path, booster: Any, kind: str = "json", **changes: Any) -> ModelDirectory:
    return make(path, bytes(booster.save_raw(kind)), {"format": "xgboost", "path": f"m.{kind}"}, **changes)


def of_lightgbm(path: Path, booster: Any, **changes: Any) -> ModelDirectory:
    return make(path, booster.model_to_string().encode(), {"format": "lightgbm", "path": "m.txt"}, **changes)


def margins(loaded: LoadedModel, table: pd.DataFrame = FRESH) -> np.ndarray:
    """The sum of the leaves in which each record is."""
    box = loaded.black_box
    assert box.forest is not None
    return box.forest.margin(input_of_rows(box, box.space.read_many(records(table), pointer="")))


def probabilities(loaded: LoadedModel, table: pd.DataFrame = FRESH) -> np.ndarray:
    box = loaded.black_box
    return np.asarray(sigmoid(box.score_raw(box.space.read_many(records(table), pointer="")) + box.offset))


@pytest.mark.parametrize("kind", ["json", "ubj"])
@pytest.mark.parametrize("params", [{"max_cat_to_onehot": 1}, {"max_cat_to_onehot": 100}, {"tree_method": "approx"}])
def test_scores_are_those_of_xgboost(path: Path, store: Registry, kind: str, params: dict[str, Any]) -> None:
    booster = xgboosted(**params)
    loaded = store.register(of_xgboost(path, booster, kind).write()).load()
    expected = booster.predict(xgboost.DMatrix(FRESH, enable_categorical=True))
    np.testing.assert_allclose(probabilities(loaded), expected, rtol=0, atol=1e-7)
    data = xgboost.DMatrix(FRESH, enable_categorical=True)
    offset = booster.predict(data, output_margin=True) - margins(loaded)
    np.testing.assert_allclose(offset, offset[0], rtol=0, atol=1e-5)
    assert any(part["categories"] for part in _trees(booster))
    assert not loaded.black_box.fractional
    assert loaded.registered.registration.warnings == ()


@pytest.mark.parametrize("params", [{}, {"max_cat_to_onehot": 100}, {"boosting": "dart"}, {"use_missing": False}])
@pytest.mark.parametrize("favourable", [0, 1])
def test_scores_are_those_of_lightgbm(path: Path, store: Registry, params: dict[str, Any], favourable: int) -> None:
    booster = lightgbmed(**params)
    loaded = store.register(of_lightgbm(path, booster, favourable=favourable).write()).load()
    expected = booster.predict(FRESH)
    np.testing.assert_allclose(probabilities(loaded), expected if favourable else 1 - expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(margins(loaded), booster.predict(FRESH, raw_score=True), rtol=0, atol=1e-9)
    assert "cat_threshold" in booster.model_to_string()
    assert loaded.registered.registration.warnings == ()


def test_a_single_tree_by_categories_is_a_black_box(path: Path, store: Registry) -> None:
    assert store.register(of_xgboost(path, xgboosted(rounds=1)).write()).load().black_box.boxes is None


def test_codes_that_the_file_does_not_name_are_positions_in_the_manifest(path: Path, store: Registry) -> None:
    orders = {"housing": HOUSING, "purpose": [1, 2, 5, 10, 11], "savings": ["none", "some", "much"]}

    def codes(table: pd.DataFrame) -> np.ndarray:
        found = table.assign(
            **{name: pd.Categorical(table[name], categories=order).codes for name, order in orders.items()}
        )
        return found.astype(float).replace(-1.0, np.nan).to_numpy()

    kinds = ["q", "c", "q", "c", "q", "q"]
    data = xgboost.DMatrix(codes(TABLE), outcomes(TABLE), feature_types=kinds, enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "max_cat_to_onehot": 1, "nthread": 1}, data, 8)
    loaded = store.register(of_xgboost(path, booster).write()).load()
    matrix = xgboost.DMatrix(codes(FRESH), feature_types=kinds, enable_categorical=True)
    np.testing.assert_allclose(probabilities(loaded), booster.predict(matrix), rtol=0, atol=1e-7)
    (warning,) = loaded.registered.registration.warnings
    assert "does not name the categories of housing, purpose: their codes are taken to be their positions" in warning


# --- does it fit -----------------------------------------------------------------------------------------------------


def _renamed(model: ModelDirectory, j: int, **changes: Any) -> ModelDirectory:
    model.manifest["features"] = [dict(feature) for feature in FEATURES]
    model.manifest["features"][j] |= changes
    return model


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_other_categories_are_listed_on_both_sides(path: Path, refusal: Refusal, kind: str) -> None:
    model = of_xgboost(path, xgboosted()) if kind == "xgboost" else of_lightgbm(path, lightgbmed())
    found = refusal(_renamed(model, 1, categories=[*HOUSING, "boat"]).write())["/features/1/categories"]
    assert '"rented", "owned", "free", "boat", but the model was trained on "free", "rented", "owned"' in found


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_shuffled_features_are_refused(path: Path, refusal: Refusal, kind: str) -> None:
    model = of_xgboost(path, xgboosted()) if kind == "xgboost" else of_lightgbm(path, lightgbmed())
    model.manifest["features"] = [dict(FEATURES[j]) for j in (1, 0, 2, 3, 4, 5)]
    assert refusal(model.write())["/features"].startswith("must be the columns of the model in its order")


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_a_table_is_not_encoded(path: Path, refusal: Refusal, kind: str) -> None:
    model = of_xgboost(path, xgboosted()) if kind == "xgboost" else of_lightgbm(path, lightgbmed())
    found = refusal(model.write(input="encoded"))
    assert found["/input"] == "must be raw: the model was trained on one column for each feature"


@pytest.mark.parametrize("kind", ["xgboost", "lightgbm"])
def test_a_number_is_not_a_category(path: Path, refusal: Refusal, kind: str) -> None:
    table = TABLE.assign(months=pd.Categorical(TABLE["months"] // 20))
    model = of_xgboost(path, xgboosted(table)) if kind == "xgboost" else of_lightgbm(path, lightgbmed(table))
    found = refusal(model.write())
    text = "declare it categorical with these categories" if kind == "xgboost" else 'trained on "0", "1", "2"'
    assert any(text in sentence for sentence in found.values())


def test_features_may_have_other_names_than_the_columns(path: Path, store: Registry, refusal: Refusal) -> None:
    booster = xgboosted(TABLE.rename(columns={"income": "NET_INC"}))
    model = of_xgboost(path, booster)
    assert '"income" where it has "NET_INC"' in refusal(model.write())["/features"]
    model.manifest["artifact"]["map"] = {"earnings": "NET_INC"}
    assert "its keys are features: income" in refusal(model.write())["/artifact/map"]
    model.manifest["artifact"]["map"] = {"income": "NET_INC"}
    loaded = store.register(model.write()).load()
    renamed = FRESH.rename(columns={"income": "NET_INC"})
    expected = booster.predict(xgboost.DMatrix(renamed, enable_categorical=True))
    np.testing.assert_allclose(probabilities(loaded), expected, rtol=0, atol=1e-7)


def test_an_indicator_is_no_column_of_a_table(path: Path, refusal: Refusal) -> None:
    model = _renamed(of_xgboost(path, xgboosted()), 0, missing="indicator", fill=0)
    assert refusal(model.write())["/features/0/missing"].startswith('"income": must be nan or fill')


# --- files that lie --------------------------------------------------------------------------------------------------


def _trees(booster: Any) -> list[dict[str, Any]]:
    trees: list[dict[str, Any]] = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    return trees


@pytest.mark.parametrize(
    ("key", "value"),
    [("categories", 5), ("categories", 2**31), ("categories", -1), ("categories_nodes", 10**6),
     ("categories_segments", 10**6), ("categories_sizes", 10**6), ("categories_sizes", 0), ("split_type", 2)],
)  # fmt: skip
def test_categories_that_there_are_not_are_refused(path: Path, refusal: Refusal, key: str, value: int) -> None:
    document = json.loads(xgboosted(rounds=1, max_cat_to_onehot=1).save_raw("json"))
    (tree,) = document["learner"]["gradient_booster"]["model"]["trees"]
    tree[key][tree[key].index(1) if key == "split_type" else 0] = value
    model = make(path, json.dumps(document).encode(), {"format": "xgboost", "path": "m.json"})
    (sentence,) = refusal(model.write()).values()
    assert sentence in (
        "has splits by categories that its features do not have", "must be at least 0",
    ) or "must be below" in sentence  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "pointer"),
    [("cat_threshold", "4294967297", "cat_threshold"), ("cat_threshold", "-1", None), ("cat_boundaries", "1", None),
     ("num_cat", "10000", "num_cat")],
)  # fmt: skip
def test_bitsets_that_lie_are_refused(path: Path, refusal: Refusal, key: str, value: str, pointer: str | None) -> None:
    text = lightgbmed(rounds=2).model_to_string()
    text = re.sub(rf"^{key}=\S+", f"{key}={value}", text, count=1, flags=re.MULTILINE)
    model = make(path, text.encode(), {"format": "lightgbm", "path": "m.txt"})
    assert f"/artifact/tree/0/{pointer or key}" in refusal(model.write())


@pytest.mark.parametrize("content", [b"{", b"{L", b"{i\x01a", b"{" + b"i\x01a[" * 60, b"{i\x01a[$d#l\x7f\xff\xff\xff"])
def test_ubjson_that_is_none_is_refused(path: Path, refusal: Refusal, content: bytes) -> None:
    model = make(path, content, {"format": "xgboost", "path": "m.ubj"})
    assert all(pointer.startswith("/artifact") for pointer in refusal(model.write()))


@pytest.mark.release
@pytest.mark.parametrize("kind", ["json", "ubj", "lightgbm"])
def test_damaged_files_never_end_the_process(path: Path, kind: str) -> None:
    if kind == "lightgbm":
        model = of_lightgbm(path, lightgbmed(rounds=2))
        text = model.artifact.decode()
        cut, categories = text[: text.index("end of trees") + 13], text[text.index("pandas_categorical") :]
        model.set_artifact((cut + categories).encode())
    else:
        model = of_xgboost(path, xgboosted(rounds=2), kind)
    counts = try_mutants(model.write())
    assert counts["refused"] > 100
    assert counts["taken"] > 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model"
