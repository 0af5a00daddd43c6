"""Pipelines with boosters of other libraries: their own scores, and no state that goes to compiled code."""

import io
import json
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from app.futures.estimator import EstimatorRecipe
from app.futures.records import reference_records, samples
from app.recourse.models.score import sigmoid
from app.registry.registry import Registry
from tests.optional import library, skops_file
from tests.registry.adapters.boosted import try_mutants
from tests.registry.adapters.table import frame, make, outcomes, records
from tests.registry.loan import ModelDirectory

xgboost, lightgbm = library("xgboost"), library("lightgbm")

Refusal = Callable[[Path], dict[str, str]]


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """A table as the service makes it: texts and numbers."""
    texts = {name: table[name].astype(object).where(table[name].notna(), None) for name in ("housing", "savings")}
    return table.assign(**texts, purpose=table["purpose"].astype(int).astype(str).astype(object))


def columns(last: Any) -> Any:
    return make_pipeline(
        make_column_transformer(
            (StandardScaler(), ["income", "months"]),
            (OneHotEncoder(handle_unknown="ignore"), ["housing", "purpose"]),
            (OrdinalEncoder(categories=[["none", "some", "much"]]), ["savings"]),
            remainder="passthrough",
        ),
        last,
    )


LASTS: dict[str, Callable[[], Any]] = {
    "xgboost": lambda: xgboost.XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1),
    "early stopping": lambda: stopped(),
    "forest": lambda: xgboost.XGBRFClassifier(n_estimators=9, max_depth=3, n_jobs=1),
    "lightgbm": lambda: lightgbm.LGBMClassifier(n_estimators=15, num_leaves=7, n_jobs=1, verbose=-1),
    "calibrated": lambda: CalibratedClassifierCV(xgboost.XGBClassifier(n_estimators=5, n_jobs=1), cv=2),
}


def stopped() -> Any:
    """Fitted with early stopping, as on a part of the records."""
    made = xgboost.XGBClassifier(n_estimators=100, max_depth=3, n_jobs=1, eta=1.0, early_stopping_rounds=3)
    fit = made.fit
    made.fit = lambda X, y: fit(X[:400], y[:400], eval_set=[(X[400:], y[400:])], verbose=False)
    return made


TABLE, FRESH = plain(frame()), plain(frame(1_000, seed=1))


def fitted(name: str) -> Any:
    last = LASTS[name]()
    pipeline = columns(last).fit(TABLE, outcomes(frame()))
    vars(last).pop("fit", None)
    return pipeline


def used(path: Path, content: bytes, **changes: Any) -> ModelDirectory:
    return make(path, content, {"format": "sklearn", "path": "m.skops"}, **changes)


