"""The values that one feature may take for one person: its own, and those that advice may propose.

Every limit is an interval of proposals: the schema's, the lender's advice, a direction, a bound of the request, the
time that the person has. The person's own value may stay wherever it lies, so no limit forces a change. What remains is

    ``lower ... below   fact   above ... upper``

and the gaps beside the fact are changes too small to be worth advising, or values between the fact and the range of
advice. Where a feature has a lattice, all four ends lie on it.
"""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.actions.constraints import Bounds, Constraints
from app.recourse.actions.timing import distance_within
from app.recourse.actions.wishes import Exclude, excluded_values
from app.recourse.features import Advice, Change, Feature, FeatureSpace, MaxChange

LEAST_SHARE = 0.02
"""Share of the person's own value, and of the spread between people, by which a number changes at least where neither
model nor request says what is worth advising."""
MOST_OF_SPREAD = 0.25
"""Share of the spread that this least change never exceeds: 2 % of the year 2005 would be 40 years."""

TICK, ROUNDING = 1e-6, 4.0 * float(np.finfo(float).eps)
"""What counts as rounding of a tick: this much, and this share of its distance from the anchor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One limit on the values that advice may propose for a feature, and whether the request or the lender set it."""

    name: str
    """`immutable`, `direction`, `bounds`, `max_change`, `least_change`, `horizon_months` or `exclude` of the request,
    or a limit of the model."""
    asked: bool
    """Whether the request or the person set it, and not the lender."""
    low: float = -math.inf
    """Raw number or index."""
    high: float = math.inf
    least: float = 0.0
    """Smallest change."""
    without: tuple[int, ...] = ()
    """Categories that are not proposed."""


