"""A lender's own model in each format: from the file to the first advice, on Adult and ACS income.

Each model is trained as its library's guide has it, on columns as the data sets have them: texts in Adult, codes in ACS
income. `recourse models draft` writes the directory; lines edited by hand are those of `EDITS`. The scores are compared
on records that the service has not seen.
"""

import csv
import gzip
import io
import json
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from app.errors import ModelRefused
from app.recourse import METHODS, CertificateParams, RecourseProblem, action_set, solve
from app.recourse.actions.sentences import changes
from app.recourse.features import parse_column
from app.registry.drafting.draft import Wish, draft
from app.registry.lender_scores import outputs_of
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import LoadedModel
from app.remote_hosts import RemoteHost
from benchmarks.model_server import serving
from benchmarks.papers import DATA
from benchmarks.tables import show

TRAINING, HELD_OUT, COMPARED = 6_000, 1_100, 1_000
APPLICANTS = 10
BLANKED = 0.1
"""Share of the hours that are missing where a format takes missing values."""

EDITS: Mapping[tuple[str, str], Sequence[tuple[str, str]]] = {}
"""Lines of drafted manifests that a person edits, by data set and format: before and after."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Records as a lender has them."""

    name: str
    columns: tuple[str, ...]
    categories: tuple[str, ...]
    rows: list[list[str]]
    label: str
    hours: str
    good: str
    """The label of the favourable outcome."""

    def frame(self) -> Any:
        """The records as pandas reads them."""
        import pandas as pd

        text = io.StringIO()
        csv.writer(text).writerows([self.columns, *self.rows])
        text.seek(0)
        return pd.read_csv(text, keep_default_na=False, na_values=[""])


def adult() -> Source:
    """Adult, without the weight of records."""
    columns = (
        "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
        "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
    )  # fmt: skip
    with gzip.open(DATA / "adult/raw/adult.data.gz", "rt", newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if row]
    texts = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country")
    return _source("Adult", columns, rows, texts, "income", "hours_per_week", ">50K", drop="fnlwgt")


def acs() -> Source:
    """ACS income of California, 2018, without the 500 codes of occupations."""
    with gzip.open(DATA / "acs_income/ACSIncome_CA_2018_quarter.csv.gz", "rt", newline="") as file:
        header, *rows = csv.reader(file)
    whole = [[str(int(float(cell))) for cell in row] for row in rows]
    codes = ("COW", "MAR", "POBP", "RELP", "SEX", "RAC1P")
    return _source("ACS income", tuple(header), whole, codes, "label", "WKHP", "1", drop="OCCP")


def _source(
    name: str, columns: Sequence[str], rows: list[list[str]], categories: tuple[str, ...], label: str, hours: str,
    good: str, drop: str,
) -> Source:  # fmt: skip
    kept = [j for j, column in enumerate(columns) if column != drop]
    some = np.random.default_rng(0).permutation(len(rows))[: TRAINING + HELD_OUT]
    return Source(
        name=name, columns=tuple(columns[j] for j in kept), rows=[[rows[i][j] for j in kept] for i in some],
        categories=categories, label=label, hours=hours, good=good,
    )  # fmt: skip


SOURCES: Mapping[str, Callable[[], Source]] = {"adult/raw/adult.data.gz": adult, "acs_income": acs}
"""Data sets by the place that they need."""


@dataclass(frozen=True, kw_only=True)
class Own:
    """A lender's own model: its file or address, and its scores of all records."""

    scores: np.ndarray
    path: Path | None = None
    url: str | None = None
    records: Any = None
    """The records, where they are not those of the source."""
    wish: Mapping[str, Any] = field(default_factory=dict)
    trust: Trust = field(default_factory=Trust)


@dataclass(frozen=True, kw_only=True)
class Training:
    """What a model is trained on, and where it is written."""

    source: Source
    frame: Any
    """The features; the first `TRAINING` records are those to train on."""
    good: np.ndarray
    directory: Path
    stack: ExitStack
    """Ends servers."""


def _pipeline(given: Training) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [name for name in given.frame.columns if name not in given.source.categories]
    columns = make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), list(given.source.categories))
    )
    pipeline = make_pipeline(columns, LogisticRegression(max_iter=1_000))
    return pipeline.fit(given.frame[:TRAINING], given.good[:TRAINING])


