"""Cheap legal records in the favourable boxes of a decision tree, at depths in proportion to the noise."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.models.tree_boxes import Boxes
from app.recourse.numerics.linalg import unique_rows

DEPTHS = np.arange(0.0, 3.01, 0.25)
"""Distances from the sides of a box that are tried, in standard deviations of the noise."""
ROUNDING = 1e-15
"""Rounding of numbers between raw and encoded, as a share of their size."""
CHUNK = 256
"""Records whose rate is computed together."""


def rows_in_boxes(
    boxes: Boxes, action_set: ActionSet, std: Float[np.ndarray, "d"]
) -> Iterator[Float[np.ndarray, "n p"]]:
    """Legal raw rows in the favourable boxes, cheapest first, in chunks.

    The rows contain, for each box and for each of several distances from its sides, the row nearest to the factual.
    Rows that break a rule or the cap on the number of changes are left out.

    Parameters
    ----------
    std : standard deviation of the noise in each encoded column
    """
    lower, upper = boxes.lower[boxes.favourable], boxes.upper[boxes.favourable]
    levels, open_to_person = _levels(lower, upper, action_set)
    lower, upper, levels = lower[open_to_person], upper[open_to_person], levels[open_to_person]
    rows_raw = np.concatenate([_at_depth(lower, upper, levels, action_set, depth * std) for depth in DEPTHS])
    rows_raw = unique_rows(rows_raw)
    rows_raw = rows_raw[action_set.contains(rows_raw)]
    rows_raw = rows_raw[(rows_raw != action_set.factual_raw).any(axis=1)]
    if len(rows_raw):
        rows_raw = rows_raw[boxes.score(action_set.space.encode(rows_raw)) >= 0.0]
        rows_raw = rows_raw[action_set.cost(rows_raw).argsort(kind="stable")]
    for start in range(0, len(rows_raw), CHUNK):
        yield rows_raw[start : start + CHUNK]


def _levels(
    lower: Float[np.ndarray, "m d"], upper: Float[np.ndarray, "m d"], action_set: ActionSet
) -> tuple[Int[np.ndarray, "m g"], Bool[np.ndarray, "m"]]:
    """A category of each group in each box, the present one where it lies there; and which boxes have one for all."""
    space = action_set.space
    levels = np.zeros((len(lower), len(space.groups)), dtype=np.intp)
    possible = np.ones(len(lower), dtype=bool)
    for g, j in enumerate(space.groups.tolist()):
        span, now = space.spans[j], int(action_set.factual_raw[j])
        hot = (lower[:, span] < 1.0) & (upper[:, span] >= 1.0)
        cold = (lower[:, span] < 0.0) & (upper[:, span] >= 0.0)
        # A level lies in the box where its own column may be 1 and every other one may be 0.
        fits = hot & ((~cold).sum(axis=1, keepdims=True) - ~cold == 0)
        allowed = action_set.levels(j) if action_set.movable[j] else [now]
        fits &= np.isin(np.arange(fits.shape[1]), allowed)
        levels[:, g] = np.where(fits[:, now], now, fits.argmax(axis=1))
        possible &= fits.any(axis=1)
    return levels, possible


def _at_depth(
    lower: Float[np.ndarray, "m d"],
    upper: Float[np.ndarray, "m d"],
    levels: Int[np.ndarray, "m g"],
    action_set: ActionSet,
    depth: Float[np.ndarray, "d"],
) -> Float[np.ndarray, "m p"]:
    """The point of each box nearest to the factual, at least `depth` from its sides or else half-way between them."""
    space = action_set.space
    columns, scale, center = space.numeric_columns, space.scale_raw, space.center_raw
    low, high, inward = (ends[..., columns] for ends in (lower, upper, depth))
    one_sided = np.where(np.isfinite(low), np.inf, -np.inf)
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), one_sided)
    # The lower side does not belong to the box.
    deep_low, deep_high = np.minimum(np.nextafter(low, np.inf) + inward, middle), np.maximum(high - inward, middle)
    rows_raw = np.tile(action_set.factual_raw, (len(lower), 1))
    start = (rows_raw[:, space.numeric] - center) / scale
    X = np.minimum(np.maximum(start, deep_low), deep_high)
    moved = start != X
    rows_raw[:, space.numeric] = np.where(moved, X * scale + center, rows_raw[:, space.numeric])
    rows_raw[:, space.groups] = levels
    rows_raw = np.clip(rows_raw, action_set.lower_raw, action_set.upper_raw)
    inside = rows_raw.copy()
    inside[:, space.numeric] = np.where(moved, np.where(start < X, np.inf, -np.inf), rows_raw[:, space.numeric])
    rows_raw = action_set.round(rows_raw, toward_raw=inside)
    # Where the side itself is on the lattice, or nearly so, rounding may have returned the point to it.
    numbers, step = rows_raw[:, space.numeric], action_set.step_raw[space.numeric]
    encoded = (numbers - center) / scale
    outside = np.where(moved & (encoded <= low), 1.0, np.where(moved & (encoded > high), -1.0, 0.0))
    further = np.where(step > 0.0, step, ROUNDING * (np.abs(numbers) + np.abs(center) + scale))
    rows_raw[:, space.numeric] = numbers + outside * further
    rows_raw = np.clip(rows_raw, action_set.lower_raw, action_set.upper_raw)
    return action_set.round(rows_raw, toward_raw=rows_raw)
