"""Plans of several counterfactuals: near the factual, far from each other, and valid together (paper 4, section 4).

`propose` is what methods call. A `PeopleObjective` is left to `app.recourse.plans.people`; `PlanSearch` minimises a
`PlanObjective` over legal records on the favourable side of given hyperplanes.

Numbers are continuous while Adam moves all members of several plans at once, each iterate projected exactly onto the
side of the hyperplane and the box of the action set; categories are whole throughout, and change where the objective of
the whole plan says so. Then numbers are rounded to their lattice, and single moves of single features under the
same objective repair the effect of rounding.

Differences from paper 4 and its code: they project and then clamp to [0, 1], which can undo the projection, and leave
categories fractional.

References
----------
Bui, Nguyen, Nguyen, "Counterfactual Plans under Distributional Ambiguity", ICLR 2022, section 4.
Mothilal, Sharma, Tan, "Explaining Machine Learning Classifiers through Diverse Counterfactual Explanations", FAT* 2020.
"""

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.candidates import PlanCandidates
from app.recourse.models.linear import LinearModel, homogeneous
from app.recourse.numerics.linalg import first_of_equal, project
from app.recourse.plans.members import STEPS, SWEEPS, chosen, improved_in_turn
from app.recourse.plans.objective import PeopleObjective, PlanObjective
from app.recourse.plans.people import PeopleSearch
from app.recourse.problem import RecourseProblem
from app.recourse.search.cheapest import Search
from app.recourse.search.local_moves import SingleMoves

FUNNEL = (8, 4, 2)
"""Plans that are improved side by side, from different starts: how many there are in each round. A round moves numbers
by Adam and then, in the best plans, categories by single moves."""
ITERATIONS = 60
"""Adam's steps per round."""
RATE = 0.1
"""Adam's first step along a column, as a share of the median distance between reference records along it."""
NEAR = 50
"""Favourable reference records behind the starts."""
EXTRA_MARGINS = np.array([1.0, 3.0, 9.0])
"""Extra margins of further members over the plan's, in units of one that makes a difference."""


def propose(
    problem: RecourseProblem,
    objective: PlanObjective | PeopleObjective,
    count: int,
    *,
    extra_margin_unit: float,
    adjust: Callable[[Float[np.ndarray, "j p"], float], Float[np.ndarray, "j p"]] = lambda plan_raw, until: plan_raw,  # noqa: ARG005
) -> PlanCandidates:
    """The best plan found, and replacements for members that the black box refuses.

    Replacements include members moved further into the favourable side by an extra margin.

    Parameters
    ----------
    count : number of members
    extra_margin_unit : unit of the extra margins, encoded units; large enough to make a difference to the model
    adjust : a function that changes the plan last; it takes the plan and the `time.monotonic()` at which it has to end

    Raises
    ------
    DegenerateSurrogate : the first hyperplane has no direction
    DeadlineExceeded, SolverFailed : the time ran out, or a solver failed, before one legal row was known
    """
    normal, need = objective.sides.normals[0], float(objective.sides.needs[0])
    length = float(np.linalg.norm(normal[:-1]))
    model = LinearModel(normal[:-1], float(normal[-1])).unit()
    search = Search(model, problem.action_set, deadline=problem.deadline)
    extra_margins = EXTRA_MARGINS * extra_margin_unit
    settled = problem.action_set.clock.settled
    cheapest = search.rows(np.array([need / length]))
    plans: PlanSearch | PeopleSearch
    if isinstance(objective, PeopleObjective):
        # The model refuses the factual, whatever its local models say.
        sides = objective.sides.beyond(np.append(problem.x0, 1.0))
        plans = PeopleSearch(problem, replace(objective, sides=sides), count, np.append(0.0, extra_margins))
    else:
        plans = PlanSearch(problem, objective, count)
    plan = plans.best(cheapest) if len(cheapest) else cheapest
    adjusted = adjust(plan, plans.until) if len(plan) else plan
    wanted = settled(adjusted)
    wanted = wanted[first_of_equal(wanted)]

    def replacements() -> Float[np.ndarray, "n p"]:
        rows = np.concatenate([wanted, settled(np.concatenate([plan, plans.further(adjusted, extra_margins)]))])
        return rows[first_of_equal(rows)[len(wanted) :]]

    return PlanCandidates(
        count=count,
        plan_raw=wanted,
        replacements=replacements,
        choose=lambda rows: plans.choose(rows, wanted),
        rank=lambda rows: homogeneous(problem.action_set.space.encode(rows)) @ normal,
        relax=lambda: search.relaxation(need / length),
    )


