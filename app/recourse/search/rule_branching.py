"""Rules with conditions, products and quotients in the mixed-integer program of an action set: branch and bound.

Each part of the action set (`app.recourse.search.rule_parts`) is solved as a program with the cuts of its comparisons.
Where the row that is found breaks a condition, the part is divided: into the alternatives of the condition, or, where a
comparison is curved, at the value of one number. Parts with the least bound come first, so a row that no open part can
better is the optimum.
"""

import heapq
import math
import time
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
from jaxtyping import Float

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.rules import AnyOf, Comparison, Condition
from app.recourse.features import MISSING
from app.recourse.numerics.solvers import Cuts, no_cuts
from app.recourse.search.enclosures import Variable
from app.recourse.search.mixed_integer import ActionProgram, Solved
from app.recourse.search.rule_parts import Cut, Empty, Part, Parts

PARTS = 400
"""Largest number of parts that are solved."""
GAP, CURVED_GAP = 1e-6, 1e-3
"""Relative: smaller improvements are not searched for; the latter where a curved comparison had to be divided."""
STRICT = 1e-5
"""Margin of a strict comparison in the program, relative to the largest change by one step or scale."""


def solve_program(
    program: ActionProgram,
    cost: Float[np.ndarray, "k"],
    rows: Float[np.ndarray, "m k"],
    lower: Float[np.ndarray, "m"],
    *,
    deadline: float = math.inf,
    gap: float = GAP,
    cuts: Cuts = no_cuts,
) -> Solved | None:
    """``argmin cost.z`` over the action set, with all rules kept and ``rows z >= lower``; None if infeasible.

    The first entries of ``z`` are the variables of the program. Any further entries are numbers >= 0.

    Parameters
    ----------
    gap, cuts : as of `mixed_integer_program`

    Raises
    ------
    DeadlineExceeded : no answer was known at the deadline, a `time.monotonic()`
    SolverFailed : the solver ended without an answer, or the rules have too many combinations
    """
    if program.logic:
        return RuleBranching(program).solve(cost, rows, lower, deadline, gap, cuts)
    return program.relaxed(cost, rows, lower, limit=program.limit, deadline=deadline, gap=gap, cuts=cuts)