def pipeline(given: Training) -> Own:
    """A pipeline of scikit-learn, saved with skops."""
    import skops.io

    fitted = _pipeline(given)
    skops.io.dump(fitted, given.directory / "pipeline.skops")
    return Own(scores=fitted.predict_proba(given.frame)[:, 1], path=given.directory / "pipeline.skops")


def _categories(given: Training) -> Any:
    """The table with pandas' category type, as the libraries of boosted trees take it."""
    return given.frame.astype(dict.fromkeys(given.source.categories, "category"))


def xgboost(given: Training) -> Own:
    """XGBoost that splits by categories itself."""
    import xgboost as library

    table = _categories(given)
    model = library.XGBClassifier(n_estimators=100, max_depth=4, enable_categorical=True, n_jobs=1)
    model.fit(table[:TRAINING], given.good[:TRAINING])
    model.save_model(given.directory / "model.json")
    return Own(scores=model.predict_proba(table)[:, 1], path=given.directory / "model.json")


def _blanked(given: Training) -> Any:
    """The records, some without hours and all without unknown categories."""
    frame = given.frame.replace("?", None)
    gone = np.random.default_rng(1).random(len(frame)) < BLANKED
    return frame.assign(**{given.source.hours: frame[given.source.hours].where(~gone)})


def lightgbm(given: Training) -> Own:
    """LightGBM that splits by categories itself, with missing values."""
    import lightgbm as library

    records = _blanked(given)
    table = records.astype(dict.fromkeys(given.source.categories, "category"))
    model = library.LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=1).fit(table[:TRAINING], given.good[:TRAINING])
    model.booster_.save_model(given.directory / "model.txt")
    return Own(scores=model.predict_proba(table)[:, 1], path=given.directory / "model.txt", records=records)


def dummies(given: Training) -> Own:
    """XGBoost over the columns of `get_dummies`."""
    import pandas as pd
    import xgboost as library

    table = pd.get_dummies(given.frame, columns=list(given.source.categories), dtype=float)
    model = library.XGBClassifier(n_estimators=100, max_depth=4, n_jobs=1)
    model.fit(table[:TRAINING], given.good[:TRAINING])
    model.save_model(given.directory / "model.ubj")
    return Own(scores=model.predict_proba(table)[:, 1], path=given.directory / "model.ubj")


def onnx(given: Training) -> Own:
    """The pipeline as ONNX, with an input for each column; the scores are those of ONNX Runtime."""
    import onnxruntime
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    def kind(name: str) -> Any:
        if given.frame[name].dtype == object or str(given.frame[name].dtype).startswith("str"):
            return StringTensorType([None, 1])
        return (Int64TensorType if name in given.source.categories else FloatTensorType)([None, 1])

    graph = to_onnx(_pipeline(given), initial_types=[(name, kind(name)) for name in given.frame.columns])
    content = graph.SerializeToString()
    (given.directory / "model.onnx").write_bytes(content)
    session = onnxruntime.InferenceSession(content)
    types = {"tensor(string)": object, "tensor(int64)": np.int64, "tensor(float)": np.float32}
    feed = {
        one.name: given.frame[one.name].to_numpy(dtype=types[one.type])[:, None] for one in session.get_inputs()
    }  # fmt: skip
    found = session.run([session.get_outputs()[1].name], feed)[0]
    scores = np.array([one[1] for one in found], dtype=float)
    return Own(scores=scores, path=given.directory / "model.onnx")


def _served(given: Training, place: str) -> Own:
    import pandas as pd

    fitted = _pipeline(given)
    dtypes = given.frame[:1].dtypes
    names = {"i": "INT64", "f": "FP64"}
    datatypes = {name: names.get(getattr(kind, "kind", "O"), "BYTES") for name, kind in dtypes.items()}
    predict = lambda columns: fitted.predict_proba(pd.DataFrame(columns).astype(dtypes))  # noqa: E731
    address = given.stack.enter_context(serving(datatypes, predict))
    scores = fitted.predict_proba(given.frame)[:, 1]
    hosts = (RemoteHost.parse(f"{address}=127.0.0.1"),)
    return Own(scores=scores, url=address + place, trust=Trust(hosts=hosts))


