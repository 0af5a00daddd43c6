"""Directories that are wrong in the ways that happen: each is refused or warned about, in a sentence that helps."""

import csv
import io
import json
import os
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from app.errors import ModelRefused
from app.registry.registry import Registry
from tests.optional import library
from tests.registry.loan import ModelDirectory, make_linear

Wrong = Callable[[ModelDirectory], None]

LIBRARY_WORDS = re.compile(r"Tuple|Input should|validation|pydantic|errors\.|\[type=|Traceback|Error:|NoneType|numpy")


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The sound model's own probabilities of its records."""
    directory = tmp_path_factory.mktemp("sound")
    model = make_linear(directory / "source").label()
    loaded = Registry(directory / "store").register(model.write()).load()
    found = loaded.black_box.probability(loaded.reference.scores)
    assert found is not None
    return [float(value) for value in found]


@pytest.fixture
def model(tmp_path: Path, scores: list[float]) -> ModelDirectory:
    """A sound directory with true outcomes and the lender's scores."""
    model = make_linear(tmp_path / "source").label()
    for record, score in zip(model.records, scores, strict=True):
        record["score"] = score
    model.columns.append("score")
    return model


def without_scores(model: ModelDirectory) -> None:
    model.columns.remove("score")


def each(model: ModelDirectory, key: str, of: Callable[[dict[str, object]], object]) -> None:
    for record in model.records:
        record[key] = of(record)


# --- the ways to be wrong --------------------------------------------------------------------------------------------


def shuffled_columns(model: ModelDirectory) -> None:
    """Two features of the manifest change places, and the model has no names."""
    library("sklearn")
    skops = library("skops.io")
    from sklearn.linear_model import LogisticRegression

    X = np.array([[record["income"], record["amount"]] for record in model.records])
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    fitted = LogisticRegression().fit(Z, [record["repaid"] for record in model.records])
    for record, score in zip(model.records, fitted.predict_proba(Z)[:, 1], strict=True):
        record["score"] = score
    income, amount = (feature for feature in model.manifest["features"] if feature["name"] in ("income", "amount"))
    model.manifest |= {"features": [amount, income]}
    del model.manifest["refits"]
    model.set_artifact(skops.dumps(fitted), format="sklearn", path="model.skops")


def shuffled_without_scores(model: ModelDirectory) -> None:
    shuffled_columns(model)
    without_scores(model)


def wrong_scaler(model: ModelDirectory) -> None:
    model.manifest["encoding"]["continuous"] = "minmax"


def no_scaler(model: ModelDirectory) -> None:
    model.manifest["encoding"] = {"continuous": "none"}


def other_center(model: ModelDirectory) -> None:
    model.manifest["features"][1] |= {"center": 3_000, "scale": 1_000}


def class_order(model: ModelDirectory) -> None:
    model.manifest["favourable"] = 0


def class_order_without_scores(model: ModelDirectory) -> None:
    class_order(model)
    without_scores(model)


def inverted_label(model: ModelDirectory) -> None:
    each(model, "repaid", lambda record: 1 - int(str(record["repaid"])))
    without_scores(model)


def label_in_words(model: ModelDirectory) -> None:
    each(model, "repaid", lambda record: "good" if record["repaid"] else "bad")


def label_by_chance(model: ModelDirectory) -> None:
    rng = np.random.default_rng(3)
    each(model, "repaid", lambda record: int(rng.integers(2)))


def threshold_in_percent(model: ModelDirectory) -> None:
    model.manifest["threshold"] = 60


def threshold_of_a_probability(model: ModelDirectory) -> None:
    without_scores(model)
    model.manifest["output"] = "logit"


def threshold_for_none(model: ModelDirectory) -> None:
    model.manifest["threshold"] = 0.9999


def threshold_for_all(model: ModelDirectory) -> None:
    model.manifest["threshold"] = 0.0001


def text_in_numbers(model: ModelDirectory) -> None:
    for record in model.records[::3]:
        record["income"] = "n/a"


def unknown_category(model: ModelDirectory) -> None:
    model.records[5]["housing"] = "Owned"


