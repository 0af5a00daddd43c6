"""Boosted trees of LightGBM: against the library itself, and against files that lie."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import ModelUnusable
from app.recourse.models.black_box import BlackBox
from app.registry.registry import Registry
from tests.optional import library
from tests.registry.adapters.boosted import COLUMNS, EXTREME, FRESH, X, Y, assert_boxes, try_mutants
from tests.registry.loan import ModelDirectory

lightgbm = library("lightgbm")

Refusal = Callable[[Path], dict[str, str]]


def trained(
    rounds: int = 5, names: list[str] | None = None, points: np.ndarray = X, labels: np.ndarray = Y, **params: Any
) -> Any:
    settings = {"objective": "binary", "num_leaves": 9, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 5}
    data = lightgbm.Dataset(points, labels, feature_name=names or "auto")
    return lightgbm.train(settings | params, data, num_boost_round=rounds)


def use(model: ModelDirectory, content: Any, **changes: Any) -> Path:
    """The loan model with this booster, or text, or these bytes, as its artifact."""
    if not isinstance(content, str | bytes):
        content = content.model_to_string()
    model.set_artifact(content.encode() if isinstance(content, str) else content, format="lightgbm", path="m.txt")
    return model.write(**changes)


def loaded(model: ModelDirectory, store: Registry, content: Any, **changes: Any) -> BlackBox:
    return store.register(use(model, content, **changes)).load().black_box


def thresholds(booster: Any) -> np.ndarray:
    found = re.search(r"^threshold=(.*)$", booster.model_to_string(), re.MULTILINE)
    assert found
    return np.array(found[1].split(), dtype=float)


# --- against the library ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"rounds": 60},
        {"names": COLUMNS},
        {"sigmoid": 2.0},
        {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        {"boosting": "dart"},
        {"zero_as_missing": True, "points": np.where(np.abs(X) < 0.5, 0.0, X)},
        {"use_missing": False},
        {"extra_trees": True, "max_depth": 4},
    ],
    ids=lambda params: str(params)[:40],
)
@pytest.mark.parametrize("favourable", [0, 1])
def test_answers_are_the_librarys(
    model: ModelDirectory, tmp_path: Path, params: dict[str, Any], favourable: int
) -> None:
    booster = trained(**params)
    slope = params.get("sigmoid", 1.0)
    for points in (X, FRESH, EXTREME, np.where(np.abs(FRESH) < 0.5, 0.0, FRESH)):
        value = booster.predict(points)
        logit = slope * booster.predict(points, raw_score=True)
        for output, expected, threshold in (
            ("probability", value if favourable else 1.0 - value, 0.5),
            ("logit", logit if favourable else -logit, 0.0),
        ):
            store = Registry(tmp_path / output)
            if not store.list():
                store.register(use(model, booster, favourable=favourable, output=output, threshold=threshold))
            assert np.array_equal(store.find("loan").load().black_box.predict(points), expected)


# --- a single tree ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "changes"),
    [
        ({"num_leaves": 31, "learning_rate": 1.0}, {"threshold": 0.4}),
        ({"num_leaves": 31, "learning_rate": 1.0}, {"favourable": 0}),
        ({"sigmoid": 2.0, "learning_rate": 1.0}, {"output": "logit", "threshold": 0.1}),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, {}),
        ({"points": np.rint(X), "num_leaves": 31}, {}),
    ],
    ids=["probability", "turned", "logit", "forest", "around zero"],
)
def test_a_single_tree_has_boxes(
    model: ModelDirectory, store: Registry, params: dict[str, Any], changes: dict[str, Any]
) -> None:
    booster = trained(rounds=1, **params)
    boxes = assert_boxes(loaded(model, store, booster, **changes), thresholds(booster))
    assert len(boxes.scores) == len(thresholds(booster)) + 1


def test_numbers_next_to_zero_go_where_zero_goes(model: ModelDirectory, store: Registry) -> None:
    zero = float(np.float32(1e-35))
    booster = trained(rounds=1, points=np.rint(X))
    text = booster.model_to_string()
    edges = [-2 * zero, -zero, np.nextafter(-zero, 0), -1e-40, -0.0, 0.0, 1e-40, zero, np.nextafter(zero, 1), 1e-30]
    for number, edge in enumerate(edges):
        line = "threshold=" + " ".join([repr(float(edge))] * len(thresholds(booster)))
        black_box = loaded(model, store, re.sub("^threshold=.*$", line, text, flags=re.MULTILINE), version=str(number))
        assert black_box.boxes
        around = [edge, zero, -zero, 0.0, 1e-40]
        points = np.random.default_rng(0).choice(
            [np.nextafter(x, side) for x in around for side in (-1.0, x, 1.0)], size=(500, 8)
        )
        assert np.array_equal(black_box.boxes.score(points), black_box.score(points))


def test_a_stump_without_splits(model: ModelDirectory, store: Registry) -> None:
    black_box = loaded(model, store, trained(rounds=1, min_data_in_leaf=500))
    assert black_box.boxes
    assert np.array_equal(black_box.boxes.score(FRESH), black_box.score(FRESH))


def test_what_is_no_single_tree_of_comparisons_has_no_boxes(model: ModelDirectory, store: Registry) -> None:
    assert loaded(model, store, trained(rounds=2)).boxes is None
    sparse = np.where(np.abs(X) < 0.5, 0.0, X)
    assert loaded(model, store, trained(rounds=1, zero_as_missing=True, points=sparse), version="2").boxes is None


# --- does it fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "pointer", "sentence"),
    [
        ({"objective": "regression"}, "/artifact/objective", 'must be binary, as in "binary sigmoid:1"'),
        ({"objective": "cross_entropy"}, "/artifact/objective", "must be binary"),
        (
            {"objective": "multiclass", "num_class": 3, "labels": np.arange(600) % 3},
            "/artifact/num_tree_per_iteration", "must be 1",
        ),
        ({"names": COLUMNS[::-1]}, "/features", 'another order than the columns of the model: "housing=free"'),
        ({"names": ["shoe_size", *COLUMNS[1:]]}, "/features", 'columns "shoe_size", where the manifest has "age"'),
        ({"points": X[:, :5]}, "/features", "but the model was trained on 5; write null in artifact.map"),
        ({"linear_tree": True, "verbose": -1}, "/artifact/tree/0/is_linear", "linear models in their leaves"),
        ({"categorical_feature": [0], "points": np.column_stack([np.arange(600) % 6, X[:, 1:]]),
          "labels": np.arange(600) % 6 % 2, "min_data_per_group": 1, "cat_smooth": 0},
         "/artifact/tree", "splits by categories; write input: raw"),
    ],
    ids=lambda value: str(value)[:30],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:categorical_feature:UserWarning")
def test_what_does_not_fit_the_manifest_is_refused(
    model: ModelDirectory, refusal: Refusal, params: dict[str, Any], pointer: str, sentence: str
) -> None:
    assert sentence in refusal(use(model, trained(**params)))[pointer]


def test_names_are_compared_as_lightgbm_writes_them(model: ModelDirectory, store: Registry) -> None:
    model.manifest["features"][5]["categories"] = ["rented", "owned", "rent free"]
    for record in model.records:
        record["housing"] = record["housing"].replace("free", "rent free")
    names = [name.replace("free", "rent_free") for name in COLUMNS]
    assert loaded(model, store, trained(names=names)).space.columns[-1] == "housing=rent free"


def test_a_library_that_cannot_be_loaded_is_named(
    model: ModelDirectory, store: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a system without OpenMP."""
    registered = store.register(use(model, trained()))

    def fail(*_: Any) -> None:
        raise OSError("libgomp.so.1: cannot open shared object file")

    monkeypatch.delitem(sys.modules, "lightgbm")
    monkeypatch.setattr(sys, "meta_path", [type("Finder", (), {"find_spec": fail})(), *sys.meta_path])
    with pytest.raises(ModelUnusable, match=r"cannot be loaded \(libgomp\.so\.1: cannot open shared object file\)"):
        registered.load()


