"""Lenders whose next models are known: a data set, a family of models, and the lender's own way of training it.

What the service is given is what a lender registers: the model, its labelled records, nothing of the recipe. The truth
comes from models that the lender's own recipe trains, with seeds that the service has not used.
"""

import csv
import gzip
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.futures.store import load_futures
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType, parse_column
from app.recourse.models.committee import Drawn, FutureModels, Futures
from app.recourse.models.score import favourable
from app.registry.registry import Registry
from app.registry.version import LoadedModel, RegisteredModel
from benchmarks import papers
from benchmarks.papers import DATA
from examples.german_credit import german
from examples.training import replace_artifact, standardised, train_mlp, write_model

APPLICANTS = 50
TRUE_MODELS = 100
"""True future models of each lender."""
HIDDEN = (20, 50, 20)
FORESEEN, MOST_LATER = 20, 4_000
"""Models of today's records drawn as later ones look, and later records that are looked at for that, at most."""
FIRST_SEED = 5_000
"""Of the true future models; the service counts from 0."""

Score = Callable[[np.ndarray], np.ndarray]
"""From encoded points to logits of the favourable class."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """How a lender trains."""

    name: str
    train: Callable[[np.ndarray, np.ndarray, int], Any]
    """From encoded points, labels and a seed."""
    score: Callable[[Any], Score]
    artifact: Callable[[Any, FeatureSpace], tuple[bytes, dict[str, Any]]]
    """The file, and what the manifest says about it."""


@dataclass(frozen=True, kw_only=True)
class Records:
    """Labelled records of one source."""

    name: str
    features: tuple[Feature, ...]
    rows_raw: np.ndarray
    labels: np.ndarray
    training: int
    """How many the lender trains on."""
    threshold: float = 0.5
    later: np.ndarray | None = None
    """Which records are of the population that the lender's next models are trained on; None where it does not move."""


@dataclass(frozen=True, kw_only=True)
class Lender:
    """A registered model, people whom it refuses, and the models that come after it."""

    name: str
    loaded: LoadedModel
    futures: Futures
    applicants_raw: np.ndarray
    truth: FutureModels
    seconds: float
    """What the rehearsal took."""
    foreseen: FutureModels | None = None
    """Models of today's records, each drawn as often as it is like those of the population that moves."""


def network(epochs: int) -> Family:
    """The papers' network, trained with PyTorch."""

    def score(net: Any) -> Score:
        import torch

        def logits(X: np.ndarray) -> np.ndarray:
            with torch.inference_mode():
                return np.asarray(net(torch.from_numpy(X.astype(np.float32)))[:, 0].double().numpy())

        return logits

    def artifact(net: Any, space: FeatureSpace) -> tuple[bytes, dict[str, Any]]:
        from safetensors.torch import save

        layers = [space.d, *HIDDEN, 1]
        described = {"format": "torch", "path": "weights.safetensors"}
        return save(net.state_dict()), described | {
            "architecture": {"type": "mlp", "layers": layers, "activation": "relu"}
        }

    return Family(
        name="network", score=score, artifact=artifact,
        train=lambda X, y, seed: train_mlp(X, y, seed, hidden=HIDDEN, epochs=epochs),
    )  # fmt: skip


def logistic() -> Family:
    """A logistic regression of scikit-learn."""

    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:  # noqa: ARG001 - it draws nothing
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=2000).fit(X, y)

    def artifact(fitted: Any, space: FeatureSpace) -> tuple[bytes, dict[str, Any]]:
        weights = dict(zip(space.columns, fitted.coef_[0].tolist(), strict=True))
        card = {"space": "encoded", "intercept": float(fitted.intercept_[0]), "weights": weights}
        return json.dumps(card).encode(), {"format": "linear", "path": "model.json"}

    return Family(
        name="logistic", train=train, artifact=artifact,
        score=lambda fitted: lambda X: np.asarray(fitted.decision_function(X)),
    )  # fmt: skip


def boosting() -> Family:
    """100 boosted trees of XGBoost."""

    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        import xgboost

        options = {"objective": "binary:logistic", "max_depth": 4, "eta": 0.1, "nthread": 1, "seed": seed}
        return xgboost.train(options, xgboost.DMatrix(X, label=y), 100)

    def score(booster: Any) -> Score:
        return lambda X: np.asarray(booster.inplace_predict(X.astype(np.float32), predict_type="margin"), dtype=float)

    def artifact(booster: Any, space: FeatureSpace) -> tuple[bytes, dict[str, Any]]:  # noqa: ARG001
        return bytes(booster.save_raw("json")), {"format": "xgboost", "path": "model.json"}

    return Family(name="boosting", train=train, score=score, artifact=artifact)


