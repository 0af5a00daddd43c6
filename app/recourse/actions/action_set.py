"""What one person can change: the model's own limits, tightened by the request, seen from the person's record.

An `ActionSet` describes the legal counterfactuals of one applicant. Numbers (and ordinals, binaries) move inside
``[lower_raw, upper_raw]``, on a lattice where the schema has one; categories move to any level or none; at most
`max_changes` features differ from the factual; rules hold between features. The factual value
is always legal for the lattice, even where it lies between its points.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.actions.constraints import Constraints, check_constraints
from app.recourse.actions.rules import Rule
from app.recourse.features import Change, Feature, FeatureSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One constraint that binds one feature, by name, so that a verdict can name it."""

    feature: str
    constraint: str
    """`immutable`, `direction`, `bounds` (of the request) or `change` (of the model)."""
    lower_raw: float
    upper_raw: float
    """The range the feature would have without this constraint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionSet:
    """The legal counterfactuals of one applicant; build it with `action_set`."""

    space: FeatureSpace
    factual_raw: Float[np.ndarray, "p"]
    lower_raw: Float[np.ndarray, "p"]
    upper_raw: Float[np.ndarray, "p"]
    """Range of each feature (of its categories by index); equal to the factual where it cannot change."""
    movable: Bool[np.ndarray, "p"]
    """Which features may differ from the factual."""
    step_raw: Float[np.ndarray, "p"]
    """Lattice step; 0 where any number is allowed, or the feature cannot change."""
    anchor_raw: Float[np.ndarray, "p"]
    """A point of each lattice."""
    weights: Float[np.ndarray, "p"]
    """Cost of one encoded unit, or of one change of category."""
    constraints: Constraints
    """Of the request; already applied to the ranges, except `max_changes`."""
    rules: tuple[Rule, ...]

    @property
    def max_changes(self) -> int | None:
        """Largest number of features that change; None for no limit."""
        return self.constraints.max_changes

    def limits(self) -> list[Limit]:
        """Single constraints whose removal would widen a range; the model's own range cannot be removed."""
        found: list[Limit] = []
        for j, feature in enumerate(self.space.features):
            fact = float(self.factual_raw[j])
            named = _named_ranges(feature, self.constraints, fact)
            for k, (name, _) in enumerate(named):
                others = [bounds for i, (_, bounds) in enumerate(named) if i != k]
                alone = (
                    np.array([number], dtype=float) for number in (*_intersect(others), fact, *feature.lattice_raw)
                )
                (low,), (high,) = (end.tolist() for end in _reachable(*alone))
                if name != "range" and (low < self.lower_raw[j] or high > self.upper_raw[j]):
                    found.append(Limit(feature=feature.name, constraint=name, lower_raw=low, upper_raw=high))
        return found

    def without(self, limit: Limit) -> "ActionSet":
        """The same set without one constraint."""
        j = self.space.names.index(limit.feature)
        arrays = (self.lower_raw, self.upper_raw, self.step_raw, self.anchor_raw, self.movable)
        lower, upper, step, anchor, movable = (array.copy() for array in arrays)
        lower[j], upper[j] = limit.lower_raw, limit.upper_raw
        step[j], anchor[j] = self.space.features[j].lattice_raw
        movable[j] = True
        return replace(self, lower_raw=lower, upper_raw=upper, step_raw=step, anchor_raw=anchor, movable=movable)

    def opened(self, rows_raw: Float[np.ndarray, "n p"]) -> "ActionSet":
        """The same set, but immovable features that differ in one of these rows move over the schema's whole range.

        For sampling decisions around records that are not legal counterfactuals.
        """
        fixed = ~self.movable & (rows_raw != self.factual_raw).any(axis=0)
        if not fixed.any():
            return self
        step, anchor = self.space.lattice_raw
        step, anchor = np.where(fixed, step, self.step_raw), np.where(fixed, anchor, self.anchor_raw)
        low, high = np.array([feature.range_raw for feature in self.space.features]).T
        lower, upper = _reachable(low, high, self.factual_raw, step, anchor)
        return replace(
            self, movable=self.movable | fixed, step_raw=step, anchor_raw=anchor,
            lower_raw=np.where(fixed, lower, self.lower_raw), upper_raw=np.where(fixed, upper, self.upper_raw),
        )  # fmt: skip

    def impossible(self, rows_raw: Float[np.ndarray, "n p"]) -> list[str]:
        """Sentences on rows that break the model's own actionability or rules; constraints do not count."""
        delta = rows_raw - self.factual_raw
        wrong = {Change.NONE: delta != 0.0, Change.INCREASE: delta < 0.0, Change.DECREASE: delta > 0.0}
        sentences = []
        for j, feature in enumerate(self.space.features):
            if feature.change in wrong and (rows := np.flatnonzero(wrong[feature.change][:, j])).size:
                can = "cannot change" if feature.change is Change.NONE else f"can only {feature.change}"
                sentences.append(f"{_counted(rows)} cannot be carried out: {feature.name} {can} in this model.")
        for rule in self.rules:
            if (rows := np.flatnonzero(delta.any(axis=1) & ~rule.holds(rows_raw))).size:
                sentences.append(f"{_counted(rows)} cannot be carried out: the model's rule {rule.text} does not hold.")
        return sentences

    @property
    def reweighted(self) -> bool:
        """Whether the request changes the cost weights of the schema."""
        return bool((self.weights != np.array([feature.cost for feature in self.space.features])).any())

    @property
    def start_raw(self) -> Float[np.ndarray, "p"]:
        """The factual moved into its range: where it lies outside, the constraints force a change."""
        return np.minimum(np.maximum(self.factual_raw, self.lower_raw), self.upper_raw)

    @property
    def is_box(self) -> bool:
        """Whether the set is a product of intervals: no lattice, category, rule or cap on the number of changes."""
        return not (self.step_raw.any() or self.rules or self.max_changes is not None)

    def contains(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n"]:
        """Which raw rows are legal counterfactuals of this applicant; the last check before an answer is given."""
        same = rows_raw == self.factual_raw
        legal = (rows_raw >= self.lower_raw) & (rows_raw <= self.upper_raw) & (same | self.movable)
        if self.step_raw.any():
            legal &= same | (self.step_raw == 0.0) | self._on_lattice(rows_raw)
        mask = legal.all(axis=1)
        if self.max_changes is not None:
            mask &= (~same).sum(axis=1) <= self.max_changes
        for rule in self.rules:
            mask &= rule.holds(rows_raw)
        return np.asarray(mask)

    def snap(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """Each row moved to the nearest value that this person can reach, feature by feature.

        Ignores rules and the cap on the number of changes; `contains` checks them.
        """
        rows = np.minimum(np.maximum(rows_raw, self.lower_raw), self.upper_raw)
        return self.round(rows, toward_raw=rows)

    def round(
        self, rows_raw: Float[np.ndarray, "n p"], *, toward_raw: Float[np.ndarray, "n p"]
    ) -> Float[np.ndarray, "n p"]:
        """Numbers rounded to their lattice: towards `toward_raw`, or to the nearest point where that equals the number.

        Values equal to the factual stay. Ranges are respected because their ends lie on the lattice.
        """
        if not self.step_raw.any():
            return rows_raw
        step = np.where(self.step_raw > 0.0, self.step_raw, 1.0)
        ticks = (rows_raw - self.anchor_raw) / step
        ticks = np.where(
            self._on_lattice(rows_raw) | (toward_raw == rows_raw),
            np.rint(ticks),
            np.where(toward_raw > rows_raw, np.ceil(ticks), np.floor(ticks)),
        )
        rounded = lattice_points(ticks, self.anchor_raw, step)
        keep = (self.step_raw == 0.0) | (rows_raw == self.factual_raw)
        return np.where(keep, rows_raw, np.clip(rounded, self.lower_raw, self.upper_raw))

    def _on_lattice(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n p"]:
        step = np.where(self.step_raw > 0.0, self.step_raw, 1.0)
        ticks = np.rint((rows_raw - self.anchor_raw) / step)
        nearest = lattice_points(ticks, self.anchor_raw, step)
        return np.asarray(np.abs(rows_raw - nearest) <= tick_slack(ticks) * step)

    def cost(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Weighted L1 distance to the factual in encoded units; a change of category counts 1."""
        delta = np.abs(rows_raw - self.factual_raw)
        numeric = self.space.numeric
        moved = delta[:, numeric] / self.space.scale_raw @ self.weights[numeric]
        return np.asarray(moved + (delta[:, self.space.groups] > 0.0) @ self.weights[self.space.groups])

    def changed(self, rows_raw: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "n"]:
        """How many features differ from the factual."""
        return (rows_raw != self.factual_raw).sum(axis=1)


def _counted(rows: Int[np.ndarray, "k"]) -> str:
    """Which of several counterfactuals, counted from 1."""
    return f"Counterfactual{'s' if len(rows) > 1 else ''} " + ", ".join(str(row + 1) for row in rows.tolist())


def lattice_points(
    ticks: Float[np.ndarray, "*n"], anchor: Float[np.ndarray, "*p"] | float, step: Float[np.ndarray, "*p"] | float
) -> Float[np.ndarray, "*n"]:
    """Lattice points as a person writes them: 0.3, not 0.30000000000000004."""
    per_unit = np.maximum(np.rint(np.divide(1.0, step)), 1.0)
    return anchor + np.where(np.less(step, 1.0), ticks / per_unit, ticks * step)


def tick_slack(ticks: Float[np.ndarray, "*n"] | float) -> Float[np.ndarray, "*n"]:
    """Largest distance between ticks and a whole number that counts as rounding; grows with the ticks."""
    return np.asarray(1e-6 + 4.0 * np.finfo(float).eps * np.abs(ticks))


def action_set(
    space: FeatureSpace,
    factual_raw: Float[np.ndarray, "p"],
    *,
    constraints: Constraints | None = None,
    rules: Sequence[Rule] = (),
    cost_weights: Mapping[str, float] | None = None,
) -> ActionSet:
    """The action set of one applicant. Errors as `check_constraints`."""
    constraints = constraints or Constraints()
    check_constraints(space, constraints, cost_weights or {})
    named = (
        _named_ranges(feature, constraints, fact)
        for feature, fact in zip(space.features, factual_raw.tolist(), strict=True)
    )
    ends = np.array([_intersect([bounds for _, bounds in ranges]) for ranges in named], dtype=float)
    low, high = ends.reshape(-1, 2).T
    step, anchor = space.lattice_raw
    lower, upper = _reachable(low, high, factual_raw, step, anchor)
    movable = (lower != upper) | (upper != factual_raw)
    step, anchor = np.where(movable, step, 0.0), np.where(movable, anchor, 0.0)
    weights = np.array([f.cost * (cost_weights or {}).get(f.name, 1.0) for f in space.features])
    return ActionSet(
        space=space, factual_raw=factual_raw, lower_raw=lower, upper_raw=upper, movable=movable, step_raw=step,
        anchor_raw=anchor, weights=weights, constraints=constraints, rules=tuple(rules),
    )  # fmt: skip


def _named_ranges(feature: Feature, constraints: Constraints, fact: float) -> list[tuple[str, tuple[float, float]]]:
    """Every constraint on one feature as a raw range, the schema's own first."""
    one_way = {Change.INCREASE: (fact, math.inf), Change.DECREASE: (-math.inf, fact), Change.NONE: (fact, fact)}
    ranges: list[tuple[str, tuple[float, float]]] = [("range", feature.range_raw)]
    if feature.change is not Change.ANY:
        ranges.append(("change", one_way[feature.change]))
    if feature.name in constraints.immutable:
        ranges.append(("immutable", (fact, fact)))
    if feature.name in constraints.direction:
        ranges.append(("direction", one_way[Change(constraints.direction[feature.name].value)]))
    if feature.name in constraints.bounds:
        bounds = constraints.bounds[feature.name]
        ranges.append(("bounds", (_bound(feature, bounds.min, -math.inf), _bound(feature, bounds.max, math.inf))))
    return ranges


def _bound(feature: Feature, value: float | str | None, default: float) -> float:
    if value is None:
        return default
    return float(value) if feature.is_number else float(feature.levels.index(value))


def _intersect(ranges: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return (
        max((low for low, _ in ranges), default=-math.inf),
        min((high for _, high in ranges), default=math.inf),
    )


def _reachable(
    low_raw: Float[np.ndarray, "p"],
    high_raw: Float[np.ndarray, "p"],
    factual_raw: Float[np.ndarray, "p"],
    step: Float[np.ndarray, "p"],
    anchor: Float[np.ndarray, "p"],
) -> tuple[Float[np.ndarray, "p"], Float[np.ndarray, "p"]]:
    """Ranges shrunk to their outermost reachable values: lattice points, or the factual itself."""
    unit = np.where(step > 0.0, step, 1.0)
    low, high = (low_raw - anchor) / unit, (high_raw - anchor) / unit
    inner_low = lattice_points(np.ceil(low - tick_slack(low)), anchor, unit)
    inner_high = lattice_points(np.floor(high + tick_slack(high)), anchor, unit)
    inside = (low_raw <= factual_raw) & (factual_raw <= high_raw)
    lower = np.where(inside, np.minimum(inner_low, factual_raw), inner_low)
    upper = np.where(inside, np.maximum(inner_high, factual_raw), inner_high)
    return np.where(step > 0.0, lower, low_raw), np.where(step > 0.0, upper, high_raw)
