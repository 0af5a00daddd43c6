"""Every adapter against one contract: the scores are the model's own, whatever library made it.

Each case trains a small real model on the loan records and says, independently of the adapter and of `FeatureSpace`,
what it answers to a list of raw records.
"""

import io
import json
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import joblib
import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)  # fmt: skip
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from app.errors import ModelUnusable
from app.recourse.models.score import LOGIT_LIMIT
from app.registry.artifact import Format
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel
from app.remote_hosts import RemoteHost
from tests.optional import library, skops_file
from tests.registry.loan import FEATURES, WEIGHTS, ModelDirectory, Record, loan_records, make_linear
from tests.remote.server import of_point, of_record
from tests.remote.serving import make_remote, shared

Answer: TypeAlias = Callable[[list[Record]], np.ndarray]
"""Scores (favourable iff >= 0) of raw records, without our code."""

THRESHOLD = 0.4
OFFSET = float(np.log(THRESHOLD / (1 - THRESHOLD)))

RECORDS = loan_records(300)
FRESH = loan_records(60, seed=1)

_numbers = np.array([[r["age"], r["income"], r["amount"]] for r in RECORDS])
_levels = np.array([["none", "some", "much"].index(r["savings"]) for r in RECORDS])
CENTER = dict(zip(("age", "income", "amount", "savings"), [*_numbers.mean(axis=0), _levels.mean()], strict=True))
SCALE = dict(zip(("age", "income", "amount", "savings"), [*_numbers.std(axis=0), _levels.std()], strict=True))


def numbers(record: Record) -> dict[str, float]:
    """A record as raw numbers and category indicators."""
    return {
        "age": record["age"],
        "income": record["income"],
        "amount": record["amount"],
        "savings": ["none", "some", "much"].index(record["savings"]),
        "guarantor": float(record["guarantor"]),
        **{f"housing={level}": float(record["housing"] == level) for level in ("rented", "owned", "free")},
    }


def encode(records: list[Record]) -> np.ndarray:
    """Encoded points, by hand."""
    rows = [
        [(value - CENTER.get(name, 0.0)) / SCALE.get(name, 1.0) for name, value in numbers(record).items()]
        for record in records
    ]
    return np.array(rows)


def frame(records: list[Record]) -> pd.DataFrame:
    return pd.DataFrame(records)


def repaid(records: list[Record]) -> np.ndarray:
    """A made-up truth with interactions, so that models of all kinds have something to learn."""
    rng = np.random.default_rng(5)
    total = [
        r["income"] / 2_000 - r["amount"] / 9_000 + (r["housing"] == "owned") * (r["age"] > 40) + r["guarantor"] - 1.0
        for r in records
    ]
    return (np.array(total) + rng.normal(scale=0.5, size=len(total)) > 0.5).astype(int)


