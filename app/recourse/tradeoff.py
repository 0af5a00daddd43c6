"""The legal action that minimises a trade-off of losses and cost, over the whole action set.

Two numbers say everything about an action: its worst score and its score as predicted, and both, like the cost, are
sums over features. Where such sums meet in few numbers, the convex relaxation (each feature anywhere between its legal
values) has at most two features that are not at a legal value. So it is solved exactly by `app.recourse.simplicial`,
each best response being one look at every feature, and few branches settle the rest: a number below or above, a
category taken or not, a feature that changes or does not.

A feature's worst score is concave in its value, with kinks at its centre; its cost has one at the fact. Hence only the
ends of its range, the kinks, or the lattice points next to these, can be best responses.

Linear rules between features go to the general mixed-integer solver, which is given tangents of the losses until they
fit.
"""

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.action_program import FAR, ActionProgram
from app.recourse.actionability import ActionSet, tick_slack
from app.recourse.robust_linear import Objective, loss, optimum_in_box
from app.recourse.simplicial import Mixture, Point, minimise, value

HALVINGS = 60
LEAST_WEIGHT = 1e-3
"""Cost weight that says how far a number without limit is followed where no weight is given."""
TANGENTS = np.array([-16.0, -8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0])
"""Scores at which the mixed-integer solver knows the losses from the start."""
ROUNDS = 30
"""Rounds of further tangents."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look."""

    gap: float
    """Relative: actions better by less than this are not looked for."""
    nodes: int
    """Branches after which the search stops."""


EXACT = Effort(gap=1e-7, nodes=2000)
QUICK = Effort(gap=1e-2, nodes=8)


@dataclass(frozen=True, slots=True)
class Optimum:
    """The best legal row that is known."""

    row_raw: Float[np.ndarray, "p"]
    value: float
    settled: bool
    """Whether nothing is better by more than the gap."""


@dataclass(frozen=True, slots=True)
class _Node:
    """Values that each feature may have: column 0 for the fact, the others changed; cost infinite where none."""

    values_raw: Float[np.ndarray, "p m"]
    r: Float[np.ndarray, "p m"]
    p: Float[np.ndarray, "p m"]
    cost: Float[np.ndarray, "p m"]
    """Unweighted."""
    low_raw: Float[np.ndarray, "p"]
    high_raw: Float[np.ndarray, "p"]
    moved: Bool[np.ndarray, "p"]
    """Features that count as changed whatever their value is."""