# --- files that lie --------------------------------------------------------------------------------------------------

OUTSIDE = "has nodes that point outside of it or that two nodes point at"


def broken(key: str, value: str, at: int = 0) -> str:
    """A file with one number of its first tree changed."""

    def change(found: re.Match[str]) -> str:
        numbers = found[1].split(" ")
        numbers[at] = value
        return f"{key}={' '.join(numbers)}"

    text, count = re.subn(rf"^{key}=(.*)$", change, trained().model_to_string(), count=1, flags=re.MULTILINE)
    assert count == 1
    return text


@pytest.mark.parametrize(
    ("key", "value", "pointer", "sentence"),
    [
        ("left_child", "1000000", "/tree/0", OUTSIDE),
        ("left_child", "-1000000", "/tree/0", OUTSIDE),
        ("right_child", "0", "/tree/0", OUTSIDE),
        ("right_child", "-9223372036854775808", "/tree/0/right_child", "has numbers that no tree has"),
        ("right_child", "99999999999999999999", "/tree/0/right_child", "is no list of numbers"),
        ("leaf_value", "1_0", "/tree/0/leaf_value", "is no list of numbers"),
        ("threshold", "\u0661.5", "/tree/0/threshold", "is no list of numbers"),
        ("left_child", "\u0661", "/tree/0/left_child", "is no list of numbers"),
        ("left_child", "x", "/tree/0/left_child", "is no list of numbers"),
        ("left_child", "1 1", "/tree/0/left_child", "must be 8 finite numbers"),
        ("split_feature", "8", "/tree/0", "asks about columns that are none of the 8 encoded columns"),
        ("split_feature", "-1", "/tree/0", "asks about columns that are none of the 8 encoded columns"),
        ("decision_type", "12", "/tree/0/decision_type", "must describe comparisons, or splits by categories"),
        ("decision_type", "1", "/tree/0/threshold", "must be the index of a set for each split by categories"),
        ("threshold", "nan", "/tree/0/threshold", "must be 8 finite numbers"),
        ("leaf_value", "inf", "/tree/0/leaf_value", "must be 9 finite numbers"),
        ("num_leaves", "1000000000000", "/tree/0/num_leaves", "has numbers that no tree has"),
        ("num_leaves", "0", "/tree/0/num_leaves", "must be at least 1"),
        ("num_cat", "1", "/tree/0/cat_boundaries", "is missing"),
        ("num_cat", "9", "/tree/0/num_cat", "must be the number of splits by categories"),
        ("version", "v9", "/version", "must be one of v3, v4"),
        ("max_feature_idx", "x", "/max_feature_idx", "must be the number of columns less one"),
        ("feature_names", "a b", "/feature_names", "must be 8 names"),
        ("tree_sizes", "1 1", "/tree_sizes", "are not those of 5 trees"),
        ("objective", "regression", "/objective", 'must be binary, as in "binary sigmoid:1"'),
    ],
)  # fmt: skip
def test_a_tree_that_lies_is_refused_before_it_is_asked(
    model: ModelDirectory, refusal: Refusal, key: str, value: str, pointer: str, sentence: str
) -> None:
    assert refusal(use(model, broken(key, value))) == {f"/artifact{pointer}": sentence}


