"""Reads what a model's own file says, whatever its format."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from app.errors import ModelRefused
from app.registry.artifact import ESTIMATORS
from app.registry.drafting import (
    boosted_files,
    linear_file,
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

FLAVOURS: dict[str, Read] = {
    "xgboost": boosted_files.read_xgboost,
    "lightgbm": boosted_files.read_lightgbm,
    "onnx": onnx_file.read,
}


def read_facts(path: Path, trust: Trust) -> ModelFacts:
    """What the file, or the directory of MLflow, says about the model in it.

    Raises
    ------
    ModelRefused : it cannot be read, or it may run code and is not trusted
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
    if suffix in ESTIMATORS:
        return sklearn_file.read(path.name, content, trust)
    if suffix == ".json":
        # The weights of a linear model, or boosted trees.
        read = boosted_files.read_xgboost if b'"learner"' in content else linear_file.read
        return read(path.name, content)
    if suffix not in SUFFIXES:
        known = ", ".join([*ESTIMATORS, ".json", *SUFFIXES])
        raise ModelRefused(f"{path} is of no known format; the names of models end in {known}")
    return SUFFIXES[suffix](path.name, content)


def _bytes(path: Path) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        raise ModelRefused(f"{path} cannot be read: {error.strerror}") from error
