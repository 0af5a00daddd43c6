"""A loan model with every type of feature, as a lender would hand it in; each test breaks one thing of it."""

import csv
import hashlib
import json
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

Record = dict[str, Any]

FEATURES: list[dict[str, Any]] = [
    {"name": "age", "type": "integer", "unit": "years", "min": 18, "max": 100, "change": "increase"},
    {"name": "income", "type": "continuous", "min": 0, "max": 20_000, "decimals": 2},
    {"name": "amount", "type": "continuous", "min": 0, "max": 50_000},
    {"name": "savings", "type": "ordinal", "categories": ["none", "some", "much"]},
    {"name": "guarantor", "type": "binary"},
    {"name": "housing", "type": "categorical", "categories": ["rented", "owned", "free"], "change": "any"},
]

WEIGHTS = {
    "age": 0.2, "income": 1.1, "amount": -0.9, "savings": 0.4, "guarantor": 0.7,
    "housing=rented": -0.1, "housing=owned": 0.3, "housing=free": 0.0,
}  # fmt: skip


def loan_records(count: int = 200, seed: int = 0) -> list[Record]:
    return [dict(record) for record in _drawn(count, seed)]


@cache
def _drawn(count: int, seed: int) -> list[Record]:
    rng = np.random.default_rng(seed)
    return [
        {
            "age": int(rng.integers(18, 90)),
            "income": round(float(rng.uniform(500, 9_000)), 2),
            "amount": round(float(rng.uniform(500, 30_000)), 2),
            "savings": str(rng.choice(["none", "some", "much"])),
            "guarantor": bool(rng.integers(2)),
            "housing": str(rng.choice(["rented", "owned", "free"])),
        }
        for _ in range(count)
    ]


@dataclass
class ModelDirectory:
    """A model directory under construction: change its parts, then `write`."""

    path: Path
    artifact: bytes
    manifest: dict[str, Any]
    records: list[Record]
    columns: list[str] = field(default_factory=lambda: [str(feature["name"]) for feature in FEATURES])

    def write(self, **changes: Any) -> Path:
        """Write everything; `changes` replace keys of the manifest, None removes one."""
        self.manifest |= changes
        self.path.mkdir(parents=True, exist_ok=True)
        if "path" in self.manifest["artifact"]:  # a remote model has none
            (self.path / self.manifest["artifact"]["path"]).write_bytes(self.artifact)
        with (self.path / "reference.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows([self._cell(record[name]) for name in self.columns] for record in self.records)
        document = {key: value for key, value in self.manifest.items() if value is not None}
        (self.path / "model.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
        return self.path

    def set_artifact(self, content: bytes, **artifact: Any) -> None:
        """Another artifact, with its digest in the manifest."""
        self.artifact = content
        self.manifest["artifact"] |= {"sha256": hashlib.sha256(content).hexdigest(), **artifact}

    def label(self, seed: int = 0) -> "ModelDirectory":
        """Say of each record whether the loan was repaid, in a column `repaid`; the model is about right."""
        rng = np.random.default_rng(seed)
        for record in self.records:
            logit = (record["income"] - 4_750) / 2_200 - (record["amount"] - 15_250) / 9_500
            logit += 0.7 * record["guarantor"] - 0.3
            record["repaid"] = int(rng.random() < 1.0 / (1.0 + np.exp(-logit)))
        self.columns.append("repaid")
        self.manifest |= {"label": "repaid", "refits": 200}
        return self

    @staticmethod
    def _cell(value: Any) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)


def make_linear(path: Path) -> ModelDirectory:
    content = json.dumps({"space": "encoded", "intercept": -0.5, "weights": WEIGHTS}).encode()
    manifest = {
        "id": "loan",
        "version": "1",
        "title": "Personal loan",
        "artifact": {"format": "linear", "path": "model.json", "sha256": hashlib.sha256(content).hexdigest()},
        "input": "encoded",
        "output": "probability",
        "favourable": 1,
        "threshold": 0.5,
        "encoding": {"continuous": "standard", "spread": "encoding"},
        "features": deepcopy(FEATURES),
        "reference": "reference.csv",
    }
    return ModelDirectory(path, content, manifest, loan_records())
