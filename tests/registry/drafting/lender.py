"""A lender's untidy records, and models trained on them in the ways that lenders do."""

import csv
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from app.recourse.models.score import sigmoid
from tests.optional import library

RECORDS = 1_000
YEARS = {"school": 10, "apprenticeship": 12, "college": 15, "university": 17}
HOUSING = ("owned", "rented", "with family")
NUMBERS = ("age", "monthly_income", "utilisation", "debts_eur", "has_guarantor")


@dataclass(frozen=True)
class Lender:
    """Records as columns of texts, and the numbers in them."""

    columns: Mapping[str, list[str]]
    numbers: Mapping[str, np.ndarray]
    good: np.ndarray

    def write(self, path: Path, **more: list[str]) -> Path:
        columns = dict(self.columns) | more
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        path.write_text(text.getvalue())
        return path

    def frame(self, names: tuple[str, ...] | None = None) -> Any:
        """The records as pandas reads them."""
        pandas = library("pandas")
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        text.seek(0)
        table = pandas.read_csv(text)
        return table if names is None else table[list(names)]


@cache
def lender(*, missing: bool = False, seed: int = 0) -> Lender:
    rng = np.random.default_rng(seed)
    n = RECORDS
    age = rng.integers(18, 80, n)
    income = np.round(rng.lognormal(7.8, 0.4, n), 2)
    utilisation = np.where(rng.random(n) < 0.08, -9, rng.integers(0, 130, n))
    debts = 10 * rng.integers(0, 300, n)
    guarantor = rng.integers(0, 2, n)
    housing = rng.choice(HOUSING, n)
    education = rng.choice(list(YEARS), n)
    gender = rng.choice(["female", "male"], n)
    margin = (np.log(income) - 7.8) * 2 - debts / 1_500 + guarantor - 0.008 * utilisation + (housing == "owned") + 0.4
    good = rng.random(n) < sigmoid(2 * margin)
    numbers = {
        "age": age.astype(float), "monthly_income": income, "utilisation": utilisation.astype(float),
        "debts_eur": debts.astype(float), "has_guarantor": guarantor.astype(float),
    }  # fmt: skip
    incomes = [repr(float(value)) for value in income]
    if missing:
        absent = rng.random(n) < 0.1
        incomes = ["" if gone else text for text, gone in zip(incomes, absent, strict=True)]
        numbers["monthly_income"] = np.where(absent, np.nan, income)
    columns = {
        "customer_id": [f"C{i:05d}" for i in rng.permutation(n)],
        "age": [str(value) for value in age],
        "gender": gender.tolist(),
        "monthly_income": incomes,
        "utilisation": [str(value) for value in utilisation],
        "debts_eur": [str(value) for value in debts],
        "has_guarantor": [str(value) for value in guarantor],
        "housing": housing.tolist(),
        "education": education.tolist(),
        "education_years": [str(YEARS[level]) for level in education],
        "outcome": ["good" if yes else "bad" for yes in good],
    }
    return Lender(columns=columns, numbers=numbers, good=good)


@dataclass(frozen=True)
class Trained:
    """A model's file, how it is drafted, and the lender's own scores."""

    lender: Lender
    write: Callable[[Path], Path]
    """Writes the model into a directory, and gives its path."""
    scores: np.ndarray
    wish: Mapping[str, Any] = field(default_factory=dict)


def matrix(records: Lender, names: tuple[str, ...] = NUMBERS) -> np.ndarray:
    return np.column_stack([records.numbers[name] for name in names])


def saved(name: str, content: bytes) -> Callable[[Path], Path]:
    def write(directory: Path) -> Path:
        (directory / name).write_bytes(content)
        return directory / name

    return write


def standard(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0)


