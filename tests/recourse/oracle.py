"""What is legal and what is cheapest, a second time: slowly, from the definitions, sharing no code with the core."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float
from scipy.optimize import Bounds, LinearConstraint, milp

from app.recourse.actions.constraints import Constraints
from app.recourse.actions.rules import LinearRule
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType
from app.recourse.models.linear import LinearModel


def interval(feature: Feature, fact: float, constraints: Constraints) -> tuple[float, float]:
    """Where the raw number of a feature has to lie, lattices aside."""
    if feature.is_number:
        low = -math.inf if feature.min is None else feature.min
        high = math.inf if feature.max is None else feature.max
    else:
        low, high = 0.0, len(feature.categories or "ft") - 1.0
    ways = {feature.change.value, getattr(constraints.direction.get(feature.name), "value", "any")}
    if feature.name in constraints.immutable or Change.NONE.value in ways:
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
    return low, high


def bound_number(feature: Feature, bound: float | str) -> float:
    return float((feature.categories or (False, True)).index(bound)) if not feature.is_number else float(bound)


def lattice(feature: Feature) -> tuple[Fraction, Fraction] | None:
    """Anchor and step of the numbers that a person may be told; None where that is any number."""
    if feature.type is FeatureType.CONTINUOUS:
        return None if feature.decimals is None else (Fraction(0), Fraction(1, 10**feature.decimals))
    if feature.type is FeatureType.INTEGER:
        return Fraction(feature.min or 0), Fraction(feature.step or 1)
    return Fraction(0), Fraction(1)


def value_is_legal(feature: Feature, fact: float, value: float, constraints: Constraints) -> bool:
    """Whether one feature may have this raw number in an answer."""
    if feature.is_group:
        fixed = feature.change is Change.NONE or feature.name in constraints.immutable
        return value == fact or (not fixed and value in range(len(feature.categories)))
    low, high = interval(feature, fact, constraints)
    if not low <= value <= high:
        return False
    grid = lattice(feature)
    if value == fact or grid is None:
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
) -> bool:
    """Whether a raw row is a legal counterfactual."""
    pairs = list(zip(space.features, factual_raw.tolist(), row_raw.tolist(), strict=True))
    if not all(value_is_legal(feature, fact, value, constraints) for feature, fact, value in pairs):
        return False
    changed = sum(fact != value for _, fact, value in pairs)
    if constraints.max_changes is not None and changed > constraints.max_changes:
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
        for j, feature in enumerate(self.space.features):
            (self._group if feature.is_group else self._number)(j, feature)
        cap = self.constraints.max_changes
        if cap is not None:
            self.rows.append((self.changed, -math.inf, cap - self.unchanged))
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
        low, high = interval(feature, fact, self.constraints)
        stays, moves = low <= fact <= high, not low == high == fact
        low, high = max(low, -self.far), min(high, self.far)
        changed = self._variable(0 if stays else 1, 1 if moves else 0, whole=True)
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
        weight = float(self.model.w[self.space.spans[j].start]) / scale
        self.offset += weight * (fact - (feature.center or 0.0))
        self.score[delta] = weight
        self.cost[distance] = feature.cost / scale
        self.changed[changed] = 1.0
        self.delta[j] = delta

    def _group(self, j: int, feature: Feature) -> None:
        fixed = feature.change is Change.NONE or feature.name in self.constraints.immutable
        chosen = [self._variable(0, 1, whole=True) for _ in feature.categories]
        fact = chosen[int(self.factual_raw[j])]
        self.rows.append((dict.fromkeys(chosen, 1.0), 1, 1))
        self.low[fact] = 1.0 if fixed else 0.0
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
