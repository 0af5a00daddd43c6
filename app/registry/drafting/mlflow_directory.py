"""A model that MLflow has saved: where it is, which file is the model, and what its signature says."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from app.errors import ModelRefused

DESCRIPTION = "MLmodel"

FILES = {"sklearn": "pickled_model", "xgboost": "data", "lightgbm": "data", "onnx": "data"}
"""The key of `MLmodel` that names the file of each flavour that can be read."""

NUMBERS = frozenset({"double", "float", "long", "integer"})
"""Types of a signature that are numbers."""


REGISTERED = ("models:/", "runs:/")
"""How names in an MLflow registry begin, and those of the artifacts of a run."""


@contextmanager
def fetched(model: str) -> Iterator[Path]:
    """Context manager: the local path of a model's file or directory.

    A name in an MLflow registry is downloaded by MLflow's own library from the server at `MLFLOW_TRACKING_URI`. The
    download is deleted on exit.

    Raises `ModelRefused` where the library is not installed, or finds no such model.
    """
    if not model.startswith(REGISTERED):
        yield Path(model)
        return
    try:
        from mlflow.artifacts import download_artifacts
        from mlflow.exceptions import MlflowException
    except ImportError as error:
        what = "is a name of MLflow, whose library is not installed here: pip install mlflow-skinny"
        raise ModelRefused(f"{model} {what}") from error
    with TemporaryDirectory(prefix="recourse-") as place:
        try:
            found = download_artifacts(artifact_uri=model, dst_path=place)
        except (MlflowException, OSError) as error:
            raise ModelRefused(f"{model} cannot be fetched: {error}") from error
        yield Path(found)


def locate(directory: Path) -> tuple[str, Path, dict[str, str]]:
    """Three facts on the model in a directory of MLflow: its flavor, its file, and the column types in its signature.

    The types are a dict by column name. Raises `ModelRefused` where MLflow has not written the directory, or the model
    in it cannot be read.
    """
    path = directory / DESCRIPTION
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelRefused(f"{directory} is a directory without {DESCRIPTION}: name the file of the model") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ModelRefused(f"{path} cannot be read as YAML") from error
    flavors = content.get("flavors") if isinstance(content, dict) else None
    if not isinstance(flavors, dict):
        raise ModelRefused(f"{path} names no flavors: it was not written by MLflow")
    for flavour, key in FILES.items():
        described = flavors.get(flavour)
        if isinstance(described, dict):
            named = str(described.get(key, ""))
            file = directory / named
            if not named or ".." in Path(named).parts or not file.is_file():
                raise ModelRefused(f'{path} says that the model is in "{named}", and there is no such file')
            return flavour, file, _signature(content)
    raise ModelRefused(
        f"{path} has the flavors {', '.join(map(str, flavors))}, of which none can be read; "
        f"those that can are {', '.join(FILES)}. Export the model as ONNX, or keep it on its server (format: http)"
    )


def _signature(content: Mapping[str, Any]) -> dict[str, str]:
    signature = content.get("signature")
    if not isinstance(signature, dict) or not isinstance(signature.get("inputs"), str):
        return {}
    try:
        columns = json.loads(signature["inputs"])
    except ValueError:
        return {}
    return {
        str(column["name"]): str(column["type"])
        for column in columns
        if isinstance(column, dict) and "name" in column and "type" in column
    }