def dummies(records: Lender) -> np.ndarray:
    """The numbers, then a column for each kind of housing."""
    housing = np.array(records.columns["housing"])
    return np.column_stack([matrix(records), *(housing == level for level in HOUSING)]).astype(float)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def of_xgboost(records: Lender, data: Any, good: np.ndarray | None = None, *, binary: bool = False) -> Trained:
    """Boosted trees on columns by name, or on a table with categories."""
    xgboost = library("xgboost")
    good = records.good if good is None else good
    if isinstance(data, dict):
        X = np.column_stack(list(data.values())).astype(float)
        matrix = xgboost.DMatrix(X, good, feature_names=list(data))
    else:
        matrix = xgboost.DMatrix(data, good, enable_categorical=True)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, matrix, 20)
    kind = "ubj" if binary else "json"
    return Trained(records, saved(f"model.{kind}", bytes(booster.save_raw(kind))), booster.predict(matrix))


def of_lightgbm(records: Lender, data: Any, **wish: Any) -> Trained:
    lightgbm = library("lightgbm")
    settings = {"objective": "binary", "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(data, records.good.astype(int)), 20)
    content = booster.model_to_string().encode()
    return Trained(records, saved("model.txt", content), booster.predict(data, num_threads=1), wish)


def of_sklearn(records: Lender, fitted: Any, table: Any, **wish: Any) -> Trained:
    content = library("skops.io").dumps(fitted)
    return Trained(records, saved("model.skops", content), fitted.predict_proba(table)[:, 1], wish)


# --- one model of each kind ------------------------------------------------------------------------------------------


@cache
def pipeline(*, missing: bool = False, classifier: str = "logistic") -> tuple[Any, Lender]:
    """A pipeline over the table of records, as scikit-learn's own guide has it."""

    records = lender(missing=missing)
    table = records.frame().drop(columns=["customer_id", "outcome"])
    columns = ColumnTransformer([
        ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), [*NUMBERS, "education_years"]),
        ("groups", OneHotEncoder(), ["housing", "gender"]),
        ("levels", OrdinalEncoder(categories=[list(YEARS)]), ["education"]),
    ])  # fmt: skip
    last = LogisticRegression(max_iter=500) if classifier == "logistic" else RandomForestClassifier(10, random_state=0)
    return make_pipeline(columns, last).fit(table, records.columns["outcome"]), records


def trained_pipeline(*, missing: bool = False, pickled: bool = False) -> Trained:
    fitted, records = pipeline(missing=missing)
    found = of_sklearn(records, fitted, records.frame())
    if not pickled:
        return found
    buffer = io.BytesIO()
    library("joblib").dump(fitted, buffer)
    return replace(found, write=saved("model.joblib", buffer.getvalue()))


def trained_estimator() -> Trained:
    """On a matrix that was scaled before, so that the file says neither names nor scales."""
    records = lender()
    X = standard(matrix(records))
    return of_sklearn(records, LogisticRegression().fit(X, records.good), X, columns=NUMBERS, favourable="good")


def trained_xgboost(*, missing: bool = False, binary: bool = False) -> Trained:
    records = lender(missing=missing)
    return of_xgboost(records, {name: records.numbers[name] for name in NUMBERS}, binary=binary)


def trained_lightgbm() -> Trained:
    """On dummies without names."""
    records = lender()
    return of_lightgbm(records, dummies(records), columns=(*NUMBERS, "housing"))


def trained_torch() -> Trained:
    """A network whose layers have names of their own, on scaled numbers; its file does not say that it has a tanh."""
    torch = library("torch")

    records = lender()
    X = standard(matrix(records))
    fitted = MLPClassifier((8,), activation="tanh", solver="lbfgs", alpha=1.0, random_state=0, max_iter=2_000).fit(
        X, records.good
    )
    (first, second), (bias, last) = fitted.coefs_, fitted.intercepts_
    state = {"body.fc1.weight": first.T, "body.fc1.bias": bias, "head.weight": second.T, "head.bias": last}
    buffer = io.BytesIO()
    torch.save({name: torch.tensor(np.ascontiguousarray(values)) for name, values in state.items()}, buffer)
    return Trained(records, saved("model.pt", buffer.getvalue()), fitted.predict_proba(X)[:, 1], {"columns": NUMBERS})


