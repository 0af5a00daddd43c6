"""Estimators around others: their own threshold, and the encoders inside them; against the estimator itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import ModelRefused
from app.registry.drafting.draft import Wish, draft
from app.registry.drafting.questions import Undecided
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel
from tests.optional import library, skops_file
from tests.registry.drafting.loans import loans

library("sklearn")
import pandas as pd  # noqa: E402
from sklearn.calibration import CalibratedClassifierCV  # noqa: E402
from sklearn.compose import make_column_transformer  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer  # noqa: E402
from sklearn.frozen import FrozenEstimator  # noqa: E402
from sklearn.impute import SimpleImputer  # noqa: E402
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier  # noqa: E402
from sklearn.model_selection import (  # noqa: E402
    FixedThresholdClassifier,
    GridSearchCV,
    TunedThresholdClassifierCV,
)
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import OneHotEncoder, StandardScaler, TargetEncoder  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402

NUMBERS = ["income", "dti", "months_in_job", "rate"]


def records() -> tuple[pd.DataFrame, np.ndarray]:
    made = loans(500)
    housing = np.random.default_rng(5).choice(["owned", "rented", "family"], 500)
    return pd.DataFrame({**made.numbers, "housing": housing}), np.where(housing == "owned", 1, made.outcome)


def drafted(
    tmp_path: Path,
    table: pd.DataFrame,
    outcome: Any,
    content: bytes,
    *,
    favourable: str = "1",
    name: str = "model.skops",
    **answers: str,
) -> LoadedModel:
    """The registered draft."""
    (tmp_path / name).write_bytes(content)
    table.assign(outcome=outcome).to_csv(tmp_path / "loans.csv", index=False)
    wish = Wish(
        data=tmp_path / "loans.csv", model=tmp_path / name, label="outcome", favourable=favourable, answers=answers
    )
    draft(wish, tmp_path / "drafted", Trust(pickle=True))
    return Registry(tmp_path / "store", Trust(pickle=True)).register(tmp_path / "drafted").load()


# --- a threshold of its own ------------------------------------------------------------------------------------------


def scaled() -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression())


FIXED: dict[str, Callable[[], Any]] = {
    "fixed": lambda: FixedThresholdClassifier(scaled(), threshold=0.8, pos_label=1, response_method="predict_proba"),
    "of the other class": lambda: FixedThresholdClassifier(scaled(), threshold=0.1, pos_label=0),
    "decision function": lambda: FixedThresholdClassifier(
        scaled(), threshold=1.2, response_method="decision_function"
    ),
    "tuned": lambda: TunedThresholdClassifierCV(scaled(), scoring="recall", cv=3),
    "around a search": lambda: FixedThresholdClassifier(
        GridSearchCV(scaled(), {"logisticregression__C": [0.1, 1.0]}, cv=3, scoring="roc_auc"), threshold=0.7
    ),
    "trees": lambda: FixedThresholdClassifier(
        RandomForestClassifier(20, min_samples_leaf=5, random_state=0), threshold=0.65
    ),
}  # fmt: skip


@pytest.mark.parametrize("favourable", ["0", "1"])
@pytest.mark.parametrize("kind", FIXED)
def test_the_threshold_is_the_models_own(tmp_path: Path, kind: str, favourable: str) -> None:
    table, outcome = records()
    fitted = FIXED[kind]().fit(table[NUMBERS], outcome)
    model = drafted(tmp_path, table[NUMBERS], outcome, skops_file(fitted), favourable=favourable)
    own = fitted.predict(table[NUMBERS]) == int(favourable)
    np.testing.assert_array_equal(model.reference.scores >= 0.0, own)


@pytest.mark.parametrize("threshold", [0.3, 0.8])
def test_the_threshold_of_a_graph_is_its_own(tmp_path: Path, threshold: float) -> None:
    """A graph whose output label compares the probability with a constant."""
    onnx, convert = library("onnx"), library("skl2onnx")
    table, outcome = records()
    X = table[NUMBERS].to_numpy(dtype=np.float32)
    fitted = scaled().fit(X, outcome)
    graph = convert.to_onnx(fitted, X[:1], options={id(fitted): {"zipmap": False}}, target_opset=18)
    inner, helper = graph.graph, onnx.helper
    probabilities = inner.output[1].name
    for name, value, kind in (("limit", [threshold], onnx.TensorProto.FLOAT), ("one", [1], onnx.TensorProto.INT64)):
        inner.initializer.append(helper.make_tensor(name, kind, [1], value))
    inner.node.append(helper.make_node("Gather", [probabilities, "one"], ["good"], axis=1))
    inner.node.append(helper.make_node("GreaterOrEqual", ["good", "limit"], ["is_good"]))
    inner.node.append(helper.make_node("Cast", ["is_good"], ["decision"], to=onnx.TensorProto.INT64))
    del inner.output[0]
    inner.output.insert(0, helper.make_tensor_value_info("decision", onnx.TensorProto.INT64, [None, 1]))
    model = drafted(tmp_path, table[NUMBERS], outcome, graph.SerializeToString(), name="model.onnx")
    own = fitted.predict_proba(X)[:, 1] >= threshold
    assert (own != (fitted.predict_proba(X)[:, 1] >= 0.5)).any()
    np.testing.assert_array_equal(model.reference.scores >= 0.0, own)


def test_a_threshold_that_the_lender_says_is_taken(tmp_path: Path) -> None:
    table, outcome = records()
    fitted = FIXED["fixed"]().fit(table[NUMBERS], outcome)
    model = drafted(tmp_path, table[NUMBERS], outcome, skops_file(fitted), threshold="0.6")
    assert model.registered.manifest.threshold == 0.6


# --- encoders inside -------------------------------------------------------------------------------------------------


def encoder(of: Any = None) -> Any:
    return make_column_transformer((of or OneHotEncoder(handle_unknown="ignore"), ["housing"]), remainder="passthrough")


def forest() -> Any:
    return make_pipeline(encoder(), RandomForestClassifier(10, min_samples_leaf=5, random_state=0))


WRAPPED: dict[str, Callable[[], Any]] = {
    "isotonic": lambda: CalibratedClassifierCV(forest(), method="isotonic", cv=3),
    "sigmoid without an ensemble": lambda: CalibratedClassifierCV(forest(), cv=3, ensemble=False),
    "search": lambda: GridSearchCV(
        forest(), {"randomforestclassifier__max_depth": [2, 4]}, cv=3, scoring="balanced_accuracy"
    ),
    "search by several scores": lambda: GridSearchCV(
        forest(), {"randomforestclassifier__max_depth": [2, 4]}, cv=3, scoring=["roc_auc", "f1"], refit="f1"
    ),
    "threshold": lambda: FixedThresholdClassifier(forest(), threshold=0.6),
    "voting": lambda: VotingClassifier([("a", forest()), ("b", make_pipeline(encoder(TargetEncoder()),
        StandardScaler(), LogisticRegression()))], voting="soft"),
    "stacking": lambda: StackingClassifier([("a", forest()), ("b", make_pipeline(encoder(), StandardScaler(),
        LogisticRegression()))], cv=3),
    "calibrated search": lambda: CalibratedClassifierCV(
        GridSearchCV(forest(), {"randomforestclassifier__max_depth": [2, 4]}, cv=3), cv=3
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", WRAPPED)
def test_encoders_inside_are_found(tmp_path: Path, kind: str) -> None:
    table, outcome = records()
    fitted = WRAPPED[kind]().fit(table, outcome)
    model = drafted(tmp_path, table, outcome, skops_file(fitted))
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(table)[:, 1], atol=1e-9
    )
    assert set(model.registered.manifest.features[-1].categories) == {"owned", "rented", "family"}


def test_an_estimator_that_is_frozen_is_looked_into(tmp_path: Path) -> None:
    table, outcome = records()
    fitted = CalibratedClassifierCV(FrozenEstimator(forest().fit(table, outcome))).fit(table, outcome)
    model = drafted(tmp_path, table, outcome, skops_file(fitted))
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(table)[:, 1], atol=1e-9
    )


@pytest.mark.parametrize("how", ["from_dtype", ["housing"], [4]])
@pytest.mark.parametrize("missing", [False, True])
def test_categories_of_boosted_histograms_are_found(tmp_path: Path, how: Any, missing: bool) -> None:
    table, outcome = records()
    if missing:
        absent = np.random.default_rng(9).random(len(table)) < 0.1
        table = table.assign(housing=table.housing.where(~absent), dti=table.dti.where(np.roll(~absent, 7)))
    table = table.assign(housing=table.housing.astype("category"))
    fitted = HistGradientBoostingClassifier(max_iter=20, categorical_features=how).fit(table, outcome)
    model = drafted(tmp_path, table, outcome, skops_file(fitted))
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(table)[:, 1], atol=1e-9
    )


def test_a_level_that_no_record_has_is_never_advised(tmp_path: Path) -> None:
    table, outcome = records()
    absent = np.random.default_rng(9).random(len(table)) < 0.1
    table = table.assign(housing=table.housing.where(~absent))
    inner = make_pipeline(SimpleImputer(strategy="constant", fill_value="none"), OneHotEncoder())
    fitted = make_pipeline(encoder(inner), StandardScaler(), LogisticRegression()).fit(table, outcome)
    model = drafted(tmp_path, table, outcome, skops_file(fitted))
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(table)[:, 1], atol=1e-9
    )
    housing = model.registered.manifest.features[-1]
    assert "none" in housing.categories
    assert housing.is_fixed or "none" not in (housing.advice.categories or ("none",))


def test_free_text_is_refused_with_the_reason(tmp_path: Path) -> None:
    table, outcome = records()
    words = np.random.default_rng(1).choice(["car repair", "wedding costs", "debt", "car and debt"], len(table))
    table = table.assign(purpose=words)
    reader = make_column_transformer((CountVectorizer(), "purpose"), ("passthrough", NUMBERS))
    fitted = make_pipeline(reader, StandardScaler(with_mean=False), LogisticRegression()).fit(table, outcome)
    with pytest.raises(ModelRefused, match=r'reads "purpose" as free text \(CountVectorizer\)'):
        drafted(tmp_path, table, outcome, skops_file(fitted))


def test_a_column_that_the_pipeline_drops_is_no_feature(tmp_path: Path) -> None:
    table, outcome = records()
    table.insert(0, "customer_id", 9007199254740993 + np.arange(len(table)))
    columns = make_column_transformer((StandardScaler(), NUMBERS), (OneHotEncoder(), ["housing"]))
    fitted = CalibratedClassifierCV(make_pipeline(columns, LogisticRegression()), cv=3).fit(table, outcome)
    model = drafted(tmp_path, table, outcome, skops_file(fitted))
    assert list(model.registered.space.names) == [*NUMBERS, "housing"]
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(table)[:, 1], atol=1e-9
    )


# --- outputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [RidgeClassifier(), LinearSVC(), SGDClassifier(random_state=0)])
def test_a_margin_is_no_probability(tmp_path: Path, estimator: Any) -> None:
    table, outcome = records()
    fitted = make_pipeline(StandardScaler(), estimator).fit(table[NUMBERS], outcome)
    model = drafted(tmp_path, table[NUMBERS], outcome, skops_file(fitted))
    assert model.registered.manifest.output == "margin"
    assert model.black_box.probability(model.reference.scores) is None
    np.testing.assert_allclose(model.reference.scores, fitted.decision_function(table[NUMBERS]), atol=1e-9)


@pytest.mark.parametrize("good", ["good", "fair"])
def test_one_of_three_classes_stands_against_the_rest(tmp_path: Path, good: str) -> None:
    table, _ = records()
    outcome = np.select([table.income > 6_000, table.income - 100 * table.dti > 1_000], ["good", "fair"], "poor")
    fitted = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(table[NUMBERS], outcome)
    content = skops_file(fitted)
    model = drafted(tmp_path, table[NUMBERS], outcome, content, favourable=good, threshold="0.4")
    p = fitted.predict_proba(table[NUMBERS])[:, fitted.classes_.tolist().index(good)]
    np.testing.assert_array_equal(model.reference.scores >= 0.0, p >= 0.4)


def test_which_of_three_classes_is_asked_and_then_their_threshold(tmp_path: Path) -> None:
    table, _ = records()
    noise = np.random.default_rng(1).normal(0, 1_500, len(table))
    outcome = np.select([table.income + noise > 6_000, table.income + noise > 3_000], ["good", "fair"], "poor")
    fitted = RandomForestClassifier(20, min_samples_leaf=5, random_state=0).fit(table[NUMBERS], outcome)
    with pytest.raises(Undecided, match="stands against all others"):
        drafted(tmp_path, table[NUMBERS], outcome, skops_file(fitted), favourable=None)
    with pytest.raises(Undecided, match="several classes, of which the likeliest wins"):
        drafted(tmp_path, table[NUMBERS], outcome, skops_file(fitted), favourable="fair")


# --- missing levels --------------------------------------------------------------------------------------------------


def gaps(mark: Any) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """The table of training with a mark for missing levels, as it is in a file, and outcomes that depend on them."""
    table, outcome = records()
    absent = np.random.default_rng(9).random(len(table)) < 0.2
    outcome = np.where(absent, np.random.default_rng(1).random(len(table)) < 0.9, outcome).astype(int)
    housing = table.housing.astype(object)
    return (
        table.assign(housing=housing.where(~absent, mark)),
        table.assign(housing=housing.where(~absent, None)),
        outcome,
    )


ENCODERS: dict[str, Callable[[], Any]] = {
    "one column for each": OneHotEncoder,
    "tolerant": lambda: OneHotEncoder(handle_unknown="ignore"),
    "by the outcome": TargetEncoder,
}


@pytest.mark.parametrize("kind", ENCODERS)
@pytest.mark.parametrize("mark", [np.nan, None, ""], ids=["NaN", "None", "empty text"])
def test_a_missing_level_reaches_the_model_as_in_training(tmp_path: Path, kind: str, mark: Any) -> None:
    training, file, outcome = gaps(mark)
    steps = encoder(ENCODERS[kind]()), StandardScaler(with_mean=False), LogisticRegression()
    fitted = make_pipeline(*steps).fit(training, outcome)
    model = drafted(tmp_path, file, outcome, skops_file(fitted))
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(training)[:, 1], atol=1e-9
    )


def test_a_missing_level_is_filled_by_the_models_own_step(tmp_path: Path) -> None:
    training, file, outcome = gaps(None)
    inner = make_pipeline(SimpleImputer(strategy="most_frequent", missing_values=None), OneHotEncoder())
    fitted = make_pipeline(encoder(inner), StandardScaler(), LogisticRegression()).fit(training, outcome)
    model = drafted(tmp_path, file, outcome, skops_file(fitted))
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(training)[:, 1], atol=1e-9
    )


def test_a_level_that_stood_for_a_missing_one_is_refused_where_records_are_empty(tmp_path: Path) -> None:
    training, file, outcome = gaps("missing")
    fitted = make_pipeline(encoder(), StandardScaler(), LogisticRegression()).fit(training, outcome)
    with pytest.raises(ModelRefused, match="write missing into the empty cells, as before training"):
        drafted(tmp_path, file, outcome, skops_file(fitted))
    model = drafted(tmp_path, training, outcome, skops_file(fitted))
    np.testing.assert_allclose(
        model.black_box.probability(model.reference.scores), fitted.predict_proba(training)[:, 1], atol=1e-9
    )


def test_levels_that_look_like_numbers_stay_levels(tmp_path: Path) -> None:
    """Some readers of YAML take 1e5 for a number."""
    table, outcome = records()
    table = table.assign(housing=np.array(["1e5", "2e3", "7"])[pd.factorize(table.housing)[0]])
    fitted = make_pipeline(encoder(), StandardScaler(), LogisticRegression()).fit(table, outcome)
    model = drafted(tmp_path, table, outcome, skops_file(fitted))
    assert model.registered.manifest.features[-1].categories == ("1e5", "2e3", "7")
