"""What is legal and what is cheapest, a second time: slowly, from the definitions, sharing no code with the core."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float
from scipy.optimize import Bounds, LinearConstraint, milp

from app.recourse.actions.constraints import Constraints
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.timing import Timing
from app.recourse.features import MISSING, Change, Feature, FeatureSpace, FeatureType
from app.recourse.models.linear import LinearModel

CHANGE_SHARE = 0.05
"""What one change less is worth, as a share of the cost."""


def counts_as(cost: float, changes: int) -> float:
    """What answers are compared by where the method has no objective of its own."""
    return cost * (1.0 + CHANGE_SHARE * changes)


FOREVER = Timing()
"""No horizon."""


def stays(feature: Feature, fact: float) -> bool:
    """Whether no advice may change this value."""
    fixed = feature.protected or feature.derived is not None or feature.moves_with_time is not None
    return fixed or feature.change is Change.NONE or fact in feature.special or fact == MISSING


def interval(feature: Feature, fact: float, constraints: Constraints, timing: Timing = FOREVER) -> tuple[float, float]:
    """Where a proposed raw number of a feature has to lie, lattices aside; empty where nothing may be proposed."""
    if feature.is_number:
        low = -math.inf if feature.min is None else feature.min
        high = math.inf if feature.max is None else feature.max
        low = low if feature.advice.min is None else max(low, feature.advice.min)
        high = high if feature.advice.max is None else min(high, feature.advice.max)
    else:
        low, high = 0.0, len(feature.categories or "ft") - 1.0
    ways = {feature.change.value, getattr(constraints.direction.get(feature.name), "value", "any")}
    if feature.name in constraints.immutable or stays(feature, fact):
        ways = {"increase", "decrease"}
    if "increase" in ways:
        low = max(low, fact)
    if "decrease" in ways:
        high = min(high, fact)
    bounds = constraints.bounds.get(feature.name)
    if bounds and bounds.min is not None:
        low = max(low, bound_number(feature, bounds.min))
    if bounds and bounds.max is not None:
        high = min(high, bound_number(feature, bounds.max))
    for limit in (feature.max_change, constraints.max_change.get(feature.name)):
        if limit and limit.relative is not None:
            low, high = max(low, fact - limit.relative * abs(fact)), min(high, fact + limit.relative * abs(fact))
        if limit and limit.absolute is not None:
            low, high = max(low, fact - limit.absolute), min(high, fact + limit.absolute)
    if timing.horizon_months is not None:
        left, per = timing.horizon_months - feature.takes.months, months_per_unit(feature)
        reach = -1.0 if left < 0.0 else left / per if per else math.inf
        low, high = max(low, fact - reach), min(high, fact + reach)
    return low, high


def months_per_unit(feature: Feature) -> float:
    return feature.takes.months_per_level if feature.type is FeatureType.ORDINAL else feature.takes.months_per_unit


def months(feature: Feature, fact: float, value: float) -> float:
    """How long one change takes."""
    if value == fact or feature.moves_with_time:
        return 0.0
    return feature.takes.months + (0.0 if feature.is_group else months_per_unit(feature) * abs(value - fact))


def least(feature: Feature, constraints: Constraints) -> float:
    return max(feature.least_change or 0.0, constraints.least_change.get(feature.name, 0.0))


def bound_number(feature: Feature, bound: float | str) -> float:
    return float((feature.categories or (False, True)).index(bound)) if not feature.is_number else float(bound)


def lattice(feature: Feature) -> tuple[Fraction, Fraction] | None:
    """Anchor and step of the numbers that a person may be told; None where that is any number."""
    if feature.type is FeatureType.CONTINUOUS:
        return None if feature.decimals is None else (Fraction(0), Fraction(1, 10**feature.decimals))
    if feature.type is FeatureType.INTEGER:
        return Fraction(feature.min or 0), Fraction(feature.step or 1)
    return Fraction(0), Fraction(1)


def value_is_legal(
    feature: Feature, fact: float, value: float, constraints: Constraints, timing: Timing = FOREVER
) -> bool:
    """Whether one feature may have this raw number in an answer."""
    if value == fact:
        return True
    advised = feature.advice.categories
    is_level = not feature.is_number and value in range(len(feature.categories))
    if is_level and advised is not None and feature.categories[int(value)] not in advised:
        return False
    if feature.is_group:
        fixed = stays(feature, fact) or feature.name in constraints.immutable
        late = timing.horizon_months is not None and feature.takes.months > timing.horizon_months
        return not fixed and not late and value in range(len(feature.categories))
    low, high = interval(feature, fact, constraints, timing)
    if not low <= value <= high or abs(value - fact) < least(feature, constraints) * (1.0 - 1e-12):
        return False
    grid = lattice(feature)
    if grid is None:
        return True
    anchor, step = grid
    # The decimal number that a person reads, not the binary one next to it.
    return ((Fraction(repr(value)) - anchor) / step).denominator == 1


def row_is_legal(
    space: FeatureSpace,
    factual_raw: Float[np.ndarray, "p"],
    row_raw: Float[np.ndarray, "p"],
    constraints: Constraints,
    rules: tuple[LinearRule, ...] = (),
    timing: Timing = FOREVER,
) -> bool:
    """Whether a raw row is a legal counterfactual."""
    pairs = list(zip(space.features, factual_raw.tolist(), row_raw.tolist(), strict=True))
    if not all(value_is_legal(feature, fact, value, constraints, timing) for feature, fact, value in pairs):
        return False
    changed = sum(fact != value for _, fact, value in pairs)
    if constraints.max_changes is not None and changed > constraints.max_changes:
        return False
    horizon = timing.horizon_months if timing.sequential else None
    if horizon is not None and sum(months(*pair) for pair in pairs) > horizon * (1.0 + 1e-9):
        return False
    for rule in rules:
        excess = sum(c * v for c, v in zip(rule.coefficients_raw, row_raw.tolist(), strict=True)) - rule.limit
        if (abs(excess) if rule.equality else excess) > 1e-9:
            return False
    return True


def cost(space: FeatureSpace, factual_raw: Float[np.ndarray, "p"], row_raw: Float[np.ndarray, "p"]) -> float:
    """Weighted L1 in encoded units; a change of category counts once."""
    total = 0.0
    for feature, fact, value in zip(space.features, factual_raw.tolist(), row_raw.tolist(), strict=True):
        total += feature.cost * (float(value != fact) if feature.is_group else abs(value - fact) / (feature.scale or 1))
    return total


@dataclass
class Program:
    """The action set and the score as a mixed-integer program over one-hot columns; HiGHS solves it.

    Numbers have four variables: changed or not, how far from the factual, the lattice tick, and the distance.
    Categories have one binary per level, exactly one of them 1.
    """

    space: FeatureSpace
    factual_raw: Float[np.ndarray, "p"]
    constraints: Constraints
    rules: tuple[LinearRule, ...]
    model: LinearModel
    timing: Timing = FOREVER
    far: float = 1000.0
    """Stands for a number without limit."""

    def __post_init__(self) -> None:
        self.size = 0
        self.low: list[float] = []
        self.high: list[float] = []
        self.integer: list[bool] = []
        self.rows: list[tuple[dict[int, float], float, float]] = []
        self.cost: dict[int, float] = {}
        self.score: dict[int, float] = {}
        self.offset = self.model.c
        self.changed: dict[int, float] = {}
        self.unchanged = 0.0
        self.delta: dict[int, int] = {}
        self.months: dict[int, float] = {}
        for j, feature in enumerate(self.space.features):
            (self._group if feature.is_group else self._number)(j, feature)
        cap = self.constraints.max_changes
        if cap is not None:
            self.rows.append((self.changed, -math.inf, cap - self.unchanged))
        if self.timing.sequential and self.timing.horizon_months is not None:
            self.rows.append((self.months, -math.inf, self.timing.horizon_months))
        for rule in self.rules:
            rest = rule.limit - float(np.dot(rule.coefficients_raw, self.factual_raw))
            terms = {self.delta[j]: c for j, c in enumerate(rule.coefficients_raw) if c}
            self.rows.append((terms, rest if rule.equality else -math.inf, rest))

    def _variable(self, low: float, high: float, *, whole: bool = False) -> int:
        self.low.append(low)
        self.high.append(high)
        self.integer.append(whole)
        self.size += 1
        return self.size - 1

    def _number(self, j: int, feature: Feature) -> None:
        fact, scale = float(self.factual_raw[j]), feature.scale or 1.0
        low, high = interval(feature, fact, self.constraints, self.timing)
        moves = low <= high and not low == high == fact
        low, high = (max(low, -self.far), min(high, self.far)) if moves else (fact, fact)
        changed = self._variable(0, 1 if moves else 0, whole=True)
        delta = self._variable(-math.inf, math.inf)
        distance = self._variable(0.0, math.inf)
        self.rows += [({delta: 1, changed: fact - low}, 0, math.inf), ({delta: 1, changed: fact - high}, -math.inf, 0)]
        self.rows += [({distance: 1, delta: sign}, 0, math.inf) for sign in (-1, 1)]
        grid = lattice(feature)
        if grid is not None:
            anchor, step = (float(part) for part in grid)
            tick = self._variable(-math.inf, math.inf, whole=True)
            self.rows.append(({delta: 1, changed: fact - anchor, tick: -step}, 0, 0))
            first, last = math.ceil((low - anchor) / step - 1e-9), math.floor((high - anchor) / step + 1e-9)
            self.rows.append(({tick: 1, changed: -first}, 0, math.inf))
            self.rows.append(({tick: 1, changed: -last}, -math.inf, 0))
        if (gap := least(feature, self.constraints)) > 0.0:
            up = self._variable(0, 1, whole=True)
            self.rows.append(({delta: 1, changed: -gap, up: -2 * self.far}, -2 * self.far, math.inf))
            self.rows.append(({delta: -1, changed: -gap, up: 2 * self.far}, 0, math.inf))
        if not feature.is_number and feature.advice.categories is not None:
            levels = {
                self._variable(0, 1, whole=True): k - fact
                for k, name in enumerate(feature.categories)
                if name in feature.advice.categories and k != fact
            }
            self.rows.append(({**levels, delta: -1}, 0, 0))
            self.rows.append(({**dict.fromkeys(levels, 1.0), changed: -1}, 0, 0))
        self.months |= {changed: feature.takes.months, distance: months_per_unit(feature)}
        weight = float(self.model.w[self.space.spans[j].start]) / scale
        self.offset += weight * (fact - (feature.center or 0.0))
        self.score[delta] = weight
        self.cost[distance] = feature.cost / scale
        self.changed[changed] = 1.0
        self.delta[j] = delta

    def _group(self, j: int, feature: Feature) -> None:
        own = float(self.factual_raw[j])
        chosen = [self._variable(0, 1, whole=True) for _ in feature.categories]
        fact = chosen[int(self.factual_raw[j])]
        self.rows.append((dict.fromkeys(chosen, 1.0), 1, 1))
        for k, level in enumerate(chosen):
            self.high[level] = float(value_is_legal(feature, own, float(k), self.constraints, self.timing))
            if level != fact:
                self.months[level] = feature.takes.months
        for level, weight in zip(chosen, self.model.w[self.space.spans[j]].tolist(), strict=True):
            self.score[level] = weight
            if level != fact:
                self.cost[level] = feature.cost
        self.changed[fact] = -1.0
        self.unchanged += 1.0

    def _solve(self, objective: dict[int, float], extra: list[tuple[dict[int, float], float, float]]) -> float | None:
        rows = [*self.rows, *extra]
        A = np.zeros((len(rows), self.size))
        for i, (terms, _, _) in enumerate(rows):
            for k, coefficient in terms.items():
                A[i, k] += coefficient
        c = np.zeros(self.size)
        c[list(objective)] = list(objective.values())
        answer = milp(
            c,
            constraints=LinearConstraint(A, [row[1] for row in rows], [row[2] for row in rows]),
            bounds=Bounds(self.low, self.high),
            integrality=np.array(self.integer, dtype=int),
            # With presolve, HiGHS 1.12 calls some of these solved at a cost that is not the least.
            options={"mip_rel_gap": 0.0, "presolve": False},
        )
        assert answer.status in (0, 2, 4), answer.message
        return float(answer.fun) if answer.status == 0 else None

    def cheapest(self, margin: float) -> float | None:
        """Least cost of a legal row with a score of at least `margin`; None where there is none."""
        return self._solve(self.cost, [(self.score, margin - self.offset, math.inf)])

    def highest(self) -> float:
        """Highest score of a legal row; -inf where there is none."""
        found = self._solve({k: -w for k, w in self.score.items()}, [])
        return -math.inf if found is None else self.offset - found
