"""The data sets and models of papers 1 and 2, as far as they are to be had."""

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from app.recourse.actions.action_set import action_set
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType, parse_column
from app.recourse.models.black_box import BlackBox, Predict
from app.recourse.problem import RecourseProblem, Reference
from examples.german_credit import german
from examples.training import probability, standardised, train_mlp

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("RECOURSE_DATA", ROOT.parent / "shared" / "data"))
FIGURES = ROOT / "benchmarks" / "figures"
HIDDEN = (20, 50, 20)
EPOCHS = 60
"""Of the networks; the papers train for a thousand."""
FUTURES = 8
"""Networks trained on shifted data; paper 1 has a hundred."""


@dataclass(frozen=True, kw_only=True)
class PaperData:
    """Present and shifted records of one data set, with labels."""

    name: str
    space: FeatureSpace
    present_raw: np.ndarray
    labels: np.ndarray
    shifted_raw: np.ndarray
    shifted_labels: np.ndarray


def plane(d: int) -> FeatureSpace:
    """`d` numbers without limits, encoded as they are: the setting of paper 2."""
    return FeatureSpace([Feature(name=f"x{j}", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0) for j in range(d)])


def gaussians() -> PaperData:
    """Paper 2's synthetic data: two Gaussians; the shift moves the favourable one towards the other."""
    rng = np.random.default_rng(0)

    def draw(favourable_at: float) -> tuple[np.ndarray, np.ndarray]:
        labels = rng.integers(2, size=1000)
        centres = np.where(labels[:, None] == 1, favourable_at, -2.0)
        return centres + np.sqrt(0.5) * rng.standard_normal((1000, 2)), labels

    (X, y), (X2, y2) = draw(2.0), draw(0.0)
    return PaperData(name="synthetic", space=plane(2), present_raw=X, labels=y, shifted_raw=X2, shifted_labels=y2)


def curved() -> PaperData:
    """Paper 1's synthetic data: a polynomial boundary, blurred by noise after the shift."""
    rng = np.random.default_rng(0)

    def draw(noise: float) -> tuple[np.ndarray, np.ndarray]:
        X = rng.uniform((-2.0, -2.0), (4.0, 7.0), (1000, 2))
        bound = 1.0 + X[:, 0] + 2.0 * X[:, 0] ** 2 + X[:, 0] ** 3 - X[:, 0] ** 4
        return X, (X[:, 1] >= bound + noise * rng.standard_normal(1000)).astype(int)

    (X, y), (X2, y2) = draw(0.0), draw(1.0)
    return PaperData(name="synthetic", space=plane(2), present_raw=X, labels=y, shifted_raw=X2, shifted_labels=y2)


def german_all() -> PaperData | None:
    """All twenty features of German Credit, without a shift."""
    if not (DATA / "german" / "present.csv").exists():
        return None
    rows, labels = german.load(DATA / "german" / "present.csv", german.ALL)
    return PaperData(
        name="German, all features",
        space=standardised(german.ALL, rows),
        present_raw=rows,
        labels=labels,
        shifted_raw=rows,
        shifted_labels=labels,
    )


def german_four() -> PaperData | None:
    """The four features of German Credit that both papers use; the shift is the corrected file."""
    if not (DATA / "german" / "present.csv").exists():
        return None
    rows, labels = german.load(DATA / "german" / "present.csv", german.FOUR)
    with (DATA / "german" / "shift.csv").open(newline="") as file:
        records = list(csv.DictReader(file))
    for record in records:
        record["personal_status_sex"] = f"A9{record['personal_status_sex']}"
    shifted, shifted_labels = _parsed(german.FOUR, records)
    return PaperData(
        name="German",
        space=standardised(german.FOUR, rows),
        present_raw=rows,
        labels=labels,
        shifted_raw=shifted,
        shifted_labels=shifted_labels,
    )


