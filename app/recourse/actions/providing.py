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
from app.recourse.actions.advice_ranges import lattice_point, limits_of_value
from app.recourse.actions.wishes import Wishes, excluded_values
from app.recourse.features import MISSING, Feature

BESIDE = 0.01
"""How far beside a value that the person rules out another one is taken, in spreads, where there is no lattice."""


def provided(actions: ActionSet, *, but: Collection[int] = ()) -> ActionSet | None:
    """The action set of the person once every missing number that can be provided has been provided.

    None where there is no such number. The value provided is the one that the request includes or, without it, a
    typical one.

    Parameters
    ----------
    but : indices of features that stay missing
    """
    space, fact = actions.space, actions.factual_raw.copy()
    ruled_out = {*actions.wishes.exclude.features, *actions.constraints.immutable}
    values: dict[int, float] = {}
    for j, center in zip(space.numeric.tolist(), space.center_raw.tolist(), strict=True):
        feature = space.features[j]
        if not feature.provide or fact[j] != MISSING or j in but or feature.name in ruled_out:
            continue
        stated = actions.included.get(j)
        value = _typical(feature, center, actions) if stated is None else stated
        if value is not None:
            values[j] = value
    if not values:
        return None
    fact[list(values)] = list(values.values())
    other = action_set(
        space, fact, constraints=actions.constraints, rules=actions.rules, timing=actions.timing,
        valid_months=actions.clock.months, least_share=actions.least_share,
        wishes=Wishes(exclude=actions.wishes.exclude),
    )  # fmt: skip
    return replace(
        other, weights=actions.weights, given=tuple(values), wishes=actions.wishes, included=actions.included,
        barred=actions.barred,
    )  # fmt: skip


def providing(actions: ActionSet, rows_raw: Float[np.ndarray, "n p"]) -> ActionSet:
    """The action set of the person once the missing numbers that have a value in all of `rows_raw` are provided.

    It is `actions` itself where the rows provide no missing number.
    """
    other = provided(actions, but=np.flatnonzero(actions.space.in_state(rows_raw).any(axis=0)).tolist())
    return actions if other is None else other


def _typical(feature: Feature, center: float, actions: ActionSet) -> float | None:
    """The value that may be proposed nearest to the mean of those that are not missing; None where none may be."""
    low, high = limits_of_value(feature, actions.constraints)
    ruled_out = {*feature.states_raw, *excluded_values(feature, MISSING, actions.wishes.exclude)}
    (step, anchor), near = feature.lattice_raw, float(np.clip(center, low, high))
    advised = feature.advice.categories
    if not feature.is_number:
        values = [float(k) for k, level in enumerate(feature.levels) if advised is None or level in advised]
    elif step > 0.0:
        at, reach = round((near - anchor) / step), len(ruled_out) + 1
        values = [lattice_point(tick, anchor, step) for tick in range(at - reach, at + reach + 1)]
    else:
        apart = BESIDE * (feature.spread or feature.scale or 1.0)
        values = [near + k * apart for k in range(-len(ruled_out), len(ruled_out) + 1)]
    legal = [value for value in values if low <= value <= high and value not in ruled_out]
    return min(legal, key=lambda value: abs(value - near), default=None)