def leafwise() -> Family:
    """100 boosted trees of LightGBM, of 31 leaves."""

    def train(X: np.ndarray, y: np.ndarray, seed: int) -> Any:
        import lightgbm

        options = {"objective": "binary", "verbosity": -1, "num_threads": 1, "seed": seed}
        return lightgbm.train(options, lightgbm.Dataset(X, y.astype(float)), 100)

    def artifact(booster: Any, space: FeatureSpace) -> tuple[bytes, dict[str, Any]]:  # noqa: ARG001
        return booster.model_to_string().encode(), {"format": "lightgbm", "path": "model.txt"}

    return Family(
        name="LightGBM", train=train, artifact=artifact,
        score=lambda booster: lambda X: np.asarray(booster.predict(X, raw_score=True)),
    )  # fmt: skip


FAMILIES: dict[str, Callable[[int], Family]] = {
    "network": network,
    "logistic": lambda _epochs: logistic(),
    "boosting": lambda _epochs: boosting(),
}


def german_records() -> Records | None:
    """German Credit, all features; the lender trains on half of it."""
    path = DATA / "german" / "present.csv"
    if not path.exists():
        return None
    rows_raw, labels = german.load(path, german.ALL)
    return Records(name="german", features=tuple(german.ALL), rows_raw=rows_raw, labels=labels, training=500)


def student_records() -> Records | None:
    """Student, the papers' features."""
    data = papers.student()
    if data is None:
        return None
    return Records(
        name="student", features=data.space.features, rows_raw=data.present_raw, labels=data.labels, training=250
    )


def acs_records() -> Records | None:
    """ACS income; there are plenty of other records of the same source."""
    path = DATA / "acs_income" / "ACSIncome_CA_2018_quarter.csv.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt", newline="") as file:
        records = list(csv.DictReader(file))
    change = {"AGEP": Change.INCREASE, "SCHL": Change.INCREASE, "WKHP": Change.ANY, "COW": Change.ANY}
    features, columns = [], []
    for name in ("AGEP", "SCHL", "WKHP", "COW", "MAR", "RELP", "SEX", "RAC1P"):
        values = [str(int(float(record[name]))) for record in records]
        if name in ("AGEP", "SCHL", "WKHP"):
            numbers = [int(value) for value in values]
            kind: dict[str, Any] = {"type": FeatureType.INTEGER, "min": min(numbers), "max": max(numbers)}
        else:
            kind = {"type": FeatureType.CATEGORICAL, "categories": tuple(sorted({f"c{value}" for value in values}))}
            values = [f"c{value}" for value in values]
        feature = Feature(name=name, change=change.get(name, Change.NONE), **kind)
        features.append(feature)
        columns.append(parse_column(feature, values)[0])
    labels = np.array([int(float(record["label"])) for record in records])
    return Records(
        name="acs income", features=tuple(features), rows_raw=np.column_stack(columns), labels=labels, training=2000
    )


def noisy_records() -> Records:
    """Made loans whose outcomes hardly depend on what is known of people; a lender trains on few of them."""
    rng, n = np.random.default_rng(0), 30_000
    income, amount = rng.integers(20, 80, n) * 100.0, rng.integers(10, 300, n) * 100.0
    months, savings = rng.integers(0, 200, n).astype(float), rng.integers(0, 4, n).astype(float)
    chance = 1.0 / (1.0 + np.exp(-((income - 5_000) / 2_200 - (amount - 15_000) / 9_500 + 0.3 * (savings - 1.5))))
    number: dict[str, Any] = {"type": FeatureType.INTEGER, "step": 100, "min": 0}
    features = (
        Feature(name="income", change=Change.INCREASE, **number),
        Feature(name="amount", change=Change.DECREASE, **number),
        Feature(name="months", change=Change.NONE, type=FeatureType.INTEGER),
        Feature(name="savings", change=Change.INCREASE, type=FeatureType.ORDINAL, categories=("a", "b", "c", "d")),
    )
    return Records(
        name="noisy loans", features=features, rows_raw=np.column_stack([income, amount, months, savings]),
        labels=(rng.random(n) < chance).astype(int), training=1_500,
    )  # fmt: skip


RECORDS: dict[str, Callable[[], Records | None]] = {
    "german": german_records,
    "student": student_records,
    "acs": acs_records,
}
"""Data sets by name; None where the files are not here."""

EPOCHS = {"german": 60, "student": 60, "acs": 30, "noisy": 30}