def student() -> PaperData | None:
    """Paper 1's features of Student; present and shifted records are two schools."""
    if not (DATA / "student" / "present.csv").exists():
        return None
    ranges = {
        "age": (15, 22), "Medu": (0, 4), "Fedu": (0, 4), "studytime": (1, 4), "freetime": (1, 5), "goout": (1, 5),
        "health": (1, 5), "absences": (0, 93), "G1": (0, 20), "G2": (0, 20),
    }  # fmt: skip
    change = {"age": Change.INCREASE, "romantic": Change.NONE}
    features = [
        Feature(
            name=name, type=FeatureType.INTEGER, min=ranges[name][0], max=ranges[name][1],
            change=change.get(name, Change.ANY),
        )
        if name in ranges
        else Feature(
            name=name, type=FeatureType.CATEGORICAL, categories=("no", "yes"), change=change.get(name, Change.ANY)
        )
        for name in (
            "age", "Medu", "Fedu", "studytime", "famsup", "higher", "internet", "romantic", "freetime", "goout",
            "health", "absences", "G1", "G2",
        )
    ]  # fmt: skip
    parts = []
    for part in ("present", "shift"):
        with (DATA / "student" / f"{part}.csv").open(newline="") as file:
            parts.append(_parsed(features, list(csv.DictReader(file))))
    (rows, labels), (shifted, shifted_labels) = parts
    return PaperData(
        name="Student",
        space=standardised(features, rows),
        present_raw=rows,
        labels=labels,
        shifted_raw=shifted,
        shifted_labels=shifted_labels,
    )


def _parsed(features: Any, records: list[dict[str, str]]) -> tuple[np.ndarray, np.ndarray]:
    columns = [parse_column(feature, [record[feature.name] for record in records])[0] for feature in features]
    return np.column_stack(columns), np.array([int(record["label"]) for record in records])


def available(*loaders: Callable[[], PaperData | None]) -> Iterator[PaperData]:
    """The data sets that are here; says which are not."""
    for load in loaders:
        data = load()
        if data is None:
            print(f"No data for {load.__name__} in {DATA}; RECOURSE_DATA says where the data sets are.\n")
        else:
            yield data


def reference(space: FeatureSpace, rows_raw: np.ndarray, black_box: BlackBox) -> Reference:
    """Reference records of a model."""
    return Reference(
        space=space,
        rows_raw=rows_raw,
        scores=black_box.score_raw(rows_raw),
        largest_distance=float(pdist(space.encode(rows_raw)).max()),
    )


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A network, people it refuses, and networks trained on shifted data."""

    data: PaperData
    black_box: BlackBox
    reference: Reference
    refused_raw: np.ndarray
    futures: list[Predict]

    def problem(self, row_raw: np.ndarray, *, seed: int = 0) -> RecourseProblem:
        """The question of one of them."""
        actions = action_set(self.data.space, row_raw)
        return RecourseProblem(black_box=self.black_box, reference=self.reference, action_set=actions, seed=seed)


def network_setting(data: PaperData, applicants: int) -> Setting:
    """Paper 1's setting: 80 % of the present records to train on, refused people among the others."""
    order = np.random.default_rng(0).permutation(len(data.labels))
    training, test = order[: 4 * len(order) // 5], order[4 * len(order) // 5 :]
    X = data.space.encode(data.present_raw)
    network = train_mlp(X[training], data.labels[training], 0, hidden=HIDDEN, epochs=EPOCHS)
    black_box = BlackBox(space=data.space, predict=lambda points: probability(network, points))
    rows = data.present_raw[test]
    refused = rows[black_box.score_raw(rows) < 0.0]
    return Setting(
        data=data,
        black_box=black_box,
        reference=reference(data.space, data.present_raw[training], black_box),
        refused_raw=refused[:applicants],
        futures=[_future(data, seed) for seed in range(FUTURES)],
    )


def _future(data: PaperData, seed: int) -> Predict:
    n = len(data.shifted_labels)
    chosen = np.random.default_rng(100 + seed).permutation(n)[: 4 * n // 5]
    X = data.space.encode(data.shifted_raw[chosen])
    network = train_mlp(X, data.shifted_labels[chosen], 100 + seed, hidden=HIDDEN, epochs=EPOCHS)
    return lambda points: probability(network, points) >= 0.5


def save_figure(figure: Any, name: str) -> None:
    """Write a figure beside the tables, say where, and forget it."""
    import matplotlib.pyplot as plt  # only here: most tables have no figure

    FIGURES.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(FIGURES / name, dpi=80)
    plt.close(figure)
    print(f"Figure: benchmarks/figures/{name}\n")