def logit_score(probability: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        logits = np.log(probability) - np.log1p(-probability)
    return np.clip(logits, -LOGIT_LIMIT, LOGIT_LIMIT) - OFFSET


# --- the cases -------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    model: ModelDirectory
    answer: Answer
    gradient: bool = False
    trusted: bool = False
    tolerance: float = 1e-9
    single: bool = False
    """Whether its probabilities are of single precision, so that logits of sure ones are not."""
    hosts: tuple[RemoteHost, ...] = ()

    def compare(self, scores: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
        """Scores are the same, or, in single precision, the probabilities."""
        if self.single:
            scores, expected = expit(scores + OFFSET), expit(expected + OFFSET)
        np.testing.assert_allclose(scores, expected, rtol=0.0 if self.single else tolerance, atol=tolerance)


def described(path: Path, content: bytes, artifact: dict[str, Any], **changes: Any) -> ModelDirectory:
    model = make_linear(path)
    model.records = RECORDS
    model.manifest |= {"threshold": THRESHOLD, **changes}
    model.set_artifact(content, **artifact)
    return model


def linear(path: Path, *, space: str, output: str = "probability") -> Case:
    content = json.dumps({"space": space, "intercept": 0.3, "weights": RAW_WEIGHTS if space == "raw" else WEIGHTS})
    threshold = THRESHOLD if output == "probability" else 0.25
    model = described(path, content.encode(), {"path": "model.json"}, output=output, threshold=threshold)

    def answer(records: list[Record]) -> np.ndarray:
        if space == "raw":
            total = [0.3 + sum(RAW_WEIGHTS[name] * value for name, value in numbers(r).items()) for r in records]
        else:
            total = [0.3 + sum(w * x for w, x in zip(WEIGHTS.values(), row, strict=True)) for row in encode(records)]
        return np.array(total) - (OFFSET if output == "probability" else 0.25)

    return Case(model, answer, gradient=True)


RAW_WEIGHTS = WEIGHTS | {"age": 0.02, "income": 0.0004, "amount": -0.0001}


def network(
    path: Path, *, suffix: str, outputs: int = 1, double: bool = False, favourable: int = 1, output: str = "probability"
) -> Case:
    torch.manual_seed(0)
    layers = [8, 6, 5, outputs]
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, outputs)
    )
    X, y = torch.tensor(encode(RECORDS), dtype=torch.float32), torch.tensor(repaid(RECORDS))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(40):
        optimiser.zero_grad()
        if outputs == 1:
            torch.nn.functional.binary_cross_entropy_with_logits(net(X)[:, 0], y.float()).backward()
        else:
            torch.nn.functional.cross_entropy(net(X), y).backward()
        optimiser.step()
    net = net.double() if double else net
    architecture = {"type": "mlp", "layers": layers, "activation": "tanh"}
    threshold = THRESHOLD if output == "probability" else 0.25
    model = described(
        path, state_dict(net, suffix), {"format": "torch", "path": f"m.{suffix}", "architecture": architecture},
        favourable=favourable, output=output, threshold=threshold,
    )  # fmt: skip

    def answer(records: list[Record]) -> np.ndarray:
        points = torch.tensor(encode(records), dtype=torch.float64 if double else torch.float32)
        with torch.no_grad():
            raw = net(points).double()
        if outputs == 1:
            probability = torch.sigmoid(raw[:, 0]) if favourable else 1 - torch.sigmoid(raw[:, 0])
        else:
            probability = torch.softmax(raw, dim=1)[:, favourable]
        offset = OFFSET if output == "probability" else 0.25
        return logit_score(probability.numpy()) + OFFSET - offset

    return Case(model, answer, gradient=True, tolerance=1e-9 if double else 2e-5)


def state_dict(net: torch.nn.Sequential, suffix: str) -> bytes:
    if suffix == "safetensors":
        return safetensors.torch.save(net.state_dict())
    buffer = io.BytesIO()
    torch.save(net.state_dict(), buffer)
    return buffer.getvalue()


def estimator(
    path: Path, unfitted: Any, *, raw: bool, suffix: str = "skops", output: str = "probability", named: bool = False
) -> Case:
    truth = np.array(["bad", "good"])[repaid(RECORDS)]
    table = frame if raw else encode
    if named:
        table = lambda records: pd.DataFrame(encode(records), columns=list(WEIGHTS))  # noqa: E731
    fitted = unfitted.fit(table(RECORDS), truth)
    if suffix == "skops":
        content = skops_file(fitted)
    elif suffix == "joblib":
        buffer = io.BytesIO()
        joblib.dump(fitted, buffer)
        content = buffer.getvalue()
    else:
        content = pickle.dumps(fitted)
    threshold = 0.25 if output == "logit" else THRESHOLD
    model = described(
        path, content, {"format": "sklearn", "path": f"model.{suffix}"}, input="raw" if raw else "encoded",
        favourable="good", output=output, threshold=threshold,
    )  # fmt: skip

    def answer(records: list[Record]) -> np.ndarray:
        if output == "label":
            return np.where(fitted.predict(table(records)) == "good", 1.0, -1.0)
        if output == "logit":
            return np.asarray(fitted.decision_function(table(records))) - threshold
        return logit_score(fitted.predict_proba(table(records))[:, list(fitted.classes_).index("good")])

    return Case(model, answer, trusted=suffix != "skops")


def boosted(path: Path, name: str, *, favourable: int = 1, output: str = "probability") -> Case:
    boosting, X, truth = library(name), encode(RECORDS), repaid(RECORDS)
    if name == "xgboost":
        settings = {"objective": "binary:logistic", "max_depth": 3, "nthread": 1}
        booster = boosting.train(settings, boosting.DMatrix(X, truth), num_boost_round=20)
        content, file = bytes(booster.save_raw("json")), "model.json"
    else:
        settings = {"objective": "binary", "num_leaves": 7, "num_threads": 1, "verbose": -1}
        booster = boosting.train(settings, boosting.Dataset(X, truth), num_boost_round=20)
        content, file = booster.model_to_string().encode(), "model.txt"
    threshold = THRESHOLD if output == "probability" else 0.25
    model = described(
        path, content, {"format": name, "path": file}, favourable=favourable, output=output, threshold=threshold
    )

    def answer(records: list[Record]) -> np.ndarray:
        points = boosting.DMatrix(encode(records)) if name == "xgboost" else encode(records)
        value = booster.predict(points).astype(float)
        logits = np.log(value) - np.log1p(-value)
        return (logits if favourable else -logits) - (OFFSET if output == "probability" else threshold)

    return Case(model, answer, tolerance=2e-5 if name == "xgboost" else 1e-9)


