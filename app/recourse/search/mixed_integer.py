"""The action set as linear constraints, for the general mixed-integer solver.

Two variables per move: whether it is made, and how far it goes beyond its first step (in steps, or in scales of a
continuous feature, because solvers' tolerances are absolute). A number can move both ways, a category to every other
level that may be proposed; so can an ordinal with levels in between that may not.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.rules import LogicRule
from app.recourse.numerics.solvers import mixed_integer_program

FAR = 1e3
"""Limit of a number without one where the caller gives none, encoded units."""


@dataclass(frozen=True, slots=True)
class Solved:
    """The legal row that solves a program, and the objective of the program at that row."""

    row_raw: Float[np.ndarray, "p"]
    z: Float[np.ndarray, "k"]
    """The variables."""
    value: float


class ActionProgram:
    """The variables and linear constraints of one action set, for mixed-integer programs.

    Parameters
    ----------
    reach : how far a number without limit may go, in units of cost
    nodes : nodes after which each program stops; None for no limit
    """

    def __init__(self, action_set: ActionSet, *, reach: float = FAR, nodes: int | None = None) -> None:
        A, space = action_set, action_set.space
        self.action_set, self.start_raw, self.nodes = A, A.factual_raw, nodes
        self.start = space.encode(self.start_raw[None])[0]
        moves: list[tuple[float, ...]] = []  # feature, level, direction, first move, step, unit beyond it, largest move
        for k, j in enumerate(space.numeric.tolist()):
            step, scale = float(A.step_raw[j]), float(space.scale_raw[k])
            for way, near, far in _runs(A, j):
                limit = max(near, min(far, reach * scale / A.weights[j]))
                moves.append((j, -1, way, near, step, step or scale, limit))
        for g in space.groups[A.movable[space.groups]].tolist():
            moves += [(g, to, 0.0, 1.0, 1.0, 1.0, 1.0) for to in A.levels(g) if to != int(self.start_raw[g])]
        columns, n = np.array(moves, dtype=float).reshape(-1, 7).T, len(moves)
        self.feature, self.level = columns[:2].astype(np.intp)
        self.sign, self.first, steps, self.per, limits = columns[2:]
        self.integer = np.concatenate([np.ones(n, dtype=bool), steps > 0.0])
        # Where nothing asks whether a number moves, one variable says how far: its moves are all multiples of the step.
        plain = (self.sign != 0.0) & (self.first == steps) & ~np.isin(self.feature, list(A.restricted))
        plain &= A.max_changes is None and not A.clock.is_shared
        free = ~np.isin(self.feature, self.feature[~plain])
        self.first[free] = 0.0
        beyond = (limits - self.first) / self.per
        beyond = np.where(steps > 0.0, np.floor(beyond + 1e-6), beyond)
        self.size = 2 * n
        self.limit = np.concatenate([~free, np.maximum(beyond, 0.0)])
        self.effect = np.zeros((space.d, 2 * n))
        """What each variable adds to the encoded point."""
        self.cost = np.zeros(2 * n)
        scales = dict(zip(space.numeric.tolist(), space.scale_raw.tolist(), strict=True))
        for i, j in enumerate(self.feature.tolist()):
            if self.level[i] < 0:
                per_unit = np.array([self.first[i], self.per[i]]) / scales[j]
                self.effect[space.spans[j].start, [i, n + i]] = self.sign[i] * per_unit
                self.cost[[i, n + i]] = A.weights[j] * per_unit
            else:
                self.effect[space.spans[j].start + self.level[i], i] = 1.0
                self.effect[space.spans[j].start + int(self.start_raw[j]), i] = -1.0
                self.cost[i] = A.weights[j]
        # Coefficients of moves that are made and of what is beyond their first step; least and largest sum.
        stated: list[tuple[Float[np.ndarray, n], Float[np.ndarray, n], float, float]] = []
        eye, none = np.eye(n), np.zeros(n)
        for i in np.flatnonzero(~free).tolist():  # no distance without a move
            stated.append((-self.limit[n + i] * eye[i], eye[i], -math.inf, 0.0))
        for j in np.unique(self.feature[~free]):  # one direction or level at a time
            stated.append(((self.feature == j).astype(float), none, 0.0, 1.0))
        if A.max_changes is not None:
            further = ~np.isin(self.feature, list(A.begun))
            stated.append((further.astype(float), none, 0.0, float(A.max_changes - len(A.begun))))
        if A.clock.is_shared:
            once, per_unit = A.clock.months_once[self.feature], A.clock.months_per_unit[self.feature]
            left = A.clock.months - float(A.clock.changes(self.start_raw[None])[0])
            stated.append((once + per_unit * self.first, per_unit * self.per, -math.inf, left))
        for rule in A.rules:
            if isinstance(rule, LogicRule):
                continue
            slope = np.array(rule.coefficients_raw)[self.feature] * self.sign
            size = float(np.abs(slope * self.per).max(initial=0.0)) or 1.0
            rest = (rule.limit - float(np.dot(rule.coefficients_raw, self.start_raw))) / size
            least = rest if rule.equality else -math.inf
            stated.append((slope * self.first / size, slope * self.per / size, least, rest))
        self.rows = np.array([np.concatenate(one[:2]) for one in stated]).reshape(len(stated), 2 * n)
        self.lower, self.upper = (np.array([one[k] for one in stated]) for k in (2, 3))
        self.logic = tuple(rule for rule in A.rules if isinstance(rule, LogicRule))
        """Rules that are no constraints of the program; `rule_branching.solve_program` branches until they hold."""

    def relaxed(
        self,
        cost: Float[np.ndarray, "k"],
        rows: Float[np.ndarray, "m k"],
        lower: Float[np.ndarray, "m"],
        *,
        limit: Float[np.ndarray, "n"],
        **search: Any,
    ) -> Solved | None:
        """``argmin cost.z`` over the action set, subject to ``rows z >= lower``; None if no ``z`` satisfies this.

        Rules that the program does not state as constraints are ignored. The first entries of ``z`` are the variables
        of the program. Any further entries are numbers >= 0.

        Parameters
        ----------
        limit : largest value of each variable of the program, in place of the program's own limits
        search : `deadline`, `gap` and `cuts` of `mixed_integer_program`

        Raises
        ------
        DeadlineExceeded : no answer was known at the deadline, a `time.monotonic()`
        SolverFailed : the solver ended without an answer
        """
        more = len(cost) - self.size
        z = mixed_integer_program(
            cost,
            np.concatenate([np.hstack([self.rows, np.zeros((len(self.rows), more))]), rows]),
            np.concatenate([self.lower, lower]),
            np.concatenate([self.upper, np.full(len(lower), np.inf)]),
            limit=np.concatenate([limit, np.full(more, np.inf)]),
            integer=np.concatenate([self.integer, np.zeros(more, dtype=bool)]),
            nodes=self.nodes,
            **search,
        )
        return None if z is None else Solved(self.row(z), z, float(cost @ z))

    def keeps_rules(self, row_raw: Float[np.ndarray, "p"]) -> bool:
        """Whether a row keeps the rules that the program does not state as constraints."""
        return all(rule.holds(row_raw[None])[0] for rule in self.logic)

    def row(self, z: Float[np.ndarray, "k"]) -> Float[np.ndarray, "p"]:
        """The raw row that the values `z` of the program's variables stand for."""
        A, n = self.action_set, self.size // 2
        made, further = z[:n], z[n : 2 * n]
        row_raw = self.start_raw.copy()
        np.add.at(row_raw, self.feature, self.sign * (made * self.first + further * self.per))
        changed = (self.level >= 0) & (made > 0.5)
        row_raw[self.feature[changed]] = self.level[changed]
        row_raw = np.clip(row_raw, A.lower_raw, A.upper_raw)  # the solver keeps limits up to a tolerance
        return A.round(row_raw[None], toward_raw=row_raw[None])[0]


def _runs(A: ActionSet, j: int) -> list[tuple[float, float, float]]:
    """Where a number can go: the direction, the nearest and the farthest distance, once for each run of its values."""
    fact = float(A.factual_raw[j])
    if not A.movable[j]:
        return []
    if j in A.restricted:
        ways = ((level > fact) - (level < fact) for level in A.levels(j))
        return [(float(way), abs(to - fact), abs(to - fact)) for way, to in zip(ways, A.levels(j), strict=True) if way]
    up, down = float(A.upper_raw[j]), float(A.lower_raw[j])
    runs = [(1.0, float(A.above_raw[j]) - fact, up - fact), (-1.0, fact - float(A.below_raw[j]), fact - down)]
    return [run for run in runs if run[2] > 0.0]