def test_nodes_that_go_in_circles_are_refused(model: ModelDirectory, refusal: Refusal) -> None:
    """Nobody's child twice, but two nodes are each other's only parent."""
    text = trained(rounds=1, num_leaves=4).model_to_string()
    for key, line in (("left_child", "-1 2 1"), ("right_child", "-2 -3 -4")):
        text = re.sub(rf"^{key}=.*$", f"{key}={line}", text, flags=re.MULTILINE)
    assert refusal(use(model, text)) == {"/artifact/tree/0": "has nodes that its root does not lead to"}


def test_a_key_that_is_given_twice_is_refused(model: ModelDirectory, refusal: Refusal) -> None:
    text = trained().model_to_string().replace("num_cat=0\n", "num_cat=0\nnum_cat=0\n", 1)
    assert refusal(use(model, text)) == {"/artifact/tree/0/num_cat": "is given twice"}


@pytest.mark.parametrize(
    "content",
    [b"", b"junk", b"tree\nend of trees\n", b"\xff", b"Tree=0\nend of trees\n", b"tree\nTree=0\nend of trees"],
)
def test_what_is_no_model_is_refused(model: ModelDirectory, refusal: Refusal, content: bytes) -> None:
    assert all(pointer.startswith("/artifact") for pointer in refusal(use(model, content)))


@pytest.mark.slow
def test_damaged_files_never_end_the_process(model: ModelDirectory) -> None:
    text = trained(rounds=2).model_to_string()
    content = text[: text.index("end of trees") + 13]  # what follows is not looked at
    counts = try_mutants(use(model, content))
    assert counts["refused"] > 100
    assert counts["taken"] > 10