def graph(path: Path, unfitted: Any, *, raw: bool = False, zipmap: bool = False, output: str = "probability") -> Case:
    """An estimator, fitted and exported to ONNX; `raw` ones have an input for each column."""
    library("onnxruntime")
    skl2onnx, types = library("skl2onnx"), library("skl2onnx.common.data_types")
    truth, table = np.array(["bad", "good"])[repaid(RECORDS)], plain if raw else encode
    fitted = unfitted.fit(table(RECORDS), truth)
    kinds = {np.dtype(np.int64): types.Int64TensorType, np.dtype(np.float64): types.FloatTensorType}
    inputs = [("x", types.FloatTensorType([None, 8]))]
    if raw:
        dtypes = plain(FRESH).dtypes.items()
        inputs = [(name, kinds.get(dtype, types.StringTensorType)([None, 1])) for name, dtype in dtypes]
    options = {id(fitted): {"zipmap": zipmap}}
    content = skl2onnx.to_onnx(fitted, initial_types=inputs, options=options).SerializeToString()
    model = described(
        path, content, {"format": "onnx", "path": "model.onnx"}, input="raw" if raw else "encoded",
        favourable="good", output=output,
    )  # fmt: skip
    if output == "probability":
        model.manifest["artifact"]["column"] = 1

    def answer(records: list[Record]) -> np.ndarray:
        if output == "label":
            return np.where(fitted.predict(table(records)) == "good", 1.0, -1.0)
        return logit_score(fitted.predict_proba(table(records))[:, list(fitted.classes_).index("good")])

    return Case(model, answer, tolerance=1e-6, single=True)


def plain(records: list[Record]) -> pd.DataFrame:
    """A table without truth values, which skl2onnx does not take."""
    return frame(records).astype({"guarantor": np.int64})


def onnx_columns(last: Any) -> Any:
    """A pipeline that skl2onnx can export."""
    return make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["age", "guarantor"]),
            (StandardScaler(), ["income", "amount"]),
            (OneHotEncoder(), ["savings", "housing"]),
        ),
        last,
    )


def remote(path: Path, protocol: str, kind: str) -> Case:
    server = shared()
    server.behave()
    model = make_remote(path, server, protocol, kind)
    model.records = RECORDS
    model.manifest["threshold"] = THRESHOLD

    def answer(records: list[Record]) -> np.ndarray:
        asked = [of_record(r) for r in records] if kind == "raw" else [of_point(x) for x in encode(records).tolist()]
        return logit_score(np.array(asked))

    return Case(model, answer, hosts=server.hosts)


def scorecard(path: Path) -> Case:
    """Points of three attributes; 40 double the odds."""
    rows = ["feature,from,to,category,points", ",,,,500", "income,,2500,,0", "income,2500,,,80"]
    rows += ["housing,,,owned,40", "housing,,,rented|free,10", "guarantor,,,true,30", "guarantor,,,false,0"]
    model = described(
        path, "\n".join(rows).encode(), {"format": "scorecard", "path": "card.csv"}, input="raw", output="points",
        threshold=600, odds={"pdo": 40},
    )  # fmt: skip
    del model.manifest["favourable"]

    def answer(records: list[Record]) -> np.ndarray:
        points = [
            500 + 80 * (r["income"] >= 2_500) + (40 if r["housing"] == "owned" else 10) + 30 * r["guarantor"]
            for r in records
        ]
        return (np.array(points) - 600) * np.log(2) / 40

    return Case(model, answer)


def columns(last: Any) -> Any:
    """A pipeline as lenders write them, from a table of raw records."""
    return make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["age", "income", "amount"]),
            (OrdinalEncoder(categories=[["none", "some", "much"]]), ["savings"]),
            (OneHotEncoder(handle_unknown="ignore"), ["housing"]),
            remainder="passthrough",
        ),
        last,
    )


