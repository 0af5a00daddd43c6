"""Legal rows: all of them where they are few, and those nearest to given ones where rules tie features."""

import itertools
import math

import numpy as np
from jaxtyping import Float

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.advice_ranges import lattice_point
from app.recourse.search.mixed_integer import ActionProgram
from app.recourse.search.rule_branching import solve_program


def every_row(action_set: ActionSet, most: int) -> Float[np.ndarray, "n p"] | None:
    """All legal rows, cheapest first; None if they would be too many to list.

    Parameters
    ----------
    most : limit on the number of combinations of feature values, before rules and caps exclude some of them
    """
    A = action_set
    values: list[list[float]] = []
    count = 1
    for j, feature in enumerate(A.space.features):
        found = {float(A.factual_raw[j])}
        if not A.movable[j]:
            pass
        elif feature.is_group:
            found |= {float(level) for level in A.levels(j)}
        else:
            step, width = float(A.step_raw[j]), float(A.upper_raw[j] - A.lower_raw[j])
            if step == 0.0 or not width / step <= most:
                return None
            first = (A.lower_raw[j] - A.anchor_raw[j]) / step
            ticks = range(math.floor(first), math.ceil(first + width / step) + 1)
            found |= {lattice_point(tick, float(A.anchor_raw[j]), step) for tick in ticks}
        values.append(sorted(found))
        count *= len(found)
        if count > most:
            return None
    rows_raw = A.clock.settled(np.array(list(itertools.product(*values))))
    rows_raw = rows_raw[A.contains(rows_raw)]
    return rows_raw[A.cost(rows_raw).argsort(kind="stable")]


def nearest_legal(
    action_set: ActionSet, rows_raw: Float[np.ndarray, "n p"], *, deadline: float = math.inf
) -> Float[np.ndarray, "m p"]:
    """For each row the nearest legal row, by L1 distance in encoded units; no rows at all if no row is legal.

    Parameters
    ----------
    deadline : `time.monotonic()` at which the search ends; rows for which no legal row is known by then are left out
    """
    program, space = ActionProgram(action_set), action_set.space
    d, size = space.d, program.size
    cost = np.concatenate([np.zeros(size), np.ones(d)])
    # |x - target| by column, above the action's variables.
    rows = np.block([[program.effect, np.eye(d)], [-program.effect, np.eye(d)]])
    found: list[Float[np.ndarray, p]] = []
    for target in space.encode(rows_raw) - program.start:
        try:
            solved = solve_program(program, cost, rows, np.concatenate([target, -target]), deadline=deadline)
        except (DeadlineExceeded, SolverFailed):
            continue
        if solved is None:
            break
        found.append(solved.row_raw)
    return np.array(found).reshape(len(found), space.p)