class TradeOff:
    """Minimises one objective over one action set.

    Parameters
    ----------
    deadline : `time.monotonic()` at which searching has to stop
    """

    def __init__(self, action_set: ActionSet, objective: Objective, *, deadline: float | None = None) -> None:
        self.action_set, self.objective, self.deadline = action_set, objective, deadline
        space = action_set.space
        self.space = space
        x0 = space.encode(action_set.factual_raw[None])
        self.base_r = float(objective.worst_score(x0)[0])
        predicted = objective.predicted or objective.model
        self.base_p = float(predicted.score(x0)[0])
        self.w, self.w_predicted = objective.model.w, predicted.w
        self.share = 1.0 if objective.predicted is None else objective.share
        forced = action_set.start_raw != action_set.factual_raw
        cap = action_set.max_changes
        self.cap = cap if cap is not None and cap < int(action_set.movable.sum()) else None
        self.empty = bool(
            (action_set.lower_raw > action_set.upper_raw).any() or (cap is not None and forced.sum() > cap)
        )

    def value(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """The objective of raw rows."""
        return self.objective.value(self.space.encode(rows_raw), self.action_set.cost(rows_raw))

    def best(self, cost_weight: float | None = None, effort: Effort = EXACT) -> Optimum | None:
        """The legal row of least objective; None where the constraints exclude each other.

        Parameters
        ----------
        cost_weight : in place of the objective's own

        Raises
        ------
        DeadlineExceeded, SolverFailed : as `mixed_integer_program`, with nothing legal known
        """
        weight = self.objective.cost_weight if cost_weight is None else cost_weight
        if self.empty:
            return None
        if self.action_set.rules:
            return self._by_program(weight)
        if self.action_set.is_box and not self.space.groups.size and self.share in (0.0, 1.0):
            return self._in_box(weight)
        return _Branching(self, weight, effort).result()

    def _in_box(self, weight: float) -> Optimum:
        """Numbers that move on their own, and one score: algorithm 1."""
        A, space = self.action_set, self.space
        columns = space.numeric_columns
        robust = self.share == 1.0
        model = self.objective.model if robust else self.objective.predicted
        assert model is not None
        price = np.where(A.movable[space.numeric], A.weights[space.numeric], np.inf)
        lower, upper = ((limit - space.center_raw) / space.scale_raw for limit in (A.lower_raw, A.upper_raw))
        X0 = space.encode(A.start_raw[None])
        X = optimum_in_box(
            X0, model, self.objective.radius if robust else 0.0, weight,
            price=price[columns.argsort()], lower=np.minimum(lower, X0[0]), upper=np.maximum(upper, X0[0]),
        )  # fmt: skip
        moved = X[0] != X0[0]
        row_raw = np.where(moved, X[0, columns] * space.scale_raw + space.center_raw, A.start_raw)
        row_raw = np.clip(row_raw, A.lower_raw, A.upper_raw)
        return Optimum(row_raw, float(self.weighted(row_raw[None], weight)[0]), settled=True)

    def weighted(self, rows_raw: Float[np.ndarray, "n p"], weight: float) -> Float[np.ndarray, "n"]:
        """The objective of raw rows with another cost weight."""
        X, cost = self.space.encode(rows_raw), self.action_set.cost(rows_raw)
        return replace(self.objective, cost_weight=weight, share=self.share).value(X, cost)

    # --- the cost weight ---------------------------------------------------------------------------------------------

    def weight_for(self, score: float) -> float | None:
        """The largest cost weight whose optimum, between legal values, has this worst score; None where none has it.

        That optimum is then the cheapest action of that worst score.
        """
        if self.empty:
            return None
        slope = self.share / (1.0 + math.exp(score))
        root = self.root(LEAST_WEIGHT)

        def reaches(weight: float) -> bool:
            return self.respond(root, weight, slope, 0.0).r >= score

        if not reaches(1e-12):
            return None
        low, high = math.log(1e-12), math.log(1e6)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if reaches(math.exp(middle)) else (low, middle)
        return math.exp(low)

    # --- values that can be best responses ---------------------------------------------------------------------------

    @cached_property
    def _width(self) -> int:
        levels = max((len(self.space.features[g].levels) for g in self.space.groups), default=0)
        return max(levels + 1, 9)

    def root(self, weight: float) -> _Node:
        """All that the action set allows."""
        A, p = self.action_set, self.space.p
        low, high = A.lower_raw.copy(), A.upper_raw.copy()
        # What costs more than the whole objective where the person starts is no answer.
        worth = float(self.weighted(A.start_raw[None], weight)[0]) / weight
        for k, j in enumerate(self.space.numeric.tolist()):
            reach = worth * self.space.scale_raw[k] / A.weights[j]
            step = A.step_raw[j]
            reach = math.ceil(reach / step) * step if step > 0.0 else reach
            if math.isinf(low[j]):
                low[j] = legal(A, j, A.start_raw[j] - reach, math.floor)
            if math.isinf(high[j]):
                high[j] = legal(A, j, A.start_raw[j] + reach, math.ceil)
        blank = np.zeros((p, self._width))
        node = _Node(blank, blank.copy(), blank.copy(), np.full_like(blank, np.inf), low, high, np.zeros(p, dtype=bool))
        for k, j in enumerate(self.space.numeric.tolist()):
            self.write(node, k, j, still=True)
        for g in self.space.groups.tolist():
            levels = range(len(self.space.features[g].levels)) if A.movable[g] else [int(A.factual_raw[g])]
            self.write_group(node, g, list(levels))
        return node

    def write(self, node: _Node, k: int, j: int, *, still: bool, move: bool = True) -> None:
        """The values of the number `j`, the k-th of all numbers, within its range in `node`."""
        A, low, high = self.action_set, float(node.low_raw[j]), float(node.high_raw[j])
        fact, center = float(A.factual_raw[j]), float(self.space.center_raw[k])
        still = still and low <= fact <= high
        ends: set[float] = set()
        if move and A.movable[j]:
            kinks = [center] if still and A.step_raw[j] == 0.0 else [center, fact]
            ends = {low, high} | {
                legal(A, j, kink, way) for kink in kinks if low <= kink <= high for way in (math.floor, math.ceil)
            }
            ends = {end for end in ends if low <= end <= high and not (still and end == fact)}
        values = np.array([fact, *sorted(ends)])
        self._set(node, j, values, still=still)
        scale = self.space.scale_raw[k]
        encoded, base = (values - center) / scale, (fact - center) / scale
        column = self.space.numeric_columns[k]
        m = len(values)
        node.r[j, :m] = self.w[column] * (encoded - base) - self.objective.radius * (np.abs(encoded) - abs(base))
        node.p[j, :m] = self.w_predicted[column] * (encoded - base)
        node.cost[j, :m] += A.weights[j] * np.abs(values - fact) / scale

    def write_group(self, node: _Node, g: int, levels: list[int]) -> None:
        """The levels that a category may have; whichever it is, exactly one column is 1."""
        fact = int(self.action_set.factual_raw[g])
        others = [level for level in levels if level != fact]
        values = np.array([fact, *others])
        self._set(node, g, values.astype(float), still=fact in levels)
        span, m = self.space.spans[g], len(values)
        node.r[g, :m] = self.w[span][values] - self.w[span][fact]
        node.p[g, :m] = self.w_predicted[span][values] - self.w_predicted[span][fact]
        node.cost[g, :m] += self.action_set.weights[g] * (values != fact)

    @staticmethod
    def _set(node: _Node, j: int, values: Float[np.ndarray, "m"], *, still: bool) -> None:
        m = len(values)
        node.values_raw[j], node.r[j], node.p[j], node.cost[j] = values[0], 0.0, 0.0, np.inf
        node.values_raw[j, :m] = values
        node.cost[j, 1:m] = 0.0
        node.cost[j, 0] = 0.0 if still else np.inf

    def respond(self, node: _Node, weight: float, a: float, b: float) -> Point:
        """The values, one per feature, that minimise ``weight cost - a r - b p``."""
        reduced = weight * node.cost - a * node.r - b * node.p
        every = np.arange(len(reduced))
        if self.cap is None:
            choice = reduced.argmin(axis=1)
        else:
            moved = reduced[:, 1:].argmin(axis=1) + 1
            gain = reduced[:, 0] - reduced[every, moved]
            most = np.argsort(-gain, kind="stable")[: self.cap]
            choice = np.zeros(len(reduced), dtype=np.intp)
            chosen = most[gain[most] > 0.0]
            choice[chosen] = moved[chosen]
        r, p, cost = (float(terms[every, choice].sum()) for terms in (node.r, node.p, node.cost))
        return Point(self.base_r + r, self.base_p + p, weight * cost, choice)

    # --- rules -------------------------------------------------------------------------------------------------------

    def _by_program(self, weight: float) -> Optimum | None:
        """By mixed-integer programs whose losses are the tangents known so far."""
        A = self.action_set
        # What costs more than the whole objective where the person starts is no answer, if the start is one.
        worth = self._worth(weight) if A.contains(A.start_raw[None])[0] else FAR * float(A.weights.max())
        program = ActionProgram(A, reach=worth)
        objective, n, d = self.objective, program.size, self.space.d
        shares = (self.share, 1.0 - self.share)
        # Variables besides the actions: |x| by column, and the two losses.
        cost = np.concatenate([weight * program.cost, np.zeros(d), shares])
        x_rows = np.hstack([program.effect, np.zeros((d, d + 2))])
        absolute = np.hstack([np.zeros((d, n)), np.eye(d), np.zeros((d, 2))])
        rows = [absolute - x_rows, absolute + x_rows]
        lower = [program.start, -program.start]
        r_row = self.w @ x_rows - objective.radius * absolute.sum(axis=0)
        p_row = self.w_predicted @ x_rows
        offsets = (
            float(self.w @ program.start) + objective.model.c - objective.radius,
            self.base_p
            + float(self.w_predicted @ (program.start - self.space.encode(self.action_set.factual_raw[None])[0])),
        )

        def touch(score: float, which: int) -> None:
            slope = -1.0 / (1.0 + math.exp(score))
            row = -slope * (r_row, p_row)[which]
            row[n + d + which] = 1.0
            rows.append(row[None])
            lower.append(np.array([float(loss(np.array(score))) + slope * (offsets[which] - score)]))

        for score in TANGENTS.tolist():
            touch(score, 0)
            touch(score, 1)
        best: Optimum | None = None
        for _ in range(ROUNDS):
            left = None if self.deadline is None else self.deadline - time.monotonic()
            try:
                found = program.solve(cost, np.concatenate(rows), np.concatenate(lower), time_limit_s=left)
            except (DeadlineExceeded, SolverFailed):
                if best is None:
                    raise
                return best
            if found is None:
                return best
            row_raw, bound = found.row_raw, found.value + weight * program.start_cost
            reached = float(self.weighted(row_raw[None], weight)[0])
            if best is None or reached < best.value:
                best = Optimum(row_raw, reached, settled=False)
            if best.value - bound <= EXACT.gap * (1.0 + best.value):
                return replace(best, settled=True)
            X = self.space.encode(row_raw[None])
            touch(float(objective.worst_score(X)[0]), 0)
            touch(float((objective.predicted or objective.model).score(X)[0]), 1)
        return best

    def _worth(self, weight: float) -> float:
        return float(self.weighted(self.action_set.start_raw[None], weight)[0]) / weight


def legal(A: ActionSet, j: int, value_raw: float, rounding: Callable[[float], int]) -> float:
    """The value itself, or the lattice point next to it that `rounding` chooses."""
    step = float(A.step_raw[j])
    if step == 0.0:
        return value_raw
    ticks = (value_raw - A.anchor_raw[j]) / step
    near = round(ticks)
    ticks = float(near if abs(ticks - near) <= tick_slack(ticks) else rounding(ticks))
    return float(A.anchor_raw[j] + (ticks / round(1.0 / step) if step < 1.0 else ticks * step))


class _Branching:
    """Best-first branch and bound."""

    def __init__(self, problem: TradeOff, weight: float, effort: Effort) -> None:
        self.problem, self.weight, self.effort = problem, weight, effort
        self.actions = problem.action_set
        self.every = np.arange(problem.space.p)
        self.best_row: Float[np.ndarray, p] | None = None
        self.best_value = math.inf
        self.order = count()

    def result(self) -> Optimum | None:
        """Branch until nothing open can be better, or the effort is spent."""
        open_nodes: list[tuple[float, int, _Node, tuple[float, float]]] = []
        root = self.problem.root(self.weight)
        self._open(open_nodes, root, -math.inf, (0.5 * self.problem.share, 0.5 * (1.0 - self.problem.share)))
        nodes = 0
        while open_nodes and open_nodes[0][0] < self._cutoff() and nodes < self.effort.nodes and not self._late():
            _, _, node, slopes = heapq.heappop(open_nodes)
            nodes += 1
            self._settle(open_nodes, node, slopes)
        if self.best_row is None:
            return None
        settled = not open_nodes or open_nodes[0][0] >= self._cutoff()
        return Optimum(self.best_row, self.best_value, settled)

    def _cutoff(self) -> float:
        return self.best_value * (1.0 - self.effort.gap)

    def _late(self) -> bool:
        deadline = self.problem.deadline
        return deadline is not None and self.best_row is not None and time.monotonic() >= deadline

    def _open(
        self, open_nodes: list[tuple[float, int, _Node, tuple[float, float]]], node: _Node, bound: float,
        slopes: tuple[float, float],
    ) -> None:  # fmt: skip
        cap, must = self.problem.cap, int(np.isinf(node.cost[:, 0]).sum())
        if np.isfinite(node.cost).any(axis=1).all() and (cap is None or must <= cap):
            heapq.heappush(open_nodes, (bound, next(self.order), node, slopes))

    def _settle(
        self, open_nodes: list[tuple[float, int, _Node, tuple[float, float]]], node: _Node,
        slopes: tuple[float, float],
    ) -> None:  # fmt: skip
        """Solve the relaxation of a node, and branch where that is no legal row."""
        share = self.problem.share

        def respond(a: float, b: float) -> Point:
            point = self.problem.respond(node, self.weight, a, b)
            if (reached := value(share, point)) < self.best_value:
                self.best_row, self.best_value = node.values_raw[self.every, point.choice], reached
            return point

        first = respond(*slopes)
        tolerance = 0.1 * self.effort.gap * self.best_value
        mixture = minimise(first, respond, share, tolerance=tolerance, cutoff=self._cutoff())
        if mixture.bound >= self._cutoff():
            return
        rows_raw, branch = self._rows(node, mixture)
        legal_rows = rows_raw[self.actions.contains(rows_raw)]
        if len(legal_rows):
            values = self.problem.weighted(legal_rows, self.weight)
            k = int(values.argmin())
            if values[k] < self.best_value:
                self.best_row, self.best_value = legal_rows[k], float(values[k])
        if branch is not None:
            for child in self._children(node, mixture, branch):
                self._open(open_nodes, child, mixture.bound, mixture.slopes)

    def _rows(self, node: _Node, mixture: Mixture) -> tuple[Float[np.ndarray, "n p"], int | None]:
        """Rows at and around a mixture, and the feature to branch on where the mixture itself is none."""
        A, space = self.actions, self.problem.space
        weights = np.array(mixture.weights)
        choices = np.array([point.choice for point in mixture.points])
        values = node.values_raw[self.every, choices]
        mixed = values[weights.argmax()].copy()
        numeric = space.numeric[~(values == values[0]).all(axis=0)[space.numeric]]
        mixed[numeric] = weights @ values[:, numeric]
        options: dict[int, tuple[float, float]] = {}
        for j in np.flatnonzero((choices != choices[0]).any(axis=0)).tolist():
            if j in space.groups:
                options[j] = tuple(values[weights.argsort()[::-1], j][:2])
            elif A.step_raw[j] > 0.0:
                below, above = self._around(node, j, float(mixed[j]))
                if below != above:
                    options[j] = (below, above)
                else:
                    mixed[j] = below
        rows = mixed[None]
        for j, pair in list(options.items())[:4]:
            rows = np.repeat(rows, 2, axis=0)
            rows[:, j] = np.tile(pair, len(rows) // 2)
        if options:
            spread = {
                j: 1.0 - max(weights[values[:, j] == v].sum() for v in set(values[:, j].tolist())) for j in options
            }
            return rows, max(spread, key=lambda j: spread[j])
        if self.problem.cap is not None:
            moved = (choices > 0) | node.moved
            if (moved.any(axis=0)).sum() > self.problem.cap:
                undecided = np.flatnonzero((moved != moved[0]).any(axis=0))
                part = np.abs(weights @ moved[:, undecided] - 0.5)
                return rows, int(undecided[part.argmin()])
        return rows, None

    def _around(self, node: _Node, j: int, mixed: float) -> tuple[float, float]:
        """The legal values below and above, equal where it is legal itself."""
        A, fact, step = self.actions, float(self.actions.factual_raw[j]), float(self.actions.step_raw[j])
        below, above = legal(A, j, mixed, math.floor), legal(A, j, mixed, math.ceil)
        if abs(mixed - fact) <= 1e-9 * step:
            return fact, fact
        if math.isfinite(node.cost[j, 0]):  # the fact is legal too, on the lattice or not
            below = max(below, fact) if fact < mixed else below
            above = min(above, fact) if fact > mixed else above
        return max(below, float(node.low_raw[j])), min(above, float(node.high_raw[j]))

    def _children(self, node: _Node, mixture: Mixture, j: int) -> list[_Node]:
        space, problem = self.problem.space, self.problem
        one, other = (_Node(*(getattr(node, name).copy() for name in _Node.__dataclass_fields__)) for _ in range(2))
        choices = np.array([point.choice for point in mixture.points])
        values, weights = node.values_raw[self.every, choices], np.array(mixture.weights)
        if j in space.groups:
            levels = node.values_raw[j, np.isfinite(node.cost[j])].astype(int).tolist()
            heaviest = int(values[weights.argmax(), j])
            problem.write_group(one, j, [heaviest])
            problem.write_group(other, j, [level for level in levels if level != heaviest])
            return [one, other]
        k = int(np.flatnonzero(space.numeric == j)[0])
        still = math.isfinite(node.cost[j, 0])
        move = bool(np.isfinite(node.cost[j, 1:]).any())
        if self.actions.step_raw[j] > 0.0:
            below, above = self._around(node, j, float(weights @ values[:, j]))
            if below != above:
                one.high_raw[j], other.low_raw[j] = below, above
                for child in (one, other):
                    problem.write(child, k, j, still=still, move=move)
                return [one, other]
        problem.write(one, k, j, still=True, move=False)
        other.moved[j] = True
        problem.write(other, k, j, still=False)
        return [one, other]