@dataclass(frozen=True, slots=True)
class Range:
    """The legal values of one feature: the person's own, `lower` to `below`, and `above` to `upper`."""

    lower: float
    below: float
    """The nearest value below the fact; the fact itself where all between are possible, or none."""
    above: float
    """The nearest value above the fact, with the same exception."""
    upper: float
    levels: tuple[int, ...] | None = None
    """The levels alone that are possible, where these are not all from `lower` to `upper`; with the fact."""

    @property
    def is_open(self) -> bool:
        """Whether the range has a value other than the person's own."""
        return self.lower != self.upper


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks that limits single features: constraints, exclusions, time and a least change."""

    constraints: Constraints = field(default_factory=Constraints)
    exclude: Exclude = field(default_factory=Exclude)
    months: float = math.inf
    """How long an answer may take."""
    horizon_is_asked: bool = False
    """Whether the person has said how much time there is."""
    least_share: float = 0.0
    """`LEAST_SHARE`, or 0 where any change of a number may be proposed."""


def limits_of(feature: Feature, fact: float, asked: Asked) -> list[Limit]:
    """Every limit on a feature whose present raw value is `fact`; empty where advice never changes this value."""
    if is_still(feature, fact):
        return []
    constraints, distance = asked.constraints, distance_within(feature, asked.months)
    one_way = {Change.INCREASE: (fact, math.inf), Change.DECREASE: (-math.inf, fact)}
    found = [Limit(name="range", asked=False, low=feature.range_raw[0], high=feature.range_raw[1])]

    def add(name: str, interval: tuple[float, float], *, own: bool = False) -> None:
        found.append(Limit(name=name, asked=not own, low=interval[0], high=interval[1]))

    add("advice", _advised(feature, fact), own=True)
    if feature.change in one_way:
        add("change", one_way[feature.change], own=True)
    if feature.max_change is not None:
        add("max_change", _within(fact, feature.max_change), own=True)
    if not math.isinf(distance):
        interval = (fact, fact) if distance < 0.0 else (fact - distance, fact + distance)
        free = feature.is_group and distance >= 0.0
        add("horizon_months", (-math.inf, math.inf) if free else interval, own=not asked.horizon_is_asked)
    if feature.name in constraints.immutable:
        add("immutable", (fact, fact))
    found += _excluded(feature, fact, asked.exclude)
    if feature.name in constraints.direction:
        add("direction", one_way[Change(constraints.direction[feature.name].value)])
    if feature.name in constraints.bounds:
        add("bounds", bounds_of(feature, constraints))
    if feature.name in constraints.max_change:
        add("max_change", _within(fact, constraints.max_change[feature.name]))
    if feature.name in constraints.least_change:
        found.append(Limit(name="least_change", asked=True, least=constraints.least_change[feature.name]))
    if feature.least_change is not None:
        found.append(Limit(name="least_change", asked=False, least=feature.least_change))
    elif feature.name not in constraints.least_change and asked.least_share > 0.0 and feature.is_number:
        least = least_worth(feature, fact, asked.least_share)
        widest = min((max(limit.high - fact, fact - limit.low) for limit in found), default=math.inf)
        # A tighter limit says that smaller changes count.
        found.append(Limit(name="least_change", asked=False, least=least if least <= widest else 0.0))
    return found


def ranges_of_all(space: FeatureSpace, factual_raw: Float[np.ndarray, "p"], asked: Asked) -> list[Range]:
    """The legal range of each feature for the person with this raw row, in column order."""
    constraints, exclude = asked.constraints, asked.exclude
    named = {
        *constraints.immutable, *constraints.direction, *constraints.bounds, *constraints.max_change,
        *constraints.least_change, *exclude.features, *(one.feature for one in exclude.changes),
    }  # fmt: skip
    return [
        range_of(feature, fact, limits_of(feature, fact, asked))
        if feature.name in named
        else _usual_range(space, j, fact, asked.months, asked.least_share)
        for j, (feature, fact) in enumerate(zip(space.features, factual_raw.tolist(), strict=True))
    ]


@lru_cache(maxsize=4096)
def _usual_range(space: FeatureSpace, j: int, fact: float, months: float, least_share: float) -> Range:
    """The range of a feature that the request does not mention: the same for everyone with this value."""
    feature, asked = space.features[j], Asked(months=months, least_share=least_share)
    return range_of(feature, fact, limits_of(feature, fact, asked))


def _excluded(feature: Feature, fact: float, exclude: Exclude) -> list[Limit]:
    """What the person rules out for one feature."""
    if feature.name in exclude.features:
        return [Limit(name="exclude", asked=True, low=fact, high=fact)]
    values = excluded_values(feature, fact, exclude)
    if feature.is_group:
        levels = tuple(int(value) for value in values)
        return [Limit(name="exclude", asked=True, without=levels)] if levels else []
    found = []
    for value in values:
        beside = 1e-3 * feature.lattice_raw[0]  # far enough that it is not taken for rounding
        low = math.nextafter(value + beside, math.inf) if value < fact else -math.inf
        high = math.nextafter(value - beside, -math.inf) if value > fact else math.inf
        found.append(Limit(name="exclude", asked=True, low=low, high=high))
    return found


def is_still(feature: Feature, fact: float) -> bool:
    """Whether advice never changes the raw value `fact` of a feature.

    It never does where the feature is fixed, or `fact` is missing or a special code. A missing category that the person
    can provide may change.
    """
    missing_category = feature.is_group and feature.missing is not None and fact == len(feature.categories)
    missing_category &= not feature.provide
    return feature.is_fixed or missing_category or fact in feature.states_raw


def least_worth(feature: Feature, fact: float, share: float) -> float:
    """The smallest change of a number that is worth advising, in raw units, where no least change is stated.

    It is ``share * spread`` or ``share * abs(fact)``, whichever is larger; `fact` is the person's own value. The latter
    product counts as at most `MOST_OF_SPREAD` of the spread.
    """
    spread = feature.spread or feature.scale or 1.0
    return max(share * spread, min(share * abs(fact), MOST_OF_SPREAD * spread))


def range_of(feature: Feature, fact: float, limits: Sequence[Limit]) -> Range:
    """The range of a feature that keeps all of `limits`; without limits, only the person's own raw value `fact`."""
    still = Range(fact, fact, fact, fact)
    if not limits:
        return still
    low, high = max(limit.low for limit in limits), min(limit.high for limit in limits)
    least = max(limit.least for limit in limits)
    if feature.is_group:
        levels = proposed_levels(feature, int(fact)) if low < high else [int(fact)]
        levels = [level for level in levels if not any(level in limit.without for limit in limits)]
        every = len(levels) == len(feature.levels)
        return Range(min(levels), fact, fact, max(levels), None if every else tuple(levels))
    lower, below = _part(feature, fact, low, high, least, -1)
    above, upper = _part(feature, fact, low, high, least, 1)
    if feature.is_number or feature.advice.categories is None:
        return Range(lower, below, above, upper)
    levels = proposed_levels(feature, int(fact))
    levels = [level for level in levels if level == fact or lower <= level <= below or above <= level <= upper]
    at = bisect_right(levels, fact)
    below, above = levels[max(at - 2, 0)], levels[min(at, len(levels) - 1)]
    every = levels[-1] - levels[0] == len(levels) - 1
    return Range(levels[0], below, above, levels[-1], None if every else tuple(levels))


