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
    values: list[Float[np.ndarray, v]] = []
    for j in range(A.space.p):
        found = every_value(A, j, most)
        if found is None or math.prod(map(len, values)) * len(found) > most:
            return None
        values.append(found)
    rows_raw = A.clock.settled(np.array(list(itertools.product(*values))))
    rows_raw = rows_raw[A.contains(rows_raw)]
    return rows_raw[A.cost(rows_raw).argsort(kind="stable")]


def every_value(A: ActionSet, j: int, most: int) -> Float[np.ndarray, "v"] | None:
    """All legal values of one feature, the person's own among them, ascending; None if they would be too many to list.

    Parameters
    ----------
    most : limit on the number of values
    """
    fact, step, width = (float(one[j]) for one in (A.factual_raw, A.step_raw, A.upper_raw - A.lower_raw))
    if not A.movable[j]:
        return np.array([fact])
    if A.space.features[j].is_group or j in A.restricted:
        return np.unique([*map(float, A.levels(j)), fact])
    if step == 0.0 or not width / step <= most:
        return None
    anchor = float(A.anchor_raw[j])
    first = (A.lower_raw[j] - anchor) / step
    ticks = range(math.floor(first), math.ceil(first + width / step) + 1)
    values = np.unique([*(lattice_point(tick, anchor, step) for tick in ticks), fact])
    return values[A.each_is_legal(with_values(A, j, values))[:, j]]


def with_values(A: ActionSet, j: int, values: Float[np.ndarray, "v"]) -> Float[np.ndarray, "v p"]:
    """The person's raw row with each of these values of one feature."""
    rows_raw = np.tile(A.factual_raw, (len(values), 1))
    rows_raw[:, j] = values
    return rows_raw


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
