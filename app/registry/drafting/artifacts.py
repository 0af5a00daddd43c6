"""Reads what a model's own file says, whatever its format."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.errors import ModelRefused
from app.registry.adapters.linear_model import parse_file
from app.registry.artifact import ESTIMATORS, Format
from app.registry.drafting import (
    boosted_files,
    catboost_file,
    mlflow_directory,
    onnx_file,
    scorecard_file,
    sklearn_file,
    torch_file,
)
from app.registry.drafting.facts import ModelFacts
from app.registry.files import read_regular
from app.registry.trust import Trust

Read = Callable[[str, bytes], ModelFacts]

SUFFIXES: dict[str, Read] = {
    ".csv": scorecard_file.read,
    ".onnx": onnx_file.read,
    ".safetensors": torch_file.read,
    ".pt": torch_file.read,
    ".pth": torch_file.read,
    ".txt": boosted_files.read_lightgbm,
    ".lgb": boosted_files.read_lightgbm,
    ".ubj": boosted_files.read_xgboost,
    ".xgb": boosted_files.read_xgboost,
    ".bst": boosted_files.read_xgboost,
}

PMML = (
    "is PMML, which is not read here: give a scorecard as CSV with the columns feature, from, to, category, points, "
    "save another model as ONNX, or serve it and say --url"
)
OLD_XGBOOST = (
    'is in XGBoost\'s old binary form: load it with XGBoost 1 or 2, and save it as booster.save_model("model.json")'
)

FLAVOURS: dict[str, Read] = {
    "xgboost": boosted_files.read_xgboost,
    "lightgbm": boosted_files.read_lightgbm,
    "onnx": onnx_file.read,
}


def read_facts(path: Path, trust: Trust) -> ModelFacts:
    """The facts about a model that its file, or its directory in MLflow's format, states.

    Raises `ModelRefused` where the file cannot be read, or where reading it may run code and the file is not trusted.
    """
    try:
        return _facts(path, trust)
    except ModelRefused as error:
        if not error.faults:
            raise
        raise ModelRefused(f"{path} {'; '.join(fault.detail for fault in error.faults)}") from error


def _facts(path: Path, trust: Trust) -> ModelFacts:
    if not path.is_dir():
        return _read(path, _bytes(path), trust)
    flavour, file, signature = mlflow_directory.locate(path)
    read = FLAVOURS.get(flavour)
    facts = _read(file, _bytes(file), trust) if read is None else read(file.name, _bytes(file))
    if not signature:
        return facts
    texts = {name: facts.levels.get(name, ()) for name, kind in signature.items() if kind == "string"}
    numbers = frozenset(name for name, kind in signature.items() if kind in mlflow_directory.NUMBERS)
    names = facts.names if facts.names is not None or facts.width != len(signature) else tuple(signature)
    return replace(
        facts, names=names, levels={**facts.levels, **texts}, numbers=facts.numbers | (numbers - facts.levels.keys())
    )


def _read(path: Path, content: bytes, trust: Trust) -> ModelFacts:
    suffix = path.suffix.lower()
    if content.startswith(catboost_file.START):
        return catboost_file.read(path.name, content)
    old = content.startswith(b"binf")
    if old or b"<PMML" in content[:1_000]:
        raise ModelRefused(f"{path} {OLD_XGBOOST if old else PMML}")
    if suffix in ESTIMATORS:
        return sklearn_file.read(path.name, content, trust)
    if suffix == ".json":
        # The weights of a linear model, boosted trees, or a scorecard of toad.
        read = boosted_files.read_xgboost if b'"learner"' in content else _linear
        return (scorecard_file.read_json if scorecard_file.is_json(content) else read)(path.name, content)
    if suffix in SUFFIXES:
        return SUFFIXES[suffix](path.name, content)
    # Other names say nothing of the content: .pickle, .sav, .bin, .model.
    if content[:1] == b"\x80" or content[:2] in (b"\x1f\x8b", b"\x78\x9c", b"BZ"):
        return sklearn_file.read(f"{path.stem}.pkl", content, trust)
    if content[:4] == b"PK\x03\x04" and b"schema.json" in content:
        return sklearn_file.read(f"{path.stem}.skops", content, trust)
    if content[:4] == b"PK\x03\x04":
        return torch_file.read(f"{path.stem}.pt", content)
    if b"learner" in content[:1_000]:
        return boosted_files.read_xgboost(path.name, content)
    if content.startswith(b"tree\n"):
        return boosted_files.read_lightgbm(path.name, content)
    known = ", ".join([*ESTIMATORS, ".json", *SUFFIXES])
    raise ModelRefused(f"{path} is of no known format; the names of models end in {known}")


def _linear(name: str, content: bytes) -> ModelFacts:
    """The facts of a JSON with weights."""
    file = parse_file(content)
    return ModelFacts(
        format=Format.LINEAR, file=name, content=content, names=tuple(file.weights), width=len(file.weights),
        encodings=("none",) if file.space == "raw" else ("standard", "minmax", "none"),
    )  # fmt: skip


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise ModelRefused(f"{path} cannot be read: {error.strerror}") from error
