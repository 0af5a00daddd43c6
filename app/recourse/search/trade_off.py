"""The legal action that minimises a trade-off of losses and cost, over the whole action set.

Two numbers determine the losses of an action: its worst score and its predicted score. Both are linear in the variables
of a mixed-integer program (`app.recourse.search.mixed_integer`), with one more variable for ``|x|`` where ``x`` may
have either sign. The losses are convex and fall with the scores, so tangents at the points to which the solver comes
stand for them until they fit.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.numerics.solvers import Row
from app.recourse.robustness.consistency_and_robustness import LossAndCost, loss
from app.recourse.search.mixed_integer import FAR, ActionProgram, Solved
from app.recourse.search.rule_branching import solve_program

EXACT, QUICK = 1e-7, 1e-2
"""Relative gaps: smaller improvements are not searched for."""
LEAST_WEIGHT, MOST_WEIGHT = 1e-3, 1e6
"""Cost weight that limits the search along unbounded numbers where no weight is given, and the largest one."""


@dataclass(frozen=True, slots=True)
class _Stated:
    """An action set and both scores in variables: those of the program, some ``|x|``, and last the two losses."""

    program: ActionProgram
    cost: Float[np.ndarray, "k"]
    """Unweighted."""
    rows: Float[np.ndarray, "m k"]
    lower: Float[np.ndarray, "m"]
    """What makes variables of ``|x|`` large enough: ``rows z >= lower``."""
    slopes: Float[np.ndarray, "2 k"]
    start: tuple[float, float]
    """Worst and predicted score are these numbers and ``slopes z``."""


class TradeOff:
    """Minimises one objective over one action set.

    Parameters
    ----------
    deadline : `time.monotonic()` at which searching has to stop
    """

    def __init__(self, action_set: ActionSet, objective: LossAndCost, *, deadline: float = math.inf) -> None:
        self.action_set, self.objective, self.deadline = action_set, objective, deadline
        self.space = action_set.space
        self.share = 1.0 if objective.predicted is None else objective.share
        self._known: dict[tuple[float, float], Solved | None] = {}
        self._stated: dict[float, _Stated] = {}
        self._touched: list[tuple[float, int]] = []
        """Scores at which programs have had tangents, and to which of both losses; the next one begins with these."""

    def value(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """The objective at each raw row; smaller is better."""
        return self._weighted(rows_raw, self.objective.cost_weight)

    def best(self, cost_weight: float | None = None, gap: float = EXACT) -> Solved | None:
        """The best legal row, and the objective there; None if the constraints exclude each other.

        Parameters
        ----------
        cost_weight : used in place of the objective's own cost weight
        gap : relative to the least objective; smaller improvements are not searched for

        Raises
        ------
        DeadlineExceeded, SolverFailed : no legal row is known, and the solver has no time left or fails
        """
        weight = self.objective.cost_weight if cost_weight is None else cost_weight
        if (weight, gap) not in self._known:
            self._known[weight, gap] = self._best(weight, gap)
        return self._known[weight, gap]

    def weight_for(self, score: float) -> float | None:
        """The largest cost weight for which the optimum of the relaxed problem has a worst score of at least `score`.

        In the relaxed problem, numbers may lie between legal values. The result is None if no cost weight gives such an
        optimum.
        """
        stated = self._program(LEAST_WEIGHT)
        rows, lower = np.vstack([stated.rows, stated.slopes[:1]]), np.append(stated.lower, score - stated.start[0])
        price = stated.program.least_price(stated.cost, rows, lower)
        return None if price is None else min(self.share / (1.0 + math.exp(score)) / max(price, 1e-12), MOST_WEIGHT)

    def _weighted(self, rows_raw: Float[np.ndarray, "n p"], weight: float) -> Float[np.ndarray, "n"]:
        """The objective with another cost weight."""
        objective = replace(self.objective, cost_weight=weight)
        return objective.value(self.space.encode(rows_raw), self.action_set.cost(rows_raw))

    def _program(self, weight: float) -> _Stated:
        """The program for a cost weight; the same for all weights where every range ends."""
        A, objective, d = self.action_set, self.objective, self.space.d
        reach = FAR * float(A.weights.max())
        if not np.isfinite([A.lower_raw, A.upper_raw]).all() and A.contains(A.factual_raw[None])[0]:
            # An action that costs more than the whole objective at the factual cannot be optimal.
            reach = float(self._weighted(A.factual_raw[None], weight)[0]) / weight
        if reach in self._stated:
            return self._stated[reach]
        program = ActionProgram(A, reach=reach)
        extent, numeric = program.effect * program.limit, self.space.numeric_columns
        low, high = (program.start + end(extent, 0.0).sum(axis=1) for end in (np.minimum, np.maximum))
        # |x| is a variable of its own where x may have either sign.
        either = numeric[(low[numeric] < 0.0) & (high[numeric] > 0.0) & (objective.radius > 0.0)]
        sign = np.ones(d)
        sign[numeric[high[numeric] <= 0.0]] = -1.0
        sign[either] = 0.0
        more = np.zeros((d, len(either) + 2))
        effect, absolute = np.hstack([program.effect, more]), np.hstack([sign[:, None] * program.effect, more])
        absolute[either, program.size + np.arange(len(either))] = 1.0
        model, predicted = objective.model, objective.predicted or objective.model
        x = program.start
        self._stated[reach] = stated = _Stated(
            program,
            cost=np.concatenate([program.cost, more[0]]),
            rows=np.vstack([(absolute - effect)[either], (absolute + effect)[either]]),
            lower=np.concatenate([x[either], -x[either]]),
            slopes=np.array([model.w @ effect - objective.radius * absolute.sum(axis=0), predicted.w @ effect]),
            start=(
                float(model.w @ x - objective.radius * (sign @ x + 1.0)) + model.c,
                float(predicted.w @ x) + predicted.c,
            ),
        )
        return stated

    def _best(self, weight: float, gap: float) -> Solved | None:
        stated, shares = self._program(weight), (self.share, 1.0 - self.share)
        first = len(stated.cost) - 2
        cost = weight * stated.cost
        cost[first:] = shares

        def tangents(z: Float[np.ndarray, "k"]) -> list[Row]:
            enough, scores = 0.1 * gap * (1.0 + float(cost @ z)), stated.start + stated.slopes @ z
            missing = shares * (loss(scores) - z[first:])
            touched = [(float(scores[k]), k) for k in np.flatnonzero(missing > enough).tolist()]
            self._touched += touched
            return [tangent(*one) for one in touched]

        def tangent(score: float, which: int) -> Row:
            falls = 1.0 / (1.0 + math.exp(min(score, 700.0)))
            row = falls * stated.slopes[which]
            row[first + which] = 1.0
            return row, float(loss(np.array(score))) + falls * (score - stated.start[which])

        known = [tangent(*one) for one in self._touched]
        rows = np.vstack([stated.rows, *(row for row, _ in known)])
        lower = np.concatenate([stated.lower, [least for _, least in known]])
        found = solve_program(stated.program, cost, rows, lower, deadline=self.deadline, gap=gap, cuts=tangents)
        if found is None:
            return None
        return replace(found, value=float(self._weighted(found.row_raw[None], weight)[0]))
