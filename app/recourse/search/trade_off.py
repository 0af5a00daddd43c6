"""The legal action that minimises a trade-off of losses and cost, over the whole action set.

Two numbers determine the losses of an action: its worst score and its predicted score. Both, like the cost, are sums
over features. Because there are only two, the convex relaxation (each feature anywhere between its legal
values) has at most two features that are not at a legal value. `app.recourse.search.simplicial` solves it exactly:
each best response (`app.recourse.search.responses`) is one look at every feature, and few branches
(`app.recourse.search.branching`) settle the rest: a number below or above, a category taken or not, a feature that
changes or does not.

What ties features, such as rules, is left out first. Where it forbids the optimum that is found so, the general
mixed-integer solver is given tangents of the losses until they fit.
"""

import math

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.numerics.solvers import Row
from app.recourse.robustness.consistency_and_robustness import LossAndCost, loss
from app.recourse.search.branching import EXACT, Branching, Effort, Optimum
from app.recourse.search.mixed_integer import FAR, ActionProgram
from app.recourse.search.responses import Responses
from app.recourse.search.rule_branching import solve_program

HALVINGS = 60
LEAST_WEIGHT = 1e-3
"""Cost weight that limits the search along unbounded numbers where no weight is given."""
LEAST_POSSIBLE = 1e-12
"""Cost weight at which cost no longer matters."""
LEAST_GAP = 1e-6
"""Relative gap below which the mixed-integer program is not solved, since the solver's own tolerances are near."""


class TradeOff:
    """Minimises one objective over one action set.

    Parameters
    ----------
    deadline : `time.monotonic()` at which searching has to stop
    """

    def __init__(self, action_set: ActionSet, objective: LossAndCost, *, deadline: float = math.inf) -> None:
        self.action_set, self.objective, self.deadline = action_set, objective, deadline
        self.space = action_set.space
        self.responses = Responses(action_set, objective)
        self._known: dict[tuple[float, Effort], Optimum | None] = {}
        self._rules_bind = False
        """Whether rules forbade an optimum without them; then others are not looked for without them."""
        self._touched: list[tuple[float, int]] = []
        """Scores at which programs have had tangents, and to which of both losses; the next one begins with these."""

    def value(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """The objective at each raw row; smaller is better."""
        return self.objective.value(self.space.encode(rows_raw), self.action_set.cost(rows_raw))

    def best(self, cost_weight: float | None = None, effort: Effort = EXACT) -> Optimum | None:
        """The best legal row that the search finds, with its objective; None if the constraints exclude each other.

        Parameters
        ----------
        cost_weight : used in place of the objective's own cost weight
        effort : relative gap to the least objective at which the search stops, and largest number of branches

        Raises
        ------
        DeadlineExceeded, SolverFailed : no legal row is known, and the solver has no time left or fails
        """
        weight = self.objective.cost_weight if cost_weight is None else cost_weight
        if (weight, effort) not in self._known:
            self._known[weight, effort] = self._best(weight, effort)
        return self._known[weight, effort]

    def _best(self, weight: float, effort: Effort) -> Optimum | None:
        A = self.action_set
        if not self._rules_bind:
            found = Branching(self.responses, weight, effort, self.deadline).result()
            if not A.is_coupled or self._is_legal(found, effort):
                return found
        self._rules_bind = True
        return self._by_program(weight, effort)

    def _is_legal(self, found: Optimum | None, effort: Effort) -> bool:
        """Whether what ties features allows a row, and the search without it has not dropped better ones for it."""
        A = self.action_set
        if found is None or not (found.proven or effort.gap > EXACT.gap):
            return False
        return bool(A.contains(A.clock.settled(found.row_raw[None]))[0])

    # --- the cost weight ---------------------------------------------------------------------------------------------

    def weight_for(self, score: float) -> float | None:
        """The largest cost weight for which the optimum of the relaxed problem has a worst score of at least `score`.

        In the relaxed problem, numbers may lie between legal values. The result is None if no cost weight gives such an
        optimum.
        """
        slope = self.responses.share / (1.0 + math.exp(score))
        root = self.responses.root(LEAST_WEIGHT)

        def reaches(weight: float) -> bool:
            return self.responses.respond(root, weight, slope, 0.0).r >= score

        if not reaches(LEAST_POSSIBLE):
            return None
        low, high = math.log(LEAST_POSSIBLE), math.log(1e6)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if reaches(math.exp(middle)) else (low, middle)
        return math.exp(low)

    # --- rules -------------------------------------------------------------------------------------------------------

    def _by_program(self, weight: float, effort: Effort = EXACT) -> Optimum | None:
        """By a mixed-integer program with tangents in place of the losses, more of them wherever its search comes."""
        A, objective, d = self.action_set, self.objective, self.space.d
        worth = self.responses.worth(weight) if A.contains(A.factual_raw[None])[0] else FAR * float(A.weights.max())
        program = ActionProgram(A, reach=worth)
        extent, numeric = program.effect * program.limit, self.space.numeric_columns
        low, high = (program.start + end(extent, 0.0).sum(axis=1) for end in (np.minimum, np.maximum))
        # |x| is a variable of its own where x may have either sign.
        either = numeric[(low[numeric] < 0.0) & (high[numeric] > 0.0) & (objective.radius > 0.0)]
        sign = np.ones(d)
        sign[numeric[high[numeric] <= 0.0]] = -1.0
        sign[either] = 0.0
        # Variables besides the actions: these |x|, and the two losses.
        n, more = program.size, len(either) + 2
        size = np.eye(d)[:, either]
        shares = (self.responses.share, 1.0 - self.responses.share)
        cost = np.concatenate([weight * program.cost, np.zeros(len(either)), shares])
        effect = np.hstack([program.effect, np.zeros((d, more))])
        absolute = np.hstack([sign[:, None] * program.effect, size, np.zeros((d, 2))])
        slopes = (
            self.responses.w @ effect - objective.radius * absolute.sum(axis=0),
            self.responses.w_predicted @ effect,
        )
        at_start = (
            float(self.responses.w @ program.start - objective.radius * (sign @ program.start + 1.0))
            + objective.model.c,
            self.responses.base_p,
        )
        gap = max(effort.gap, LEAST_GAP)

        def tangents(z: Float[np.ndarray, "k"]) -> list[Row]:
            found = []
            for which, (share, slope, start) in enumerate(zip(shares, slopes, at_start, strict=True)):
                score = start + float(slope @ z)
                missing = float(loss(np.array(score))) - z[n + len(either) + which]
                if share * missing > 0.1 * gap * (1.0 + float(cost @ z)):
                    self._touched.append((score, which))
                    found.append(tangent(score, which))
            return found

        def tangent(score: float, which: int) -> Row:
            falls = 1.0 / (1.0 + math.exp(min(score, 700.0)))
            row = falls * slopes[which]
            row[n + len(either) + which] = 1.0
            return row, float(loss(np.array(score))) + falls * (score - at_start[which])

        known = [tangent(*one) for one in self._touched]
        rows = np.vstack([(absolute - effect)[either], (absolute + effect)[either], *(row for row, _ in known)])
        lower = np.concatenate([program.start[either], -program.start[either], [least for _, least in known]])
        found = solve_program(program, cost, rows, lower, deadline=self.deadline, gap=gap, cuts=tangents)
        if found is None:
            return None
        reached = float(self.responses.weighted(found.row_raw[None], weight)[0])
        return Optimum(found.row_raw, reached, proven=reached - found.value <= 3.0 * gap * (1.0 + reached))