def range_without(feature: Feature, fact: float, limits: Sequence[Limit], name: str) -> Range:
    """The range of a feature without the request's own limits of this `name`; all other `limits` hold."""
    return range_of(feature, fact, [limit for limit in limits if not (limit.asked and limit.name == name)])


def proposed_levels(feature: Feature, fact: int) -> list[int]:
    """Ascending indices of the levels that advice may propose, and of the person's own level `fact`."""
    names = feature.advice.categories
    # Without the missing category, which comes after the others.
    advised = range(len(feature.categories) or len(feature.levels))
    return sorted({fact, *(level for level in advised if names is None or feature.levels[level] in names)})


def _part(feature: Feature, fact: float, low: float, high: float, least: float, way: int) -> tuple[float, float]:
    """The values on one side of the fact, from low to high; both are the fact where there are none."""
    near, far = (max(low, fact + least), high) if way > 0 else (min(high, fact - least), low)
    step, anchor = feature.lattice_raw
    if step > 0.0:
        # Ticks count away from the fact.
        away = way / step
        first = math.ceil(_tick(near, anchor, away, -1.0))
        first = max(first, math.floor(_tick(fact, anchor, away, 1.0)) + 1)
        last = _tick(far, anchor, away, 1.0)
        last = last if math.isinf(last) else math.floor(last)
        near, far = (lattice_point(way * tick, anchor, step) for tick in (first, last))
    if way * (far - near) < 0.0 or far == fact:
        return fact, fact
    return (near, far) if way > 0 else (far, near)


def _tick(number: float, anchor: float, per_unit: float, forgiving: float) -> float:
    """Where a number lies on a lattice, its rounding forgiven upwards or downwards."""
    tick = (number - anchor) * per_unit
    return tick if math.isinf(tick) else tick + forgiving * (TICK + ROUNDING * abs(tick))


def lattice_point(tick: float, anchor: float, step: float) -> float:
    """The number that lies `tick` steps from `anchor`, without binary rounding: 0.3, not 0.30000000000000004."""
    return float(anchor + (tick / round(1.0 / step) if step < 1.0 else tick * step))


@dataclass(frozen=True, slots=True)
class Lattices:
    """The lattices of several features; a lattice is the numbers that lie a whole number of steps from an anchor.

    A tick is a distance from the anchor in steps. For a feature without a lattice, a step is one raw unit.
    """

    exist: Bool[np.ndarray, "*n p"]
    """Which features have one."""
    anchor: Float[np.ndarray, "*n p"]
    """One point of each feature's lattice."""
    unit: Float[np.ndarray, "*n p"]
    """Distance between neighbouring points, in raw units."""
    times: Float[np.ndarray, "*n p"]
    parts: Float[np.ndarray, "*n p"]
    """A tick is ``times / parts`` raw units: one of these is 1, so that there is no binary rounding."""

    @classmethod
    def of(cls, step: Float[np.ndarray, "p"], anchor: Float[np.ndarray, "p"]) -> "Lattices":
        """The lattices with these steps, in raw units; 0 for no lattice."""
        exist = step > 0.0
        unit = np.where(exist, step, 1.0)
        fine = unit < 1.0
        return cls(
            exist, anchor, unit, np.where(fine, 1.0, unit), np.where(fine, np.maximum(np.rint(1.0 / unit), 1.0), 1.0)
        )

    def ticks(self, values_raw: Float[np.ndarray, "*n p"]) -> Float[np.ndarray, "*n p"]:
        """Distance of each raw number from the anchor of its feature, in steps."""
        return (values_raw - self.anchor) / self.unit

    def points(self, ticks: Float[np.ndarray, "*n p"]) -> Float[np.ndarray, "*n p"]:
        """The raw number that lies `ticks` steps from the anchor of its feature, without binary rounding."""
        return self.anchor + ticks * self.times / self.parts

    def apart(
        self, values_raw: Float[np.ndarray, "*n p"], ticks: Float[np.ndarray, "*n p"], points: Float[np.ndarray, "*n p"]
    ) -> Bool[np.ndarray, "*n p"]:
        """Mask of the raw numbers that lie off the lattice by more than rounding explains.

        Parameters
        ----------
        ticks : whole number of steps from the anchor to the lattice point nearest to each raw number
        points : that lattice point as a raw number
        """
        return np.asarray(np.abs(values_raw - points) > tick_slack(ticks) * self.unit)


