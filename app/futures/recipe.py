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
    """One way to make the future models of a model."""

    name: str
    """Names the recipe in `tuned` specifications and in what is kept."""
    block: int
    """Models that are made at a time."""

    def manifest(self, tuned: Tuned) -> Manifest:
        """The manifest of every future model, apart from the digest of its file, for the settings that `tune` found."""

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:
        """Find the training settings that all future models share, such as a penalty.

        Raises
        ------
        RehearsalFailed : the recipe cannot make future models of this model
        """

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:
        """Train one model for each sample; returns the content of each model's file, as `manifest` describes it.

        Raises
        ------
        RehearsalFailed : a model could not be made
        """


class RecipeOfOneManifest:
    """Base of recipes in which all future models have one manifest, whatever settings `tune` finds.

    Parameters
    ----------
    described : the manifest of every future model, apart from the digest of its file
    """

    def __init__(self, model: LoadedModel, described: Manifest) -> None:
        self.model = model
        self.described = described

    def manifest(self, tuned: Tuned) -> Manifest:  # noqa: ARG002
        """The manifest of every future model, apart from the digest of its file; all settings have the same one."""
        return self.described

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:  # noqa: ARG002
        """Returns an empty dict: by default, a recipe has no training settings to find."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Training records in a model's own encoding; the label is True where a record belongs to the model's class 1."""

    X: Float[np.ndarray, "n d"]
    y: Bool[np.ndarray, "n"]


def encoded(model: LoadedModel, records: Records, manifest: Manifest) -> Encoded:
    """Training records in a model's encoding; their label is True for the model's class 1.

    The manifest says whether class 1 is the favourable one.
    """
    y = records.favourable if manifest.favourable else ~records.favourable
    return Encoded(X=model.registered.columns.encode(records.rows_raw), y=y)


def in_columns(model: LoadedModel, records: Records, manifest: Manifest) -> Encoded:
    """Training records as a model of trees takes them.

    They are encoded or, if the model takes raw records, raw with the index of each level.
    """
    found = encoded(model, records, manifest)
    if manifest.input is Input.ENCODED:
        return found
    columns = model.registered.columns
    taken, _ = tree_input(manifest, columns.model, None, columns.model.p)
    return replace(found, X=taken.matrix(columns.rows(records.rows_raw)))


def log_loss(logits: Float[np.ndarray, "k n"], y: Bool[np.ndarray, "k n"]) -> Float[np.ndarray, "k"]:
    """Mean logistic loss of each of k models over its own n records.

    Parameters
    ----------
    logits : logit, by each model, of the label True
    y : label of each model's records
    """
    return np.asarray(np.logaddexp(0.0, np.where(y, -logits, logits)).mean(axis=1))
