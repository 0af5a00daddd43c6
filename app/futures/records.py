"""What future models are trained on: labelled records, and bootstraps of them.

Seen from today's model, the next one differs by the sampling errors of both: trained on new records of the same
source, its weights vary twice as much about today's as those of a bootstrap of all records vary about their mean. A
bootstrap of half the records has that spread. It is the default, ``records: fresh``; ``records: same`` draws as many
as there are, which describes a retraining on the same records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import RehearsalFailed
from app.recourse.models.committee import Drawn
from app.recourse.models.score import favourable
from app.registry.files import inside
from app.registry.reference import read_reference
from app.registry.version import LoadedModel

Labels: TypeAlias = Literal["outcomes", "own_decisions"]
"""What the records are labelled with: what came of them, or what today's model decides about them."""

LEAST = 10
"""Records of each label without which no future models are made."""

LEAST_DRAWN = 2
"""Records of each label in a bootstrap; one with fewer is drawn again."""

MOST_DRAWN = 50_000
"""Records in a bootstrap, which bounds the time and memory of training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The labelled records on which future models are trained."""

    rows_raw: Float[np.ndarray, "n p"]
    favourable: Bool[np.ndarray, "n"]
    """Their labels."""
    labels: Labels
    of_reference: bool
    """Whether these are the reference records, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The records drawn for one future model, and the seed of its training."""

    index: int
    """Number of the model, from 0: first those of the search set, then those that are held back, then stressed ones."""
    chosen: Int[np.ndarray, "m"]
    """Records that were drawn, with repetitions."""
    seed: int
    """Of everything else that is random about its training."""


def reference_records(model: LoadedModel) -> Records:
    """The reference records with their labels: the manifest's label column or, without one, the model's decisions.

    Raises
    ------
    RehearsalFailed : too few records have one of the two labels
    """
    manifest, reference = model.registered.manifest, model.reference
    if manifest.label is None:
        return _checked(reference.rows_raw, favourable(reference.scores), "own_decisions", of_reference=True)
    path = inside(model.registered.directory, manifest.reference)
    column, faults = read_reference(path, [], manifest.label)
    if column is None:
        raise RehearsalFailed(f'The column "{manifest.label}" of the reference records cannot be read.', faults=faults)
    return _checked(reference.rows_raw, column[:, 0] == 1.0, "outcomes", of_reference=True)


def newer_records(model: LoadedModel, path: Path) -> Records:
    """Read training records from a CSV with the columns of the reference, including the label column.

    If the manifest names no label, the model's own decisions are the labels.

    Raises
    ------
    RehearsalFailed : the file cannot be read (the error has every fault), or too few records have one of the two labels
    """
    features, label = model.registered.space.features, model.registered.manifest.label
    table, faults = read_reference(path, features, label)
    if table is None:
        raise RehearsalFailed(f"The records in {path} cannot be used.", faults=faults)
    if label is None:
        decisions = favourable(model.black_box.score_raw(table))
        return _checked(table, decisions, "own_decisions", of_reference=False)
    rows_raw = np.ascontiguousarray(table[:, :-1])
    return _checked(rows_raw, table[:, -1] == 1.0, "outcomes", of_reference=False)


def _checked(
    rows_raw: Float[np.ndarray, "n p"], labels: Bool[np.ndarray, "n"], kind: Labels, *, of_reference: bool
) -> Records:
    fewest = int(min(labels.sum(), (~labels).sum()))
    if fewest < LEAST:
        word = "true outcome" if kind == "outcomes" else "decision of the model"
        raise RehearsalFailed(f"At least {LEAST} records with each {word} are needed; there are {fewest} with one.")
    return Records(rows_raw=rows_raw, favourable=labels, labels=kind, of_reference=of_reference)


def sample(
    records: Records, drawn: Drawn, seed: int, index: int, weights: Float[np.ndarray, "n"] | None = None
) -> Sample:
    """Draw the bootstrap and the seed of one future model; the same arguments always give the same sample.

    A bootstrap is drawn with replacement, at most `MOST_DRAWN` records: half as many as there are for `fresh`, or as
    many as there are for `same`.

    Parameters
    ----------
    weights : probability of each record, of sum 1; None for equal probabilities
    """
    rng = np.random.default_rng([seed, index])
    n = len(records.favourable)
    size = min((n + 1) // 2 if drawn == "fresh" else n, MOST_DRAWN)
    while True:
        chosen = rng.integers(n, size=size) if weights is None else rng.choice(n, size=size, p=weights)
        yes = int(records.favourable[chosen].sum())
        if LEAST_DRAWN <= yes <= size - LEAST_DRAWN:
            return Sample(index=index, chosen=chosen, seed=int(rng.integers(2**31)))


def samples(
    records: Records, drawn: Drawn, seed: int, indices: Sequence[int], weights: Float[np.ndarray, "n"] | None = None
) -> list[Sample]:
    """Draw the bootstraps and seeds of several future models, with `sample` for each of the `indices`."""
    return [sample(records, drawn, seed, index, weights) for index in indices]
