"""What both examples need: train a small PyTorch network, and write the model directory that `recourse` registers.

A model directory is `model.yaml` (the manifest), the weights, and the reference records the model was trained on.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from pydantic import TypeAdapter
from safetensors.torch import save

from app.recourse.features import Feature, FeatureSpace, fit_encoding
from app.recourse.models.score import sigmoid

WEIGHTS = "weights.safetensors"
REFERENCE = "reference.csv"
FEATURE = TypeAdapter(Feature)
WORDS = ("reason", "sentence", "level_names", "words")
"""Keys of a feature that say what people call it, each on a line of its own in the manifest."""


def standardised(features: Sequence[Feature], rows_raw: np.ndarray) -> FeatureSpace:
    """The space in which a network is trained: mean 0, standard deviation 1 on these rows, six digits kept.

    The manifest states the rounded numbers, so they are the ones the network is trained with.
    """

    def six_digits(feature: Feature) -> Feature:
        if feature.center is None or feature.scale is None:
            return feature
        return replace(feature, center=float(f"{feature.center:.6g}"), scale=float(f"{feature.scale:.6g}"))

    return FeatureSpace([six_digits(feature) for feature in fit_encoding(features, rows_raw, "standard")])


def train_mlp(
    X: np.ndarray,
    y: np.ndarray,
    seed: int,
    *,
    hidden: Sequence[int] = (20, 50, 20),
    epochs: int = 40,
    batch_size: int = 32,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
) -> Any:
    """A ReLU network with one output, the logit of ``y = 1``; the same seed gives the same network.

    `X` is encoded, ``(n, d)``; `y` is 0 or 1, ``(n,)``. Runs on one thread, which is faster for networks of this size
    and keeps the sums in one order.
    """
    inputs, targets = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    with _one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = [X.shape[1], *hidden]
        layers = [
            layer
            for width_in, width_out in pairwise(sizes)
            for layer in (torch.nn.Linear(width_in, width_out), torch.nn.ReLU())
        ]
        network = torch.nn.Sequential(*layers, torch.nn.Linear(sizes[-1], 1))
        optimiser = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
        loss = torch.nn.BCEWithLogitsLoss()
        for _ in range(epochs):
            for batch in torch.randperm(len(inputs)).split(batch_size):
                optimiser.zero_grad()
                loss(network(inputs[batch])[:, 0], targets[batch]).backward()
                optimiser.step()
    return network.eval()


def probability(network: Any, X: np.ndarray) -> np.ndarray:
    """(n,) probability of ``y = 1`` for encoded points (n, d)."""
    with torch.no_grad():
        logits: np.ndarray = network(torch.tensor(X, dtype=torch.float32))[:, 0].numpy()
    return np.asarray(sigmoid(logits.astype(float)))


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def auc(scores: np.ndarray, y: np.ndarray) -> float:
    """Chance that a random good case scores above a random bad one; ties count half."""
    values, index, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[index] if values.size else scores
    positives = int(y.sum())
    return float((ranks[y == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(y) - positives)))


def write_model(
    directory: Path,
    *,
    identity: Mapping[str, Any],
    space: FeatureSpace,
    network: Any,
    threshold: float,
    reference_raw: np.ndarray,
    outcomes: tuple[str, np.ndarray] | None = None,
) -> None:
    """Write manifest, weights and reference records of a network that answers with a probability.

    `identity` is what the manifest says first: id, version, title. `outcomes` is the name of a column and the true
    outcome of each reference record, 1 or 0: with it the service can train future models.
    """
    directory.mkdir(parents=True, exist_ok=True)
    weights = save(network.state_dict())
    (directory / WEIGHTS).write_bytes(weights)
    write_records(directory / REFERENCE, space, reference_raw, outcomes)
    linear = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    head = {
        **identity,
        "artifact": {
            "format": "torch",
            "path": WEIGHTS,
            "sha256": hashlib.sha256(weights).hexdigest(),
            "architecture": {
                "type": "mlp",
                "layers": [linear[0].in_features, *(layer.out_features for layer in linear)],
                "activation": "relu",
            },
        },
        "input": "encoded",
        "output": "probability",
        "favourable": 1,
        "threshold": threshold,
        "reference": REFERENCE,
        **({} if outcomes is None else {"label": outcomes[0]}),
    }
    lines = ["features:"]
    for feature in space.features:
        lines.append(f"  - {_block(_stated(feature))}")
    manifest = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=120) + "\n".join(lines) + "\n"
    (directory / "model.yaml").write_text(manifest, encoding="utf-8")


def replace_artifact(directory: Path, content: bytes, **artifact: Any) -> None:
    """Let a written model directory describe another model of the same columns: its file, and what the manifest says.

    `artifact` is what stands there but for the digest: format and path.
    """
    (directory / artifact["path"]).write_bytes(content)
    manifest = yaml.safe_load((directory / "model.yaml").read_text(encoding="utf-8"))
    manifest["artifact"] = {**artifact, "sha256": hashlib.sha256(content).hexdigest()}
    (directory / "model.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")


def write_records(
    path: Path, space: FeatureSpace, rows_raw: np.ndarray, outcomes: tuple[str, np.ndarray] | None = None
) -> None:
    """Raw rows as a CSV of records, the same bytes on every platform; `outcomes` is one more column."""
    name, labels = outcomes or ("", np.zeros(len(rows_raw)))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*space.names, name] if outcomes else space.names)
        for row_raw, label in zip(rows_raw, labels.tolist(), strict=True):
            values = [_text(value) for value in space.record(row_raw).values()]
            writer.writerow([*values, str(int(label))] if outcomes else values)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _stated(feature: Feature) -> dict[str, Any]:
    """What the manifest says about a feature: everything that is not a default, and what a person can do."""
    stated = FEATURE.dump_python(feature, mode="json", exclude_defaults=True, by_alias=True)
    stated = {key: stated.get(key, value) for key, value in FEATURE.dump_python(feature, by_alias=True).items()
              if key in stated or key == "change"}  # fmt: skip
    return {
        key: _plain(value) if key in ("min", "max", "step") or isinstance(value, dict) else value
        for key, value in stated.items()
    } | {"change": feature.change.value}


def _plain(value: Any) -> Any:
    """Whole numbers without a point, also in mappings."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return int(value) if isinstance(value, float) and value == int(value) else value


def _block(stated: dict[str, Any]) -> str:
    """What a feature is on one line of YAML, and what it is called on a line for each kind of words."""
    facts = {key: value for key, value in stated.items() if key not in WORDS}
    words = [_flow({key: stated[key]})[1:-1] for key in WORDS if stated.get(key)]
    return ",\n     ".join([_flow(facts).removesuffix("}"), *words]) + "}"


def _flow(mapping: dict[str, Any]) -> str:
    """One line of YAML."""
    return yaml.safe_dump(mapping, default_flow_style=True, sort_keys=False, allow_unicode=True, width=2**20).strip()
