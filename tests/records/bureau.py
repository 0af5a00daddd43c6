"""Records as a credit bureau gives them: missing numbers, special codes, missing categories."""

import csv
import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from app.recourse.features import Record

NO_RECORD, NO_TRADES = -9, -8

FEATURES: list[dict[str, Any]] = [
    {"name": "income", "type": "integer", "min": 0, "max": 20_000, "step": 50, "missing": "nan"},
    {"name": "utilisation", "type": "continuous", "min": 0, "max": 150, "decimals": 1,
     "special": {NO_RECORD: "no bureau record", NO_TRADES: "no usable trades"}},
    {"name": "duration", "type": "integer", "min": 6, "max": 60},
    {"name": "savings", "type": "ordinal", "categories": ["none", "some", "much"], "missing": "nan"},
    {"name": "housing", "type": "categorical", "categories": ["rent", "owned", "free"], "missing": "nan"},
    {"name": "guarantor", "type": "binary", "missing": "nan"},
]  # fmt: skip

Table = list[Record]


def records(n: int = 600, seed: int = 0) -> tuple[Table, np.ndarray]:
    """Records and whether each was repaid. Some values are missing, and that means something."""
    rng = np.random.default_rng(seed)
    table: Table = []
    logits = np.empty(n)
    for i in range(n):
        income = int(rng.integers(16, 160) * 50)
        utilisation = round(float(rng.beta(2, 2) * 120), 1)
        duration = int(rng.integers(6, 61))
        savings, housing = int(rng.integers(3)), int(rng.integers(3))
        guarantor = bool(rng.random() < 0.3)
        logit = (income - 4_000) / 1_500 - (utilisation - 60) / 25 - (duration - 33) / 20
        logit += 0.5 * savings + 0.7 * (housing == 1) + 0.6 * guarantor - 0.8
        record: Record = {
            "income": income, "utilisation": utilisation, "duration": duration,
            "savings": FEATURES[3]["categories"][savings], "housing": FEATURES[4]["categories"][housing],
            "guarantor": guarantor,
        }  # fmt: skip
        if rng.random() < 1.0 / (1.0 + np.exp((income - 3_000) / 800)):  # people who earn little do not say so
            record["income"] = None
        if rng.random() < 0.15:
            record["utilisation"] = float(rng.choice([NO_RECORD, NO_TRADES]))
            logit -= 0.5
        for name, share in (("savings", 0.1), ("housing", 0.08), ("guarantor", 0.05)):
            if rng.random() < share:
                record[name] = None
        table.append(record)
        logits[i] = logit
    return table, rng.random(n) < 1.0 / (1.0 + np.exp(-logits))


