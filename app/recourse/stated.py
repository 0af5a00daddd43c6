"""Which values of a missing feature the model accepts, once the person states it.

What a missing value turns out to be is not known, so a record with a typical one proves little. The black box is asked
about the other values as well: an answer then says from where to where the model says yes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.actions.accepted_values import AcceptedValues
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import lattice_point
from app.recourse.counterfactual import Counterfactual
from app.recourse.features import Feature, FeatureType
from app.recourse.models.meter import Meter

MOST_VALUES, REMOTE_VALUES = 2_000, 24
"""Values of a feature in one call: of more, some are left out, and those near the ends are asked next."""
MOST_CORNERS = 16
"""Combinations of the values of features asked before, with each of which a value has to be accepted."""
REACH = 20.0
"""Spreads on both sides of a value up to which is asked where the schema sets no limit."""
FINE = 100.0
"""Parts of a spread that are a value each, where the schema sets no digits."""
SLACK = 1e-9
"""Of the quotient of two numbers that are written with decimals."""

Accepts: TypeAlias = Callable[[Float[np.ndarray, "v"]], Bool[np.ndarray, "v"]]


def with_accepted(actions: ActionSet, meter: Meter, found: Sequence[Counterfactual]) -> list[Counterfactual]:
    """The counterfactuals in `found`, with the accepted values of each missing feature that they provide.

    Once time or budget are used up, counterfactuals are returned unchanged.

    Parameters
    ----------
    actions : the applicant's action set, in which no missing value is provided
    """
    asked = list(found)
    for k, one in enumerate(asked):
        try:
            if accepted := _accepted(actions, meter, one.row_raw):
                asked[k] = replace(one, accepted=accepted)
        except (BudgetExceeded, DeadlineExceeded):
            break
    return asked


def _accepted(actions: ActionSet, meter: Meter, row_raw: Float[np.ndarray, "p"]) -> Mapping[int, AcceptedValues]:
    """By feature; where several are provided, each with the ends of those before it."""
    found: dict[int, AcceptedValues] = {}
    corners = row_raw[None]
    most_values = MOST_VALUES if meter.black_box.remote is None else REMOTE_VALUES
    for j, feature in enumerate(actions.space.features):
        if not feature.provide:
            continue
        missing, value = feature.value(float(actions.factual_raw[j])), float(row_raw[j])
        if missing is not None or feature.value(value) is None:
            continue
        if len(corners) > MOST_CORNERS:
            break
        accepts = partial(_accepts, meter, corners, j)
        if feature.is_number:
            low, high, found[j] = _numbers(feature, value, accepts, most_values)
            ends = (low, value, high)
        else:
            known = [float(k) for k, level in enumerate(feature.levels) if level is not None]
            ends = tuple(np.array(known)[accepts(np.array(known))].tolist())
            found[j] = AcceptedValues(levels=tuple(feature.value(end) for end in ends))
        corners = np.repeat(corners, len(ends), axis=0)
        corners[:, j] = np.tile(ends, len(corners) // len(ends))
    return found


def _accepts(
    meter: Meter, corners: Float[np.ndarray, "c p"], j: int, values: Float[np.ndarray, "v"]
) -> Bool[np.ndarray, "v"]:
    """Which values of a feature the model accepts with every one of the corners."""
    rows_raw = np.repeat(corners, len(values), axis=0)
    rows_raw[:, j] = np.tile(values, len(corners))
    said = meter.black_box.space.derives_legally(rows_raw)
    if said.any():
        said[said] = meter.black_box.accepts(meter.score_raw(rows_raw[said]))
    return np.all(said.reshape(len(corners), -1), axis=0)


def _numbers(feature: Feature, value: float, accepts: Accepts, most_values: int) -> tuple[float, float, AcceptedValues]:
    """From where to where numbers around a value are accepted."""
    unit, reach = _unit(feature), REACH * (feature.spread or feature.scale or 1.0)
    ends: list[float] = []
    whole: list[bool] = []
    for towards, limit in zip((-1, 1), feature.range_raw, strict=True):
        last = (limit if math.isfinite(limit) else value + towards * reach) / unit
        last = math.floor(last + SLACK) if towards > 0 else math.ceil(last - SLACK)
        end, reached = _end(value, towards, last, unit, accepts, most_values)
        ends.append(end)
        whole.append(reached and math.isfinite(limit))
    low, high = ends
    return low, high, AcceptedValues(min=None if whole[0] else low, max=None if whole[1] else high)


def _end(value: float, towards: int, last: int, unit: float, accepts: Accepts, most_values: int) -> tuple[float, bool]:
    """Up to which number all those between it and a value are accepted, and whether that is the last one."""
    end, reached = value, True
    first = math.floor(value / unit + SLACK) + 1 if towards > 0 else math.ceil(value / unit - SLACK) - 1
    while (last - first) * towards >= 0:
        count = min(abs(last - first) + 1, most_values)
        ticks = list(dict.fromkeys(np.rint(np.linspace(first, last, count)).astype(int).tolist()))
        numbers = [lattice_point(tick, 0.0, unit) for tick in ticks]
        said = accepts(np.array(numbers))
        good = len(numbers) if said.all() else int(said.argmin())
        if good:
            end, first = numbers[good - 1], ticks[good - 1] + towards
        if good < len(numbers):
            reached, last = False, ticks[good] - towards
    return end, reached


def _unit(feature: Feature) -> float:
    """The difference of two numbers that a record may hold side by side."""
    if feature.type is FeatureType.INTEGER:
        return 1.0
    if feature.decimals is not None:
        return 10.0**-feature.decimals
    return 10.0 ** math.floor(math.log10((feature.spread or feature.scale or 1.0) / FINE))
