"""ONNX with one input for each column of a table, under names and types of its own, against the pipeline it is of."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from app.recourse.models.score import sigmoid
from app.registry.registry import Registry
from tests.optional import library
from tests.registry.adapters.table import FEATURES, PURPOSE, frame, make, outcomes, records
from tests.registry.loan import ModelDirectory

library("onnxruntime")
skl2onnx, types = library("skl2onnx"), library("skl2onnx.common.data_types")

Refusal = Callable[[Path], dict[str, str]]

NAMES = {"income": "NET_INC", "housing": "housing type", "months": "months", "purpose": "purpose"}
PLAIN = [dict(FEATURES[j]) for j in (0, 1, 2, 3)]
for _feature in PLAIN:
    _feature.pop("missing", None)


def table(count: int = 600, seed: int = 0) -> pd.DataFrame:
    """Without missing values; one column of codes that are numbers."""
    found = frame(count, seed)[["income", "housing", "months", "purpose"]]
    found["income"] = found["income"].fillna(2_000.0)
    found["housing"] = found["housing"].astype(object).fillna("free")
    return found.assign(purpose=found["purpose"].astype(np.int64))


def exported(last: Any, *, zipmap: bool, classes: list[Any]) -> tuple[bytes, Any]:
    rows = table().rename(columns=NAMES)
    income, housing, months, purpose = NAMES.values()
    steps = make_column_transformer(
        (StandardScaler(), [income, months]), (OneHotEncoder(), [housing]),
        (OneHotEncoder(categories=[[1, 2, 5, 10, 11]]), [purpose]),
    )  # fmt: skip
    pipeline = make_pipeline(steps, last).fit(rows, np.array(classes)[outcomes(frame())])
    kinds = [types.FloatTensorType, types.StringTensorType, types.Int64TensorType, types.Int64TensorType]
    inputs = [(name, kind([None, 1])) for name, kind in zip(NAMES.values(), kinds, strict=True)]
    options = {id(pipeline): {"zipmap": zipmap}}
    graph = skl2onnx.to_onnx(pipeline, initial_types=inputs, options=options, target_opset=17)
    return graph.SerializeToString(), pipeline


def used(path: Path, content: bytes, **artifact: Any) -> ModelDirectory:
    sent = records(frame(300, seed=9))
    model = make(path, content, {"format": "onnx", "path": "m.onnx", **artifact}, features=PLAIN)
    model.columns = [str(feature["name"]) for feature in PLAIN]
    model.records = [
        {**{name: record[name] for name in model.columns}, "income": record["income"] or 2_000.0,
         "housing": record["housing"] or "free"} for record in sent
    ]  # fmt: skip
    return model


MAP = {"income": "NET_INC", "housing": "housing type"}


@pytest.mark.parametrize("zipmap", [False, True])
@pytest.mark.parametrize(("classes", "favourable"), [([0, 1], 1), (["bad", "good"], "good"), (["yes", "no"], "yes")])
@pytest.mark.parametrize("last", [LogisticRegression(), DecisionTreeClassifier(max_depth=5)], ids=["line", "tree"])
def test_scores_are_those_of_the_pipeline(
    path: Path, store: Registry, zipmap: bool, classes: list[Any], favourable: Any, last: Any
) -> None:
    content, pipeline = exported(last, zipmap=zipmap, classes=classes)
    model = used(path, content, map=MAP)
    box = store.register(model.write(favourable=favourable)).load().black_box
    fresh = table(1_000, seed=1)
    sent = fresh.assign(purpose=fresh["purpose"].astype(str)).to_dict("records")
    rows = box.space.read_many([{str(k): v for k, v in one.items()} for one in sent], pointer="")
    column = list(pipeline.classes_).index(favourable)
    expected = pipeline.predict_proba(fresh.rename(columns=NAMES))[:, column]
    same = np.abs(sigmoid(box.score_raw(rows)) - expected) <= 1e-6
    # A scaled number next to the threshold of a tree is on the other side of it in single precision.
    assert same.mean() >= (0.998 if isinstance(last, DecisionTreeClassifier) else 1.0)


def test_both_sides_are_listed(path: Path, refusal: Refusal) -> None:
    content, _ = exported(LogisticRegression(), zipmap=False, classes=["bad", "good"])
    faults = refusal(used(path, content).write(favourable="good"))
    assert '"income" is not an input of the model; its inputs are "NET_INC", "housing' in faults["/features/0"]
    assert 'lack "NET_INC", which the model takes; artifact.map says which feature it is' in faults["/features"]
    faults = refusal(used(path, content, map=MAP).write(favourable="fine"))
    assert faults["/artifact/column"].endswith('the graph names the classes "bad", "good"')


def test_levels_that_are_no_numbers_are_not_sent_as_numbers(path: Path, refusal: Refusal) -> None:
    content, _ = exported(LogisticRegression(), zipmap=False, classes=[0, 1])
    model = used(path, content, map=MAP)
    model.manifest["features"][3] = {**PLAIN[3], "categories": [*PURPOSE[:4], "eleven"]}
    for record in model.records:
        record["purpose"] = record["purpose"].replace("11", "eleven")
    assert "is categorical, but the model takes tensor(int64)" in refusal(model.write())["/features/3"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model"
