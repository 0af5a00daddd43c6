"""Plans for people: members that cost little, change few features, and differ in what they change.

The search starts from a pool of cheap sparse records: the cheapest record that a linear model accepts, then the
cheapest without one of the features that it changes, or without all of them, and so on, each for several margins. Plans
are put together from it by exchanging members, from several first members, and in the best of them members take the
single moves that improve the whole plan.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from jaxtyping import Float, Int

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.models.linear import LinearModel, homogeneous
from app.recourse.numerics.linalg import first_of_equal
from app.recourse.plans.members import STEPS, SWEEPS, chosen, improved_in_turn
from app.recourse.plans.objective import Joint, Members, PeopleObjective
from app.recourse.plans.overlap import MOST_OVERLAP, overlaps
from app.recourse.problem import RecourseProblem
from app.recourse.search.cheapest import Search
from app.recourse.search.local_moves import LEAST_GAIN, SingleMoves

SEARCHES = 24
"""Sets of features left alone for which cheapest records are searched, at most, for each hyperplane."""
PASSES = 4
"""How often each member is exchanged for the best record of the pool."""
FIRST = 4
"""Records of the pool that a plan is begun with."""
IMPROVED = 2
"""Plans whose members take single moves."""
FURTHER_STEPS = 2
"""Single moves of each member on its way further into the favourable side."""
TRIED = 32
"""Neighbours of a member that are judged at once."""
MOST_KEPT = 2_000_000
"""Numbers, about, in the neighbours that are kept."""
POOL_SHARE = 0.5
"""Share of the remaining time that the pool may take, for each hyperplane."""


class PeopleSearch:
    """Searches plans for one applicant that minimise a `PeopleObjective`: cost, number of changes, diversity.

    Parameters
    ----------
    count : number of members of a plan
    margins : >= 0, increasing, encoded units; the records to choose from are searched at these distances beyond each
        hyperplane of the objective
    """

    def __init__(
        self, problem: RecourseProblem, objective: PeopleObjective, count: int, margins: Float[np.ndarray, "k"]
    ) -> None:
        self.problem, self.objective, self.count, self.margins = problem, objective, count, margins
        self.actions: ActionSet = problem.action_set
        self.moves = SingleMoves(self.actions, swaps=True)
        # Verification and certificates need the other half of the time.
        self.until = 0.5 * (time.monotonic() + problem.deadline)
        self.pool_raw: Float[np.ndarray, "n p"] = np.empty((0, self.actions.space.p))
        self._known: dict[bytes, list[Members]] = {}

    def best(self, cheapest_raw: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "j p"]:
        """The best plan found, as legal raw rows; they differ from each other if enough different rows are known.

        Parameters
        ----------
        cheapest_raw : cheapest record of the person for several margins
        """
        self.pool_raw = pool = self._pool(cheapest_raw)
        if not len(pool):
            return pool
        members = self.objective.members(pool)
        alone = Joint(self.objective, members[[]]).value(members).argsort(kind="stable")[:FIRST].tolist()
        chosen_sets = {tuple(sorted(self._chosen(members, kept))) for kept in ([], *([k] for k in alone))}
        plans = sorted((pool[list(one)] for one in sorted(chosen_sets)), key=self.objective.value)
        plans = [self._improved_in_turn(plan, self.objective) for plan in plans[:IMPROVED]]
        return self._finished(min(plans, key=self.objective.value))

    def further(
        self, plan_raw: Float[np.ndarray, "j p"], extra_margins: Float[np.ndarray, "k"]
    ) -> Float[np.ndarray, "n p"]:
        """Replacements: for each extra margin the plan's members moved further into the favourable side, then the pool.

        The pool is the records from which `best` has chosen the plan.
        """
        rows = []
        for extra in extra_margins.tolist():
            objective = replace(self.objective, sides=self.objective.sides.with_extra_margin(extra))
            plan_raw = self._improved_in_turn(plan_raw, objective, sweeps=1, steps=FURTHER_STEPS)
            rows.append(plan_raw)
        return self._finished(np.concatenate([*rows, self.pool_raw]))

    def choose(self, rows_raw: Float[np.ndarray, "n p"], wanted_raw: Float[np.ndarray, "j p"]) -> Int[np.ndarray, "k"]:
        """Indices of the rows that form the best plan, cheapest first: rows in `wanted_raw`, and the best additions.

        A row that overlaps too much with a cheaper row of the plan is left out.
        """
        kept = [k for k, row in enumerate(rows_raw) if (wanted_raw == row).all(axis=1).any()]
        members = self.objective.members(rows_raw)
        plan = np.array(self._chosen(members, kept), dtype=int)
        plan = plan[self.actions.cost(rows_raw[plan]).argsort(kind="stable")]
        moved = members.moved[plan]
        different: list[int] = []
        for k in range(len(plan)):
            if overlaps(moved[k : k + 1], moved[different]).max(initial=0.0) <= MOST_OVERLAP:
                different.append(k)
        return plan[different]

    def _chosen(self, members: Members, kept: list[int]) -> list[int]:
        """Indices of the best plan of these records, the kept ones in it."""

        def value(others: list[int]) -> Float[np.ndarray, "n"]:
            return Joint(self.objective, members[others]).value(members)

        return chosen(len(members), self.count, value, kept, PASSES)

    def _improved_in_turn(
        self,
        plan_raw: Float[np.ndarray, "j p"],
        objective: PeopleObjective,
        *,
        sweeps: int = SWEEPS,
        steps: int = STEPS,
    ) -> Float[np.ndarray, "j p"]:
        """The plan after single moves of its members."""
        members = objective.members(plan_raw.copy())

        def improved(plan_raw: Float[np.ndarray, "j p"], j: int) -> Float[np.ndarray, "p"]:
            nonlocal members
            if (members.rows_raw != plan_raw).any():
                members = objective.members(plan_raw.copy())  # it changes in place
            row_raw, joint = plan_raw[j], Joint(objective, members[np.delete(np.arange(len(plan_raw)), j)])
            value = float(joint.value(members[j : j + 1])[0])
            for _ in range(steps):
                better = self._best_move(joint, row_raw, value)
                if better is None:
                    break
                row_raw, value = better
            return row_raw

        return improved_in_turn(plan_raw, improved, sweeps)

    def _best_move(
        self, joint: Joint, row_raw: Float[np.ndarray, "p"], value: float
    ) -> tuple[Float[np.ndarray, "p"], float] | None:
        """The neighbour of a record that makes the best plan, and its value; None where none improves the plan.

        How much neighbours overlap with the other members takes a while, so those of the least bound are tried first,
        and none whose bound is too high.
        """
        best, least = None, value - LEAST_GAIN * (1.0 + abs(value))
        for near in self._near(row_raw):
            if time.monotonic() >= self.until:
                return None
            bound = joint.at_least(near)
            promising = bound.argsort(kind="stable")
            while len(promising := promising[bound[promising] < least]):
                tried, promising = near[promising[:TRIED]], promising[TRIED:]
                values = joint.value(tried)
                k = int(values.argmin())
                if values[k] < least:
                    best, least = (tried.rows_raw[k], float(values[k])), float(values[k])
        return best

    def _near(self, row_raw: Float[np.ndarray, "p"]) -> Iterator[Members]:
        """The neighbours of a record, in chunks; members come back to records, so the latest are kept."""
        key = row_raw.tobytes()
        if key in self._known:
            yield from self._known[key]
            return
        chunks = []
        for rows in self.moves.chunks(row_raw):
            chunks.append(self.objective.members(rows))
            yield chunks[-1]
        if sum(2 * near.rows_raw.size for known in (chunks, *self._known.values()) for near in known) > MOST_KEPT:
            self._known.clear()
        self._known[key] = chunks

    def _finished(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
        """The rows with changes that stop just before an end made in full, where that is legal and favourable."""
        rows = self.actions.clock.settled(self.actions.finished(rows_raw))
        points = homogeneous(self.actions.space.encode(rows))
        good = self.actions.contains(rows) & (self.objective.sides.shortfall(points) <= 0.0)
        return np.where(good[:, None], rows, rows_raw)

    def _pool(self, cheapest_raw: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "n p"]:
        """Different legal records: the cheapest for each hyperplane and margin, without some of the features."""
        A, sides = self.actions, self.objective.sides
        found = [cheapest_raw]
        for normal, need in zip(sides.normals, sides.needs.tolist(), strict=True):
            if normal[:-1].any():
                model, length = LinearModel(normal[:-1], float(normal[-1])), float(np.linalg.norm(normal[:-1]))
                found += self._cheapest(model.unit(), need / length + self.margins)
        rows = A.clock.settled(np.concatenate(found))
        changes = (rows != A.factual_raw).any(axis=1)
        rows = rows[A.contains(rows) & (changes | bool(A.begun))]
        return rows[first_of_equal(rows)]

    def _cheapest(self, model: LinearModel, margins: Float[np.ndarray, "k"]) -> list[Float[np.ndarray, "m p"]]:
        """The cheapest records for each margin without some of the features: those that earlier ones change."""
        A, found = self.actions, []
        now = time.monotonic()
        deadline = now + POOL_SHARE * (self.until - now)
        waiting: list[frozenset[int]] = [frozenset()]
        for done in range(SEARCHES):
            if done >= len(waiting) or time.monotonic() >= deadline:
                break
            alone = waiting[done]
            try:
                search = Search(model, A.frozen(alone), deadline=deadline)
                rows = search.rows(margins, exact_up_to=-math.inf)
            except DeadlineExceeded:
                break
            except SolverFailed:  # the other sets of features remain
                continue
            found.append(rows)
            changed = next((one for row in rows if (one := A.changes(row))), ())
            parts = [alone | {j} for j in changed] + [alone | set(changed)]
            waiting += [one for one in dict.fromkeys(parts) if one not in waiting]
        return found
