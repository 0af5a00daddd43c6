"""Records with missing values and special codes: how many are answered, and whether the answers are true.

Values of ACS income and Adult are blanked on purpose: hours at random, education more often where the income is low,
one number by a special code, one category. Models are trained on the blanked records. Each of some refused people asks
twice: with the full record, where the values that are blanked in the other may not change, and with a blanked one, in
which nobody can change them. Counted are those whose blanked record some method answers, except where none of all legal
records, which are listed, keeps what the method promises (`probe`: its rate under noise). What a library says of an
answer is computed from the record, without the service.
"""

import csv
import gzip
import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import yaml

from app.errors import RecourseError
from app.recourse import CertificateParams, Constraints, RecourseProblem, action_set, solve
from app.recourse.features import Record
from app.recourse.models.meter import Meter
from app.recourse.search.legal_rows import every_row
from app.recourse.solve import METHODS
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from benchmarks.papers import DATA
from benchmarks.tables import show

NO_RECORD = -9
"""A special code."""
TRAINING = 6_000
PEOPLE = 40
MOST_RECORDS = 100_000
"""Legal records that are listed where a method finds nothing."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set, with what is blanked in it."""

    name: str
    features: list[dict[str, Any]]
    rows: list[Record]
    labels: np.ndarray
    hours: str
    education: str
    coded: str
    """The number that gets a special code."""
    category: str


def adult() -> Source:
    """Adult, eight of its columns."""
    at = {"age": 0, "workclass": 1, "education_years": 4, "marital": 5, "occupation": 6, "capital_gain": 10,
          "capital_loss": 11, "hours": 12}  # fmt: skip
    with gzip.open(DATA / "adult/raw/adult.data.gz", "rt") as file:
        read = [[cell.strip() for cell in line] for line in csv.reader(file) if len(line) == 15]
    read = [line for line in read if "?" not in line]
    numbers = {"age": (17, 100), "education_years": (1, 16), "capital_gain": (0, 99_999), "capital_loss": (0, 5_000),
               "hours": (1, 99)}  # fmt: skip
    return _source("adult", at, numbers, read, np.array([line[14].startswith(">50K") for line in read]), {
        "hours": "hours", "education": "education_years", "coded": "capital_gain", "category": "workclass",
    }, still=("age", "marital"))  # fmt: skip


def acs() -> Source:
    """ACS income, seven of its columns."""
    with gzip.open(DATA / "acs_income/ACSIncome_CA_2018_quarter.csv.gz", "rt") as file:
        lines = csv.reader(file)
        header = next(lines)
        read = list(lines)
    at = {name: header.index(key) for name, key in {
        "age": "AGEP", "class": "COW", "schooling": "SCHL", "marital": "MAR", "hours": "WKHP", "relation": "RELP",
        "race": "RAC1P",
    }.items()}  # fmt: skip
    numbers = {"age": (16, 100), "schooling": (1, 24), "hours": (1, 99)}
    labels = np.array([float(line[header.index("label")]) > 0.5 for line in read])
    return _source("acs income", at, numbers, read, labels, {
        "hours": "hours", "education": "schooling", "coded": "hours", "category": "class",
    }, still=("age", "marital", "relation", "race"))  # fmt: skip


def _source(
    name: str, at: dict[str, int], numbers: dict[str, tuple[int, int]], read: list[list[str]], labels: np.ndarray,
    blanked: dict[str, str], still: Sequence[str],
) -> Source:  # fmt: skip
    chosen = np.random.default_rng(0).permutation(len(read))[: TRAINING + 2_000]
    levels = {key: sorted({read[i][j] for i in chosen}) for key, j in at.items() if key not in numbers}
    features: list[dict[str, Any]] = []
    for key in at:
        feature: dict[str, Any] = {"name": key, "change": "none" if key in still else "any"}
        if key in numbers:
            feature |= {"type": "integer", "min": numbers[key][0], "max": numbers[key][1]}
        else:
            feature |= {"type": "categorical", "categories": levels[key]}
        if key in (blanked["hours"], blanked["education"], blanked["category"]):
            feature["missing"] = "nan"
        if key == blanked["coded"]:
            feature["special"] = {NO_RECORD: "no record"}
        features.append(feature)
    rows: list[Record] = [
        {key: int(float(read[i][j])) if key in numbers else read[i][j] for key, j in at.items()} for i in chosen
    ]
    return Source(name=name, features=features, rows=rows, labels=labels[chosen], **blanked)


def blank(source: Source, seed: int) -> Iterator[Record]:
    """The records with values blanked."""
    rng = np.random.default_rng(seed)
    for row, label in zip(source.rows, source.labels, strict=True):
        kept = dict(row)
        if rng.random() < 0.1:
            kept[source.coded] = NO_RECORD
        if rng.random() < 0.1:
            kept[source.hours] = None
        if rng.random() < (0.05 if label else 0.2):
            kept[source.education] = None
        if rng.random() < 0.08:
            kept[source.category] = None
        yield kept