def cell(value: Any) -> str:
    """A value in a CSV."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass
class Model:
    """A model directory in the making, and the same model outside the service."""

    artifact: dict[str, Any]
    content: bytes
    score: Callable[[Table], np.ndarray]
    """Probability of the favourable class, computed without the service."""
    input: str = "encoded"
    encoding: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Changes to what the manifest says of features."""

    def write(self, directory: Path, table: Table, repaid: np.ndarray, **more: Any) -> Path:
        """Write the directory."""
        directory.mkdir(parents=True)
        (directory / self.artifact["path"]).write_bytes(self.content)
        features = [feature | self.missing.get(feature["name"], {}) for feature in FEATURES]
        out = io.StringIO()
        writer = csv.writer(out)
        writer.writerow([*(feature["name"] for feature in features), "repaid"])
        writer.writerows(
            [*(cell(value) for value in row.values()), int(y)] for row, y in zip(table, repaid, strict=True)
        )
        (directory / "reference.csv").write_text(out.getvalue())
        manifest = {
            "id": "bureau", "version": "1", "title": "Loan with a bureau record",
            "artifact": self.artifact | {"sha256": hashlib.sha256(self.content).hexdigest()},
            "input": self.input, "output": "probability", "encoding": self.encoding,
            "features": features, "reference": "reference.csv", **more,
        }  # fmt: skip
        (directory / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
        return directory


LEVELS = {feature["name"]: feature.get("categories", [False, True]) for feature in FEATURES}


def matrix(table: Table) -> np.ndarray:
    """What trees of numbers eat: NaN where a number is missing, and a column for each category, missing among them."""
    rows = []
    for record in table:
        row = [record["income"], record["utilisation"], record["duration"]]
        row.append(None if record["savings"] is None else LEVELS["savings"].index(record["savings"]))
        row += [float(record["housing"] == level) for level in [*LEVELS["housing"], None]]
        row.append(None if record["guarantor"] is None else float(bool(record["guarantor"])))
        rows.append([np.nan if value is None else float(value) for value in row])
    return np.array(rows)


INDICATORS: dict[str, dict[str, Any]] = {
    "income": {"missing": "indicator", "fill": 2_000},
    "savings": {"missing": "indicator", "fill": "none"},
    "housing": {"missing": "indicator"},
    "guarantor": {"missing": "fill", "fill": False},
}


def indicated(table: Table) -> np.ndarray:
    """What linear models and networks eat: a fill value, and for some features a column that says so."""
    rows = []
    for record in table:
        savings = record["savings"] or "none"
        row = [2_000 if record["income"] is None else record["income"], record["income"] is None]
        row += [record["utilisation"], record["duration"], LEVELS["savings"].index(savings), record["savings"] is None]
        row += [record["housing"] == level for level in [*LEVELS["housing"], None]]
        row.append(bool(record["guarantor"]))
        rows.append([float(value) for value in row])
    return np.array(rows)


def linear(table: Table, repaid: np.ndarray) -> Model:
    from sklearn.linear_model import LogisticRegression

    X = indicated(table)
    scale = X.std(axis=0)
    fitted = LogisticRegression(max_iter=1_000).fit(X / scale, repaid)
    names = ["income", "income:missing", "utilisation", "duration", "savings", "savings:missing"]
    names += ["housing=rent", "housing=owned", "housing=free", "housing=missing", "guarantor"]
    weights = dict(zip(names, (fitted.coef_[0] / scale).tolist(), strict=True))
    content = json.dumps({"space": "raw", "intercept": float(fitted.intercept_[0]), "weights": weights}).encode()
    return Model(
        {"format": "linear", "path": "model.json"}, content,
        lambda rows: fitted.predict_proba(indicated(rows) / scale)[:, 1], missing=INDICATORS,
    )  # fmt: skip


def torch(table: Table, repaid: np.ndarray) -> Model:
    import torch
    from safetensors.torch import save

    X = torch.tensor(indicated(table), dtype=torch.float64)
    unit = torch.where(X.std(0) > 100.0, X.std(0), 1.0)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(X.shape[1], 12), torch.nn.ReLU(), torch.nn.Linear(12, 1)).double()
    y = torch.tensor(repaid, dtype=torch.float64)[:, None]
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    Z = (X - X.mean(0)) / X.std(0)
    for _ in range(150):
        optimiser.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(network(Z), y).backward()
        optimiser.step()
    with torch.no_grad():  # the same network on the numbers as they are
        first = network[0]
        first.bias -= first.weight @ (X.mean(0) / X.std(0))
        first.weight /= X.std(0)
    del unit

    def score(rows: Table) -> np.ndarray:
        with torch.no_grad():
            return torch.sigmoid(network(torch.tensor(indicated(rows)))).numpy()[:, 0]

    layers = [X.shape[1], 12, 1]
    return Model(
        {"format": "torch", "path": "model.safetensors",
         "architecture": {"type": "mlp", "layers": layers, "activation": "relu"}},
        save(network.state_dict()), score, encoding={"continuous": "none"}, missing=INDICATORS,
    )  # fmt: skip


def xgboost(table: Table, repaid: np.ndarray) -> Model:
    import xgboost

    data = xgboost.DMatrix(matrix(table), repaid)
    booster = xgboost.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, num_boost_round=25)
    return Model(
        {"format": "xgboost", "path": "model.json"}, bytes(booster.save_raw("json")),
        lambda rows: booster.predict(xgboost.DMatrix(matrix(rows))), encoding={"continuous": "none"},
    )  # fmt: skip


def lightgbm(table: Table, repaid: np.ndarray) -> Model:
    import lightgbm

    data = lightgbm.Dataset(matrix(table), repaid.astype(int), free_raw_data=False)
    settings = {"objective": "binary", "num_leaves": 8, "verbose": -1, "num_threads": 1, "min_data_in_leaf": 10}
    booster = lightgbm.train(settings, data, num_boost_round=25)
    return Model(
        {"format": "lightgbm", "path": "model.txt"}, booster.model_to_string().encode(),
        lambda rows: booster.predict(matrix(rows)), encoding={"continuous": "none"},
    )  # fmt: skip


def sklearn(table: Table, repaid: np.ndarray) -> Model:
    """A pipeline on the lender's own table."""
    import pandas as pd
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    def frame(rows: Table) -> Any:
        made = pd.DataFrame(rows)
        for name in ("income", "utilisation", "duration", "guarantor"):
            made[name] = pd.to_numeric(made[name].astype(object), errors="coerce").astype(float)
        for name in ("savings", "housing"):
            made[name] = made[name].astype(object).where(made[name].notna(), None)
        return made

    columns = make_column_transformer(
        (OrdinalEncoder(categories=[["none", "some", "much"]], handle_unknown="use_encoded_value",
                        unknown_value=np.nan), ["savings"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["housing"]),
        remainder="passthrough",
    )  # fmt: skip
    estimator = make_pipeline(columns, HistGradientBoostingClassifier(max_iter=25, max_leaf_nodes=8, random_state=0))
    estimator.fit(frame(table), repaid.astype(int))
    return Model(
        {"format": "sklearn", "path": "model.skops"}, skops.io.dumps(estimator),
        lambda rows: estimator.predict_proba(frame(rows))[:, 1], input="raw",
    )  # fmt: skip


FORMATS = {model.__name__: model for model in (linear, torch, xgboost, lightgbm, sklearn)}
