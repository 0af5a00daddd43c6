"""Future trees that split by categories: trained as today's were, and scored as their own files are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.futures.boosted import LightgbmRecipe, XgboostRecipe
from app.futures.linear import LinearRecipe
from app.futures.records import reference_records, samples
from app.futures.stacks import STACKS, Kind, pack
from app.registry.registry import Registry
from tests.optional import library
from tests.registry.adapters.table import frame, outcomes
from tests.registry.adapters.test_native_categories import lightgbmed, of_lightgbm, of_xgboost, xgboosted
from tests.registry.loan import make_linear


@pytest.mark.parametrize("format_", ["xgboost", "ubj", "lightgbm"])
def test_retrained_trees_split_by_categories_and_are_scored_together(tmp_path: Path, format_: str) -> None:
    path = tmp_path / "model"
    if format_ == "lightgbm":
        model = of_lightgbm(path, lightgbmed())
    else:
        model = of_xgboost(path, xgboosted(max_cat_to_onehot=1), "ubj" if format_ == "ubj" else "json")
    table = frame(300, seed=9)
    for record, outcome in zip(model.records, outcomes(table), strict=True):
        record["repaid"] = int(outcome)
    model.columns.append("repaid")
    loaded = Registry(tmp_path / "store").register(model.write(label="repaid")).load()
    manifest = loaded.registered.manifest
    recipe: Any = (LightgbmRecipe if format_ == "lightgbm" else XgboostRecipe)(loaded, manifest)
    records = reference_records(loaded)
    tuned = recipe.tune(records, [])
    assert set(tuned["categorical"]) <= {1, 3, 4}
    assert {1, 3} <= set(tuned["categorical"])
    contents = recipe.make(records, samples(records, "same", 0, range(3)), tuned)
    kind = Kind(manifest=manifest, space=loaded.registered.columns.model, trust=loaded.registered.trust)
    name, files = pack(kind, contents)
    assert name == manifest.artifact.format
    rows = loaded.registered.columns.rows(loaded.reference.rows_raw)
    together = STACKS[name].open(kind, tmp_path, files)(rows)
    for k, content in enumerate(contents):
        (tmp_path / manifest.file.path).write_bytes(content)
        member = kind.member(tmp_path, manifest.file.path, content)
        np.testing.assert_allclose(together[:, k], member.score_of(member.predict(rows)), atol=1e-5)
        assert ((together[:, k] >= 0) == outcomes(table)).mean() > 0.7


@pytest.mark.parametrize("format_", ["linear", "xgboost"])
def test_a_model_without_a_category_is_retrained(tmp_path: Path, format_: str) -> None:
    """On every encoded column, under the names of the service."""
    path = tmp_path / "model"
    model = make_linear(path).label()
    model.manifest["artifact"]["map"] = {"housing=rented": None}
    if format_ == "linear":
        document = json.loads(model.artifact)
        del document["weights"]["housing=rented"]
        model.set_artifact(json.dumps(document).encode())
    else:
        xgboost = library("xgboost")
        X = np.random.default_rng(0).normal(size=(300, 7))
        booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, X[:, 1] > 0), 3)
        model.set_artifact(bytes(booster.save_raw("json")), format="xgboost", path="m.json")
        del model.manifest["refits"]
    loaded = Registry(tmp_path / "store").register(model.write()).load()
    manifest, space = loaded.registered.manifest, loaded.registered.columns.model
    recipe: Any = (XgboostRecipe if format_ == "xgboost" else LinearRecipe)(loaded, manifest)
    records = reference_records(loaded)
    tuned = recipe.tune(records, samples(records, "same", 1, range(2)))
    contents = recipe.make(records, samples(records, "same", 0, range(2)), tuned)
    kind = Kind(manifest=manifest, space=space, trust=loaded.registered.trust)
    name, files = pack(kind, contents)
    X = loaded.registered.columns.encode(loaded.reference.rows_raw)
    together = STACKS[name].open(kind, tmp_path, files)(X)
    assert ((together >= 0) == records.favourable[:, None]).mean() > 0.6
    if format_ == "linear":
        weights = json.loads(contents[0])["weights"]
        assert weights["housing=rented"] != 0.0
        one = X @ np.array([weights[column] for column in space.columns]) + json.loads(contents[0])["intercept"]
        np.testing.assert_allclose(together[:, 0], one, atol=1e-9)
