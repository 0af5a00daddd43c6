"""Trees as arrays of nodes say what XGBoost says of the same trees."""

from pathlib import Path

import numpy as np

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.futures.stacks import Nodes
from app.futures.store import load_futures
from tests.futures.models import registered
from tests.optional import library

FEW = Choices(stress="none", search=6, held_back=4)


def test_few_records_are_scored_as_many_are(tmp_path: Path) -> None:
    """Few are scored by the nodes of the trees, many by XGBoost."""
    model = registered(tmp_path, "xgboost")
    rehearse(model, FEW)
    futures = load_futures(model)
    assert futures is not None
    rows_raw = model.load().reference.rows_raw
    # Numbers at which a tree splits, too.
    X = np.round(model.load().reference.X, 2)
    many, many_raw = futures.held_back.scores(X), futures.held_back.scores_raw(rows_raw)
    for at in range(0, len(X) - 4, 4):
        few = slice(at, at + 4)
        np.testing.assert_allclose(futures.held_back.scores(X[few]), many[few], rtol=0, atol=2e-6)
        np.testing.assert_allclose(futures.held_back.scores_raw(rows_raw[few]), many_raw[few], rtol=0, atol=2e-6)


def test_nodes_walk_trees_of_any_shape() -> None:
    xgboost = library("xgboost")
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 5)), 1)
    y = (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=400) > 0.0) + (X[:, 2] > 0.5)
    options = {"objective": "multi:softprob", "num_class": 3, "base_score": 0.0, "grow_policy": "lossguide",
               "max_leaves": 12, "max_depth": 0, "tree_method": "hist", "nthread": 1}  # fmt: skip
    booster = xgboost.train(options, xgboost.DMatrix(X, y), num_boost_round=9)
    nodes = Nodes.of_xgboost(booster)
    assert nodes is not None
    again = Nodes.of_arrays(nodes.arrays())
    at = np.unique(X, axis=0)
    expected = booster.inplace_predict(at, predict_type="margin")
    found = again.sums(at)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
