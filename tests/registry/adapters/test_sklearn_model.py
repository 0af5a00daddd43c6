"""Estimators: hostile files, trust, and columns that do not fit."""

import hashlib
import io
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Bunch

from app.errors import ModelOutputInvalid, ModelRefused, ModelUnusable
from app.registry.registry import Registry
from app.registry.trust import Trust
from tests.optional import skops_file
from tests.registry.adapters import boosted
from tests.registry.adapters.evil import Evil
from tests.registry.loan import FEATURES, ModelDirectory

Refusal = Callable[[Path], dict[str, str]]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 8))
Y = (X[:, 1] - X[:, 2] > 0).astype(int)
NAMES = [feature["name"] for feature in FEATURES]


def dumped(estimator: Any) -> bytes:
    buffer = io.BytesIO()
    joblib.dump(estimator, buffer)
    return buffer.getvalue()


def use(model: ModelDirectory, content: bytes | Any, path: str = "m.skops", **changes: Any) -> Path:
    """The loan model with this estimator, or these bytes, as its artifact."""
    content = content if isinstance(content, bytes) else skops_file(content)
    model.set_artifact(content, format="sklearn", path=path)
    return model.write(**changes)


# --- hostile files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["m.joblib", "m.pkl"])
def test_a_pickle_is_refused_unread(model: ModelDirectory, refusal: Refusal, tmp_path: Path, path: str) -> None:
    for content in (dumped(Evil(tmp_path / "executed")), pickle.dumps(Evil(tmp_path / "executed"))):
        assert "--trust-pickle" in refusal(use(model, content, path))["/artifact/path"]
    assert not (tmp_path / "executed").exists()


def test_trust_is_in_the_bytes_of_the_digest_only(model: ModelDirectory, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "store", Trust(pickle=True))
    source = use(model, dumped(Evil(tmp_path / "executed")), "m.joblib")
    text = (source / "model.yaml").read_text()
    honest = hashlib.sha256(dumped(LogisticRegression().fit(X, Y))).hexdigest()
    (source / "model.yaml").write_text(text.replace(model.manifest["artifact"]["sha256"], honest))
    with pytest.raises(ModelRefused, match="is not the digest of the file"):
        registry.register(source)
    assert not (tmp_path / "executed").exists()


def test_a_pickle_swapped_after_registration_is_not_read(model: ModelDirectory, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "store", Trust(pickle=True))
    registered = registry.register(use(model, dumped(LogisticRegression().fit(X, Y)), "m.joblib"))
    (registered.directory / "m.joblib").write_bytes(dumped(Evil(tmp_path / "executed")))
    with pytest.raises(ModelUnusable, match="/artifact/sha256: is not the digest"):
        registered.load()
    assert not (tmp_path / "executed").exists()


def test_trust_is_asked_for_again_when_a_pickle_is_loaded(model: ModelDirectory, tmp_path: Path) -> None:
    Registry(tmp_path, Trust(pickle=True)).register(use(model, dumped(LogisticRegression().fit(X, Y)), "m.joblib"))
    with pytest.raises(ModelUnusable, match="RECOURSE_TRUST_PICKLE=true"):
        Registry(tmp_path).find("loan").load()


@pytest.mark.parametrize("content", [b"", b"junk", b"\x80\x04.", b"PK\x05\x06" + b"\0" * 18])
@pytest.mark.parametrize("path", ["m.joblib", "m.pkl", "m.skops"])
def test_damaged_files_are_refused(model: ModelDirectory, tmp_path: Path, path: str, content: bytes) -> None:
    with pytest.raises(ModelRefused, match="/artifact: cannot be read"):
        Registry(tmp_path / "store", Trust(pickle=True)).register(use(model, content, path))


def test_a_type_that_is_not_allowed_is_named(model: ModelDirectory, refusal: Refusal) -> None:
    pipeline = make_pipeline(FunctionTransformer(), LogisticRegression()).fit(X, Y)
    pipeline.steps[0][1].func = os.mkdir
    assert refusal(use(model, pipeline)) == {"/artifact": "holds types that are not allowed: posix.mkdir"}


