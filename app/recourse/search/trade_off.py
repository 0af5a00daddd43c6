"""The legal action that minimises a trade-off of losses and cost, over the whole action set.

Two numbers determine the losses of an action: its worst score and its predicted score. Both, like the cost, are sums
over features. Because there are only two, the convex relaxation (each feature anywhere between its legal
values) has at most two features that are not at a legal value. `app.recourse.search.simplicial` solves it exactly:
each best response (`app.recourse.search.responses`) is one look at every feature, and few branches
(`app.recourse.search.branching`) settle the rest: a number below or above, a category taken or not, a feature that
changes or does not.

What ties features, such as rules, is left out first. Where it forbids the optimum that is found so and is nothing but
linear rules, they get prices (`app.recourse.search.tied_branching`). What remains is left to the general mixed-integer
solver, which is given tangents of the losses until they fit.
"""

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.robustness.consistency_and_robustness import LossAndCost, loss
from app.recourse.search.branching import EXACT, Branching, Effort, Optimum
from app.recourse.search.mixed_integer import FAR, ActionProgram
from app.recourse.search.responses import Responses
from app.recourse.search.rule_branching import solve_program
from app.recourse.search.tied_branching import TiedBranching, is_tied_by_rules

HALVINGS = 60
LEAST_WEIGHT = 1e-3
"""Cost weight that limits the search along unbounded numbers where no weight is given."""
LEAST_POSSIBLE = 1e-12
"""Cost weight at which cost no longer matters."""
TANGENTS = np.array([-16.0, -8.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 8.0])
"""Scores of the first tangents to the losses in the mixed-integer program."""
ROUNDS = 30
"""Largest number of rounds of further tangents."""


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
        if self._is_tied:
            self._rules_bind = True
            search = TiedBranching(self.responses, weight, effort, self.deadline)
            found = search.result()
            if not search.lost and self._is_legal(found, effort):
                return found
        return self._by_program(weight)

    def _is_legal(self, found: Optimum | None, effort: Effort) -> bool:
        """Whether what ties features allows a row, and the search without it has not dropped better ones for it."""
        A = self.action_set
        if found is None or not (found.proven or effort.gap > EXACT.gap):
            return False
        return bool(A.contains(A.clock.settled(found.row_raw[None]))[0])

    @cached_property
    def _is_tied(self) -> bool:
        return is_tied_by_rules(self.action_set)

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

    def _by_program(self, weight: float) -> Optimum | None:
        """By mixed-integer programs with the tangents so far in place of the losses."""
        A = self.action_set
        # If the factual is legal, an action that costs more than the whole objective there cannot be optimal.
        worth = self._worth(weight) if A.contains(A.factual_raw[None])[0] else FAR * float(A.weights.max())
        program = ActionProgram(A, reach=worth)
        objective, n, d = self.objective, program.size, self.space.d
        shares = (self.responses.share, 1.0 - self.responses.share)
        # Variables besides the actions: |x| by column, and the two losses.
        cost = np.concatenate([weight * program.cost, np.zeros(d), shares])
        x_rows = np.hstack([program.effect, np.zeros((d, d + 2))])
        absolute = np.hstack([np.zeros((d, n)), np.eye(d), np.zeros((d, 2))])
        rows = [absolute - x_rows, absolute + x_rows]
        lower = [program.start, -program.start]
        r_row = self.responses.w @ x_rows - objective.radius * absolute.sum(axis=0)
        p_row = self.responses.w_predicted @ x_rows
        offsets = (
            float(self.responses.w @ program.start) + objective.model.c - objective.radius,
            self.responses.base_p,
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
            try:
                found = solve_program(
                    program, cost, np.concatenate(rows), np.concatenate(lower), deadline=self.deadline
                )
            except (DeadlineExceeded, SolverFailed):
                if best is None:
                    raise
                return best
            if found is None:
                return best
            row_raw, bound = found.row_raw, found.value
            reached = float(self.responses.weighted(row_raw[None], weight)[0])
            if best is None or reached < best.value:
                best = Optimum(row_raw, reached, proven=False)
            if best.value - bound <= EXACT.gap * (1.0 + best.value):
                return replace(best, proven=True)
            X = self.space.encode(row_raw[None])
            touch(float(objective.worst_score(X)[0]), 0)
            touch(float((objective.predicted or objective.model).score(X)[0]), 1)
        return best

    def _worth(self, weight: float) -> float:
        return float(self.responses.weighted(self.action_set.factual_raw[None], weight)[0]) / weight
