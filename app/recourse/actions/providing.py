"""Providing a missing value: the person says what it is, and it becomes a quantity like others.

What the value will turn out to be is not known, unless the wishes state it. A typical one is taken, from which it may
move at its usual cost; providing it costs `provide_cost`, whatever the value. A missing category that may be provided
needs none of this: it is a change of category.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.advice_ranges import lattice_point
from app.recourse.actions.wishes import Wishes
from app.recourse.features import MISSING, Feature


def provided(actions: ActionSet, *, but: Collection[int] = ()) -> ActionSet | None:
    """What the same person can do who also provides every missing number that may be provided; None without any.

    Parameters
    ----------
    but : features that stay missing
    """
    space, fact = actions.space, actions.factual_raw.copy()
    centers = dict(zip(space.numeric.tolist(), space.center_raw.tolist(), strict=True))
    ruled_out = {*actions.wishes.exclude.features, *actions.constraints.immutable}
    given = [
        j for j in centers
        if space.features[j].provide and fact[j] == MISSING and j not in but and space.names[j] not in ruled_out
    ]  # fmt: skip
    if not given:
        return None
    for j in given:
        stated = actions.included.get(j)
        fact[j] = _typical(space.features[j], centers[j]) if stated is None else stated
    other = action_set(
        space, fact, constraints=actions.constraints, rules=actions.rules, timing=actions.timing,
        valid_months=actions.clock.months, least_share=actions.least_share,
        wishes=Wishes(exclude=actions.wishes.exclude),
    )  # fmt: skip
    return replace(
        other, weights=actions.weights, given=tuple(given), wishes=actions.wishes, included=actions.included,
        barred=actions.barred,
    )  # fmt: skip


def providing(actions: ActionSet, rows_raw: Float[np.ndarray, "n p"]) -> ActionSet:
    """What the person can do who provides the missing numbers that all of these rows provide.

    `actions` itself where they provide none.
    """
    other = provided(actions, but=np.flatnonzero(actions.space.in_state(rows_raw).any(axis=0)).tolist())
    return actions if other is None else other


def _typical(feature: Feature, center: float) -> float:
    """The value that may be proposed nearest to the mean of those that are not missing."""
    low, high = feature.range_raw
    if feature.is_number:
        low = low if feature.advice.min is None else max(low, feature.advice.min)
        high = high if feature.advice.max is None else min(high, feature.advice.max)
    step, anchor = feature.lattice_raw
    near = lattice_point(round((center - anchor) / step), anchor, step) if step > 0.0 else center
    return float(np.clip(near, low, high))