def broken_tree(key: str, value: float, node: int = 0) -> DecisionTreeClassifier:
    """A fitted tree, one number of one of its nodes replaced."""
    estimator = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, Y)
    state = estimator.tree_.__getstate__()
    state["nodes"][key][node] = value
    estimator.tree_.__setstate__(state)
    return estimator


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("left_child", 10**9),
        ("right_child", 10**6),
        ("right_child", -5),
        ("left_child", 0),
        ("feature", 8),
        ("feature", -7),
    ],
)
def test_a_tree_that_points_outside_is_refused_before_it_is_asked(
    model: ModelDirectory, refusal: Refusal, key: str, value: int
) -> None:
    tree = broken_tree(key, value)
    forest = RandomForestClassifier(3, random_state=0).fit(X, Y)
    forest.estimators_[1] = tree
    for estimator in (tree, forest, make_pipeline(FunctionTransformer(), forest)):
        assert "nodes point outside" in refusal(use(model, estimator))["/artifact"]


def test_a_forest_counts_the_columns_itself(model: ModelDirectory, refusal: Refusal) -> None:
    wide = RandomForestClassifier(3, random_state=0).fit(np.hstack([X, X]), Y)
    wide.n_features_in_ = 8
    assert "nodes point outside" in refusal(use(model, wide))["/artifact"]


@pytest.mark.parametrize(
    ("key", "value"), [("left", 4_000_000_000), ("right", 0), ("feature_idx", 8), ("is_categorical", 1)]
)
def test_so_is_one_of_histograms(model: ModelDirectory, refusal: Refusal, key: str, value: int) -> None:
    estimator = HistGradientBoostingClassifier(max_iter=3).fit(X, Y)
    estimator._predictors[1][0].nodes[key][0] = value
    assert "nodes point outside" in refusal(use(model, estimator))["/artifact"]


def without_columns(estimator: Any) -> Any:
    """The estimator, which does not say any more how many columns it has."""
    del estimator.n_features_in_
    return estimator