# --- models ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Model:
    """A file, what the manifest says of it, and the same model outside the service."""

    artifact: dict[str, Any]
    content: bytes
    score: Callable[[Sequence[Record]], np.ndarray]
    """Probability of the favourable class."""
    missing: dict[str, Any]
    """What the manifest says of a number that may be missing."""


def _columns(source: Source, rows: Sequence[Record], fill: float | None) -> np.ndarray:
    """A column for each number (and one that says whether it is missing, where there is a fill value) and category."""
    columns: list[np.ndarray] = []
    for feature in source.features:
        values = [row[feature["name"]] for row in rows]
        if feature["type"] == "categorical":
            levels = [*feature["categories"], *([None] if "missing" in feature else [])]
            columns += [np.array([value == level for value in values], dtype=float) for level in levels]
            continue
        absent = np.array([value is None for value in values])
        seen = np.array([np.nan if value is None else float(value) for value in values])
        columns.append(seen if fill is None else np.where(absent, fill, seen))
        if fill is not None and "missing" in feature:
            columns.append(absent.astype(float))
    return np.column_stack(columns)


def boosted_by_xgboost(source: Source, rows: Sequence[Record], labels: np.ndarray) -> Model:
    """Trees that have a way for NaN at each split."""
    import xgboost

    settings = {"objective": "binary:logistic", "max_depth": 4, "nthread": 1}
    data = xgboost.DMatrix(_columns(source, rows, None), labels)
    booster = xgboost.train(settings, data, num_boost_round=60)
    return Model(
        artifact={"format": "xgboost", "path": "model.json"}, content=bytes(booster.save_raw("json")),
        score=lambda more: booster.predict(xgboost.DMatrix(_columns(source, more, None))), missing={"missing": "nan"},
    )  # fmt: skip


def boosted_by_lightgbm(source: Source, rows: Sequence[Record], labels: np.ndarray) -> Model:
    """The same of LightGBM."""
    import lightgbm

    data = lightgbm.Dataset(_columns(source, rows, None), labels.astype(int))
    settings = {"objective": "binary", "num_leaves": 15, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, data, num_boost_round=60)
    return Model(
        artifact={"format": "lightgbm", "path": "model.txt"}, content=booster.model_to_string().encode(),
        score=lambda more: booster.predict(_columns(source, more, None)), missing={"missing": "nan"},
    )  # fmt: skip


def logistic(source: Source, rows: Sequence[Record], labels: np.ndarray) -> Model:
    """Logistic regression with a fill value and columns that say what is missing."""
    from sklearn.linear_model import LogisticRegression

    X = _columns(source, rows, 0.0)
    scale = np.where(X.std(axis=0) > 0.0, X.std(axis=0), 1.0)
    fitted = LogisticRegression(max_iter=2_000).fit(X / scale, labels)
    weights = dict(zip(_names(source), (fitted.coef_[0] / scale).tolist(), strict=True))
    content = json.dumps({"space": "raw", "intercept": float(fitted.intercept_[0]), "weights": weights}).encode()
    return Model(
        artifact={"format": "linear", "path": "model.json"}, content=content,
        score=lambda more: fitted.predict_proba(_columns(source, more, 0.0) / scale)[:, 1],
        missing={"missing": "indicator", "fill": 0},
    )  # fmt: skip


def _names(source: Source) -> list[str]:
    names: list[str] = []
    for feature in source.features:
        name, may = feature["name"], "missing" in feature
        if feature["type"] == "categorical":
            names += [f"{name}={level}" for level in feature["categories"]] + [f"{name}=missing"] * may
        else:
            names += [name] + [f"{name}:missing"] * may
    return names


FAMILIES = {"xgboost": boosted_by_xgboost, "lightgbm": boosted_by_lightgbm, "logistic": logistic}