class PlanSearch:
    """Searches plans for one applicant that minimise the published objective (Bui, Nguyen, Nguyen 2022)."""

    def __init__(self, problem: RecourseProblem, objective: PlanObjective, count: int) -> None:
        self.problem, self.objective, self.count = problem, objective, count
        self.actions: ActionSet = problem.action_set
        self.encode: Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n d"]] = self.actions.space.encode
        self.moves = SingleMoves(self.actions)
        # Verification and certificates need the other half of the time.
        self.until = 0.5 * (time.monotonic() + problem.deadline)

    def best(self, cheapest_raw: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "j p"]:
        """The best plan found, as legal raw rows; they differ from each other if enough different rows are known.

        Parameters
        ----------
        cheapest_raw : legal rows on the favourable side, at least one; a row of a plan that is not legal is moved
            towards the first of these
        """
        anchor_raw = cheapest_raw[0]
        plans = [self._legal(rows, anchor_raw) for rows in self._starts(anchor_raw)]
        for kept in (*FUNNEL[1:], 1):
            if self._late():
                return min(plans, key=self._value)
            plans = sorted(self._moved_numbers(np.array(plans), anchor_raw), key=self._value)[:kept]
            plans = [self._improved_in_turn(rows, sweeps=1, levels_only=True) for rows in plans]
        (plan,) = self._moved_numbers(np.array(plans), anchor_raw)
        return self._improved_in_turn(plan)

    def further(
        self, plan_raw: Float[np.ndarray, "j p"], extra_margins: Float[np.ndarray, "k"]
    ) -> Float[np.ndarray, "n p"]:
        """Replacements: for each extra margin, the members that could be moved beyond the half-spaces by so much."""
        rows = [plan_raw[:0]]
        for extra in extra_margins.tolist():
            if self._late():
                break
            objective = replace(self.objective, sides=self.objective.sides.with_extra_margin(extra))
            plan_raw = self._improved_in_turn(plan_raw, sweeps=1, objective=objective)
            rows.append(plan_raw[objective.sides.shortfall(homogeneous(self.encode(plan_raw))) <= 0.0])
        return np.concatenate(rows)

    def choose(self, rows_raw: Float[np.ndarray, "n p"], wanted_raw: Float[np.ndarray, "j p"]) -> Int[np.ndarray, "k"]:
        """Indices of the rows that form the best plan, nearest first: rows in `wanted_raw`, and the best additions.

        If there are several additions, each is replaced once by the row that goes best with the other members.
        """
        kept = [k for k, row in enumerate(rows_raw) if (wanted_raw == row).all(axis=1).any()]
        X = self.encode(rows_raw)
        plan = chosen(len(X), self.count, lambda others: self.objective.joined(X[others])(X), kept, 1)
        length = ((X[plan] - self.problem.x0) ** 2).sum(axis=1)
        return np.array(plan, dtype=int)[length.argsort(kind="stable")]

    def _late(self) -> bool:
        return time.monotonic() >= self.until

    # --- starts ------------------------------------------------------------------------------------------------------

    def _starts(self, anchor_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "b j p"]:
        """Rows with a random part of the changes of favourable reference records; one of them is the anchor."""
        rng = np.random.default_rng(self.problem.seed)
        A, n = self.actions, FUNNEL[0] * self.count
        start = A.factual_raw
        target = A.snap(self.problem.reference.rows_favourable_raw)
        near = target[A.cost(target).argsort(kind="stable")[:NEAR]]
        rows = np.tile(start, (n, 1))
        if len(near):
            rows = near[rng.integers(len(near), size=n)]
        movable = np.flatnonzero(A.movable)
        most = len(movable) if A.max_changes is None else min(A.max_changes, len(movable))
        taken = np.zeros((n, len(start)), dtype=bool)
        ranks = rng.random((n, len(movable))).argsort(axis=1).argsort(axis=1)
        taken[:, movable] = ranks < rng.integers(1, max(most, 1) + 1, size=n)[:, None]
        rows = np.where(taken, rows, start)
        rows[0] = anchor_raw
        return rows.reshape(FUNNEL[0], self.count, -1)

    def _legal(
        self, rows_raw: Float[np.ndarray, "n p"], anchor_raw: Float[np.ndarray, "p"]
    ) -> Float[np.ndarray, "n p"]:
        """Each row, or where it is not legal, the first legal one on the way from it to the anchor."""
        A, legal = self.actions, rows_raw.copy()
        for share in (0.25, 0.5, 0.75, 1.0):
            wrong = np.flatnonzero(~A.contains(legal))
            if not wrong.size:
                break
            legal[wrong] = rows_raw[wrong] + share * (anchor_raw - rows_raw[wrong])
            groups = A.space.groups
            legal[np.ix_(wrong, groups)] = anchor_raw[groups] if share >= 0.5 else rows_raw[np.ix_(wrong, groups)]
            legal[wrong] = A.snap(legal[wrong]) if share < 1.0 else anchor_raw
        return legal

    # --- numbers -----------------------------------------------------------------------------------------------------

    def _moved_numbers(
        self, plans_raw: Float[np.ndarray, "b j p"], anchor_raw: Float[np.ndarray, "p"]
    ) -> list[Float[np.ndarray, "j p"]]:
        """All plans after Adam has moved their numbers, rounded to legal rows."""
        A, space, shape = self.actions, self.actions.space, plans_raw.shape
        movable = A.movable[space.numeric]
        j, columns, scale = space.numeric[movable], space.numeric_columns[movable], space.scale_raw[movable]
        if not j.size:
            return list(plans_raw)
        flat = plans_raw.reshape(-1, shape[-1])
        free = self._free(flat)[:, j]
        X = self.encode(flat)
        lower = np.where(free, (A.lower_raw[j] - space.center_raw[movable]) / scale, X[:, columns])
        upper = np.where(free, (A.upper_raw[j] - space.center_raw[movable]) / scale, X[:, columns])
        X = self._adam(X.reshape(*shape[:2], -1), columns, lower, upper).reshape(X.shape)
        flat = flat.copy()
        flat[:, j] = np.where(free, X[:, columns] * scale + space.center_raw[movable], flat[:, j])
        return [self._legal(rows, anchor_raw) for rows in A.snap(flat).reshape(shape)]

    def _free(self, rows_raw: Float[np.ndarray, "n p"]) -> Bool[np.ndarray, "n p"]:
        """Which features of each row may move: those that have, where a cap leaves no room for more."""
        A = self.actions
        if A.max_changes is None:
            return np.broadcast_to(A.movable, rows_raw.shape)
        return A.movable & (rows_raw != A.factual_raw)

    def _adam(
        self,
        X: Float[np.ndarray, "b j d"],
        columns: Int[np.ndarray, "k"],
        lower: Float[np.ndarray, "n k"],
        upper: Float[np.ndarray, "n k"],
    ) -> Float[np.ndarray, "b j d"]:
        """The best iterates of projected subgradient descent with Adam's steps, in some columns."""
        normal, need = self.objective.sides.normals[0], float(self.objective.sides.needs[0])
        fixed = X.copy()
        fixed[..., columns] = 0.0
        rest = (need - (fixed @ normal[:-1] + normal[-1])).reshape(-1)
        reference = self.problem.reference
        rate = RATE * reference.median_distances[1] / math.sqrt(reference.space.d)
        first, second = np.zeros((*X.shape[:2], len(columns))), np.zeros((*X.shape[:2], len(columns)))
        at, best, best_value = X.copy(), X.copy(), np.full(len(X), np.inf)
        for step in range(1, ITERATIONS + 2):
            flat = project(at[..., columns].reshape(-1, len(columns)), normal[columns], rest, lower, upper)
            at[..., columns] = flat.reshape(first.shape)
            value, gradient = self.objective.value_and_gradient(at)
            better = value < best_value
            best[better], best_value[better] = at[better], value[better]
            if step > ITERATIONS or self._late():
                break
            slope = gradient[..., columns]
            first = 0.9 * first + 0.1 * slope
            second = 0.999 * second + 0.001 * slope**2
            size = rate * (1.0 - (step - 1) / ITERATIONS)
            at[..., columns] -= size * first / (1.0 - 0.9**step) / (np.sqrt(second / (1.0 - 0.999**step)) + 1e-8)
        return best

    # --- single moves ------------------------------------------------------------------------------------------------

    def _value(self, plan_raw: Float[np.ndarray, "j p"]) -> float:
        return float(self.objective.value(self.encode(plan_raw)[None])[0])

    def _improved_in_turn(
        self,
        plan_raw: Float[np.ndarray, "j p"],
        *,
        sweeps: int = SWEEPS,
        levels_only: bool = False,
        objective: PlanObjective | None = None,
    ) -> Float[np.ndarray, "j p"]:
        chosen_objective = objective or self.objective

        def improved(plan_raw: Float[np.ndarray, "j p"], j: int) -> Float[np.ndarray, "p"]:
            joined = chosen_objective.joined(self.encode(np.delete(plan_raw, j, axis=0)))

            def value(rows: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
                return joined(self.encode(rows))

            return self.moves.descend(plan_raw[j], value, steps=STEPS, until=self.until, levels_only=levels_only)

        return improved_in_turn(plan_raw, improved, sweeps)
