"""A model directory of each format, and of what a manifest can say: two numeric features, 200 records.

python -m examples.model_directories xgboost     # writes xgboost/; recourse models register xgboost
python -m examples.model_directories pipeline    # writes pipeline.skops and loans.csv, for recourse models draft
"""

import argparse
import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

random = np.random.default_rng(0)
raw = np.round(random.uniform([500, 0], [9000, 60], size=(200, 2)))
X = ((raw - [4000.0, 24.0]) / [2000.0, 12.0]).astype(np.float32)
y = (X[:, 0] - X[:, 1] > 0).astype(int)

Declared = dict[str, Any]
income: Declared = {"name": "income", "type": "continuous", "min": 0, "unit": "EUR", "decimals": 0}
months: Declared = {"name": "months", "type": "integer", "min": 0, "max": 120}
income_scaled, months_scaled = income | {"center": 4000, "scale": 2000}, months | {"center": 24, "scale": 12}
scaled = [income_scaled, months_scaled]
plain = raw.tolist()
weights = {"income": 1.5, "months": -1.2}


def write(
    name: str,
    file: str,
    content: bytes,
    artifact: Declared,
    *,
    features: list[Declared] = scaled,
    records: list[list[Any]] = plain,
    **more: Any,
) -> None:
    """The directory `name`: the model's file, the reference and the manifest."""
    directory = Path(name)
    directory.mkdir()
    (directory / file).write_bytes(content)
    with (directory / "reference.csv").open("w", newline="") as table:
        csv.writer(table).writerows([[feature["name"] for feature in features], *records])
    manifest = {
        "id": f"loan-{name}",
        "version": "1",
        "title": "A small loan",
        "artifact": {"path": file, "sha256": hashlib.sha256(content).hexdigest(), **artifact},
        "input": "encoded",
        "output": "probability",
        "reference": "reference.csv",
        "features": features,
        **more,
    }
    (directory / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))


UNSCALED = {"encoding": {"continuous": "none"}}


def weighted(more: dict[str, float]) -> bytes:
    """A linear model: a weight for each encoded column."""
    return json.dumps({"space": "encoded", "intercept": 0.1, "weights": weights | more}).encode()


def boosted(rows: Any, form: str = "json", **options: Any) -> bytes:
    """Five boosted trees, as `save_model` of XGBoost writes them."""
    import xgboost

    data = xgboost.DMatrix(rows, y, **options)
    return bytes(xgboost.train({"objective": "binary:logistic"}, data, num_boost_round=5).save_raw(form))


# --- formats ---------------------------------------------------------------------------------------------------------


def linear() -> None:
    """Weights of the encoded columns, as JSON."""
    write("linear", "model.json", weighted({}), {"format": "linear"})


def sklearn() -> None:
    """An estimator, saved with skops."""
    import skops.io
    from sklearn.linear_model import LogisticRegression

    write("sklearn", "model.skops", skops.io.dumps(LogisticRegression().fit(X, y)), {"format": "sklearn"})


def torch() -> None:
    """A state dict of dense layers."""
    import torch
    from safetensors.torch import save

    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    architecture = {"type": "mlp", "layers": [2, 8, 1], "activation": "relu"}
    content = save(network.state_dict())
    write("torch", "model.safetensors", content, {"format": "torch", "architecture": architecture})


def xgboost() -> None:
    """Boosted trees, as XGBoost saves them."""
    write("xgboost", "model.json", boosted(X), {"format": "xgboost"})


def lightgbm() -> None:
    """Boosted trees, as LightGBM saves them."""
    import lightgbm

    booster = lightgbm.train({"objective": "binary", "verbose": -1}, lightgbm.Dataset(X, y), num_boost_round=5)
    write("lightgbm", "model.txt", booster.model_to_string().encode(), {"format": "lightgbm"})


def scorecard() -> None:
    """A table of points."""
    card = (
        "feature,from,to,category,points\n,,,,500\nincome,,2500,,0\nincome,2500,,,80\nmonths,,12,,0\nmonths,12,,,60\n"
    )
    points: Declared = {"input": "raw", "output": "points", "threshold": 620}
    write("scorecard", "card.csv", card.encode(), {"format": "scorecard"}, features=[income, months], **points)


def onnx() -> None:
    """A graph with one input of encoded columns."""
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression().fit(X, y)
    graph = to_onnx(fitted, X[:1], options={id(fitted): {"zipmap": False}})
    write("onnx", "model.onnx", graph.SerializeToString(), {"format": "onnx", "column": 1})


# --- what a manifest can say -----------------------------------------------------------------------------------------


