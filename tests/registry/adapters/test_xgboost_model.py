"""Boosted trees of XGBoost: against the library itself, and against files that lie."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.recourse.models.black_box import BlackBox
from app.registry.adapters import xgboost_file, xgboost_model
from app.registry.registry import Registry
from tests.optional import library
from tests.registry.adapters.boosted import COLUMNS, EXTREME, FRESH, X, Y, assert_boxes, try_mutants
from tests.registry.loan import ModelDirectory

xgboost = library("xgboost")

Refusal = Callable[[Path], dict[str, str]]
Document = dict[str, Any]


def trained(rounds: int = 5, names: list[str] | None = None, labels: np.ndarray = Y, **params: Any) -> Any:
    settings = {"objective": "binary:logistic", "max_depth": 4, "nthread": 1} | params
    return xgboost.train(settings, xgboost.DMatrix(X, labels, feature_names=names), num_boost_round=rounds)


def document(booster: Any) -> Document:
    saved: Document = json.loads(booster.save_raw("json"))
    return saved


def use(model: ModelDirectory, content: Any, path: str = "m.json", **changes: Any) -> Path:
    """The loan model with this booster, or document, or these bytes, as its artifact."""
    if isinstance(content, dict):
        content = json.dumps(content).encode()
    elif not isinstance(content, bytes):
        content = bytes(content.save_raw("json"))
    model.set_artifact(content, format="xgboost", path=path)
    return model.write(**changes)


def loaded(model: ModelDirectory, store: Registry, content: Any, **changes: Any) -> BlackBox:
    return store.register(use(model, content, **changes)).load().black_box


# --- against the library ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"rounds": 60},
        {"names": COLUMNS},
        {"num_parallel_tree": 3, "subsample": 0.5},
        {"tree_method": "exact", "gamma": 5.0},
        {"tree_method": "approx", "grow_policy": "lossguide", "max_leaves": 9},
        {"base_score": 0.1},
        {"scale_pos_weight": 3.0},
        {"max_depth": 12},
    ],
    ids=str,
)
@pytest.mark.parametrize("favourable", [0, 1])
def test_answers_are_the_librarys(
    model: ModelDirectory, tmp_path: Path, params: dict[str, Any], favourable: int
) -> None:
    booster = trained(**params)
    for output in ("probability", "logit"):
        store = Registry(tmp_path / output)
        black_box = loaded(
            model, store, booster, favourable=favourable, output=output, threshold=0.0 if output == "logit" else 0.5
        )
        for points in (X, FRESH):
            margin = booster.predict(xgboost.DMatrix(points, feature_names=params.get("names")), output_margin=True)
            value = booster.predict(xgboost.DMatrix(points, feature_names=params.get("names")))
            if output == "logit":
                expected = margin if favourable else -margin
            else:
                expected = value if favourable else 1.0 - value
            assert np.array_equal(black_box.predict(points), expected.astype(float))
            one_by_one = np.concatenate([black_box.predict(point[None]) for point in points[:100]])
            assert np.array_equal(one_by_one, expected[:100].astype(float))  # another routine of the library
        expected = booster.inplace_predict(EXTREME, predict_type="margin", validate_features=False)
        assert np.array_equal(black_box.score(EXTREME) >= 0.0, (expected >= 0.0) == bool(favourable))


@pytest.mark.parametrize("output", ["probability", "logit"])
def test_a_model_of_logits_gives_either(model: ModelDirectory, store: Registry, output: str) -> None:
    booster = trained(objective="binary:logitraw")
    black_box = loaded(model, store, booster, output=output, threshold=0.0 if output == "logit" else 0.5)
    np.testing.assert_allclose(black_box.score(FRESH), booster.predict(xgboost.DMatrix(FRESH)), rtol=1e-12, atol=1e-12)


def test_one_thread_is_enough() -> None:
    learner = xgboost_file.parse(bytes(trained().save_raw("json"))).learner
    parts = learner.gradient_booster.model.trees
    booster = xgboost_model._booster(xgboost_model._document(learner, xgboost_file.trees_of(parts, 8)[0], parts))
    assert json.loads(booster.save_config())["learner"]["generic_param"]["nthread"] == "1"


# --- a single tree ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "changes"),
    [
        ({"max_depth": 6}, {"threshold": 0.4}),
        ({"max_depth": 6}, {"favourable": 0}),
        ({"base_score": 0.2, "max_depth": 3}, {"output": "logit", "threshold": -0.3}),
        ({"tree_method": "exact", "gamma": 5.0}, {}),
        ({"objective": "binary:logitraw"}, {}),
    ],
)  # fmt: skip
def test_a_single_tree_has_boxes(
    model: ModelDirectory, store: Registry, params: dict[str, Any], changes: dict[str, Any]
) -> None:
    booster = trained(rounds=1, **params)
    (tree,) = document(booster)["learner"]["gradient_booster"]["model"]["trees"]
    inner = np.array(tree["left_children"]) >= 0
    boxes = assert_boxes(loaded(model, store, booster, **changes), np.array(tree["split_conditions"])[inner])
    assert len(boxes.scores) == inner.sum() + 1


def test_a_tree_on_whole_numbers_goes_left_below_its_threshold_only(model: ModelDirectory, store: Registry) -> None:
    whole = np.rint(2.0 * X)
    booster = xgboost.train(
        {"objective": "binary:logistic", "max_depth": 5, "nthread": 1}, xgboost.DMatrix(whole, Y), num_boost_round=1
    )
    black_box = loaded(model, store, booster)
    assert black_box.boxes
    points = np.rint(2.0 * FRESH)
    assert np.array_equal(black_box.boxes.score(points), black_box.score(points))


def test_a_stump_without_splits(model: ModelDirectory, store: Registry) -> None:
    black_box = loaded(model, store, trained(rounds=1, max_depth=4, min_child_weight=1e9))
    assert black_box.boxes
    assert np.array_equal(black_box.boxes.score(FRESH), black_box.score(FRESH))


def test_several_trees_have_no_boxes(model: ModelDirectory, store: Registry) -> None:
    assert loaded(model, store, trained(rounds=2)).boxes is None


def test_a_tree_with_too_many_leaves_has_none(
    model: ModelDirectory, store: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.registry.adapters.trees.LARGEST_BOXES", 20)
    assert loaded(model, store, trained(rounds=1)).boxes is None


# --- does it fit -----------------------------------------------------------------------------------------------------

LEARNER = "/artifact/learner"


@pytest.mark.parametrize(
    ("params", "pointer", "sentence"),
    [
        ({"objective": "reg:squarederror"}, f"{LEARNER}/objective/name", "'binary:logistic' or 'binary:logitraw'"),
        (
            {"objective": "multi:softprob", "num_class": 3, "labels": np.arange(600) % 3},
            f"{LEARNER}/objective/name", "'binary:logistic' or 'binary:logitraw': train a classifier of two classes",
        ),
        ({"booster": "gblinear", "max_depth": None}, f"{LEARNER}/gradient_booster/name", "'gbtree'"),
        ({"names": COLUMNS[::-1]}, "/features", 'another order than the columns of the model: "housing=free"'),
        (
            {"names": ["shoe size", *COLUMNS[1:]]}, "/features",
            'it was trained on the columns "shoe size", where the manifest has "age"; rename, or say in '
            'artifact.map which is which, as "age": "shoe size"',
        ),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_what_does_not_fit_the_manifest_is_refused(
    model: ModelDirectory, refusal: Refusal, params: dict[str, Any], pointer: str, sentence: str
) -> None:
    params = {key: value for key, value in params.items() if value is not None}
    if params.get("booster") == "gblinear":
        booster = xgboost.train(
            {"objective": "binary:logistic", "nthread": 1, **params}, xgboost.DMatrix(X, Y), num_boost_round=2
        )
    else:
        booster = trained(**params)
    assert sentence in refusal(use(model, booster))[pointer]


def test_other_columns_are_counted(model: ModelDirectory, refusal: Refusal) -> None:
    booster = xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(X[:, :5], Y), num_boost_round=2)
    fault = refusal(use(model, booster))["/features"]
    assert fault.startswith('have 8 encoded columns ("age", "income"')
    assert "but the model was trained on 5; write null in artifact.map" in fault
    asked = "are 6, but the model was trained on 8 columns; input: raw has one for each feature"
    assert refusal(use(model, trained(), input="raw"))["/features"] == asked


def test_splits_by_categories_are_refused(model: ModelDirectory, refusal: Refusal) -> None:
    table = X.copy()
    table[:, 0] = np.arange(600) % 6
    labels = (np.arange(600) % 6 % 2).astype(int)
    data = xgboost.DMatrix(table, labels, feature_types=["c", *["q"] * 7], enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "max_cat_to_onehot": 1}, data, num_boost_round=2)
    pointer = f"{LEARNER}/gradient_booster/model/trees/0"
    assert refusal(use(model, booster))[pointer].startswith("splits by categories; write input: raw")


def test_it_must_be_clear_how_many_rounds_are_meant(model: ModelDirectory, refusal: Refusal, store: Registry) -> None:
    """After early stopping XGBClassifier uses the first rounds of the file, Booster.predict all of them."""
    train, test = xgboost.DMatrix(X[:100], Y[:100]), xgboost.DMatrix(X[100:], Y[100:])
    booster = xgboost.train(
        {"objective": "binary:logistic", "eta": 1.0}, train, 100, evals=[(test, "t")], early_stopping_rounds=3,
        verbose_eval=False,
    )  # fmt: skip
    best = booster.best_iteration
    fault = refusal(use(model, booster))[f"{LEARNER}/attributes/best_iteration"]
    assert fault.endswith(f"save booster[: {best + 1}] to say which are meant")
    black_box = loaded(model, store, booster[: best + 1])
    expected = booster.predict(xgboost.DMatrix(FRESH), iteration_range=(0, best + 1))
    assert np.array_equal(black_box.predict(FRESH), expected.astype(float))


# --- files that lie --------------------------------------------------------------------------------------------------


def broken(change: Callable[[Document], None]) -> Document:
    """A file with its second tree changed."""
    saved = document(trained())
    change(saved["learner"]["gradient_booster"]["model"]["trees"][1])
    return saved


OUTSIDE = "has nodes that point outside of it or that two nodes point at"


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("left_children", 10**6, OUTSIDE),
        ("right_children", 0, OUTSIDE),
        ("left_children", 2, OUTSIDE),
        ("right_children", -1, "has nodes with one child"),
        ("split_indices", 8, "asks about columns that are none of the 8 encoded columns"),
        ("split_indices", 2**31, "asks about columns that are none of the 8 encoded columns"),
    ],
)
def test_a_tree_that_points_outside_is_refused_before_it_is_asked(
    model: ModelDirectory, refusal: Refusal, key: str, value: int, sentence: str
) -> None:
    saved = broken(lambda tree: tree[key].__setitem__(0, value))
    assert refusal(use(model, saved)) == {f"{LEARNER}/gradient_booster/model/trees/1": sentence}


def test_siblings_may_stand_anywhere(model: ModelDirectory, store: Registry) -> None:
    """XGBoost itself would take the node after the left child for the right one, for single records only."""
    saved = document(trained())
    for tree in saved["learner"]["gradient_booster"]["model"]["trees"]:
        count = len(tree["left_children"])
        place = np.concatenate([[0], 1 + np.random.default_rng(0).permutation(count - 1)])
        for key in ("left_children", "right_children", "split_indices", "split_conditions", "default_left"):
            moved = [0] * count
            for node, value in enumerate(tree[key]):
                moved[place[node]] = int(place[value]) if key.endswith("children") and value > 0 else value
            tree[key] = moved
    black_box = loaded(model, store, saved)
    expected = trained().inplace_predict(FRESH[:300]).astype(float)
    assert np.array_equal(black_box.predict(FRESH[:300]), expected)
    assert np.array_equal(np.concatenate([black_box.predict(x[None]) for x in FRESH[:300]]), expected)


@pytest.mark.parametrize("key", ["left_children", "right_children", "split_indices", "split_conditions"])
def test_arrays_of_one_tree_have_one_length(model: ModelDirectory, refusal: Refusal, key: str) -> None:
    saved = broken(lambda tree: tree[key].pop())
    pointer = f"{LEARNER}/gradient_booster/model/trees/1"
    assert refusal(use(model, saved)) == {pointer: "has arrays of different lengths"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39, "x", None, "1_0", True, "\u0661"])
def test_numbers_are_finite(model: ModelDirectory, refusal: Refusal, value: Any) -> None:
    saved = broken(lambda tree: tree["split_conditions"].__setitem__(3, value))
    assert list(refusal(use(model, saved))) == [f"{LEARNER}/gradient_booster/model/trees/1/split_conditions/3"]


def test_the_number_of_trees_is_what_the_file_says(model: ModelDirectory, refusal: Refusal) -> None:
    saved = document(trained())
    saved["learner"]["gradient_booster"]["model"]["trees"].pop()
    assert "are not as many" in refusal(use(model, saved))[f"{LEARNER}/gradient_booster/model/trees"]


@pytest.mark.parametrize("value", ["0.1_5", "\u0660.5", True])
def test_parameters_are_plain_numbers(model: ModelDirectory, refusal: Refusal, value: Any) -> None:
    saved = document(trained())
    saved["learner"]["learner_model_param"]["base_score"] = value
    assert refusal(use(model, saved)) == {f"{LEARNER}/learner_model_param/base_score": "must be a number"}


def test_the_base_score_is_a_probability(model: ModelDirectory, refusal: Refusal) -> None:
    saved = document(trained())
    saved["learner"]["learner_model_param"]["base_score"] = "[1E0]"
    assert refusal(use(model, saved)) == {f"{LEARNER}/learner_model_param/base_score": "must be a probability"}


@pytest.mark.parametrize("content", [b"", b"junk", b"[]", b"{}", b"\xff", b"[" * 100_000], ids=len)
def test_what_is_no_model_is_refused(model: ModelDirectory, refusal: Refusal, content: bytes) -> None:
    assert all(pointer.startswith("/artifact") for pointer in refusal(use(model, content)))


@pytest.mark.slow
def test_damaged_files_never_end_the_process(model: ModelDirectory) -> None:
    counts = try_mutants(use(model, trained(rounds=2)))
    assert counts["refused"] > 100
    assert counts["taken"] > 10
