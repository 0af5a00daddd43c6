"""Members of a plan, exchanged and moved one after another under any objective of whole plans."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

SWEEPS = 12
"""Largest number of passes over all members by single moves."""
STEPS = 4
"""Single moves of one member before the next member is moved."""


def improved_in_turn(
    plan_raw: Float[np.ndarray, "j p"],
    improved: Callable[[Float[np.ndarray, "j p"], int], Float[np.ndarray, "p"]],
    sweeps: int,
) -> Float[np.ndarray, "j p"]:
    """The plan after moves of its members, in turn, until none of them moves any more.

    Parameters
    ----------
    plan_raw : legal raw rows
    improved : maps a plan and the index of a member to this member after its moves; the same row where it stays
    sweeps : largest number of passes over all members
    """
    plan, still = plan_raw.copy(), 0
    for turn in range(sweeps * len(plan)):
        j = turn % len(plan)
        row_raw = improved(plan, j)
        still = still + 1 if (row_raw == plan[j]).all() else 0
        plan[j] = row_raw
        if still == len(plan):
            break
    return plan


def chosen(
    n: int, count: int, value: Callable[[list[int]], Float[np.ndarray, "n"]], kept: list[int], passes: int
) -> list[int]:
    """Indices of the best plan of at most `count` members among `n` records: the kept ones, and the best additions.

    Parameters
    ----------
    value : maps the indices of a plan to the value of that plan with one more record, for each record; smaller is
        better
    kept : indices of records that stay
    passes : how often each addition is exchanged for the best one given the others, while that improves the plan
    """
    plan = kept[:count]
    first = len(plan)

    def addition(others: list[int]) -> int:
        values = value(others)
        values[others] = np.inf
        return int(values.argmin())

    while len(plan) < min(count, n):
        plan.append(addition(plan))
    for _ in range(passes if len(plan) < n else 0):
        before = plan.copy()
        for place in range(first, len(plan)):
            plan[place] = addition(plan[:place] + plan[place + 1 :])
        if plan == before:
            break
    return plan