def categories() -> None:
    """Boosted trees that split by categories."""
    import pandas as pd

    places = ["rented", "owned", "free"]
    table = pd.DataFrame(raw, columns=["income", "months"])
    table["housing"] = pd.Categorical(random.choice(places, size=200), categories=places)
    features = [income, months, {"name": "housing", "type": "categorical", "categories": places}]
    content, records = boosted(table, "ubj", enable_categorical=True), table.to_numpy().tolist()
    more = {"input": "raw", **UNSCALED}
    write("categories", "model.ubj", content, {"format": "xgboost"}, features=features, records=records, **more)


def missing() -> None:
    """Missing incomes, and a code where the bureau has no record."""
    seen = raw.copy()
    seen[raw[:, 0] < 1500, 0] = np.nan
    seen[raw[:, 1] > 54, 1] = -9
    features = [income | {"missing": "nan"}, months | {"special": {-9: "no bureau record"}}]
    records = [["" if value != value else value for value in row] for row in seen.tolist()]
    artifact = {"format": "xgboost"}
    write("missing", "model.json", boosted(seen), artifact, features=features, records=records, **UNSCALED)


def derived() -> None:
    """A ratio of two other features."""
    debts = np.round(raw[:, :1] * random.uniform(0, 0.6, size=(200, 1)))
    rows = np.hstack([raw[:, :1], debts, debts / raw[:, :1]])
    features = [
        income,
        {"name": "debts", "type": "continuous", "min": 0, "unit": "EUR", "decimals": 0},
        {"name": "burden", "type": "continuous", "derived": "debts / income"},
    ]
    artifact = {"format": "xgboost"}
    write("derived", "model.json", boosted(rows), artifact, features=features, records=rows.tolist(), **UNSCALED)


def rules() -> None:
    """Who owns a home or lives with family pays no rent, and rents are at most 0.4 of an income from 1000."""
    places = ["owned", "rented", "with family"]
    lives = random.choice(places, size=200)
    rents = np.where(lives == "rented", np.round(0.3 * raw[:, 0]), 0.0)
    features = [
        *scaled,
        {"name": "housing", "type": "categorical", "categories": places},
        {"name": "rent", "type": "continuous", "min": 0, "unit": "EUR", "decimals": 0},
    ]
    records = [[*row, place, rent] for row, place, rent in zip(raw.tolist(), lives, rents, strict=True)]
    content = weighted({"rent": -0.5} | {f"housing={place}": 0.0 for place in places})
    hold = ['housing in {owned, "with family"} => rent = 0', "rent / income <= 0.4 or income < 1000"]
    write("rules", "model.json", content, {"format": "linear"}, features=features, records=records, rules=hold)


def advice() -> None:
    """Limits and times of changes."""
    slow = {"max_change": {"relative": 0.2}, "least_change": 100, "takes": {"months_per_unit": 0.005}}
    features = [income_scaled | slow, months_scaled | {"moves_with_time": {"per_year": 12}}]
    write("advice", "model.json", weighted({}), {"format": "linear"}, features=features)


def pipeline() -> None:
    """A pipeline over a raw table, and the table with outcomes and the pipeline's own scores."""
    import pandas as pd
    import skops.io
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    loans = pd.DataFrame(
        {
            "income": random.integers(800, 6000, 300),
            "debts": 10 * random.integers(0, 200, 300),
            "savings": random.choice(["none", "some", "much"], 300),
            "housing": random.choice(["owned", "rented", "with family"], 300),
        }
    )
    good = loans.income - loans.debts + 800 * (loans.savings == "much") + random.normal(0, 500, 300) > 2000
    steps = make_column_transformer(
        (StandardScaler(), ["income", "debts"]),
        (OrdinalEncoder(categories=[["none", "some", "much"]]), ["savings"]),
        (OneHotEncoder(), ["housing"]),
    )
    fitted = make_pipeline(steps, LogisticRegression()).fit(loans, np.where(good, "good", "bad"))
    skops.io.dump(fitted, "pipeline.skops")
    scores = fitted.predict_proba(loans)[:, list(fitted.classes_).index("good")]
    loans.assign(outcome=np.where(good, "good", "bad"), own_score=scores).to_csv("loans.csv", index=False)


EXAMPLES = {
    example.__name__: example
    for example in (
        linear, sklearn, torch, xgboost, lightgbm, scorecard, onnx,
        categories, missing, derived, rules, advice, pipeline,
    )
}  # fmt: skip

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the files of example models into the current directory.")
    parser.add_argument("example", nargs="+", choices=[*EXAMPLES])
    for name in parser.parse_args().example:
        EXAMPLES[name]()