@pytest.mark.parametrize("name", list(LASTS))
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_scores_are_those_of_the_pipeline(path: Path, store: Registry, name: str) -> None:
    pipeline = fitted(name)
    box = store.register(used(path, skops_file(pipeline)).write()).load().black_box
    rows = box.space.read_many(records(frame(1_000, seed=1)), pointer="")
    expected = pipeline.predict_proba(FRESH)[:, 1]
    np.testing.assert_allclose(sigmoid(box.score_raw(rows) + box.offset), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_an_estimator_by_itself_takes_encoded_columns(path: Path, store: Registry, name: str) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    last = LASTS[name]().fit(X, X[:, 0] > 0)
    features = [{"name": "a", "type": "continuous"}, {"name": "b", "type": "continuous"}]
    model = used(path, skops_file(last), input="encoded", features=features, favourable=True)
    model.columns, model.records = ["a", "b"], [{"a": a, "b": b} for a, b in X.tolist()]
    if name == "xgboost":
        model.manifest["favourable"] = 1
    box = store.register(model.write()).load().black_box
    np.testing.assert_allclose(sigmoid(box.score_raw(X)), last.predict_proba(X)[:, 1], rtol=0, atol=1e-6)


def test_it_is_retrained_as_a_pipeline(path: Path, store: Registry) -> None:
    loaded = store.register(used(path, skops_file(fitted("xgboost"))).write()).load()
    recipe, found = EstimatorRecipe.of_model(loaded), reference_records(loaded)
    tuned = recipe.tune(found, [])
    (content,) = recipe.make(found, samples(found, "same", 0, range(1)), tuned)
    again = store.register(used(path, content).write(version="2")).load()
    agree = (again.black_box.score_raw(loaded.reference.rows_raw) >= 0) == (loaded.reference.scores >= 0)
    assert agree.mean() > 0.85


# --- files that lie --------------------------------------------------------------------------------------------------


def changed(content: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The same file with its schema changed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        schema = json.loads(archive.read("schema.json"))
        change(schema)
        found = io.BytesIO()
        with zipfile.ZipFile(found, "w") as copy:
            for name in archive.namelist():
                copy.writestr(name, json.dumps(schema) if name == "schema.json" else archive.read(name))
    return found.getvalue()


def nodes(schema: Any, name: str) -> list[dict[str, Any]]:
    """Objects of a type."""
    found = [schema] if isinstance(schema, dict) and schema.get("__class__") == name else []
    inside = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return found + [one for part in inside for one in nodes(part, name)]


def test_a_state_with_other_columns_is_refused(path: Path, refusal: Refusal) -> None:
    def change(schema: dict[str, Any]) -> None:
        (booster,) = nodes(schema, "Booster")
        text = booster["content"]["content"]["_handle"]
        text["content"] = text["content"].replace("split_feature=0", "split_feature=1000000", 1).replace(
            "split_feature=7", "split_feature=1000000", 1
        )  # fmt: skip

    content = changed(skops_file(fitted("lightgbm")), change)
    faults = refusal(used(path, content).write())
    assert [pointer for pointer in faults if pointer.startswith("/artifact/LGBMClassifier/tree/")]


def test_a_booster_outside_of_an_estimator_is_refused(path: Path, refusal: Refusal) -> None:
    def change(schema: dict[str, Any]) -> None:
        (last,) = nodes(schema, "XGBClassifier")
        (booster,) = nodes(schema, "Booster")
        last["content"]["content"]["verbosity"] = booster
        del last["content"]["content"]["_Booster"]

    content = changed(skops_file(fitted("xgboost")), change)
    assert "outside of an estimator" in refusal(used(path, content).write())["/artifact"]


def test_parameters_are_plain_values(path: Path, refusal: Refusal) -> None:
    last = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, boosting_type="gbdt")
    pipeline = columns(last).fit(TABLE, outcomes(frame()))
    last.boosting_type = "gbdt predict_disable_shape_check=true"
    assert "no plain values" in refusal(used(path, skops_file(pipeline)).write())["/artifact"]


def test_a_pickle_needs_explicit_trust(path: Path, refusal: Refusal) -> None:
    model = make(path, pickle.dumps(fitted("xgboost")), {"format": "sklearn", "path": "m.pkl"})
    assert "pass --trust-pickle" in refusal(model.write())["/artifact/path"]


@pytest.mark.release
@pytest.mark.parametrize("name", ["xgboost", "lightgbm"])
def test_damaged_files_never_end_the_process(path: Path, name: str) -> None:
    last = LASTS[name]()
    pipeline = columns(last.set_params(n_estimators=2)).fit(TABLE, outcomes(frame()))
    counts = try_mutants(used(path, skops_file(pipeline)).write())
    assert counts["refused"] > 100


def test_steps_that_no_column_transformer_has_are_refused(path: Path, refusal: Refusal) -> None:
    pipeline = columns(LASTS["xgboost"]()).fit(TABLE, outcomes(frame()))
    first = pipeline.steps[0][1]
    first.transformers_ = [(*one, "more") for one in first.transformers_]
    assert "cannot be read" in refusal(used(path, skops_file(pipeline)).write())["/artifact"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model"