class RuleBranching:
    """Solves the program of one action set by branching on the rules that the program does not state as constraints."""

    def __init__(self, program: ActionProgram) -> None:
        self.program, self.actions = program, program.action_set
        self.start_raw, n = program.start_raw, program.size // 2
        numbers = program.level < 0
        columns = program.feature[numbers]
        ends = self.start_raw[columns] + (program.sign * (program.first + program.per * program.limit[n:]))[numbers]
        lower, upper = self.start_raw.copy(), self.start_raw.copy()
        np.minimum.at(lower, columns, ends)
        np.maximum.at(upper, columns, ends)
        lower, upper = self.actions.snap(np.array([lower, upper]))  # on the lattice to the last bit
        levels = {
            g: frozenset((int(self.start_raw[g]), *program.level[program.feature == g].tolist()))
            for g in self.actions.space.groups.tolist()
        }
        conditions = tuple(rule.condition for rule in program.logic)
        self.parts = Parts(self.actions, self.start_raw, Part(lower, upper, levels, conditions))
        self._lost = False
        """Whether a part was given up, so that nothing is proven."""
        self._curved = False
        """Whether a curved comparison was divided."""

    def solve(
        self,
        cost: Float[np.ndarray, "k"],
        rows: Float[np.ndarray, "m k"],
        lower: Float[np.ndarray, "m"],
        deadline: float,
        gap: float,
        cuts: Cuts,
    ) -> Solved | None:
        """The optimum, as `solve_program` says."""
        best: Solved | None = None
        newest = count(0, -1)
        waiting: list[tuple[float, int, Part]] = [(-math.inf, next(newest), self.parts.whole)]
        for _ in range(PARTS):
            enough = max(gap, CURVED_GAP) if self._curved else gap
            if not waiting or (best is not None and waiting[0][0] >= best.value - enough * (1.0 + abs(best.value))):
                break
            bound, _, part = heapq.heappop(waiting)
            try:
                if bound > -math.inf and time.monotonic() >= deadline:
                    raise DeadlineExceeded("The search for a record that keeps the rules found none in time.")
                part = self.parts.tightened(part)
                found = self._solved(part, cost, rows, lower, deadline=deadline, gap=gap, cuts=cuts)
            except Empty:
                continue
            except SolverFailed:
                self._lost = True
                continue
            except DeadlineExceeded:
                if best is None:
                    raise
                return best
            if found is None:
                continue
            broken = self._broken(part, found.row_raw)
            if broken is not None:
                for child in self._divided(part, broken, found.row_raw):
                    heapq.heappush(waiting, (found.value, next(newest), child))
            elif not self.program.keeps_rules(found.row_raw):  # by the tolerance with which a part was narrowed
                self._lost = True
            elif best is None or found.value < best.value:
                best = found
        if best is None and (waiting or self._lost):
            raise SolverFailed("The rules have more combinations than could be searched.")
        return best

    # --- one part ----------------------------------------------------------------------------------------------------

    def _solved(
        self,
        part: Part,
        cost: Float[np.ndarray, "k"],
        rows: Float[np.ndarray, "m k"],
        lower: Float[np.ndarray, "m"],
        **search: Any,
    ) -> Solved | None:
        """The best row of a part, comparisons replaced by their cuts."""
        program, size = self.program, self.program.size
        limit = program.limit.copy()
        more: list[tuple[Float[np.ndarray, k], float]] = []
        whole = self.parts.whole
        for j in np.flatnonzero((part.lower_raw > whole.lower_raw) | (part.upper_raw < whole.upper_raw)).tolist():
            row, base = self._row(Variable(j))
            unit = float(np.abs(row).max(initial=0.0)) or 1.0
            more += [(row / unit, (part.lower_raw[j] - base) / unit), (-row / unit, (base - part.upper_raw[j]) / unit)]
        for g, levels in part.levels.items():
            moves = np.flatnonzero(program.feature == g)
            limit[moves[~np.isin(program.level[moves], list(levels))]] = 0.0
            if int(self.start_raw[g]) not in levels:
                more.append((np.isin(np.arange(size), moves).astype(float), 1.0))
        for condition in part.conditions:
            if isinstance(condition, Comparison):
                more += [self._constraint(cut) for cut in self.parts.cuts(part, condition)]
        own = np.zeros((len(more), len(cost)))
        own[:, :size] = np.array([row for row, _ in more]).reshape(len(more), size)
        least = np.concatenate([lower, [low for _, low in more]])
        found = program.relaxed(cost, np.concatenate([rows, own]), least, limit=limit, **search)
        if found is None:
            return None
        # The solver keeps ranges up to a tolerance.
        numbers = self.actions.space.numeric
        row_raw = found.row_raw.copy()
        row_raw[numbers] = np.clip(row_raw, part.lower_raw, part.upper_raw)[numbers]
        return replace(found, row_raw=row_raw)

    def _broken(self, part: Part, row_raw: Float[np.ndarray, "p"]) -> Condition | None:
        """A condition that a row breaks; the first one that has alternatives, or else a comparison."""
        broken = [one for one in part.conditions if not one.allows(row_raw[None])[0]]
        return min(broken, key=lambda one: isinstance(one, Comparison), default=None)

    def _divided(self, part: Part, broken: Condition, row_raw: Float[np.ndarray, "p"]) -> list[Part]:
        """Parts without a row that breaks a condition, which together have all legal rows of the part."""
        if isinstance(broken, AnyOf):
            others = tuple(one for one in part.conditions if one is not broken)
            return [replace(part, conditions=(*others, one)) for one in broken.parts]
        assert isinstance(broken, Comparison)
        j = self.parts.widest(part, broken)
        if j is None:
            self._lost = True
            return []
        self._curved = True
        if j in part.levels:
            own = frozenset({int(row_raw[j])})
            return [replace(part, levels={**part.levels, j: one}) for one in (own, part.levels[j] - own) if one]
        ends, here = (part.lower_raw[j], part.upper_raw[j]), np.arange(len(row_raw)) == j
        return [
            replace(part, lower_raw=np.where(here, low, part.lower_raw), upper_raw=np.where(here, high, part.upper_raw))
            for low, high in self.parts.pieces(j, *ends, float(row_raw[j]), known=bool(self.parts.cuts(part, broken)))
            if low <= high
        ]

    # --- the program -------------------------------------------------------------------------------------------------

    def _constraint(self, cut: Cut) -> tuple[Float[np.ndarray, "k"], float]:
        """A cut as ``row . z >= low``."""
        row, limit = np.zeros(self.program.size), cut.limit
        for variable, slope in cut.slopes.items():
            own, base = self._row(variable)
            row -= slope * own
            limit -= slope * base
        unit = float(np.abs(row).max(initial=0.0)) or 1.0
        margin = max(cut.rounding, STRICT * unit) if cut.exact and cut.strict else 0.0
        return row / unit, (margin - limit) / unit

    def _row(self, variable: Variable) -> tuple[Float[np.ndarray, "k"], float]:
        """A variable as a linear function of those of the program."""
        program, n = self.program, self.program.size // 2
        row = np.zeros(program.size)
        own = np.flatnonzero(program.feature == variable.column)
        if variable.numbers:
            start = variable.numbers[int(self.start_raw[variable.column])]
            base = 0.0 if start == MISSING else start
            numbers = np.array(variable.numbers)[program.level[own]]
            row[own] = np.where(numbers == MISSING, 0.0, numbers - base)
        else:
            base = float(self.start_raw[variable.column])
            row[own], row[n + own] = program.sign[own] * program.first[own], program.sign[own] * program.per[own]
        return row, base