def cut_off_model(model: ModelDirectory) -> None:
    model.set_artifact(model.artifact[:-20])


def cut_off_estimator(model: ModelDirectory) -> None:
    shuffled_columns(model)
    model.set_artifact(model.artifact[: len(model.artifact) // 2])


def changed_model(model: ModelDirectory) -> None:
    model.artifact = model.artifact.replace(b"1.1", b"1.2")


def no_column(model: ModelDirectory) -> None:
    model.columns.remove("amount")


def no_weight(model: ModelDirectory) -> None:
    content = json.loads(model.artifact)
    content["weights"] = {"age": 0.2}
    model.set_artifact(json.dumps(content).encode())


def misspelt_key(model: ModelDirectory) -> None:
    model.manifest["treshold"] = model.manifest.pop("threshold")


def no_features(model: ModelDirectory) -> None:
    model.manifest["features"] = []


def feature_twice(model: ModelDirectory) -> None:
    model.manifest["features"].append(dict(model.manifest["features"][0]))


def limits_exchanged(model: ModelDirectory) -> None:
    model.manifest["features"][1] |= {"min": 20_000, "max": 0}


def constant_column(model: ModelDirectory) -> None:
    without_scores(model)
    each(model, "age", lambda record: 30)


def scores_in_percent(model: ModelDirectory) -> None:
    each(model, "score", lambda record: 100 * float(str(record["score"])))


def scores_of_the_other_class(model: ModelDirectory) -> None:
    each(model, "score", lambda record: 1 - float(str(record["score"])))


def scores_as_logits(model: ModelDirectory) -> None:
    each(model, "score", lambda record: float(np.log(float(str(record["score"])) / (1 - float(str(record["score"]))))))


def scores_in_another_order(model: ModelDirectory) -> None:
    reverse = [record["score"] for record in reversed(model.records)]
    for record, score in zip(model.records, reverse, strict=True):
        record["score"] = score


def scaled_records(model: ModelDirectory) -> None:
    """The reference is what the model takes; fitted again, the scales are 0 and 1 and the scores agree."""
    for feature in model.manifest["features"]:
        for key in ("min", "max", "decimals"):
            feature.pop(key, None)
    values = np.array([float(str(record["income"])) for record in model.records])
    each(model, "income", lambda record: float((float(str(record["income"])) - values.mean()) / values.std()))


def unmarked_codes(model: ModelDirectory) -> None:
    without_scores(model)
    model.manifest["features"][2].pop("min", None)
    for record in model.records[::6]:
        record["amount"] = -999


def nothing_may_change(model: ModelDirectory) -> None:
    for feature in model.manifest["features"]:
        feature["change"] = "none"


def missing_for_a_linear_model(model: ModelDirectory) -> None:
    model.manifest["features"][1]["missing"] = "nan"


def other_levels(model: ModelDirectory) -> None:
    model.manifest["features"][3]["categories"].reverse()


def estimator(of: Callable[[np.ndarray, np.ndarray], tuple[bytes, str, str]], **changes: object) -> Wrong:
    """A model of income and amount alone, without scores."""

    def wrong(model: ModelDirectory) -> None:
        without_scores(model)
        model.manifest["features"] = [f for f in model.manifest["features"] if f["name"] in ("income", "amount")]
        X = np.array([[float(str(record[name])) for name in ("income", "amount")] for record in model.records])
        content, kind, path = of((X - X.mean(axis=0)) / X.std(axis=0), np.array([r["repaid"] for r in model.records]))
        del model.manifest["refits"]
        model.manifest |= changes
        model.set_artifact(content, format=kind, path=path)

    return wrong


def words_as_classes(Z: np.ndarray, y: np.ndarray) -> tuple[bytes, str, str]:
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(Z, np.where(y == 1, "good", "bad"))
    return library("skops.io").dumps(fitted), "sklearn", "model.skops"


def no_probabilities(Z: np.ndarray, y: np.ndarray) -> tuple[bytes, str, str]:
    from sklearn.svm import LinearSVC

    return library("skops.io").dumps(LinearSVC().fit(Z, y)), "sklearn", "model.skops"


def pickled(Z: np.ndarray, y: np.ndarray) -> tuple[bytes, str, str]:
    from sklearn.linear_model import LogisticRegression

    return pickle.dumps(LogisticRegression().fit(Z, y)), "sklearn", "model.joblib"


def boosted(Z: np.ndarray, y: np.ndarray, **params: object) -> tuple[bytes, str, str]:
    xgboost = library("xgboost")
    params = {"objective": "binary:logistic"} | params
    booster = xgboost.train(params, xgboost.DMatrix(Z, y), num_boost_round=3)
    return bytes(booster.save_raw("json")), "xgboost", "model.json"


def boosted_and_cut_off(Z: np.ndarray, y: np.ndarray) -> tuple[bytes, str, str]:
    content, *rest = boosted(Z, y)
    return content[:2_000], rest[0], rest[1]


def boosted_regression(Z: np.ndarray, y: np.ndarray) -> tuple[bytes, str, str]:
    return boosted(Z, y, objective="reg:squarederror")


def boosted_for_three(Z: np.ndarray, y: np.ndarray) -> tuple[bytes, str, str]:
    return boosted(Z, np.arange(len(y)) % 3, objective="multi:softprob", num_class=3)


def steep(Z: np.ndarray, y: np.ndarray) -> tuple[bytes, str, str]:
    """Of scaled numbers."""
    from sklearn.linear_model import LogisticRegression

    return library("skops.io").dumps(LogisticRegression().fit(Z, y)), "sklearn", "model.skops"


@dataclass(frozen=True)
class Case:
    wrong: Wrong
    sentence: str
    """A regular expression of what must be said."""


REFUSED = (
    Case(shuffled_columns, r"differ from the model's own in 200 of 200 records, by up to 0\.\d+ .* record \d+: 0"),
    Case(wrong_scaler, r"With encoding: \{continuous: standard\} they agree"),
    Case(no_scaler, r"With encoding: \{continuous: standard\} they agree"),
    Case(other_center, "and are center and scale of each number those of it"),
    Case(class_order, "They are those of the other class: change favourable"),
    Case(label_in_words, 'lines 2, 3, 4, 5, 6 and 195 more: must be one of "0", "1"; write 1 where the outcome was'),
    Case(threshold_in_percent, "above 0 and below 1 .* for 60 % write 0.6"),
    Case(text_in_numbers, r"lines 2, 5, 8, 11, 14 and 62 more: must be a number"),
    Case(unknown_category, 'line 7: must be one of "rented", "owned", "free"'),
    Case(cut_off_model, "is no JSON, or cut off"),
    Case(cut_off_estimator, "cannot be read"),
    Case(changed_model, "is not the digest of the file, which is [0-9a-f]{64}"),
    Case(no_column, 'has no column "amount"; its header has age, income'),
    Case(no_weight, r'write 0 if the model ignores this column \(also "amount"'),
    Case(misspelt_key, "is threshold meant"),
    Case(no_features, r"at least one entry; write features: \[\{name: income"),
    Case(feature_twice, '"age" is the name of an earlier feature'),
    Case(limits_exchanged, '"income": min 20000 must be below max 0'),
    Case(scores_in_percent, "They are percentages: divide them by 100"),
    Case(scores_of_the_other_class, "They are those of the other class"),
    Case(scores_as_logits, "They are logits: give probabilities, or say output: logit"),
    Case(scores_in_another_order, "The same scores in another order"),
    Case(other_levels, "Are the columns, and the levels of ordinal features, in the order of the training"),
    Case(missing_for_a_linear_model, "cannot take null: it gives no finite output; say missing: indicator or fill"),
    Case(estimator(words_as_classes), 'must be one of the classes of the estimator: "bad", "good"'),
    Case(estimator(no_probabilities), "needs predict_proba, which this LinearSVC does not have; say output: label"),
    Case(estimator(pickled), "can run any code when it is read; save it with skops, or pass --trust-pickle"),
    Case(estimator(boosted_and_cut_off), "is no JSON, or cut off"),
    Case(estimator(boosted_regression), "must be 'binary:logistic' or 'binary:logitraw': train a classifier of two"),
    Case(estimator(boosted_for_three), "must be 'binary:logistic' or 'binary:logitraw': train a classifier of two"),
)
WARNED = (
    Case(shuffled_without_scores, "far below 0.5: is the label reversed"),
    Case(class_order_without_scores, "far below 0.5: is the label reversed"),
    Case(inverted_label, "far below 0.5: is the label reversed"),
    Case(label_by_chance, "no better than chance: do the records, the encoding and the order of the columns belong"),
    Case(threshold_of_a_probability, "The threshold 0.5 of a logit is a probability of 62%"),
    Case(threshold_for_none, r"accepts none .* outputs lie between 0\.\d+ and 0\.\d+, the threshold is 0.9999"),
    Case(threshold_for_all, r"accepts all .* the threshold is 0.0001. Is it in their unit"),
    Case(
        scaled_records, "mean of 0 and a standard deviation of 1, as if they were scaled: income. Give the records in"
    ),
    Case(unmarked_codes, r'"amount" is -999 in 17% .* if that is a code, say special: \{-999: "what it means"\}'),
    Case(nothing_may_change, "No feature may change, so that nothing can be advised: which can people change"),
    Case(estimator(steep, encoding={"continuous": "none"}), "probabilities are 0 or 1: are these labels"),
    Case(constant_column, "The same in all reference records, so that nothing is known about it: age"),
)


def name_of(case: Case) -> str:
    return f"{getattr(case.wrong, '__name__', '')}: {case.sentence[:30]}"


@pytest.mark.parametrize("case", REFUSED, ids=name_of)
def test_it_is_refused_with_what_to_do(model: ModelDirectory, tmp_path: Path, case: Case) -> None:
    case.wrong(model)
    with pytest.raises(ModelRefused) as caught:
        Registry(tmp_path / "store").register(model.write())
    said = str(caught.value)
    assert re.search(case.sentence, said), said
    assert not LIBRARY_WORDS.search(said), said
    assert len(said.splitlines()) <= 4, said


@pytest.mark.parametrize("case", WARNED, ids=name_of)
def test_it_registers_with_a_warning(model: ModelDirectory, tmp_path: Path, case: Case) -> None:
    case.wrong(model)
    warnings = Registry(tmp_path / "store").register(model.write()).registration.warnings
    assert any(re.search(case.sentence, warning) for warning in warnings), warnings


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, 'there is no file "reference.csv"'),
        (lambda text: text[: len(text) * 2 // 3 - 40], r"line \d+: has \d cells, the header 8"),
        (lambda text: text.split("\n", 1)[1], "features' names, not with 79, .*; write age,income,amount"),
        (lambda text: text.encode("utf-16"), "is not a text in UTF-8: save it as CSV in UTF-8"),
        (lambda text: text.split("\n")[0] + "\n", "needs at least two records"),
    ],
    ids=["none", "cut off", "no header", "utf-16", "only a header"],
)
def test_a_reference_that_is_none_is_refused(
    model: ModelDirectory, tmp_path: Path, content: Callable[[str], str | bytes] | None, sentence: str
) -> None:
    path = model.write() / "reference.csv"
    if content is None:
        path.unlink()
    else:
        found = content(path.read_text())
        path.write_bytes(found if isinstance(found, bytes) else found.encode())
    with pytest.raises(ModelRefused) as caught:
        Registry(tmp_path / "store").register(model.path)
    said = str(caught.value)
    assert re.search(sentence, said), said
    assert not LIBRARY_WORDS.search(said), said
    assert len(said.splitlines()) == 2, said


def test_a_manifest_that_is_none_is_refused(model: ModelDirectory, tmp_path: Path) -> None:
    manifest = model.write() / "model.yaml"
    manifest.write_text(manifest.read_text().replace("\n  ", "\n\t", 1))
    with pytest.raises(ModelRefused, match=r"is not YAML: line \d+: .* indent with spaces, not with tabs"):
        Registry(tmp_path / "store").register(model.path)
    manifest.rename(model.path / "model.yml")
    with pytest.raises(ModelRefused, match=r"has no model\.yaml, the manifest; recourse models draft writes one"):
        Registry(tmp_path / "store").register(model.path)


@pytest.mark.parametrize("device", [None, "/dev/zero"])
def test_a_pipe_or_a_device_is_refused(model: ModelDirectory, tmp_path: Path, device: str | None) -> None:
    """The one is never written to, the other never ends."""

    def put(path: Path) -> None:
        path.unlink()
        os.mkfifo(path) if device is None else path.symlink_to(device)

    store = Registry(tmp_path / "store")
    put(model.write() / "model.yaml")
    with pytest.raises(ModelRefused, match=r"model\.yaml cannot be read: it is a pipe or a device"):
        store.register(model.path)
    (model.path / "model.yaml").unlink()
    for name in (model.manifest["artifact"]["path"], "reference.csv"):
        put(model.write() / name)
        with pytest.raises(ModelRefused, match=rf'"{name}" is (not a file|a link that leaves)'):
            store.register(model.path)
        (model.path / name).unlink()


def test_a_manifest_of_any_size_is_not_read(model: ModelDirectory, tmp_path: Path) -> None:
    with (model.write() / "model.yaml").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelRefused, match=r"model\.yaml cannot be read: it has more than 10,000,000 bytes"):
        Registry(tmp_path / "store").register(model.path)


