"""Made-up loans of four numbers, and models of them whose scores are known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tests.optional import library


@dataclass(frozen=True)
class Made:
    """Records, their outcomes, and a model of them."""

    numbers: Mapping[str, np.ndarray]
    outcome: np.ndarray

    @property
    def columns(self) -> list[str]:
        return [*self.numbers, "outcome"]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return zip(*(values.tolist() for values in self.numbers.values()), self.outcome.tolist(), strict=True)

    def column(self, name: str) -> np.ndarray:
        return self.numbers[name]

    def with_column(self, name: str, values: np.ndarray) -> "Made":
        return replace(self, numbers={**self.numbers, name: values})

    @cached_property
    def booster(self) -> Any:
        xgboost = library("xgboost")
        data = xgboost.DMatrix(self.matrix, self.outcome, feature_names=list(self.numbers))
        return xgboost.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, 15)

    @property
    def matrix(self) -> np.ndarray:
        return np.column_stack(list(self.numbers.values()))

    @property
    def scores(self) -> np.ndarray:
        xgboost = library("xgboost")
        return np.asarray(self.booster.predict(xgboost.DMatrix(self.matrix, feature_names=list(self.numbers))))


def loans(count: int = 400, seed: int = 0) -> Made:
    rng = np.random.default_rng(seed)
    numbers = {
        "income": np.round(rng.uniform(900, 9_000, count), 2),
        "dti": np.round(rng.uniform(0, 60, count), 1),
        "months_in_job": rng.integers(0, 180, count),
        "rate": np.round(rng.uniform(5, 25, count), 2),
    }
    margin = numbers["income"] / 2_000 - numbers["dti"] / 15 - numbers["rate"] / 10 + 2
    return Made(numbers, (rng.random(count) < 1 / (1 + np.exp(-2 * margin))).astype(int))


def xgboost_model(directory: Path, made: Made) -> Path:
    path = directory / "model.json"
    made.booster.save_model(path)
    return path
