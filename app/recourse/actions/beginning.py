"""Changes that a person makes in any case, made in the record with which the search begins.

A search changes as little as it can, so nothing but the record it begins with can make it change a feature. Here the
included changes are made in that record: to the value that is given, or else by the least change there is, from which
the feature can move on, away from where it was. A number that may go both ways gives two beginnings, and the caller
takes the better answer. A category begins at any other level; moving on to another one costs next to nothing, since the
change has been paid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, product

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import LEAST_SHARE, Range, least_worth
from app.recourse.features import MISSING

MOST = 32
"""Beginnings of one person."""
PAID = 1e-6
"""Share of its cost that another category costs where a change of the feature has been paid."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """One included change: where it leads to, the range from there, and its cost."""

    column: int
    value_raw: float
    range: Range
    cost: float


def beginnings(actions: ActionSet) -> list[ActionSet]:
    """Action sets that begin where the person has made the changes that the request must include.

    There is one for each combination of ways to make these changes, at most `MOST`. The list is empty where some
    included change is impossible. It has `actions` alone where the request includes no change.
    """
    options = [_options(actions, j, to) for j, to in actions.included.items()]
    return [_begun(actions, chosen) for chosen in islice(product(*options), MOST)]


def _begun(actions: ActionSet, chosen: Sequence[_Begun]) -> ActionSet:
    if not chosen:
        return actions
    fact, weights = actions.factual_raw.copy(), actions.weights.copy()
    for one in chosen:
        fact[one.column] = one.value_raw
        if actions.space.features[one.column].is_group:
            weights[one.column] *= PAID
    return replace(
        actions.ranged({one.column: one.range for one in chosen}),
        factual_raw=fact,
        weights=weights,
        included={},
        begun={one.column: one.cost for one in chosen},
        beginning=actions,
    )


def _options(actions: ActionSet, j: int, to: float | None) -> list[_Begun]:
    """The ways in which one included change can begin."""
    feature, fact, weight = actions.space.features[j], float(actions.factual_raw[j]), float(actions.weights[j])
    if fact == MISSING:
        return []
    cost = 0.0 if j in actions.given else weight
    if not feature.is_group:
        scale = float(actions.space.scale_raw[actions.space.numeric.tolist().index(j)])
    if to is not None:
        cost = cost if feature.is_group or j in actions.given else weight * abs(to - fact) / scale
        return [_Begun(j, to, Range(to, to, to, to), cost)]
    if j in actions.given:
        return [_Begun(j, fact, actions.range(j), 0.0)]
    if feature.is_group:
        levels = tuple(level for level in actions.levels(j) if level != fact)
        first = float(levels[0])
        return [_Begun(j, first, Range(min(levels), first, first, max(levels), levels), cost)]
    own, found = actions.range(j), []
    least = least_worth(feature, fact, LEAST_SHARE)
    step = float(actions.step_raw[j])
    levels = own.levels or ()
    if own.lower < fact:
        near = own.below if own.below < fact else max(own.lower, fact - least)
        low = tuple(level for level in levels if level <= near)
        next_ = float(low[-2]) if len(low) > 1 else max(near - step, own.lower)
        found.append(_Begun(j, near, Range(own.lower, next_, near, near, low or None), weight * (fact - near) / scale))
    if own.upper > fact:
        near = own.above if own.above > fact else min(own.upper, fact + least)
        high = tuple(level for level in levels if level >= near)
        next_ = float(high[1]) if len(high) > 1 else min(near + step, own.upper)
        found.append(_Begun(j, near, Range(near, near, next_, own.upper, high or None), weight * (near - fact) / scale))
    return found
