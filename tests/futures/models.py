"""The labelled loan as a model of each format, fitted to its label, in a store."""

import io
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from app.recourse.features import FeatureSpace, fit_encoding
from app.registry.parsed_manifest import read_manifest
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.registry.version import RegisteredModel
from tests.optional import library
from tests.registry.loan import ModelDirectory, loan_records, make_linear

LAYERS = [8, 6, 1]


def labelled(path: Path, records: int = 300) -> tuple[ModelDirectory, FeatureSpace, np.ndarray, np.ndarray]:
    """The directory of a linear model, its space, encoded records and their labels."""
    directory = make_linear(path)
    directory.records = loan_records(records)
    directory.label()
    directory.manifest.pop("refits")
    outcomes = np.array([record["repaid"] for record in directory.records])
    parsed = read_manifest(_dumped(directory.manifest))
    assert parsed.features is not None
    plain = FeatureSpace(fit_encoding(parsed.features, np.zeros((1, len(parsed.features))), "none"))
    rows_raw = np.array([plain.read({k: v for k, v in r.items() if k != "repaid"}) for r in directory.records])
    space = FeatureSpace(fit_encoding(parsed.features, rows_raw, "standard"))
    return directory, space, space.encode(rows_raw), outcomes


def _dumped(manifest: dict[str, Any]) -> bytes:
    import yaml

    content: bytes = yaml.safe_dump(manifest).encode()
    return content


def _linear(directory: ModelDirectory, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    fitted = library("sklearn.linear_model").LogisticRegression(C=0.1, max_iter=5_000, tol=1e-10).fit(X, y)
    weights = dict(zip(columns, fitted.coef_[0].tolist(), strict=True))
    content = json.dumps({"intercept": float(fitted.intercept_[0]), "weights": weights}).encode()
    directory.set_artifact(content)


def torch_network(X: np.ndarray, y: np.ndarray, seed: int, *, layers: list[int], epochs: int) -> Any:
    """A network that PyTorch trains: Adam, minibatches of 32, the logistic loss."""
    torch = library("torch")
    torch.manual_seed(seed)
    modules: list[Any] = []
    for inputs, outputs in pairwise(layers):
        modules += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    network = torch.nn.Sequential(*modules[:-1])
    points, targets = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    optimiser = torch.optim.Adam(network.parameters())
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        for batch in torch.randperm(len(points)).split(32):
            optimiser.zero_grad()
            loss(network(points[batch])[:, 0], targets[batch]).backward()
            optimiser.step()
    return network


def _torch(directory: ModelDirectory, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    network = torch_network(X, y, 0, layers=LAYERS, epochs=60)
    content = library("safetensors.torch").save(network.state_dict())
    architecture = {"type": "mlp", "layers": LAYERS, "activation": "relu"}
    directory.set_artifact(content, format="torch", path="model.safetensors", architecture=architecture)


def _xgboost(directory: ModelDirectory, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    xgboost = library("xgboost")
    options = {"objective": "binary:logistic", "eta": 0.2, "max_depth": 3, "nthread": 1}
    booster = xgboost.train(options, xgboost.DMatrix(X, y), num_boost_round=12)
    directory.set_artifact(bytes(booster.save_raw("json")), format="xgboost")


def _lightgbm(directory: ModelDirectory, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    lightgbm = library("lightgbm")
    options = {"objective": "binary", "num_leaves": 7, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(options, lightgbm.Dataset(X, y), num_boost_round=12)
    directory.set_artifact(booster.model_to_string().encode(), format="lightgbm", path="model.txt")


def _onnx(directory: ModelDirectory, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    fitted = library("sklearn.linear_model").LogisticRegression().fit(X, y)
    graph = library("skl2onnx").to_onnx(fitted, X[:1].astype(np.float32), options={id(fitted): {"zipmap": False}})
    directory.set_artifact(graph.SerializeToString(), format="onnx", path="model.onnx", column=1)


def estimator(make: Callable[[], Any], *, raw: bool = False, suffix: str = ".skops") -> Callable[..., None]:
    """Fits an estimator to encoded points, or to a table of raw records."""

    def fit(directory: ModelDirectory, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        rows: Any = X
        if raw:
            rows = library("pandas").DataFrame(directory.records).drop(columns="repaid")
        fitted = make().fit(rows, y)
        if suffix == ".skops":
            content = library("skops.io").dumps(fitted)
        else:
            buffer = io.BytesIO()
            library("joblib").dump(fitted, buffer)
            content = buffer.getvalue()
        directory.set_artifact(content, format="sklearn", path=f"model{suffix}")
        directory.manifest["input"] = "raw" if raw else "encoded"

    return fit


FITS: dict[str, Callable[..., None]] = {
    "linear": _linear,
    "torch": _torch,
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "onnx": _onnx,
}


_stores: dict[tuple[Any, ...], tuple[str, dict[Path, bytes]]] = {}
"""What was registered first with such arguments: the name of the model, and the files of its store."""


def registered(
    folder: Path, fit: str | Callable[..., None], *, records: int = 300, label: bool = True, **manifest: Any
) -> RegisteredModel:
    """A registered model of a format, or as a function fits it; the second time it is a copy."""
    key = (fit, records, label, json.dumps(manifest, sort_keys=True))
    store = folder / "store"
    registry = Registry(store, Trust(pickle=True))
    if key in _stores:
        name, files = _stores[key]
        for path, content in files.items():
            (store / path).parent.mkdir(parents=True, exist_ok=True)
            (store / path).write_bytes(content)
        return registry.find(name)
    directory, space, X, y = labelled(folder / "source", records)
    (FITS[fit] if isinstance(fit, str) else fit)(directory, X, y, space.columns)
    if not label:
        directory.manifest.pop("label")
    model = registry.register(directory.write(**manifest))
    files = {path.relative_to(store): path.read_bytes() for path in store.rglob("*") if path.is_file()}
    _stores[key] = model.name, files
    return model
