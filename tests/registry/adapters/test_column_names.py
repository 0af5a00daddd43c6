"""Columns of a model under its own names: `artifact.map`, the usual names of dummies, dummies without one category."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from app.recourse import CertificateParams, RecourseProblem, action_set, solve
from app.recourse.features import Feature, FeatureSpace, FeatureType, fit_encoding
from app.recourse.models.score import sigmoid
from app.recourse.solve import DEFAULT_METHOD, METHODS
from app.registry.adapters.column_names import chosen_columns
from app.registry.registry import Registry
from tests.optional import library, skops_file
from tests.registry.loan import ModelDirectory, loan_records, make_linear

Refusal = Callable[[Path], dict[str, str]]

PLAIN = ["age", "income", "amount", "savings", "guarantor"]
RECORDS, FRESH = loan_records(400), loan_records(1_000, seed=1)


def space(*features: dict[str, Any]) -> FeatureSpace:
    found = [Feature(**feature | {"type": FeatureType(feature.get("type", "continuous"))}) for feature in features]
    return FeatureSpace(fit_encoding(found, np.zeros((1, len(found))), "none"))


HOUSING = {"name": "housing", "type": "categorical", "categories": ("own", "rent", "with family")}
LOAN = space({"name": "age"}, HOUSING, {"name": "guarantor", "type": "binary"})


@pytest.mark.parametrize(
    ("names", "named", "expected"),
    [
        (["age", "housing=own", "housing=rent", "housing=with family", "guarantor"], None, None),
        (["age", "housing_own", "housing_rent", "housing_with family", "guarantor"], None, [0, 1, 2, 3, 4]),
        (["age", "housing_own", "housing_rent", "housing_with_family", "guarantor_True"], None, [0, 1, 2, 3, 4]),
        (["num__age", "cat__housing_own", "cat__housing_rent", "cat__housing_with family", "rest__guarantor"], None,
         [0, 1, 2, 3, 4]),
        (["age", "housing_rent", "housing_with family", "guarantor"], None, [0, 2, 3, 4]),
        (["guarantor", "age", "H1", "H2"], {"housing=own": "H2", "housing=rent": "H1"}, [4, 0, 2, 1]),
        (["age", "housing_own", "guarantor"], {"housing=rent": None, "housing=with family": None}, [0, 1, 4]),
    ],
)  # fmt: skip
def test_names_that_are_clear(
    names: list[str], named: dict[str, str | None] | None, expected: list[int] | None
) -> None:
    indices, faults = chosen_columns(names, len(names), LOAN, named)
    assert faults == []
    assert (None if indices is None else indices.tolist()) == expected


@pytest.mark.parametrize(
    ("names", "named", "sentence"),
    [
        (["age", "home_own", "home_rent", "home_with family", "guarantor"], None,
         'columns "home_own", "home_rent", "home_with family", where the manifest has "housing=own", "housing=rent", '
         '"housing=with family"; rename, or say in artifact.map which is which, as "housing=own": "home_own"'),
        (["guarantor", "age", "housing_own", "housing_rent", "housing_with family"], None, "are in another order"),
        (["age", "housing_own", "guarantor"], None, '3 columns, where the manifest has "housing=rent", '
                                                    '"housing=with family"'),
        (["age", "age", "housing_own", "housing_rent", "guarantor"], None, "5 columns"),
        (["age", "housing_own", "housing_rent", "guarantor", "zip"], None, 'columns "zip", where the manifest has '
                                                                          '"housing=with family"'),
        (["age"], {"house=own": "x"}, 'has "house=own", but the encoded columns are "age", "housing=own"'),
    ],
)  # fmt: skip
def test_names_that_are_not(names: list[str], named: dict[str, str | None] | None, sentence: str) -> None:
    _, (fault,) = chosen_columns(names, len(names), LOAN, named)
    assert sentence in fault.detail
    assert fault.pointer == ("/features" if named is None else "/artifact/map")


def test_a_name_that_two_columns_could_have_is_refused() -> None:
    a = {"name": "a", "type": "categorical", "categories": ("b_c", "d")}
    b = {"name": "a_b", "type": "categorical", "categories": ("c", "d")}
    names = ["a_b_c", "a_d", "a_b_c", "a_b_d"]
    _, (fault,) = chosen_columns(names, 4, space(a, b), None)
    assert '"a_b_c", "a_b_c", where the manifest has "a=b_c", "a_b=c"' in fault.detail
    named = {"a=b_c": "first", "a_b=c": "second"}
    indices, faults = chosen_columns(["first", "a_d", "second", "a_b_d"], 4, space(a, b), named)
    assert (faults, indices is not None and indices.tolist()) == ([], [0, 1, 2, 3])


def test_columns_without_names_may_lack_those_that_the_map_says() -> None:
    indices, faults = chosen_columns(None, 4, LOAN, {"housing=own": None})
    assert (faults, indices is not None and indices.tolist()) == ([], [0, 2, 3, 4])
    _, (fault,) = chosen_columns(None, 4, LOAN, None)
    assert 'have 5 encoded columns ("age", "housing=own"' in fault.detail
    assert "write null in artifact.map" in fault.detail


# --- through registration, against the libraries ---------------------------------------------------------------------


def dummies(records: list[dict[str, Any]], **options: Any) -> pd.DataFrame:
    """As a data scientist writes them."""
    frame = pd.DataFrame(records)
    frame["savings"] = pd.Categorical(frame["savings"], categories=["none", "some", "much"]).codes
    frame["guarantor"] = frame["guarantor"].astype(int)
    return pd.get_dummies(frame, columns=["housing"], **options).astype(float)


def truth(records: list[dict[str, Any]]) -> np.ndarray:
    return np.array([r["income"] / 2_000 - r["amount"] / 9_000 + (r["housing"] == "owned") > 1.0 for r in records]) * 1


def described(directory: Path, content: bytes, **artifact: Any) -> ModelDirectory:
    model = make_linear(directory)
    # pandas sorts categories.
    model.manifest["features"][5]["categories"] = ["free", "owned", "rented"]
    model.manifest |= {"encoding": {"continuous": "none"}}
    model.set_artifact(content, **artifact)
    return model


BOOSTED = ("xgboost", "lightgbm")


def boosted(
    format_: str, X: pd.DataFrame, y: np.ndarray, fresh: pd.DataFrame, *, rounds: int
) -> tuple[bytes, str, np.ndarray]:
    """A model of one of the libraries: its file, the name of that, and its own probabilities for fresh records."""
    if format_ == "xgboost":
        xgboost = library("xgboost")
        booster = xgboost.train({"objective": "binary:logistic", "nthread": 1}, xgboost.DMatrix(X, y), rounds)
        return bytes(booster.save_raw("json")), "m.json", booster.predict(xgboost.DMatrix(fresh))
    lightgbm = library("lightgbm")
    options = {"objective": "binary", "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(X, y), rounds)
    return booster.model_to_string().encode(), "m.txt", booster.predict(fresh)


@pytest.mark.parametrize("options", [{}, {"drop_first": True}, {"prefix": "home"}], ids=str)
@pytest.mark.parametrize("format_", ["xgboost", "lightgbm", "sklearn", "tree", "linear"])
def test_dummies_of_pandas_are_scored_as_by_the_library(
    tmp_path: Path, store: Registry, refusal: Refusal, format_: str, options: dict[str, Any]
) -> None:
    X, y, fresh = dummies(RECORDS, **options), truth(RECORDS), dummies(FRESH, **options)
    if format_ in BOOSTED:
        content, file, expected = boosted(format_, X, y, fresh, rounds=1 if format_ == "xgboost" else 5)
    else:
        made = DecisionTreeClassifier(max_depth=5) if format_ == "tree" else LogisticRegression(max_iter=10_000)
        fitted = made.fit(X, y)
        content, file, expected = skops_file(fitted), "m.skops", fitted.predict_proba(fresh)[:, 1]
        if format_ == "linear":
            weights = dict(zip(X.columns, fitted.coef_[0].tolist(), strict=True))
            intercept = float(fitted.intercept_[0])
            content, file = json.dumps({"intercept": intercept, "weights": weights, "space": "raw"}).encode(), "m.json"
    kind = "sklearn" if format_ == "tree" else format_
    model = described(tmp_path / "source", content, format=kind, path=file)
    named = {f"housing={level}": f"home_{level}" for level in ("free", "owned", "rented")}
    if "prefix" in options:
        assert any('"home_free"' in text or "is not an encoded" in text for text in refusal(model.write()).values())
        model.manifest["artifact"]["map"] = named
    elif options and format_ == "linear":
        assert "is missing" in next(iter(refusal(model.write()).values()))
        model.manifest["artifact"]["map"] = {"housing=free": None}
    loaded = store.register(model.write()).load()
    box = loaded.black_box
    found = sigmoid(box.score_raw(box.space.read_many(FRESH, pointer="")) + box.offset)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    warned = loaded.registered.registration.warnings
    if options.get("drop_first") and format_ != "linear":
        assert warned == ('The model has no column for "housing=free": it sees this category as zeros in all others.',)
    if format_ in ("xgboost", "tree"):
        assert box.boxes is not None
        X_new = box.space.encode(box.space.read_many(FRESH, pointer=""))
        np.testing.assert_array_equal(box.boxes.score(X_new), box.score(X_new))


@pytest.mark.parametrize("format_", ["xgboost", "lightgbm", "sklearn", "linear"])
def test_levels_with_an_order_may_be_dummies(tmp_path: Path, store: Registry, format_: str) -> None:
    """The model sees columns in the order of the alphabet, and advice moves along the levels."""

    def encoded(records: list[dict[str, Any]]) -> pd.DataFrame:
        frame = pd.DataFrame(records).assign(guarantor=lambda table: table.guarantor.astype(int))
        return pd.get_dummies(frame, columns=["savings", "housing"]).astype(float)[[
            "age", "income", "amount", "savings_much", "savings_none", "savings_some", "guarantor", "housing_free",
            "housing_owned", "housing_rented",
        ]]  # fmt: skip

    X, fresh = encoded(RECORDS), encoded(FRESH)
    y = truth(RECORDS) | np.array([record["savings"] == "much" for record in RECORDS])
    fitted = LogisticRegression(max_iter=10_000).fit(X, y)
    expected = fitted.predict_proba(fresh)[:, 1]
    if format_ in BOOSTED:
        content, file, expected = boosted(format_, X, y, fresh, rounds=5)
    elif format_ == "linear":
        weights = dict(zip(X.columns, fitted.coef_[0].tolist(), strict=True))
        document = {"intercept": float(fitted.intercept_[0]), "weights": weights, "space": "raw"}
        content, file = json.dumps(document).encode(), "m.json"
    else:
        content, file = skops_file(fitted), "m.skops"
    model = described(tmp_path / "source", content, format=format_, path=file)
    model.manifest["features"][3] |= {"dummies": True, "change": "increase"}
    loaded = store.register(model.write()).load()
    box = loaded.black_box
    rows_raw = box.space.read_many(FRESH, pointer="")
    found = sigmoid(box.score_raw(rows_raw) + box.offset)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    method = METHODS[DEFAULT_METHOD]
    raised = 0
    for row_raw in rows_raw[found < 0.4][:8]:
        actions = action_set(box.space, row_raw)
        problem = RecourseProblem(black_box=box, reference=loaded.reference, action_set=actions)
        for one in solve(problem, method, method.params(), CertificateParams()).counterfactuals:
            assert one.row_raw[3] >= row_raw[3]
            raised += one.row_raw[3] > row_raw[3]
    assert raised


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"type": "categorical", "change": "any"}, "dummies belongs to ordinal features"),
        ({"missing": "fill", "fill": "none"}, "dummies and missing do not go together"),
        ({"center": 0.0, "scale": 1.0}, "dummies are 0 and 1, without center and scale"),
    ],
)
def test_dummies_of_other_features_are_refused(
    tmp_path: Path, refusal: Refusal, keys: dict[str, Any], sentence: str
) -> None:
    model = make_linear(tmp_path / "source")
    model.manifest["features"][3] |= {"dummies": True, **keys}
    assert any(sentence in said for said in refusal(model.write()).values())


def test_a_network_takes_every_column(tmp_path: Path, refusal: Refusal) -> None:
    layers = {"type": "mlp", "layers": [8, 1], "activation": "relu"}
    model = described(tmp_path / "source", b"", format="torch", path="m.pt", architecture=layers, map={"age": "x"})
    assert "every encoded column" in refusal(model.write())["/artifact/map"]