def tick_slack(ticks: np.ndarray | float) -> np.ndarray:
    """How far each tick may lie from a whole number and still count as whole, in steps; grows with the tick."""
    return np.asarray(TICK + ROUNDING * np.abs(ticks))


def _advised(feature: Feature, fact: float) -> tuple[float, float]:
    """The range of advice, cut where a number would be a state."""
    if not feature.is_number:
        return -math.inf, math.inf
    low = -math.inf if feature.advice.min is None else feature.advice.min
    high = math.inf if feature.advice.max is None else feature.advice.max
    # Of a lattice the next point; far enough that it is not taken for rounding.
    beside = 1e-3 * feature.lattice_raw[0]
    for code in feature.special:
        if code < fact:
            low = max(low, math.nextafter(code + beside, math.inf))
        else:
            high = min(high, math.nextafter(code - beside, -math.inf))
    return low, high


def _within(fact: float, limit: MaxChange) -> tuple[float, float]:
    shares = [] if limit.relative is None else [limit.relative * abs(fact)]
    reach = min([*shares, *([] if limit.absolute is None else [limit.absolute])])
    return fact - reach, fact + reach


def bounds_of(feature: Feature, constraints: Constraints) -> tuple[float, float]:
    """The lower and the upper bound that `constraints` set for a feature, as raw numbers; infinite for no bound."""
    bounds = constraints.bounds.get(feature.name, Bounds())
    return (
        -math.inf if bounds.min is None else number_of(feature, bounds.min),
        math.inf if bounds.max is None else number_of(feature, bounds.max),
    )


def limits_of_value(feature: Feature, constraints: Constraints) -> tuple[float, float]:
    """The lowest and the highest raw number of a feature within its schema, its advice and the request's bounds."""
    low, high = feature.range_raw
    advice = feature.advice if feature.is_number else Advice()
    bounds = bounds_of(feature, constraints)
    low = max(low, bounds[0], -math.inf if advice.min is None else advice.min)
    return low, min(high, bounds[1], math.inf if advice.max is None else advice.max)


def number_of(feature: Feature, value: float | str) -> float:
    """The raw number of a bound on a feature: the bound itself, or the index of the level that the bound names."""
    return float(value) if feature.is_number else float(feature.levels.index(value))


def ends_of(ranges: Iterable[Range]) -> Float[np.ndarray, "4 k"]:
    """The four ends of each range, as rows `lower`, `below`, `above` and `upper` with a column per range."""
    ends = np.array([(one.lower, one.below, one.above, one.upper) for one in ranges], dtype=float)
    return np.ascontiguousarray(ends.reshape(-1, 4).T)


def arrays_of(space: FeatureSpace, ranges: Sequence[Range]) -> dict[str, Any]:
    """The fields of an `ActionSet` that depend on ranges, by field name; `ranges` has one range per feature."""
    return arrays_within(space, ends_of(ranges), {j: one.levels for j, one in enumerate(ranges)})


def arrays_within(
    space: FeatureSpace, ends: Float[np.ndarray, "4 p"], levels: Mapping[int, tuple[int, ...] | None]
) -> dict[str, Any]:
    """The fields of an `ActionSet` that depend on ranges, by field name, from the ends of the ranges.

    Parameters
    ----------
    ends : (4, p), as from `ends_of`
    levels : by column index, the legal levels of a feature; None where all levels from `lower` to `upper` are legal
    """
    lower, below, above, upper = ends
    movable = lower != upper
    step, anchor = (np.where(movable, part, 0.0) for part in space.lattice_raw)
    return {
        "lower_raw": lower, "below_raw": below, "above_raw": above, "upper_raw": upper, "movable": movable,
        "step_raw": step, "anchor_raw": anchor,
        "restricted": {j: some for j, some in levels.items() if some is not None},
    }  # fmt: skip
