"""The backtest on a made series of eight quarters with known drift, against the truth."""

import csv
import hashlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import TypeAlias

import numpy as np
import yaml
from scipy.spatial.distance import pdist
from sklearn.linear_model import LogisticRegression

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.recourse.actions.action_set import action_set
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import Backtest, FutureModels, Futures
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.solve import METHODS, solve
from app.registry.registry import Registry
from app.registry.version import RegisteredModel
from benchmarks.tables import show
from examples.training import standardised

FEATURES = (
    Feature(name="income", type=FeatureType.CONTINUOUS, change=Change.INCREASE),
    Feature(name="debt", type=FeatureType.CONTINUOUS, change=Change.DECREASE),
    Feature(name="savings", type=FeatureType.CONTINUOUS, change=Change.INCREASE),
    Feature(name="age", type=FeatureType.CONTINUOUS, change=Change.NONE),
)
DAYS, QUARTER = 720, 90
PER_DAY = 3
RUNS, TRUE_SERIES = 50, 150
MODELS = 20
ASKED = (None, 0.9)
KEY: TypeAlias = tuple[float | None, int]
"""What was asked for, and months later."""


class Series:
    """Applications of eight quarters: debt counts more and more, income less, and fewer loans are repaid."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.days = np.repeat(np.arange(DAYS), PER_DAY)
        self.rows_raw = self.people(len(self.days))
        years = self.days / 360.0
        income, debt, savings, _ = self.rows_raw.T
        logit = 0.2 - 0.4 * years + (1.2 - 0.15 * years) * income - (0.7 + 0.25 * years) * debt + 0.5 * savings
        self.repaid = self.rng.random(len(logit)) < 1.0 / (1.0 + np.exp(-logit))

    def people(self, count: int) -> np.ndarray:
        """Fresh applicants, who do not change: what they repay does."""
        return np.round(self.rng.normal(size=(count, len(FEATURES))), 3)

    def registered(self, folder: Path) -> RegisteredModel:
        """A logistic regression of all records, as a lender registers it."""
        folder.mkdir(exist_ok=True)
        space = standardised(FEATURES, self.rows_raw)
        fitted = LogisticRegression().fit(space.encode(self.rows_raw), self.repaid)
        weights = dict(zip(space.columns, fitted.coef_[0].tolist(), strict=True))
        content = json.dumps({"intercept": float(fitted.intercept_[0]), "weights": weights}).encode()
        (folder / "model.json").write_bytes(content)
        with (folder / "reference.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(feature.name for feature in FEATURES), "repaid", "applied_on"])
            for row, repaid, day in zip(self.rows_raw.tolist(), self.repaid, self.days.tolist(), strict=True):
                writer.writerow([*row, int(repaid), date(2024, 1, 1) + timedelta(days=day)])
        manifest = {
            "id": "series", "version": "1", "title": "Made series", "input": "encoded", "output": "probability",
            "artifact": {"format": "linear", "path": "model.json", "sha256": hashlib.sha256(content).hexdigest()},
            "features": [{"name": one.name, "type": "continuous", "change": one.change.value} for one in FEATURES],
            "encoding": {"spread": "encoding"}, "reference": "reference.csv", "label": "repaid", "refits": 2,
            "time": {"column": "applied_on"},
        }  # fmt: skip
        (folder / "model.yaml").write_text(yaml.safe_dump(manifest))
        return Registry(folder / "store").register(folder)


def backtest(seed: int, records: str = "fresh") -> dict[KEY, Backtest]:
    """What the service says of one series."""
    with tempfile.TemporaryDirectory() as folder:
        model = Series(seed).registered(Path(folder) / "model")
        choices = Choices(stress="none", search=MODELS, held_back=MODELS, seed=seed, records=records)  # type: ignore[arg-type]
        return {(one.asked, one.months): one for one in rehearse(model, choices).backtest}


def truth(seed: int, people: int = 10) -> dict[KEY, float]:
    """What is kept in one other series: fresh people, and models that scikit-learn fits; nothing of the rehearsal."""
    series = Series(seed)
    rng, space = series.rng, standardised(FEATURES, series.rows_raw)
    X, hits = space.encode(series.rows_raw), defaultdict[KEY, list[bool]](list)
    far = float(pdist(X).max())
    # Each window has four quarters; the first ends with the fourth one.
    windows = [np.flatnonzero((series.days >= QUARTER * k) & (series.days < QUARTER * (k + 4))) for k in range(5)]
    fitted = [_fit(X[window], series.repaid[window]) for window in windows]
    for k, (window, (w, c)) in enumerate(zip(windows[:4], fitted[:4], strict=True)):
        box = _linear(space, w, c)
        rows_raw = series.rows_raw[window]
        reference = Reference(space=space, rows_raw=rows_raw, scores=box.score_raw(rows_raw), largest_distance=far)
        halves = [rng.choice(window, len(window) // 2) for _ in range(2 * MODELS)]
        models = [_fit(X[half], series.repaid[half]) for half in halves]
        futures = Futures(
            search=_together(space, models[:MODELS]), held_back=_together(space, models[MODELS:]), source="retrained",
            records="fresh",
        )  # fmt: skip
        refused = [row for row in series.people(20 * people) if box.score_raw(row[None])[0] < 0.0][:people]
        for asked in ASKED:
            for row_raw in refused:
                problem = RecourseProblem(
                    black_box=box, reference=reference, futures=futures, future_validity=asked,
                    action_set=action_set(space, row_raw),
                )  # fmt: skip
                for one in solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params()).counterfactuals[:1]:
                    point = space.encode(one.row_raw[None])[0]
                    for later in range(k + 1, 5):
                        own, offset = fitted[later]
                        hits[asked, 3 * (later - k)].append(bool(point @ own + offset >= 0.0))
    return {key: float(np.mean(kept)) for key, kept in hits.items()}


def _fit(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float]:
    found = LogisticRegression().fit(X, y)
    return found.coef_[0], float(found.intercept_[0])


def _linear(space: FeatureSpace, w: np.ndarray, c: float) -> BlackBox:
    return BlackBox(
        space=space, predict=lambda X: 1.0 / (1.0 + np.exp(-X @ w - c)), gradient=lambda X: np.tile(w, (len(X), 1)),
        linear=True,
    )  # fmt: skip


def _together(space: FeatureSpace, models: list[tuple[np.ndarray, float]]) -> FutureModels:
    weights, offsets = np.array([w for w, _ in models]).T, np.array([c for _, c in models])
    return FutureModels(space=space, count=len(models), score_all=lambda X: X @ weights + offsets)


def true_shares(series: int, first: int = 10_000) -> dict[KEY, float]:
    """The mean of `truth` over so many series."""
    found = [truth(first + i) for i in range(series)]
    return {key: float(np.mean([one[key] for one in found])) for key in sorted(found[0], key=str)}


def table() -> None:
    """Share of runs whose interval has the truth, and how a promise ages."""
    true, runs = true_shares(TRUE_SERIES), [backtest(seed) for seed in range(RUNS)]

    def rows() -> Iterator[tuple[str, ...]]:
        for (asked, months), share in sorted(true.items(), key=lambda one: (one[0][0] or 0.0, one[0][1])):
            found = [run[asked, months] for run in runs if (asked, months) in run]
            inside = np.mean([one.interval[0] <= share <= one.interval[1] for one in found])
            kept, promised = np.mean([one.kept for one in found]), np.mean([one.promised for one in found])
            width = np.mean([one.interval[1] - one.interval[0] for one in found])
            yield (
                "-" if asked is None else f"{asked:g}", str(months), f"{promised:.3f}", f"{kept:.3f}", f"{share:.3f}",
                f"{inside:.0%} of {len(found)}", f"{width:.2f}",
            )  # fmt: skip

    head = ("asked", "months later", "promised", "kept, mean", "true", "runs with the truth inside", "width")
    show(f"Backtest of a made series of 8 quarters, {RUNS} runs", head, rows())