CASES: dict[str, Callable[[Path], Case]] = {
    "scorecard": scorecard,
    "linear": lambda p: linear(p, space="encoded"),
    "linear, raw weights": lambda p: linear(p, space="raw"),
    "linear, logit": lambda p: linear(p, space="raw", output="logit"),
    "torch, pt": lambda p: network(p, suffix="pt"),
    "torch, safetensors": lambda p: network(p, suffix="safetensors"),
    "torch, double precision": lambda p: network(p, suffix="safetensors", double=True),
    "torch, probability of default": lambda p: network(p, suffix="safetensors", double=True, favourable=0),
    "torch, two outputs": lambda p: network(p, suffix="pt", outputs=2, double=True),
    "torch, two outputs, the first": lambda p: network(p, suffix="pt", outputs=2, double=True, favourable=0),
    "torch, logit": lambda p: network(p, suffix="pt", double=True, output="logit"),
    "xgboost": lambda p: boosted(p, "xgboost"),
    "xgboost, probability of default": lambda p: boosted(p, "xgboost", favourable=0),
    "xgboost, logit": lambda p: boosted(p, "xgboost", output="logit"),
    "lightgbm": lambda p: boosted(p, "lightgbm"),
    "lightgbm, probability of default": lambda p: boosted(p, "lightgbm", favourable=0),
    "lightgbm, logit": lambda p: boosted(p, "lightgbm", output="logit"),
    "sklearn, logistic regression": lambda p: estimator(p, LogisticRegression(), raw=False),
    "sklearn, named columns": lambda p: estimator(p, LogisticRegression(), raw=False, named=True),
    "sklearn, decision function": lambda p: estimator(p, LogisticRegression(), raw=False, output="logit"),
    "sklearn, label": lambda p: estimator(p, DecisionTreeClassifier(max_depth=4), raw=False, output="label"),
    "sklearn, forest": lambda p: estimator(p, RandomForestClassifier(20, n_jobs=2, random_state=0), raw=False),
    "sklearn, neural network": lambda p: estimator(p, MLPClassifier((5,), max_iter=3_000, random_state=0), raw=False),
    "sklearn, table": lambda p: estimator(p, columns(LogisticRegression()), raw=True),
    "sklearn, table, forest": lambda p: estimator(p, columns(RandomForestClassifier(20, random_state=0)), raw=True),
    "sklearn, table, boosting": lambda p: estimator(p, columns(GradientBoostingClassifier(n_estimators=20)), raw=True),
    "sklearn, table, histograms": lambda p: estimator(
        p, columns(HistGradientBoostingClassifier(max_iter=20, categorical_features=[3])), raw=True
    ),
    "sklearn, table, ada": lambda p: estimator(p, columns(AdaBoostClassifier(n_estimators=5)), raw=True),
    "sklearn, table, calibrated": lambda p: estimator(
        p, CalibratedClassifierCV(columns(DecisionTreeClassifier(max_depth=3)), cv=3), raw=True
    ),
    "sklearn, table, ensembles": lambda p: estimator(
        p,
        columns(
            StackingClassifier([
                ("vote", VotingClassifier([("tree", DecisionTreeClassifier(max_depth=3)), ("lr", LogisticRegression())],
                                          voting="soft"))
            ])
        ),
        raw=True,
    ),
    "sklearn, joblib": lambda p: estimator(p, columns(LogisticRegression()), raw=True, suffix="joblib"),
    "sklearn, pickle": lambda p: estimator(p, LogisticRegression(), raw=False, suffix="pkl"),
    "onnx": lambda p: graph(p, LogisticRegression()),
    "onnx, forest": lambda p: graph(p, RandomForestClassifier(20, random_state=0)),
    "onnx, neural network": lambda p: graph(p, MLPClassifier((5,), max_iter=3_000, random_state=0)),
    "onnx, mapping by class": lambda p: graph(p, LogisticRegression(), zipmap=True),
    "onnx, label": lambda p: graph(p, DecisionTreeClassifier(max_depth=4), output="label"),
    "onnx, columns": lambda p: graph(p, onnx_columns(LogisticRegression()), raw=True),
    "onnx, columns, boosting": lambda p: graph(p, onnx_columns(GradientBoostingClassifier(n_estimators=20)), raw=True),
    "http, tensors": lambda p: remote(p, "oip-v2", "encoded"),
    "http, tensors by column": lambda p: remote(p, "oip-v2", "raw"),
    "http, mlflow": lambda p: remote(p, "mlflow", "encoded"),
    "http, mlflow, records": lambda p: remote(p, "mlflow", "raw"),
}  # fmt: skip


@dataclass
class Installed:
    case: Case
    loaded: LoadedModel


