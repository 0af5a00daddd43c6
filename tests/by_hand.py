"""Networks and encodings by hand, from the files and nothing else of ours."""

from pathlib import Path

import numpy as np
import yaml
from safetensors.numpy import load_file

from app.recourse.features import FeatureSpace


def forward(directory: Path, X: np.ndarray) -> np.ndarray:
    """The network's logit by hand, from the file and nothing else of ours."""
    weights = load_file(directory / "weights.safetensors")
    layers = sorted({int(name.split(".")[0]) for name in weights})
    for layer in layers:
        X = X @ weights[f"{layer}.weight"].T.astype(float) + weights[f"{layer}.bias"]
        X = X if layer == layers[-1] else np.maximum(X, 0.0)
    return X[:, 0]


def encode_by_hand(directory: Path, space: FeatureSpace, rows_raw: np.ndarray) -> np.ndarray:
    """Encoded points from the manifest's numbers and nothing else of ours."""
    columns: list[np.ndarray] = []
    for feature, column in zip(
        yaml.safe_load((directory / "model.yaml").read_text())["features"], rows_raw.T, strict=True
    ):
        if feature["type"] == "categorical":
            columns += [(column == k).astype(float) for k in range(len(feature["categories"]))]
        else:
            columns.append((column - feature["center"]) / feature["scale"])
    assert len(columns) == space.d
    return np.column_stack(columns)
