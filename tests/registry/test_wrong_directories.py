"""Directories that are wrong in the ways that happen: each is refused or warned about, in a sentence that helps."""

import csv
import io
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

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


# --- the ways to be wrong --------------------------------------------------------------------------------------------


def without_scores(model: ModelDirectory) -> None:
    model.columns.remove("score")


def both(*ways: Wrong) -> Wrong:
    return lambda model: [way(model) for way in ways] and None


def manifest(**changes: object) -> Wrong:
    return lambda model: model.manifest.update(changes)


def feature(j: int, **changes: object) -> Wrong:
    return lambda model: model.manifest["features"][j].update(changes)


def each(key: str, of: Callable[[dict[str, Any]], object], step: int = 1) -> Wrong:
    """Another cell of this column in every `step`-th record."""
    return lambda model: [record.update({key: of(record)}) for record in model.records[::step]] and None


def artifact(of: Callable[[bytes], bytes]) -> Wrong:
    return lambda model: model.set_artifact(of(model.artifact))


def fitted_to(model: ModelDirectory) -> tuple[np.ndarray, np.ndarray]:
    """Scaled income and amount of the records, and their outcomes."""
    X = np.array([[float(record["income"]), float(record["amount"])] for record in model.records])
    return (X - X.mean(axis=0)) / X.std(axis=0), np.array([record["repaid"] for record in model.records])


def estimator(of: Callable[[np.ndarray, np.ndarray], bytes], path: str = "model.skops", **changes: object) -> Wrong:
    """A model of income and amount alone, without scores."""

    def wrong(model: ModelDirectory) -> None:
        without_scores(model)
        model.manifest["features"] = [f for f in model.manifest["features"] if f["name"] in ("income", "amount")]
        del model.manifest["refits"]
        model.manifest |= changes
        kind = "xgboost" if path == "model.json" else "sklearn"
        model.set_artifact(of(*fitted_to(model)), format=kind, path=path)

    return wrong


def shuffled_columns(model: ModelDirectory) -> None:
    """Two features of the manifest change places, and the model has no names."""
    estimator(logistic)(model)
    model.columns.append("score")
    Z, y = fitted_to(model)
    for record, score in zip(model.records, LogisticRegression().fit(Z, y).predict_proba(Z)[:, 1], strict=True):
        record["score"] = score
    model.manifest["features"].reverse()


def scores_in_another_order(model: ModelDirectory) -> None:
    reverse = [record["score"] for record in reversed(model.records)]
    for record, score in zip(model.records, reverse, strict=True):
        record["score"] = score


def scaled_records(model: ModelDirectory) -> None:
    """The reference is what the model takes; fitted again, the scales are 0 and 1 and the scores agree."""
    for one in model.manifest["features"]:
        for key in ("min", "max", "decimals"):
            one.pop(key, None)
    values = np.array([record["income"] for record in model.records])
    each("income", lambda record: float((record["income"] - values.mean()) / values.std()))(model)


def logistic(Z: np.ndarray, y: np.ndarray) -> bytes:
    return bytes(skops.io.dumps(LogisticRegression().fit(Z, y)))


def in_words(Z: np.ndarray, y: np.ndarray) -> bytes:
    return logistic(Z, np.where(y == 1, "good", "bad"))


def boosted(Z: np.ndarray, y: np.ndarray, **params: object) -> bytes:
    xgboost = library("xgboost")
    params = {"objective": "binary:logistic"} | params
    return bytes(xgboost.train(params, xgboost.DMatrix(Z, y), num_boost_round=3).save_raw("json"))


RNG = np.random.default_rng(3)
CLASSIFIER = "must be 'binary:logistic' or 'binary:logitraw': train a classifier of two"
REVERSED = "far below 0.5: is the label reversed"
OTHER_CLASS = "They are those of the other class"

