"""The questions that are timed: a model, people it rejects, and the same network retrained on other samples."""

import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.recourse.features import FeatureSpace, FeatureType
from app.recourse.models.black_box import BlackBox
from app.recourse.models.score import favourable
from app.recourse.problem import Reference
from app.registry.registry import Registry
from examples.german_credit import train as german_train
from examples.training import replace_artifact, train_mlp

ROOT = Path(__file__).resolve().parents[1]
APPLICANTS = 50
RETRAINED = 20
DATA = Path(os.environ.get("RECOURSE_DATA", ROOT.parent / "shared" / "data"))
GERMAN = DATA / "german" / "present.csv"

Decide = Callable[[np.ndarray], np.ndarray]
Artifact = tuple[bytes, dict[str, str]]
"""A model's file, and what its manifest says of it."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One model and the people who ask it."""

    name: str
    black_box: BlackBox
    reference: Reference
    applicants_raw: np.ndarray
    """Rejected, and not among the training records."""
    retrained: list[Decide]
    """Networks of the same recipe on bootstraps of the training records: encoded points to decisions."""
    torch_predict: Decide | None = None
    """The network in PyTorch itself: what its calls would cost there."""

    @property
    def space(self) -> FeatureSpace:
        """The features."""
        return self.reference.space


def german(features: str, *, epochs: int | None = None) -> Task:
    """German Credit with all twenty features (61 columns) or the papers' four (7 columns).

    `epochs` replaces the recipe's own number: trained to the end, the network is right about every training record
    and much less sure about the rest, which is how the papers train theirs.
    """
    recipe = german_train.EPOCHS.copy()
    if epochs is not None:
        german_train.EPOCHS[features] = epochs
    try:
        trained = german_train.train(GERMAN, features)
        with tempfile.TemporaryDirectory() as folder:
            german_train.write(trained, Path(folder) / "model", features)
            loaded = Registry(Path(folder) / "store").register(Path(folder) / "model").load()
        retrained = [_retrained(trained, features, seed) for seed in range(RETRAINED)]
    finally:
        german_train.EPOCHS.update(recipe)
    rejected = trained.test_raw[~favourable(loaded.black_box.score_raw(trained.test_raw))]
    suffix = "" if epochs is None else f", {epochs} epochs"
    return Task(
        name=f"german {features}{suffix}",
        black_box=loaded.black_box,
        reference=loaded.reference,
        applicants_raw=rejected[:APPLICANTS],
        retrained=retrained,
        torch_predict=_torch(trained.network),
    )


def _retrained(trained: german_train.Trained, features: str, seed: int) -> Decide:
    n = len(trained.training_raw)
    chosen = np.random.default_rng(1000 + seed).integers(n, size=n)
    X = trained.space.encode(trained.training_raw[chosen])
    network = train_mlp(
        X,
        trained.training_labels[chosen],
        100 + seed,
        hidden=german_train.HIDDEN,
        epochs=german_train.EPOCHS[features],
    )
    predict = _torch(network)
    return lambda points: predict(points) >= german_train.THRESHOLD


def _torch(network: Any) -> Decide:
    import torch

    torch.set_num_threads(1)

    def predict(points: np.ndarray) -> np.ndarray:
        with torch.inference_mode():
            logits = network(torch.from_numpy(points.astype(np.float32)))[:, 0]
            return np.asarray(torch.sigmoid(logits).double().numpy())

    return predict


def german_forest() -> Task:
    """A random forest on German Credit with all features, through skops as a lender would bring it."""
    import skops.io
    from sklearn.ensemble import RandomForestClassifier

    def artifact(X: np.ndarray, labels: np.ndarray, columns: Sequence[str]) -> Artifact:  # noqa: ARG001
        forest = RandomForestClassifier(50, min_samples_leaf=3, random_state=0).fit(X, labels.astype(int))
        return skops.io.dumps(forest), {"format": "sklearn", "path": "model.skops"}

    return _german_as("german forest", artifact)


def german_linear() -> Task:
    """A logistic regression on German Credit with all features, as a scorecard file."""
    from sklearn.linear_model import LogisticRegression

    def artifact(X: np.ndarray, labels: np.ndarray, columns: Sequence[str]) -> Artifact:
        fitted = LogisticRegression(max_iter=1000).fit(X, labels)
        weights = dict(zip(columns, fitted.coef_[0].tolist(), strict=True))
        card = {"space": "encoded", "intercept": float(fitted.intercept_[0]), "weights": weights}
        return json.dumps(card).encode(), {"format": "linear", "path": "model.json"}

    return _german_as("german linear", artifact)


def _german_as(name: str, artifact: Callable[[np.ndarray, np.ndarray, Sequence[str]], Artifact]) -> Task:
    """The task of German Credit with another model, fitted on the same half."""
    trained = german_train.train(GERMAN)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "model"
        german_train.write(trained, directory)
        content, described = artifact(
            trained.space.encode(trained.training_raw), trained.training_labels, trained.space.columns
        )
        replace_artifact(directory, content, **described)
        loaded = Registry(Path(folder) / "store").register(directory).load()
    rejected = trained.test_raw[~favourable(loaded.black_box.score_raw(trained.test_raw))]
    return Task(
        name=name,
        black_box=loaded.black_box,
        reference=loaded.reference,
        applicants_raw=rejected[:APPLICANTS],
        retrained=[],
    )


def box() -> Task:
    """The papers' four features with numbers that need not be whole: the action set is a box."""
    task = german("four")
    features = [
        feature if feature.is_group else replace(feature, type=FeatureType.CONTINUOUS, step=None)
        for feature in task.space.features
    ]
    space = FeatureSpace(features)
    return replace(
        task,
        name="german four, box",
        black_box=replace(task.black_box, space=space),
        reference=replace(task.reference, space=space),
    )


def consumer_loan() -> Task:
    """The demo model, asked by reference records that it rejects."""
    loaded = Registry(ROOT / "models_store").find("consumer-loan").load()
    rejected = loaded.reference.rows_raw[~favourable(loaded.reference.scores)]
    return Task(
        name="consumer-loan",
        black_box=loaded.black_box,
        reference=loaded.reference,
        applicants_raw=rejected[:APPLICANTS],
        retrained=[],
    )


def available() -> list[Task]:
    """Every task whose data are here."""
    if not GERMAN.exists():
        print(f"No {GERMAN}: the German Credit tasks are left out; RECOURSE_DATA says where the data sets are.\n")
        return [consumer_loan()]
    return [german("all"), german("four"), box(), consumer_loan()]
