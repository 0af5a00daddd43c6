"""Terms of a contract: features that the lender sets, which way each is better, and the values that can be offered."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import Asked, Limit, limits_of, range_of
from app.recourse.features import Better, Change, Feature, FeatureSpace, FeatureType
from app.recourse.problem import RecourseProblem

MOST_VALUES = 1_000_000
"""Values of one term; where its step gives more, the step is ten times as large."""

PLACES = 3
"""Decimal places by which the range of a continuous term without `decimals` is divided."""


Values: TypeAlias = tuple[Float[np.ndarray, "k"], bool]
"""Values of a term, and whether these are all of them."""


@lru_cache(maxsize=256)
def terms_of(space: FeatureSpace) -> tuple[int, ...]:
    """Indices of the features that are terms of the contract: features that the lender sets."""
    return tuple(j for j, feature in enumerate(space.features) if feature.terms)


def directions(space: FeatureSpace, better: Mapping[str, Better]) -> dict[int, int]:
    """For each term, by its index: 1 if a larger value is better for the applicant, -1 if a smaller one is.

    The leading term comes first: the first term of which more is better or, without such a term, the first of all.
    Terms without a direction are left out.

    Parameters
    ----------
    better : by name of a term, the direction that replaces the schema's
    """
    return dict(_directions(space, tuple(better.items())))


@lru_cache(maxsize=256)
def _directions(space: FeatureSpace, better: tuple[tuple[str, Better], ...]) -> tuple[tuple[int, int], ...]:
    named = dict(better)
    found = {j: named.get(space.names[j], space.features[j].better) for j in terms_of(space)}
    signs = {j: 1 if way is Better.MORE else -1 for j, way in found.items() if way is not None}
    return tuple(sorted(signs.items(), key=lambda one: (-one[1], one[0])))


def values_of(problem: RecourseProblem, j: int, sign: int) -> Values:
    """What a term may be, the best first, or the nearest to what was asked for; and whether that is all.

    Parameters
    ----------
    sign : 1 where more is better, -1 where less is, 0 where neither is known to be
    """
    actions: ActionSet = problem.action_set
    fact = float(actions.factual_raw[j])
    feature, limits, whole = _open(problem, j, sign)
    found = range_of(feature, fact, limits)
    if feature.is_group or found.levels is not None:
        levels = range(int(found.lower), int(found.upper) + 1) if found.levels is None else found.levels
        values = np.array(sorted({*levels, int(fact)}), dtype=float)
    else:
        step, anchor = feature.lattice_raw
        sides = (found.lower, found.below), (found.above, found.upper)
        while sum(high - low for low, high in sides) / step > MOST_VALUES:
            step, whole = 10.0 * step, False
        below, above = (_lattice(*side, step, anchor) if side[0] < side[1] else np.empty(0) for side in sides)
        values = np.concatenate([[found.lower], below, [fact], above, [found.upper]])
        values = values[np.append(values[1:] > values[:-1], True)]
        if not (values[1:] > values[:-1]).all():
            values = np.unique(values)
    if sign:
        return values[::-sign], whole
    return values[np.abs(values - fact).argsort(kind="stable")], whole


def _open(problem: RecourseProblem, j: int, sign: int) -> tuple[Feature, Sequence[Limit], bool]:
    """A term as the lender may set it, its limits, and whether these are its own alone."""
    actions, feature = problem.action_set, problem.action_set.space.features[j]
    fact, free = float(actions.factual_raw[j]), _free(actions.space, j)
    limits = limits_of(free, fact, Asked(constraints=actions.constraints, exclude=actions.wishes.exclude))
    if not limits:
        return free, limits, True  # a state, such as missing, is no number that could be another
    if sign > 0:
        limits.append(Limit(name="asked", asked=False, high=fact))
    low, high = max(limit.low for limit in limits), min(limit.high for limit in limits)
    whole = math.isfinite(low) and math.isfinite(high)
    if not whole:
        # Without an end of its own, a term is offered as far as the reference records show it.
        column = problem.reference.rows_raw[:, j]
        column = column[~np.isin(column, feature.states_raw)]
        ends = (min(column.min(initial=fact), fact), max(column.max(initial=fact), fact))
        limits.append(Limit(name="reference", asked=False, low=ends[0], high=ends[1]))
        low, high = max(low, ends[0]), min(high, ends[1])
    if feature.type is FeatureType.CONTINUOUS and feature.decimals is None:
        width = max(high - low, 1e-9)
        free, whole = replace(free, decimals=min(9, max(0, PLACES - math.floor(math.log10(width))))), False
    return free, limits, whole


@lru_cache(maxsize=4096)
def _free(space: FeatureSpace, j: int) -> Feature:
    """A term as the lender may set it."""
    return replace(space.features[j], change=Change.ANY, max_change=None, least_change=None)


def _lattice(low: float, high: float, step: float, anchor: float) -> Float[np.ndarray, "k"]:
    """The lattice points from low to high, as a person writes them."""
    first, last = math.ceil((low - anchor) / step - 1e-6), math.floor((high - anchor) / step + 1e-6)
    ticks = np.arange(first, last + 1, dtype=float)
    return anchor + (ticks / round(1.0 / step) if step < 1.0 else ticks * step)