@pytest.fixture(scope="module", params=CASES)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    path = tmp_path_factory.mktemp("model")
    case = CASES[request.param](path / "source")
    registry = Registry(path / "store", Trust(pickle=case.trusted, hosts=case.hosts))
    registered = registry.register(case.model.write())
    assert registered.registration.warnings == ()
    return Installed(case, registered.load())


EACH_FORMAT = {name.partition(",")[0]: name for name in reversed(CASES)}
"""The first case of each format."""

for_each_format = pytest.mark.parametrize("installed", EACH_FORMAT.values(), ids=EACH_FORMAT, indirect=True)
"""For what the code of a format decides, whatever the model. Scores and encoding are those of every case."""


def raw(loaded: LoadedModel, records: list[Record]) -> np.ndarray:
    return loaded.black_box.space.read_many(records, pointer="")


def test_there_is_a_case_for_every_format() -> None:
    assert {name.split(",")[0] for name in CASES} == {str(format) for format in Format}
    assert len(FEATURES) == 6


def test_scores_are_those_of_an_independent_forward_pass(installed: Installed) -> None:
    scores = installed.loaded.black_box.score_raw(raw(installed.loaded, FRESH))
    expected = installed.case.answer(FRESH)
    assert 0 < (expected >= 0).sum() < len(FRESH)
    installed.case.compare(scores, expected, installed.case.tolerance)


def test_encoded_points_have_the_scores_of_their_records(installed: Installed) -> None:
    black_box, rows_raw = installed.loaded.black_box, raw(installed.loaded, FRESH)
    np.testing.assert_allclose(
        black_box.score(black_box.space.encode(rows_raw)), black_box.score_raw(rows_raw), rtol=1e-6, atol=1e-6
    )


@for_each_format
def test_a_batch_is_its_rows_one_by_one(installed: Installed) -> None:
    black_box, rows_raw = installed.loaded.black_box, raw(installed.loaded, FRESH[:20])
    single = np.concatenate([black_box.score_raw(row[None]) for row in rows_raw])
    installed.case.compare(black_box.score_raw(rows_raw), single, 1e-5)


@for_each_format
def test_nothing_has_no_scores(installed: Installed) -> None:
    black_box = installed.loaded.black_box
    assert black_box.score_raw(np.zeros((0, 6))).shape == (0,)
    assert black_box.score(np.zeros((0, 8))).shape == (0,)
    if black_box.gradient:
        assert black_box.gradient(np.zeros((0, 8))).shape == (0, 8)


@for_each_format
def test_the_same_question_has_the_same_answer(installed: Installed) -> None:
    black_box, rows_raw = installed.loaded.black_box, raw(installed.loaded, FRESH)
    again = installed.loaded.registered.load().black_box
    assert black_box.score_raw(rows_raw).tobytes() == black_box.score_raw(rows_raw).tobytes()
    assert again.score_raw(rows_raw).tobytes() == black_box.score_raw(rows_raw).tobytes()


@for_each_format
def test_the_question_is_left_alone(installed: Installed) -> None:
    black_box, rows_raw = installed.loaded.black_box, raw(installed.loaded, FRESH)
    X = black_box.space.encode(rows_raw)
    for array in (rows_raw, X):
        array.flags.writeable = False
    black_box.score_raw(rows_raw)
    black_box.score(X)
    if black_box.gradient:
        black_box.gradient(X)


def test_gradients_are_finite_differences_of_the_score(installed: Installed) -> None:
    black_box = installed.loaded.black_box
    assert (black_box.gradient is not None) == installed.case.gradient
    if black_box.gradient is None:
        return
    X = encode(FRESH)
    step = 1e-5 if installed.case.tolerance < 1e-6 else 1e-2
    numeric = np.column_stack(
        [(black_box.score(X + step * e) - black_box.score(X - step * e)) / (2 * step) for e in np.eye(X.shape[1])]
    )
    gradient = black_box.gradient(X)
    assert gradient.dtype == np.float64
    tolerance = 1e-6 if step < 1e-3 else 2e-3
    np.testing.assert_allclose(gradient, numeric, rtol=tolerance, atol=tolerance)


LIBRARIES = {
    "xgboost": ["xgboost"], "lightgbm": ["lightgbm"], "onnx": ["onnx", "onnxruntime"],
    "torch, safetensors": ["safetensors"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("installed", "module"), [(case, one) for case, own in LIBRARIES.items() for one in own], indirect=["installed"]
)
def test_a_missing_library_is_named(installed: Installed, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModelUnusable, match=f"pip install {module}"):
        installed.loaded.registered.load()