def mlflow(given: Training) -> Own:
    """The directory that `mlflow.sklearn.save_model` writes, with a signature; its pickle needs trust."""
    fitted, directory = _pipeline(given), given.directory / "mlflow"
    directory.mkdir()
    (directory / "model.pkl").write_bytes(pickle.dumps(fitted))
    kinds = {"i": "long", "f": "double"}
    inputs = [
        {"type": kinds.get(getattr(kind, "kind", "O"), "string"), "name": name, "required": True}
        for name, kind in given.frame.dtypes.items()
    ]
    described = (
        "artifact_path: model\nflavors:\n  python_function:\n    env:\n      conda: conda.yaml\n"
        "    loader_module: mlflow.sklearn\n    model_path: model.pkl\n    predict_fn: predict_proba\n"
        "  sklearn:\n    code: null\n    pickled_model: model.pkl\n    serialization_format: cloudpickle\n"
        f"mlflow_version: 3.4.0\nsignature:\n  inputs: '{json.dumps(inputs)}'\n  params: null\n"
    )
    (directory / "MLmodel").write_text(described)
    return Own(scores=fitted.predict_proba(given.frame)[:, 1], path=directory, trust=Trust(pickle=True))


def scorecard(given: Training) -> Own:
    """Points of a logistic regression over quintiles of numbers and levels of categories, 20 points for double odds."""
    from sklearn.linear_model import LogisticRegression

    rows: list[tuple[str, str, str, str]] = []
    flags: list[np.ndarray] = []
    for name in given.frame.columns:
        values = given.frame[name].to_numpy()
        if name in given.source.categories:
            levels = sorted(set(values[:TRAINING].tolist()))
            rows += [(name, "", "", str(level)) for level in levels]
            flags += [values == level for level in levels]
        else:
            cuts = np.unique(np.quantile(values[:TRAINING], [0.2, 0.4, 0.6, 0.8, 0.95]))
            edges = ["", *(f"{cut:g}" for cut in cuts), ""]
            rows += [(name, low, high, "") for low, high in pairwise(edges)]
            places = np.searchsorted(cuts, values, side="right")
            flags += [places == k for k in range(len(cuts) + 1)]
    X = np.column_stack(flags).astype(float)
    fitted = LogisticRegression(max_iter=1_000).fit(X[:TRAINING], given.good[:TRAINING])
    per_logit = 20 / np.log(2)
    points = np.round(per_logit * fitted.coef_[0], 2)
    base = round(float(600 + per_logit * fitted.intercept_[0]), 2)
    with (given.directory / "card.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["feature", "from", "to", "category", "points"])
        writer.writerow(["", "", "", "", base])
        writer.writerows([*row, value] for row, value in zip(rows, points, strict=True))
    return Own(scores=base + X @ points, path=given.directory / "card.csv", wish={"threshold": 600})


FORMATS: Mapping[str, Callable[[Training], Own]] = {
    "pipeline (skops)": pipeline,
    "XGBoost, categories": xgboost,
    "LightGBM, categories, missing": lightgbm,
    "XGBoost, get_dummies": dummies,
    "ONNX of the pipeline": onnx,
    "server, Open Inference Protocol": partial(_served, place="/v2/models/credit/infer"),
    "MLflow directory": mlflow,
    "server, MLflow": partial(_served, place="/invocations"),
    "scorecard": scorecard,
}
"""Every way to hand over a model."""


@dataclass(kw_only=True)
class Tried:
    """What one model took."""

    edited: int
    tries: int
    seconds: list[float]
    """Of draft, registration, first answer."""
    difference: float
    compared: int
    answers: list[list[str]]
    """Sentences for each rejected person; empty where nothing was found."""
    changed: set[str]
    """Features that are changed for any of them."""


def attempt(source: Source, name: str, directory: Path) -> Tried:
    """Draft, edit, register and ask."""
    with ExitStack() as stack:
        frame = source.frame()
        good = (frame.pop(source.label).astype(str).isin(["1", ">50K"])).to_numpy().astype(int)
        given = Training(source=source, frame=frame, good=good, directory=directory, stack=stack)
        own = FORMATS[name](given)
        records = frame if own.records is None else own.records
        labels = [row[source.columns.index(source.label)] for row in source.rows]
        texts = records.assign(**{source.label: labels})
        texts[:TRAINING].to_csv(directory / "records.csv", index=False)
        np.savetxt(directory / "scores.csv", own.scores[:TRAINING], fmt="%.17g", header="score", comments="")
        model: dict[str, Any] = {"model": own.path} if own.path else {"url": own.url}
        wish = Wish(
            data=directory / "records.csv", label=source.label, favourable=source.good,
            scores=str(directory / "scores.csv"), id="own", **model, **own.wish,
        )  # fmt: skip
        began = time.perf_counter()
        draft(wish, directory / "own", own.trust)
        drafted = time.perf_counter()
        edits = EDITS.get((source.name, name), ())
        _edit(directory / "own/model.yaml", edits)
        registry = Registry(directory / "store", own.trust)
        edited = time.perf_counter()
        registered = registry.register(directory / "own", scores=directory / "scores.csv", tolerance=1e-6)
        done = time.perf_counter()
        loaded = registered.load()
        answers, changed, first = _answers(loaded)
        difference, compared = _difference(loaded, texts[TRAINING:].to_csv(index=False), own.scores[TRAINING:])
    return Tried(
        edited=len(edits), tries=1, seconds=[drafted - began, done - edited, first], difference=difference,
        compared=compared, answers=answers, changed=changed,
    )  # fmt: skip


def _edit(path: Path, edits: Sequence[tuple[str, str]]) -> None:
    text = path.read_text()
    for before, after in edits:
        if before not in text:
            raise ValueError(f"{path} has no line {before}")
        text = text.replace(before, after)
    path.write_text(text)


def _difference(loaded: LoadedModel, text: str, given: np.ndarray) -> tuple[float, int]:
    """Largest difference of scores on records that the service has not seen, and how many it reads."""
    own = [feature for feature in loaded.black_box.space.schema if feature.derived is None]
    rows = list(csv.DictReader(io.StringIO(text)))
    columns, bad = [], set()
    for feature in own:
        values, faults = parse_column(feature, [row[feature.name] for row in rows])
        columns.append(values)
        bad |= {row for row, _ in faults}
    # Levels that training has not seen are refused.
    kept = [i for i in range(len(rows)) if i not in bad][:COMPARED]
    found = outputs_of(loaded.black_box, loaded.black_box.score_raw(np.column_stack(columns)[kept]))
    return float(np.abs(found - given[kept]).max()), len(kept)


def _answers(loaded: LoadedModel) -> tuple[list[list[str]], set[str], float]:
    """Sentences for rejected people spread over their scores, what is changed, and the seconds of the first answer."""
    rejected = np.flatnonzero(loaded.reference.scores < 0.0)
    order = rejected[np.argsort(loaded.reference.scores[rejected], kind="stable")]
    method = METHODS["robust_mpm"]
    answers: list[list[str]] = []
    changed: set[str] = set()
    first = 0.0
    for place in np.linspace(0.1, 0.9, APPLICANTS):
        factual_raw = loaded.reference.rows_raw[order[round(place * (len(order) - 1))]]
        began = time.perf_counter()
        actions = action_set(loaded.black_box.space, factual_raw, rules=loaded.rules)
        problem = RecourseProblem(black_box=loaded.black_box, reference=loaded.reference, action_set=actions)
        found: Any = solve(problem, method, method.params(), CertificateParams())
        first = first or time.perf_counter() - began
        said = [
            change
            for best in found.counterfactuals[:1]
            for change in changes(loaded.black_box.space.features, factual_raw, best.row_raw, actions.clock)
        ]
        answers.append([change.text for change in said])
        changed |= {change.feature for change in said}
    return answers, changed, first


def table() -> None:
    """Per data set and format: lines edited, tries, seconds, the largest difference of scores, people answered."""
    head = (
        "data set", "format", "lines edited", "tries", "draft s", "registration s", "first answer s",
        "largest difference", "of records", f"answered of {APPLICANTS}", "changed",
    )  # fmt: skip

    def rows() -> Iterator[Sequence[str]]:
        for place, read in SOURCES.items():
            if not (DATA / place).exists():
                continue
            source = read()
            for name in FORMATS:
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        found = attempt(source, name, Path(folder))
                    except ModelRefused as error:
                        yield (source.name, name, "failed", str(error).replace("\n", " "))
                        continue
                yield (
                    source.name, name, str(found.edited), str(found.tries), *(f"{one:.1f}" for one in found.seconds),
                    f"{found.difference:.0e}", f"{found.compared:,}", str(sum(map(bool, found.answers))),
                    ", ".join(sorted(found.changed)),
                )  # fmt: skip

    show(f"A lender's own model: {TRAINING:,} records of training", head, rows())