REFUSED: dict[str, tuple[Wrong, str]] = {
    "shuffled columns": (
        shuffled_columns, r"differ from the model's own in 200 of 200 records, by up to 0\.\d+ .* record \d+: 0"
    ),
    "another scaler": (
        manifest(encoding={"continuous": "minmax", "spread": "encoding"}),
        r"With encoding: \{continuous: standard\} they agree",
    ),
    "no scaler": (manifest(encoding={"continuous": "none"}), r"With encoding: \{continuous: standard\} they agree"),
    "another center": (
        feature(1, center=3_000, scale=1_000), "and are center and scale of each number those of it"
    ),
    "classes exchanged": (manifest(favourable=0), f"{OTHER_CLASS}: change favourable"),
    "label in words": (
        each("repaid", lambda record: "good" if record["repaid"] else "bad"),
        'lines 2, 3, 4, 5, 6 and 195 more: must be one of "0", "1"; write 1 where the outcome was',
    ),
    "threshold in per cent": (manifest(threshold=60), "above 0 and below 1 .* for 60 % write 0.6"),
    "texts among numbers": (
        each("income", lambda _: "n/a", 3), r"lines 2, 5, 8, 11, 14 and 62 more: must be a number"
    ),
    "unknown category": (
        lambda model: model.records[5].update(housing="Owned"), 'line 7: must be one of "rented", "owned", "free"'
    ),
    "model cut off": (artifact(lambda content: content[:-20]), "is no JSON, or cut off"),
    "estimator cut off": (
        both(shuffled_columns, artifact(lambda content: content[: len(content) // 2])), "cannot be read"
    ),
    "no column": (
        lambda model: model.columns.remove("amount"), 'has no column "amount"; its header has age, income'
    ),
    "no weight": (
        artifact(lambda content: json.dumps({**json.loads(content), "weights": {"age": 0.2}}).encode()),
        r'write 0 if the model ignores this column \(also "amount"',
    ),
    "key misspelt": (
        lambda model: model.manifest.update(treshold=model.manifest.pop("threshold")), "is threshold meant"
    ),
    "no features": (manifest(features=[]), r"at least one entry; write features: \[\{name: income"),
    "feature twice": (
        lambda model: model.manifest["features"].append(dict(model.manifest["features"][0])),
        '"age" is the name of an earlier feature',
    ),
    "limits exchanged": (feature(1, min=20_000, max=0), '"income": min 20000 must be below max 0'),
    "scores in per cent": (
        each("score", lambda record: 100 * record["score"]), "They are percentages: divide them by 100"
    ),
    "scores of the other class": (each("score", lambda record: 1 - record["score"]), OTHER_CLASS),
    "scores as logits": (
        each("score", lambda record: float(np.log(record["score"] / (1 - record["score"])))),
        "They are logits: give probabilities, or say output: logit",
    ),
    "scores in another order": (scores_in_another_order, "The same scores in another order"),
    "levels in another order": (
        feature(3, categories=["much", "some", "none"]),
        "Are the columns, and the levels of ordinal features, in the order of the training",
    ),
    "missing for a linear model": (
        feature(1, missing="nan"), "cannot take null: it gives no finite output; say missing: indicator or fill"
    ),
    "words as classes": (estimator(in_words), 'must be one of the classes of the estimator: "bad", "good"'),
    "no probabilities": (
        estimator(lambda Z, y: bytes(skops.io.dumps(LinearSVC().fit(Z, y)))),
        "needs predict_proba, which this LinearSVC does not have; say output: label",
    ),
    "pickled": (
        estimator(lambda Z, y: pickle.dumps(LogisticRegression().fit(Z, y)), "model.joblib"),
        "can run any code when it is read; save it with skops, or pass --trust-pickle",
    ),
    "boosted and cut off": (estimator(lambda Z, y: boosted(Z, y)[:2_000], "model.json"), "is no JSON, or cut off"),
    "boosted regression": (
        estimator(lambda Z, y: boosted(Z, y, objective="reg:squarederror"), "model.json"), CLASSIFIER
    ),
    "boosted for three classes": (
        estimator(
            lambda Z, y: boosted(Z, np.arange(len(y)) % 3, objective="multi:softprob", num_class=3), "model.json"
        ),
        CLASSIFIER,
    ),
}  # fmt: skip

WARNED: dict[str, tuple[Wrong, str]] = {
    "shuffled columns": (both(shuffled_columns, without_scores), REVERSED),
    "classes exchanged": (both(manifest(favourable=0), without_scores), REVERSED),
    "label reversed": (both(each("repaid", lambda record: 1 - record["repaid"]), without_scores), REVERSED),
    "label by chance": (
        each("repaid", lambda _: int(RNG.integers(2))),
        "no better than chance: do the records, the encoding and the order of the columns belong",
    ),
    "threshold of a probability": (
        both(without_scores, manifest(output="logit")), "The threshold 0.5 of a logit is a probability of 62%"
    ),
    "threshold for none": (
        manifest(threshold=0.9999), r"accepts none .* outputs lie between 0\.\d+ and 0\.\d+, the threshold is 0.9999"
    ),
    "threshold for all": (manifest(threshold=0.0001), r"accepts all .* the threshold is 0.0001. Is it in their unit"),
    "records scaled": (
        scaled_records, "mean of 0 and a standard deviation of 1, as if they were scaled: income. Give the records in"
    ),
    "codes unmarked": (
        both(without_scores, feature(2, min=None), each("amount", lambda _: -999, 6)),
        r'"amount" is -999 in 17% .* if that is a code, say special: \{-999: "what it means"\}',
    ),
    "nothing may change": (
        lambda model: [one.update(change="none") for one in model.manifest["features"]] and None,
        "No feature may change, so that nothing can be advised: which can people change",
    ),
    "no scaler": (
        estimator(logistic, encoding={"continuous": "none"}), "probabilities are 0 or 1: are these labels"
    ),
    "column constant": (
        both(without_scores, each("age", lambda _: 30)),
        "The same in all reference records, so that nothing is known about it: age",
    ),
    "rule broken": (
        manifest(rules=["amount <= income"]), r"The rule 'amount <= income' does not hold in \d+ of 200 reference recor"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("wrong", "sentence"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused_with_what_to_do(model: ModelDirectory, tmp_path: Path, wrong: Wrong, sentence: str) -> None:
    wrong(model)
    with pytest.raises(ModelRefused) as caught:
        Registry(tmp_path / "store").register(model.write())
    said = str(caught.value)
    assert re.search(sentence, said), said
    assert not LIBRARY_WORDS.search(said), said
    assert len(said.splitlines()) <= 4, said


@pytest.mark.parametrize(("wrong", "sentence"), WARNED.values(), ids=WARNED)
def test_it_registers_with_a_warning(model: ModelDirectory, tmp_path: Path, wrong: Wrong, sentence: str) -> None:
    wrong(model)
    warnings = Registry(tmp_path / "store").register(model.write()).registration.warnings
    assert any(re.search(sentence, warning) for warning in warnings), warnings


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
    each("score", lambda record: round(record["score"], 2))(model)
    assert Registry(tmp_path / "store").register(model.write()).registration.notes[0].startswith("The scores are")
    rows = list(csv.reader(io.StringIO((model.path / "reference.csv").read_text())))
    assert {len(row[-1].partition(".")[2]) for row in rows[1:]} <= {1, 2}