@pytest.mark.parametrize(
    "estimator",
    [
        without_columns(broken_tree("feature", 10**9)),
        make_pipeline(FunctionTransformer(), without_columns(DecisionTreeClassifier().fit(X, Y))),
        without_columns(RandomForestClassifier(2, random_state=0).fit(X, Y)),
        without_columns(GradientBoostingClassifier(n_estimators=2).fit(X, Y)),
        without_columns(HistGradientBoostingClassifier(max_iter=2).fit(X, Y)),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_trees_that_do_not_count_their_columns_are_refused(
    model: ModelDirectory, refusal: Refusal, estimator: Any
) -> None:
    """Where it is absent, scikit-learn compares nothing with the table either."""
    assert "without n_features_in_" in refusal(use(model, estimator))["/artifact"]


def stray() -> Any:
    """Gradient boosting in which an object that is no estimator offers a tree."""
    boosting = GradientBoostingClassifier(n_estimators=2, init="zero").fit(X, Y)
    boosting.estimators_[1, 0] = Bunch(tree_=broken_tree("feature", 10**9).tree_)
    return boosting


def narrow() -> Any:
    """Histograms behind an encoder that leaves one column."""
    boosting = HistGradientBoostingClassifier(max_iter=2).fit(X, Y)
    boosting._preprocessor = SelectKBest(k=1).fit(X, Y)
    return boosting


@pytest.mark.parametrize("estimator", [stray(), narrow()], ids=["stray", "narrow"])
def test_trees_that_nobody_compares_with_the_table_are_refused(
    model: ModelDirectory, refusal: Refusal, estimator: Any
) -> None:
    assert "nodes point outside" in refusal(use(model, estimator))["/artifact"]


@pytest.mark.parametrize("init", ["zero", None])
def test_stages_that_are_wider_than_their_sums_are_refused(
    model: ModelDirectory, refusal: Refusal, init: str | None
) -> None:
    boosting = GradientBoostingClassifier(n_estimators=2, init=init).fit(X, Y)
    boosting.estimators_ = np.repeat(boosting.estimators_, 50, axis=1)
    assert "stages do not fit" in refusal(use(model, boosting))["/artifact"]
    boosting.n_trees_per_iteration_ = 50
    if init is None:
        assert "stages do not fit" in refusal(use(model, boosting, version="2"))["/artifact"]


def test_a_machine_of_libsvm_is_refused(model: ModelDirectory, refusal: Refusal) -> None:
    """It reads as many support vectors as the file says for each class."""
    machine = SVC().fit(X, Y)
    machine._n_support = np.array([10**8, len(machine.support_vectors_) - 10**8], dtype=np.int32)
    for estimator in (machine, make_pipeline(FunctionTransformer(), machine)):
        assert "store the model as ONNX" in refusal(use(model, estimator))["/artifact"]


@pytest.mark.parametrize("classes", [2, 3])
def test_sound_boosting_is_read(model: ModelDirectory, store: Registry, classes: int) -> None:
    many = np.digitize(X[:, 1], [-0.5, 0.5][: classes - 1])
    table = np.hstack([X[:, :7], (X[:, 7:] > 0)])
    for version, fitted in enumerate(
        [
            GradientBoostingClassifier(n_estimators=3, random_state=0).fit(X, many),
            GradientBoostingClassifier(n_estimators=3, random_state=0, init="zero").fit(X, many),
            HistGradientBoostingClassifier(max_iter=3, categorical_features=[7]).fit(table, many),
            VotingClassifier([("a", DecisionTreeClassifier()), ("b", RandomForestClassifier(2))], voting="soft").fit(
                X, many
            ),
        ]
    ):
        black_box = store.register(use(model, fitted, version=str(version))).load().black_box
        np.testing.assert_allclose(black_box.predict(table), fitted.predict_proba(table)[:, 1])


# --- does it fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "changes", "pointer", "sentence"),
    [
        (LinearRegression().fit(X, Y), {}, "/artifact", "is not a fitted classifier but LinearRegression"),
        (LogisticRegression(), {}, "/artifact", "is not a fitted classifier"),
        (LinearSVC().fit(X, Y), {}, "/output", "needs predict_proba"),
        (DecisionTreeClassifier().fit(X, Y), {"output": "logit", "threshold": 0}, "/output", "needs decision_function"),
        (LogisticRegression().fit(X, Y), {"favourable": "good"}, "/favourable", "classes of the estimator: 0, 1"),
        (LogisticRegression().fit(X[:, :5], Y), {}, "/features", "but the model was trained on 5"),
        (LogisticRegression().fit(X, Y), {"input": "raw"}, "/input", "fitted on a DataFrame"),
        (
            LogisticRegression().fit(X, np.arange(120) % 3), {"output": "logit", "threshold": 0},
            "/output", "a model of 3 classes",
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_manifest_is_refused(
    model: ModelDirectory, refusal: Refusal, estimator: Any, changes: dict[str, Any], pointer: str, sentence: str
) -> None:
    assert sentence in refusal(use(model, estimator, **changes))[pointer]


def test_named_encoded_columns_must_be_in_order(model: ModelDirectory, refusal: Refusal, store: Registry) -> None:
    columns = list(store.register(model.write()).space.columns)
    fitted = LogisticRegression().fit(pd.DataFrame(X, columns=columns[::-1]), Y)
    store.root = store.root.parent / "other"
    assert "another order" in refusal(use(model, fitted))["/features"]


def test_columns_of_a_table_are_compared_by_name(model: ModelDirectory, refusal: Refusal) -> None:
    table = pd.DataFrame(X[:, :6], columns=["shoe_size", *NAMES[1:]])
    assert refusal(use(model, LogisticRegression().fit(table, Y), input="raw")) == {
        "/features": 'lack "shoe_size", on which the estimator was fitted',
        "/features/0": '"age" is not a column on which the estimator was fitted; these are "shoe_size", "income", '
        '"amount", "savings", "guarantor", "housing"',
    }


def test_columns_of_a_table_may_come_in_any_order(model: ModelDirectory, store: Registry) -> None:
    model.manifest["features"] = model.manifest["features"][:3]
    numbers = pd.DataFrame(model.records)[["amount", "age", "income"]]
    fitted = make_pipeline(FunctionTransformer(), DecisionTreeClassifier(max_depth=3, random_state=0)).fit(
        numbers, numbers["income"] > 4_000
    )
    loaded = store.register(use(model, fitted, input="raw", favourable=True)).load()
    expected = fitted.predict_proba(numbers)[:, 1]
    np.testing.assert_allclose(loaded.black_box.predict(loaded.reference.rows_raw), expected)


def test_an_estimator_that_cannot_take_the_records_is_refused(model: ModelDirectory, refusal: Refusal) -> None:
    table = pd.DataFrame(X[:, :6], columns=NAMES)
    fault = refusal(use(model, LogisticRegression().fit(table, Y), input="raw"))["/artifact"]
    assert fault.startswith("the estimator raised ValueError for these records: could not convert string to float")


def encoder_of(levels: list[str]) -> Any:
    """A model of a table whose encoder knows these kinds of housing only."""
    table = pd.DataFrame({name: np.arange(120) % 3 for name in NAMES} | {"housing": np.resize(levels, 120)})
    columns = make_column_transformer((OneHotEncoder(), ["housing"]), remainder="drop")
    return make_pipeline(columns, DecisionTreeClassifier(random_state=0)).fit(table, Y)


def test_every_category_of_the_manifest_is_tried(model: ModelDirectory, refusal: Refusal) -> None:
    """Reference records without it would not show that the model fails on a category that applicants may have."""
    model.records = [record | {"housing": "owned"} for record in model.records]
    faults = refusal(use(model, encoder_of(["owned", "rented"]), input="raw"))
    assert list(faults) == ["/features/5"]
    assert faults["/features/5"].startswith('"housing": the model cannot take "free": the estimator raised ValueError')


def test_what_an_estimator_says_about_records_is_kept_to_itself(model: ModelDirectory, store: Registry) -> None:
    black_box = store.register(use(model, DecisionTreeClassifier(max_depth=2).fit(X, Y))).load().black_box
    with pytest.raises(ModelOutputInvalid) as caught:
        black_box.score(np.full((1, 8), 1e300))
    assert str(caught.value) == "the estimator raised ValueError for these records"


def test_of_three_classes_one_is_favourable(model: ModelDirectory, store: Registry) -> None:
    fitted = LogisticRegression().fit(X, np.array(["bad", "maybe", "good"])[np.arange(120) % 3])
    loaded = store.register(use(model, fitted, favourable="maybe", threshold=0.3)).load()
    np.testing.assert_allclose(loaded.black_box.predict(X), fitted.predict_proba(X)[:, 2])
    assert list(fitted.classes_) == ["bad", "good", "maybe"]


@pytest.mark.parametrize(
    "changes",
    [{}, {"threshold": 0.3}, {"output": "label"}, {"favourable": 0}],
    ids=str,
)
def test_a_decision_tree_has_boxes(model: ModelDirectory, store: Registry, changes: dict[str, Any]) -> None:
    fitted = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(boosted.X, boosted.Y)
    black_box = store.register(use(model, fitted, **changes)).load().black_box
    inner = fitted.tree_.children_left >= 0
    extreme = np.clip(boosted.EXTREME, -3e38, 3e38)  # beyond single precision scikit-learn refuses
    boxes = boosted.assert_boxes(black_box, fitted.tree_.threshold[inner], extreme)
    assert len(boxes.scores) == fitted.get_n_leaves()


def test_a_tree_on_whole_numbers_goes_left_at_its_threshold_too(model: ModelDirectory, store: Registry) -> None:
    fitted = DecisionTreeClassifier(min_samples_leaf=5, random_state=0).fit(np.rint(boosted.X), boosted.Y)
    halves = np.rint(2.0 * boosted.FRESH) / 2.0
    black_box = store.register(use(model, fitted)).load().black_box
    assert black_box.boxes
    assert np.array_equal(black_box.boxes.score(halves), black_box.score(halves))


@pytest.mark.parametrize("threshold", [1e300, -1e300, float(np.finfo(np.float32).max), np.inf, np.nan])
def test_a_tree_whose_boxes_cannot_be_asked_about_has_none(
    model: ModelDirectory, store: Registry, threshold: float
) -> None:
    black_box = store.register(use(model, broken_tree("threshold", threshold))).load().black_box
    assert black_box.boxes is None
    assert np.isfinite(black_box.score(X)).all()


def test_what_only_contains_a_tree_has_no_boxes(model: ModelDirectory, store: Registry) -> None:
    tree = DecisionTreeClassifier(max_depth=3, random_state=0)
    for version, estimator in enumerate([make_pipeline(FunctionTransformer(), tree), RandomForestClassifier(1)]):
        path = use(model, estimator.fit(X, Y), version=str(version))
        assert store.register(path).load().black_box.boxes is None
    table = pd.DataFrame(X[:, :3], columns=NAMES[:3])
    model.manifest["features"] = model.manifest["features"][:3]
    assert store.register(use(model, tree.fit(table, Y), input="raw", version="raw")).load().black_box.boxes is None


def test_a_forest_starts_no_threads(model: ModelDirectory, store: Registry) -> None:
    fitted = make_pipeline(FunctionTransformer(), RandomForestClassifier(50, n_jobs=-1, random_state=0)).fit(X, Y)
    loaded = store.register(use(model, fitted)).load()
    before = threading.active_count()
    loaded.black_box.score(X)
    assert threading.active_count() == before


def test_what_a_library_warns_about_is_kept_with_the_registration(
    model: ModelDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = LogisticRegression().fit(X, Y)
    monkeypatch.setattr("sklearn.base.__version__", "1.8.0")
    content = pickle.dumps(fitted)
    monkeypatch.undo()
    registered = Registry(tmp_path / "store", Trust(pickle=True)).register(use(model, content, "m.pkl"))
    assert "from version 1.8.0" in registered.registration.warnings[0]
    assert registered.load()