def like_later(X: np.ndarray, y: np.ndarray, now: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Probabilities with which today's records are drawn, so that they look like later ones, outcomes included.

    They are the odds of a logistic regression that tells later records from today's, at most those of 99 % of these.
    """
    from sklearn.linear_model import LogisticRegression

    columns = np.column_stack([X, y, X * y[:, None]])
    told = LogisticRegression(C=0.3, max_iter=3_000)
    told.fit(columns[np.concatenate([now, later])], np.repeat([0, 1], [len(now), len(later)]))
    odds = np.exp(told.decision_function(columns[now]))
    odds = np.minimum(odds, np.quantile(odds, 0.99))
    return np.asarray(odds / odds.sum())


@contextmanager
def lender(
    data: Records,
    family: Family,
    *,
    drawn: Drawn = "same",
    others: bool = False,
    models: int = 60,
    true_models: int = TRUE_MODELS,
    seed: int = 0,
    applicants: int = APPLICANTS,
) -> Iterator[Lender]:
    """A lender with a rehearsed model.

    Parameters
    ----------
    drawn : what the service is asked to draw for each future model
    others : the true future models are trained on other records of the source, else on bootstraps of the same ones
    models : in each of the two sets
    true_models : true future models
    seed : of the records that the lender trains on, and of its model
    """
    order = np.random.default_rng(seed).permutation(len(data.rows_raw))
    now = order if data.later is None else order[~data.later[order]]
    training, rest = now[: data.training], now[data.training :]
    next_ones = rest if data.later is None else order[data.later[order]]
    space = standardised(data.features, data.rows_raw[training])
    X, y = space.encode(data.rows_raw), data.labels
    today = family.train(X[training], y[training], seed)
    with tempfile.TemporaryDirectory() as folder:
        model = registered(Path(folder), data, space, family, today, training)
        loaded = model.load()
        stress: Literal["none", "auto"] = "none" if data.later is None else "auto"
        choices = Choices(records=drawn, search=models, held_back=models, stress=stress)
        record = rehearse(model, choices)
        futures = load_futures(model)
        assert futures is not None
        scores = []
        for k in range(true_models):
            rng = np.random.default_rng(FIRST_SEED + k)
            if data.later is not None:
                chosen = rng.choice(next_ones, data.training)
            else:
                chosen = rng.choice(*((rest, data.training, False) if others else (training, data.training)))
            scores.append(family.score(family.train(X[chosen], y[chosen], FIRST_SEED + k)))
        foreseen = []
        if data.later is not None:
            like = like_later(X, y.astype(float), training, next_ones[:MOST_LATER])
            for k in range(FORESEEN):
                chosen = np.random.default_rng(k).choice(training, data.training, p=like)
                foreseen.append(family.score(family.train(X[chosen], y[chosen], k)))
        refused = data.rows_raw[rest][~favourable(loaded.black_box.score_raw(data.rows_raw[rest]))]
        yield Lender(
            name=f"{data.name}, {family.name}",
            loaded=loaded,
            futures=futures,
            applicants_raw=refused[:applicants],
            truth=FutureModels(
                space=space, count=len(scores), score_all=lambda X: np.column_stack([score(X) for score in scores])
            ),
            seconds=record.seconds,
            foreseen=FutureModels(
                space=space, count=len(foreseen),
                score_all=lambda X: np.column_stack([score(X) for score in foreseen]),
            ) if foreseen else None,
        )  # fmt: skip


def registered(
    folder: Path, data: Records, space: FeatureSpace, family: Family, today: Any, training: np.ndarray
) -> RegisteredModel:
    """The model as a lender registers it: with labelled reference records and nothing of the recipe."""
    directory = written(folder, data, space, family, today, training)
    manifest = yaml.safe_load((directory / "model.yaml").read_text())
    manifest |= {"label": "outcome", "futures": {"source": "auto"}}
    (directory / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False))
    lines = (directory / "reference.csv").read_text().splitlines()
    outcomes = ["outcome", *(str(int(label)) for label in data.labels[training])]
    joined = (f"{line},{outcome}" for line, outcome in zip(lines, outcomes, strict=True))
    (directory / "reference.csv").write_text("\n".join(joined) + "\n")
    return Registry(folder / "store").register(directory)


def written(folder: Path, data: Records, space: FeatureSpace, family: Family, today: Any, training: np.ndarray) -> Path:
    """The directory of a model with reference records, which are not labelled."""
    directory = folder / "model"
    write_model(
        directory,
        identity={"id": "lender", "version": "1", "title": data.name, "encoding": {"spread": "encoding"}},
        space=space, network=_placeholder(space), threshold=data.threshold, reference_raw=data.rows_raw[training],
    )  # fmt: skip
    content, described = family.artifact(today, space)
    replace_artifact(directory, content, **described)
    return directory


def _placeholder(space: FeatureSpace) -> Any:
    """A network of the right width, which another model takes the place of."""
    import torch

    return torch.nn.Sequential(torch.nn.Linear(space.d, 1))
