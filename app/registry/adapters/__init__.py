"""How each format becomes a black box.

A new format is one module here, one line in `ADAPTERS`, its `Format`, and its faults in `app.registry.manifest_faults`.
Modules import nothing heavy; `load` does.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from jaxtyping import Float

from app.errors import Fault
from app.recourse.features import FeatureSpace, ModelColumns
from app.recourse.models.black_box import BlackBox
from app.registry.adapters import (
    http_model,
    lightgbm_model,
    linear_model,
    onnx_model,
    scorecard_model,
    sklearn_model,
    torch_model,
    xgboost_model,
)
from app.registry.artifact import Format
from app.registry.manifest import Manifest
from app.registry.trust import Trust


class Load(Protocol):
    """Makes the black box of the model that a manifest describes; each model format has one such function."""

    def __call__(self, manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:
        """The black box of the model in `directory`, made without running code of the file that is not trusted.

        Code runs only where `trust.pickle` is true and the file has the digest in the manifest. `space` has the columns
        that the model takes, in its own scales. A remote model is not called yet.

        Raises `ModelRefused` with every fault, pointers as in `app.registry.manifest`, also where the host of a remote
        model is not allowed; `ModelUnusable` where a library or a secret is missing.
        """


Pin: TypeAlias = Callable[[BlackBox, Float[np.ndarray, "n p"], Float[np.ndarray, "n"]], BlackBox]
"""Makes a black box check, with every call, that it still gives some reference records their scores."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """The functions of one model format: they load a model, check it, and pin a remote model to registered scores."""

    load: Load
    check: Callable[[BlackBox], list[Fault]] | None = None
    """Faults that show only when the model is asked about itself, at registration."""
    pin: Pin | None = None
    """None for a model in a file, which is checked once, when it is loaded."""


ADAPTERS: dict[Format, Adapter] = {
    Format.LINEAR: Adapter(linear_model.load),
    Format.SKLEARN: Adapter(sklearn_model.load),
    Format.TORCH: Adapter(torch_model.load),
    Format.XGBOOST: Adapter(xgboost_model.load),
    Format.LIGHTGBM: Adapter(lightgbm_model.load),
    Format.ONNX: Adapter(onnx_model.load),
    Format.SCORECARD: Adapter(scorecard_model.load),
    Format.HTTP: Adapter(http_model.load, check=http_model.metadata_faults, pin=http_model.pinned),
}


def load_black_box(manifest: Manifest, directory: Path, columns: ModelColumns, trust: Trust) -> BlackBox:
    """The black box of the manifest's model in `directory`. It takes encoded points of ``columns.space``.

    Raises `ModelRefused` with every fault of the artifact; `ModelUnusable` where a library or a secret is missing.
    """
    load = ADAPTERS[manifest.artifact.format].load
    return load(manifest, directory, columns.model, trust).of_columns(columns)
