"""A table of records with every type of column, missing values and an outcome, as a lender's own frame has them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.registry.loan import ModelDirectory, make_linear

HOUSING = ["rented", "owned", "free"]
PURPOSE = ["1", "2", "5", "10", "11"]
SAVINGS = ["none", "some", "much"]

FEATURES: list[dict[str, Any]] = [
    {"name": "income", "type": "continuous", "min": 0, "missing": "nan"},
    {"name": "housing", "type": "categorical", "categories": HOUSING, "missing": "nan"},
    {"name": "months", "type": "integer", "min": 0, "max": 120},
    {"name": "purpose", "type": "categorical", "categories": PURPOSE},
    {"name": "savings", "type": "ordinal", "categories": SAVINGS},
    {"name": "guarantor", "type": "binary"},
]


def frame(count: int = 600, seed: int = 0) -> pd.DataFrame:
    """Records; categories in another order than the manifest's, those of `purpose` numbers."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({
        "income": np.round(rng.uniform(500, 9_000, count), 2),
        "housing": pd.Categorical(rng.choice(HOUSING, count), categories=["free", "rented", "owned"]),
        "months": rng.integers(0, 60, count),
        "purpose": pd.Categorical(rng.choice([1, 2, 5, 10, 11], count), categories=[1, 2, 5, 10, 11]),
        "savings": pd.Categorical(rng.choice(SAVINGS, count), categories=SAVINGS, ordered=True),
        "guarantor": rng.choice([False, True], count),
    })  # fmt: skip
    table.loc[rng.random(count) < 0.1, "income"] = np.nan
    table.loc[rng.random(count) < 0.1, "housing"] = None
    return table


def outcomes(table: pd.DataFrame, seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    total = table["income"].fillna(3_000) / 3_000 + 1.0 * (table["housing"] == "owned").to_numpy()
    total = total + np.isin(table["purpose"], [2, 10]) + table["guarantor"] + rng.normal(scale=0.7, size=len(table))
    return (np.asarray(total) > 3.3).astype(int)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """As they are sent."""
    found = []
    for row in table.astype(object).to_dict("records"):
        record = {name: None if pd.isna(value) else value for name, value in row.items()}
        record["purpose"] = str(record["purpose"])
        found.append(record)
    return found


def make(path: Path, content: bytes, artifact: dict[str, Any], **changes: Any) -> ModelDirectory:
    """A model directory over these features."""
    model = make_linear(path)
    model.manifest |= {
        "features": [dict(feature) for feature in FEATURES],
        "encoding": {"continuous": "none"},
        "input": "raw",
        **changes,
    }
    model.columns = [str(feature["name"]) for feature in FEATURES]
    sent = records(frame(300, seed=9))
    model.records = [{name: "" if value is None else value for name, value in record.items()} for record in sent]
    model.set_artifact(content, **artifact)
    return model
