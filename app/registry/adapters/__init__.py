"""How each format becomes a black box. A new format is one module here, one line below, and its faults in the manifest.

Modules import nothing heavy; `load` does.
"""

from pathlib import Path
from typing import Protocol

from app.recourse.blackbox import BlackBox
from app.recourse.features import FeatureSpace
from app.registry.adapters import (
    http_model,
    lightgbm_model,
    linear_model,
    onnx_model,
    sklearn_model,
    torch_model,
    xgboost_model,
)
from app.registry.manifest import Format, Manifest
from app.registry.trust import Trust


class Load(Protocol):
    """Makes a black box of an artifact."""

    def __call__(self, manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:
        """The model in `directory`, safely: no code of the file runs unless `trust.pickle` and its digest is right.

        A remote model is not asked anything yet.

        Raises
        ------
        ModelRefused : with every fault, pointers as in `app.registry.manifest`
        ModelUnusable : a library or a secret is missing, or the host of a remote model is not allowed
        """


ADAPTERS: dict[Format, Load] = {
    Format.LINEAR: linear_model.load,
    Format.SKLEARN: sklearn_model.load,
    Format.TORCH: torch_model.load,
    Format.XGBOOST: xgboost_model.load,
    Format.LIGHTGBM: lightgbm_model.load,
    Format.ONNX: onnx_model.load,
    Format.HTTP: http_model.load,
}
