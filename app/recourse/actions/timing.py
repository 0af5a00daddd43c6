"""How long changes take, and what time changes by itself.

An answer takes as long as its longest change, or as all of them one after another. Its record is the one at the end of
that time: a feature that moves with time has moved by as much, at no cost, and rounded down to what a record can hold.
A record in which only time has passed takes as long as the values in it need.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Bool, Float, Int

from app.recourse.features import Feature, FeatureType
from app.recourse.input_part import InputPart

DAYS_PER_MONTH = 30.0
"""Of months that changes take."""
SHORTEST_MONTH_DAYS, LONGEST_MONTH_DAYS = 28, 31
"""Of months of the calendar, in which features move with time."""
SLACK = 1e-9
"""Relative: what counts as rounding of months and of values."""
MOST_UNTIL_EXPIRY = 500
"""Records that time may make of one until an answer expires."""
WAITS = 6
"""Moments at which a record in which only time has passed is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing(InputPart):
    """How much time the person has."""

    horizon_months: Annotated[float, Interval(gt=0, le=1200)] | None = None
    """Months that the applicant has; else as long as the answer is valid."""
    sequential: bool = False
    """Whether changes follow one another: their times add up."""


def months_for_changes(days: int) -> float:
    """Months that changes may take so that they end within `days`, by the calendar as well: whole ones from one on."""
    return float(days // LONGEST_MONTH_DAYS) or days / LONGEST_MONTH_DAYS


def distance_within(feature: Feature, months: float) -> float:
    """How far a person can move a feature in `months`, in raw units or levels; -1 where no change is possible."""
    left = months - feature.takes.months
    per = 0.0 if feature.is_group else _per_distance(feature)
    if left < -SLACK * months:
        return -1.0
    return max(left, 0.0) / per if per > 0.0 else math.inf


def _per_distance(feature: Feature) -> float:
    return feature.takes.months_per_unit if feature.is_number else feature.takes.months_per_level


class Clock:
    """The time that one person has, how long each change takes, and what time changes by itself.

    Parameters
    ----------
    months : time within which all changes must fit; infinite for no limit
    valid_months : until the answer expires; infinite where it does not
    sequential : whether changes are made one after another
    """

    def __init__(
        self,
        features: Sequence[Feature],
        factual_raw: Float[np.ndarray, "p"],
        months: float = math.inf,
        valid_months: float = math.inf,
        *,
        sequential: bool = False,
    ) -> None:
        self.months, self.valid_months, self.sequential = months, valid_months, sequential
        self._factual_raw = factual_raw
        moving = [
            feature.moves_with_time is not None and fact not in feature.states_raw
            for feature, fact in zip(features, factual_raw.tolist(), strict=True)
        ]
        self.passive: Bool[np.ndarray, p] = np.array(moving, dtype=bool)
        """Features that time moves."""
        self._passive: Int[np.ndarray, k] = np.flatnonzero(self.passive)
        chosen = [features[j] for j in self._passive.tolist()]
        self._per_month = np.array([f.moves_with_time.per_year / 12.0 for f in chosen if f.moves_with_time])
        step = np.array([time_step(feature) for feature in chosen])
        self._in_steps = step > 0.0
        self._unit = np.where(self._in_steps, step, 1.0)
        # Divided by a whole number of parts, so that 0.3 is 0.3.
        self._parts = np.maximum(np.rint(1.0 / self._unit), 1.0)
        self._states = {k: feature.states_raw for k, feature in enumerate(chosen) if feature.states_raw}
        self._began = factual_raw[self._passive]
        low, high = np.array([feature.range_raw for feature in chosen]).reshape(-1, 2).T
        # Who is past the end of a range stays there.
        self._low, self._high = np.minimum(low, self._began), np.maximum(high, self._began)
        per = [  # of a value that is missing there is no distance
            0.0 if feature.is_group or not (pace := _per_distance(feature)) or fact in feature.states_raw else pace
            for feature, fact in zip(features, factual_raw.tolist(), strict=True)
        ]
        self.months_once: Float[np.ndarray, p] = np.where(self.passive, 0.0, [f.takes.months for f in features])
        """Of any change of a feature."""
        self.months_per_unit: Float[np.ndarray, p] = np.where(self.passive, 0.0, per)
        """Of each raw unit, or level, besides."""
        takes_time = bool(self.months_once.any() or self.months_per_unit.any())
        self.stands_still = not (self._passive.size or takes_time)
        """Whether time changes nothing and nothing takes time."""
        self.is_shared = sequential and math.isfinite(months) and takes_time
        """Whether changes compete for the time, so that ranges of single features do not say what is possible."""

    def each(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Months until each feature has its value in the row.

        0 where the value is unchanged, and where time never brings it.
        """
        months = self._made(rows_raw)
        months[:, self._passive] = self._passed(rows_raw)
        return months

    def _made(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """How long each change takes that a person makes, in months; 0 for what moves by itself."""
        delta = np.abs(rows_raw - self._factual_raw)
        return (delta > 0.0) * self.months_once + delta * self.months_per_unit

    def _passed(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n k"]:
        """How many months each value shows that moves by itself; 0 where it never will."""
        moved = np.abs(rows_raw[:, self._passive] - self._began)
        if not moved.any():
            return moved
        return np.where(self._never(rows_raw), 0.0, moved / np.abs(self._per_month))

    def against(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n p"]:
        """Mask, per row and feature, of values that time never brings to a feature that time moves.

        Such values lie in the other direction, or are missing or special codes. The mask is false for other features.
        """
        found = np.zeros(rows_raw.shape, dtype=bool)
        found[:, self._passive] = self._never(rows_raw)
        return found

    def _never(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n k"]:
        values = rows_raw[:, self._passive]
        found = (values - self._began) * self._per_month < 0.0
        for k, states in self._states.items():
            found[:, k] |= np.isin(values[:, k], states)
        return np.asarray(found)

    def changes(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Months that the person's own changes take, per row: their sum if `sequential`, else the longest."""
        months = self._made(rows_raw)
        return np.asarray(months.sum(axis=1) if self.sequential else months.max(axis=1, initial=0.0))

    def total(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Months until the person has each record.

        These end when the person's own changes are made, and time has brought all other changes.
        """
        if self.stands_still:
            return np.zeros(len(rows_raw))
        own = self.changes(rows_raw)
        return np.maximum(own, self._passed(rows_raw).max(axis=1, initial=0.0)) if self._passive.size else own

    def settled(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """The rows, with each feature that time moves as it is when the person's own changes are complete."""
        return self._after(rows_raw, self.changes(rows_raw)) if self._passive.size else rows_raw

    def waiting(self) -> Float[np.ndarray, "n p"]:
        """Raw rows in which only time has passed, at several times up to `months`; the shortest time first.

        There are no rows where time changes nothing, or `months` is infinite.
        """
        if not self._passive.size or math.isinf(self.months):
            return np.empty((0, len(self._factual_raw)))
        months = self.months * np.arange(1, WAITS + 1) / WAITS
        rows_raw = self._after(np.tile(self._factual_raw, (WAITS, 1)), months)
        rows_raw = rows_raw[np.append(True, (rows_raw[1:] != rows_raw[:-1]).any(axis=1))]
        return rows_raw[(rows_raw != self._factual_raw).any(axis=1)]

    def until_expiry(self, row_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
        """A raw row with all that time may make of it until the answer expires, from today's values on.

        On which day a number moves is not known, as of months in a job: it may be the first day, and then the shortest
        months follow. There are no rows where time changes nothing or moves a number in no steps, and none if there are
        more than `MOST_UNTIL_EXPIRY`.
        """
        if not self._passive.size or not self._in_steps.all():
            return np.empty((0, len(row_raw)))
        longest = (self.valid_months + 1.0) * LONGEST_MONTH_DAYS / SHORTEST_MONTH_DAYS
        paces = zip(self._per_month.tolist(), self._unit.tolist(), self._parts.tolist(), strict=True)
        steps = _steps_within(longest, tuple(paces))
        rows_raw = np.tile(row_raw, (len(steps), 1))
        rows_raw[:, self._passive] = np.minimum(np.maximum(self._began + steps, self._low), self._high)
        return rows_raw

    def holds(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows that the person reaches within `months`, and that also pass `keeps_pace`."""
        within = self.months * (1.0 + SLACK)
        if (rows_raw[:, self._passive] == self._began).all():  # no time has passed
            return np.asarray(self.changes(rows_raw) <= within)
        months = self.total(rows_raw)
        return np.asarray(months <= within) & self._shows(rows_raw, months)

    def keeps_pace(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Mask of the rows in which features that time moves have moved for the row's `total` time, or not at all."""
        return self._shows(rows_raw, self.total(rows_raw))

    def _shows(self, rows_raw: Float[np.ndarray, "n p"], months: Float[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Which records show that so many months have passed, or none."""
        if not self._passive.size:
            return np.ones(len(rows_raw), dtype=bool)
        shown = rows_raw[:, self._passive]
        none = np.asarray((shown == self._began).all(axis=1))
        if none.all():
            return none
        then = self._after(rows_raw, months)[:, self._passive]
        same = np.abs(shown - then) <= SLACK * (1.0 + np.abs(then))
        return np.asarray(none | same.all(axis=1))

    def _after(self, rows_raw: Float[np.ndarray, "n p"], months: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n p"]:
        """The records after so many months."""
        moved = months[:, None] * self._per_month
        whole = np.sign(moved) * np.floor(np.abs(moved) / self._unit + SLACK)
        moved = np.where(self._in_steps, whole / self._parts, moved)
        after = rows_raw.copy()
        after[:, self._passive] = np.minimum(np.maximum(self._began + moved, self._low), self._high)
        return after


@lru_cache(maxsize=256)
def _steps_within(months: float, paces: tuple[tuple[float, float, float], ...]) -> Float[np.ndarray, "n k"]:
    """All that several features may move in so many months, in whole steps; nothing if that is too much to list.

    Parameters
    ----------
    paces : for each feature how far it moves in a month, its step, and the parts of 1 that are a step
    """
    per_month, unit, parts = np.array(paces).T
    far = np.floor(months * np.abs(per_month) / unit) + 2.0
    if math.prod(far) > MOST_UNTIL_EXPIRY:
        return np.empty((0, len(paces)))
    steps: Float[np.ndarray, "n k"] = np.indices(far.astype(int)).reshape(len(far), -1).T * np.sign(per_month) / parts
    steps.flags.writeable = False
    return steps


def time_step(feature: Feature) -> float:
    """The unit in which time shows in a record; 0 where any number does."""
    if feature.type is FeatureType.INTEGER:
        return 1.0
    return 0.0 if feature.decimals is None else 10.0**-feature.decimals


def clock(
    features: Sequence[Feature], factual_raw: Float[np.ndarray, "p"], timing: Timing, valid_months: float = math.inf
) -> Clock:
    """Build the clock of one applicant; without a horizon in `timing`, changes must fit into `valid_months`."""
    months = valid_months if timing.horizon_months is None else timing.horizon_months
    return Clock(features, factual_raw, months, valid_months, sequential=timing.sequential)