def trained_linear() -> Trained:
    records = lender()
    weights = {"monthly_income": 0.001, "debts_eur": -0.002, "has_guarantor": 0.8, "housing=owned": 0.7}
    weights |= {"housing=rented": 0.0, "housing=with family": 0.1}
    X = np.column_stack([
        *(records.numbers[name] for name in list(weights)[:3]), dummies(records)[:, -len(HOUSING):],
    ])  # fmt: skip
    content = json.dumps({"space": "raw", "intercept": -1.0, "weights": weights}).encode()
    return Trained(records, saved("model.json", content), sigmoid(X @ np.array(list(weights.values())) - 1.0))


def trained_onnx_matrix() -> Trained:
    convert = library("skl2onnx")

    records = lender()
    X = matrix(records).astype(np.float32)
    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, records.good.astype(int))
    graph = convert.to_onnx(fitted, X[:1], options={id(fitted): {"zipmap": False}})
    scores = fitted.predict_proba(X)[:, 1]
    return Trained(records, saved("model.onnx", graph.SerializeToString()), scores, {"columns": NUMBERS})


def trained_onnx_table() -> Trained:
    """One input for each column, and classes in words."""
    convert = library("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    fitted, records = pipeline()
    texts = ("housing", "gender", "education")
    inputs = [
        (name, (StringTensorType if name in texts else FloatTensorType)([None, 1]))
        for name in fitted.feature_names_in_
    ]  # fmt: skip
    graph = convert.to_onnx(fitted, initial_types=inputs)
    return Trained(records, saved("model.onnx", graph.SerializeToString()), fitted.predict_proba(records.frame())[:, 1])


def trained_mlflow() -> Trained:
    """As MLflow saves a booster, in XGBoost's binary form."""
    found = trained_xgboost(binary=True)
    columns = [{"type": "double", "name": name, "required": True} for name in NUMBERS]

    def write(directory: Path) -> Path:
        place = directory / "mlflow"
        place.mkdir()
        found.write(place).rename(place / "model.xgb")
        flavors = {"python_function": {"loader_module": "mlflow.xgboost"}, "xgboost": {"data": "model.xgb"}}
        described = {"flavors": flavors, "signature": {"inputs": json.dumps(columns)}}
        (place / "MLmodel").write_text(json.dumps(described))  # JSON is YAML
        return place

    return Trained(found.lender, write, found.scores)


def table_of(records: Lender, columns: tuple[str, ...]) -> Any:
    """The records with a category type, as pandas gives them to boosting libraries."""
    table = records.frame(columns)
    return table.assign(
        **{name: table[name].astype("category") for name in ("housing", "education") if name in columns}
    )


NATIVE = (*NUMBERS, "housing", "education")


def trained_xgboost_categories() -> Trained:
    records = lender(missing=True)
    return of_xgboost(records, table_of(records, NATIVE))


def trained_lightgbm_categories() -> Trained:
    records = lender()
    return of_lightgbm(records, table_of(records, NATIVE))


def trained_dummies() -> Trained:
    """Columns as `get_dummies(drop_first=True)` names them, those of one feature not together."""
    records = lender()
    housing = np.array(records.columns["housing"])
    first, last = {"housing_with family": housing == "with family"}, {"housing_rented": housing == "rented"}
    return of_xgboost(records, {**first, **records.numbers, **last})


def trained_levels() -> Trained:
    """Dummies of an education, beside its years: `get_dummies` orders them by the alphabet."""
    records = lender()
    education = np.array(records.columns["education"])
    years = np.array(records.columns["education_years"], dtype=float)
    columns = {"education_years": years, **records.numbers}
    columns |= {f"education_{level}": education == level for level in sorted(YEARS)}
    return of_xgboost(records, columns, records.good | (years > 15.0))


def trained_scorecard() -> Trained:
    """Points of attributes, one of them for the code -9."""
    records = lender()
    card = (
        "feature,from,to,category,points\n,,,,500\ndebts_eur,,1000,,60\ndebts_eur,1000,,,0\nutilisation,,50,,40\n"
        "utilisation,50,,,5\nutilisation,,,-9,15\nhousing,,,owned,30\nhousing,,,rented|with family,0\n"
    )
    housing, used = np.array(records.columns["housing"]), records.numbers["utilisation"]
    points = 500 + 60.0 * (records.numbers["debts_eur"] < 1000) + 30 * (housing == "owned")
    points += np.where(used == -9, 15, np.where(used < 50, 40, 5))
    return Trained(records, saved("card.csv", card.encode()), points, {"threshold": 560})


def coded_pipeline() -> tuple[Any, Lender, Any]:
    """A pipeline that takes apart codes of groups: 2, 5 and 11 for the kinds of housing."""

    plain = lender()
    codes = dict(zip(HOUSING, ("2", "5", "11"), strict=True))
    columns = {name: plain.columns[name] for name in (*NUMBERS, "outcome")}
    records = Lender(
        {**columns, "housing": [codes[one] for one in plain.columns["housing"]]}, plain.numbers, plain.good
    )
    steps = ColumnTransformer([("numbers", StandardScaler(), list(NUMBERS)), ("groups", OneHotEncoder(), ["housing"])])
    fitted = make_pipeline(steps, LogisticRegression(max_iter=500))
    table = records.frame((*NUMBERS, "housing"))
    return fitted.fit(table, records.columns["outcome"]), records, table


def trained_codes() -> Trained:
    fitted, records, table = coded_pipeline()
    return of_sklearn(records, fitted, table)


def trained_onnx_codes() -> Trained:
    convert = library("skl2onnx")
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType

    fitted, records, table = coded_pipeline()
    inputs = [(name, FloatTensorType([None, 1])) for name in NUMBERS] + [("housing", Int64TensorType([None, 1]))]
    graph = convert.to_onnx(fitted, initial_types=inputs)
    return Trained(records, saved("model.onnx", graph.SerializeToString()), fitted.predict_proba(table)[:, 1])


def trained_points() -> Trained:
    """A sum of weighted numbers that is the points, of which fewer are better."""
    records = lender()
    weights = {"debts_eur": 0.05, "monthly_income": -0.01, "has_guarantor": -20.0}
    points = 300 + sum(weight * records.numbers[name] for name, weight in weights.items())
    content = json.dumps({"space": "raw", "intercept": 300, "weights": weights, "link": "identity"}).encode()
    return Trained(records, saved("model.json", content), points, {"threshold": 330})


def trained_pipeline_of_trees() -> Trained:
    """A pipeline that ends in XGBoost."""
    xgboost = library("xgboost")

    records = lender()
    table = records.frame((*NUMBERS, "housing"))
    steps = ColumnTransformer([("groups", OneHotEncoder(), ["housing"])], remainder="passthrough")
    fitted = make_pipeline(steps, xgboost.XGBClassifier(n_estimators=10, max_depth=3, n_jobs=1))
    return of_sklearn(records, fitted.fit(table, records.good.astype(int)), table)


TRAINED: Mapping[str, Callable[[], Trained]] = {
    "pipeline": trained_pipeline,
    "pipeline with missing": lambda: trained_pipeline(missing=True),
    "pickle": lambda: trained_pipeline(pickled=True),
    "matrix": trained_estimator,
    "xgboost": trained_xgboost,
    "xgboost with missing": lambda: trained_xgboost(missing=True),
    "xgboost binary": lambda: trained_xgboost(binary=True),
    "lightgbm": trained_lightgbm,
    "torch": trained_torch,
    "linear": trained_linear,
    "onnx matrix": trained_onnx_matrix,
    "onnx table": trained_onnx_table,
    "mlflow": trained_mlflow,
    "xgboost with categories": trained_xgboost_categories,
    "lightgbm with categories": trained_lightgbm_categories,
    "dummies": trained_dummies,
    "dummies of levels": trained_levels,
    "scorecard": trained_scorecard,
    "points": trained_points,
    "pipeline with codes": trained_codes,
    "onnx with codes": trained_onnx_codes,
    "pipeline of trees": trained_pipeline_of_trees,
}