def _registered(folder: Path, source: Source, model: Model, rows: Sequence[Record]) -> LoadedModel:
    directory = folder / "model"
    directory.mkdir()
    (directory / model.artifact["path"]).write_bytes(model.content)
    with (directory / "reference.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(feature["name"] for feature in source.features)
        writer.writerows(["" if value is None else value for value in row.values()] for row in rows)
    features = [
        feature | (model.missing if "missing" in feature and feature["type"] != "categorical" else {})
        for feature in source.features
    ]
    manifest = {
        "id": "records", "version": "1", "title": source.name, "input": "encoded", "output": "probability",
        "encoding": {"continuous": "none"}, "features": features, "reference": "reference.csv",
        "artifact": model.artifact | {"sha256": hashlib.sha256(model.content).hexdigest()},
    }  # fmt: skip
    (directory / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    return Registry(folder / "store").register(directory).load()


# --- the table -------------------------------------------------------------------------------------------------------


def table() -> None:
    """Answers to full records and to blanked ones."""
    head = ("records", "model", "method", "full found", "blanked found, of these", "accepted by the library",
            "states kept", "cost, blanked : full", "not counted")  # fmt: skip
    sources = [read for read, path in ((adult, "adult"), (acs, "acs_income")) if (DATA / path).exists()]
    if not sources:
        print(f"No data in {DATA}; RECOURSE_DATA says where the data sets are.\n")
    show("Missing values and special codes", head, (row for read in sources for row in _rows(read())))


def _rows(source: Source) -> Iterable[Sequence[str]]:
    blanked = list(blank(source, 1))
    training, labels = blanked[:TRAINING], source.labels[:TRAINING]
    for family, train in FAMILIES.items():
        model = train(source, training, labels)
        with tempfile.TemporaryDirectory() as folder:
            loaded = _registered(Path(folder), source, model, training)
            people = [
                (full, part) for full, part in zip(source.rows[TRAINING:], blanked[TRAINING:], strict=True)
                if full != part and max(model.score([full, part])) < 0.45
            ][:PEOPLE]  # fmt: skip
            full = {m: [_answer(loaded, m, one, _blanked(one, other)) for one, other in people] for m in METHODS}
            part = {m: [_answer(loaded, m, other) for _, other in people] for m in METHODS}
            possible = [any(part[m][i] for m in METHODS) for i in range(len(people))]
            for method in METHODS:
                asked = zip(full[method], part[method], (other for _, other in people), strict=True)
                may = [one for one, some in zip(asked, possible, strict=True) if some]
                none = [bool(a) and not b and _none_keeps(loaded, model, method, other) for a, b, other in may]
                chosen = [one for one, not_one in zip(may, none, strict=True) if not not_one]
                yield source.name, family, method, *_measured(model, chosen), str(sum(none))


def _blanked(full: Record, other: Record) -> list[str]:
    return [name for name in full if full[name] != other[name]]


Found: TypeAlias = list[tuple[Record, float]]
"""Proposed records, with their costs."""


def _measured(model: Model, people: Sequence[tuple[Found, Found, Record]]) -> Sequence[str]:
    """Of people with a blanked record that some method answers."""
    both = [(a, b, other) for a, b, other in people if a]
    answered = [(b, other) for _, b, other in both if b]
    records = [(record, other) for found, other in answered for record, _ in found]
    accepted = [model.score([record])[0] >= 0.5 - 1e-6 for record, _ in records]
    kept = [
        all((before in (None, NO_RECORD)) == (after in (None, NO_RECORD)) for before, after in
            zip(other.values(), record.values(), strict=True))
        for record, other in records
    ]  # fmt: skip
    costs = [b[0][1] / a[0][1] for a, b, _ in both if b and a[0][1] > 0.0]
    return (
        f"{len(both)} of {len(people)}", f"{len(answered) / max(len(both), 1):.1%}", f"{np.mean(accepted):.1%}",
        f"{np.mean(kept):.1%}", f"{np.median(costs):.2f}",
    )  # fmt: skip


def _none_keeps(loaded: LoadedModel, model: Model, method: str, record: Record) -> bool:
    """Whether no legal record that the library accepts keeps the promise of a method; False where they are too many."""
    chosen, problem = METHODS[method], _problem(loaded, record)
    rows_raw = every_row(problem.action_set, MOST_RECORDS)
    if rows_raw is None:
        return False
    space = loaded.black_box.space
    rows_raw = rows_raw[model.score([space.record(row_raw) for row_raw in rows_raw]) >= 0.5]
    if not len(rows_raw) or chosen.promise is None:
        return not len(rows_raw)
    kept = chosen.promise(problem, chosen.params(), Meter(loaded.black_box)).shortfall
    assert kept is not None
    return bool((kept(rows_raw) > 0.0).all())


def _problem(loaded: LoadedModel, record: Record, immutable: Sequence[str] = ()) -> RecourseProblem:
    space = loaded.black_box.space
    actions = action_set(space, space.read(record), constraints=Constraints(immutable=tuple(immutable)))
    return RecourseProblem(black_box=loaded.black_box, reference=loaded.reference, action_set=actions)


def _answer(loaded: LoadedModel, method: str, record: Record, immutable: Sequence[str] = ()) -> Found:
    chosen, space, problem = METHODS[method], loaded.black_box.space, _problem(loaded, record, immutable)
    try:
        found = solve(problem, chosen, chosen.params(), CertificateParams(), plan_s=1.0).counterfactuals
    except RecourseError:
        return []
    return [(space.record(one.row_raw), one.cost) for one in found]
