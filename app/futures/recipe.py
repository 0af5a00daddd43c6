"""What a recipe is: how future models of one kind are made."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from app.futures.records import Records, Sample
from app.recourse.models.black_box import Input
from app.registry.adapters.tree_input import tree_input
from app.registry.manifest import Manifest
from app.registry.version import LoadedModel

Tuned: TypeAlias = dict[str, Any]
"""What a recipe has found out before the first model, as JSON: it is kept, so that a later process goes on with it."""

PILOT = 1_000_000
"""Index of the first bootstrap that a recipe is tuned on; no future model has it."""


class Recipe(Protocol):
    """Makes future models of one model."""

    name: str
    """Names the recipe in `tuned` specifications and in what is kept."""
    block: int
    """Models that are made at a time."""

    def manifest(self, tuned: Tuned) -> Manifest:
        """Describes every future model, but for the digest of its file."""

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:
        """What can be found out once for all models.

        Raises
        ------
        RehearsalFailed : this recipe cannot make models of this kind
        """

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:
        """Train as many models as there are samples. Returns the file of each, as `manifest` describes it.

        Raises
        ------
        RehearsalFailed : a model could not be made
        """


class RecipeOfOneManifest:
    """The part of a recipe whose models have one manifest, whatever was tuned.

    Parameters
    ----------
    described : of every future model, but for the digest of its file
    """

    def __init__(self, model: LoadedModel, described: Manifest) -> None:
        self.model = model
        self.described = described

    def manifest(self, tuned: Tuned) -> Manifest:  # noqa: ARG002
        """Contract in `Recipe`."""
        return self.described

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:  # noqa: ARG002
        """Nothing, where a recipe has nothing to find out. Contract in `Recipe`."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Training records as a model takes them: it speaks of its own class 1."""

    X: Float[np.ndarray, "n d"]
    y: Bool[np.ndarray, "n"]


def encoded(model: LoadedModel, records: Records, manifest: Manifest) -> Encoded:
    """Encoded records with labels of the class 1 of a model, which is the unfavourable one where `favourable` is 0."""
    y = records.favourable if manifest.favourable else ~records.favourable
    return Encoded(X=model.registered.columns.encode(records.rows_raw), y=y)


def in_columns(model: LoadedModel, records: Records, manifest: Manifest) -> Encoded:
    """The same for trees: of a model of raw records, one column for each feature, levels as positions."""
    found = encoded(model, records, manifest)
    if manifest.input is Input.ENCODED:
        return found
    columns = model.registered.columns
    taken, _ = tree_input(manifest, columns.model, None, columns.model.p)
    return replace(found, X=taken.matrix(columns.rows(records.rows_raw)))


def log_loss(logits: Float[np.ndarray, "k n"], y: Bool[np.ndarray, "k n"]) -> Float[np.ndarray, "k"]:
    """Mean logistic loss of each of k models."""
    return np.asarray(np.logaddexp(0.0, np.where(y, -logits, logits)).mean(axis=1))
