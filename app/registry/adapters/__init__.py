"""How each format becomes a black box. A new format is one module here, one line below, and its faults in the manifest.

Modules import nothing heavy; `load` does.
"""

from pathlib import Path
from typing import Protocol

from app.recourse.blackbox import BlackBox
from app.recourse.features import FeatureSpace
from app.registry.adapters import linear_model, sklearn_model, torch_model
from app.registry.manifest import Format, Manifest


class Load(Protocol):
    """Makes a black box of an artifact."""

    def __call__(self, manifest: Manifest, directory: Path, space: FeatureSpace, *, trust_pickle: bool) -> BlackBox:
        """The model in `directory`, safely: no code of the file runs unless `trust_pickle` and its digest is right.

        Raises
        ------
        ModelRefused : with every fault, pointers as in `app.registry.manifest`
        ModelUnusable : a library is missing
        """


ADAPTERS: dict[Format, Load] = {
    Format.LINEAR: linear_model.load,
    Format.SKLEARN: sklearn_model.load,
    Format.TORCH: torch_model.load,
}