def test_a_directory_without_scores_says_how_it_could_be_checked(model: ModelDirectory, tmp_path: Path) -> None:
    without_scores(model)
    notes = Registry(tmp_path / "store").register(model.write()).registration.notes
    assert notes[0].startswith("The model was compared with no scores of your own: a column score in the reference, or")


def test_a_model_that_is_not_there_is_named(model: ModelDirectory, tmp_path: Path) -> None:
    (model.write() / "model.json").unlink()
    with pytest.raises(ModelRefused, match=r"/artifact/path: there is no file \"model\.json\""):
        Registry(tmp_path / "store").register(model.path)


def test_a_sound_directory_says_what_was_checked(model: ModelDirectory, tmp_path: Path) -> None:
    registration = Registry(tmp_path / "store").register(model.write()).registration
    assert registration.warnings == ()
    compared, judged = registration.notes
    assert re.fullmatch(r"The scores are the lender's: 200 compared, largest difference \d\.\de[+-]\d+\.", compared)
    assert judged.startswith("On its reference records the model has an AUC of 0.")


def test_scores_in_a_file_are_compared_like_those_in_the_reference(
    model: ModelDirectory, tmp_path: Path, scores: list[float]
) -> None:
    without_scores(model)
    source = model.write()
    own = tmp_path / "scores.csv"
    own.write_text("score\n" + "\n".join(map(str, scores)) + "\n")
    store = Registry(tmp_path / "store")
    assert "200 compared" in store.register(source, scores=own).registration.notes[0]
    model.manifest["version"] = "2"
    off = [score + 0.01 * (i == 17) for i, score in enumerate(scores)]
    own.write_text("\n".join(map(str, off)) + "\n")  # without a header
    with pytest.raises(ModelRefused, match=r"in 1 of 200 records, by up to 0.01 .* record 17: 0"):
        store.register(model.write(), scores=own)
    assert store.register(model.write(), scores=own, tolerance=0.02).name == "loan@2"
    own.write_text("\n".join(map(str, off[:-1])) + "\n")
    model.manifest["version"] = "3"
    with pytest.raises(ModelRefused, match="there are 199 scores for 200 records"):
        store.register(model.write(), scores=own)


def test_rounded_scores_are_compared_to_their_last_digit(
    model: ModelDirectory, tmp_path: Path, scores: list[float]
) -> None:
    each(model, "score", lambda record: round(float(str(record["score"])), 2))
    assert Registry(tmp_path / "store").register(model.write()).registration.notes[0].startswith("The scores are")
    rows = list(csv.reader(io.StringIO((model.path / "reference.csv").read_text())))
    assert {len(row[-1].partition(".")[2]) for row in rows[1:]} <= {1, 2}
