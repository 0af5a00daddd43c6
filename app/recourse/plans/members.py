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
    """The plan after its members have been moved in turn, until no member moves any more.

    Parameters
    ----------
    plan_raw : legal raw rows
    improved : a function that takes a plan and the index of a member, and returns the row of that member after its
        moves; an unchanged row means that the member stays
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
    """Indices of the records that form the best plan: the kept records, and the additions that improve the plan most.

    Parameters
    ----------
    n : number of records to choose from
    count : largest number of members of the plan
    value : a function from the indices of a plan to an array: for each of the `n` records, the value of the plan with
        this record added; smaller is better
    kept : indices of the records that are certain to be members
    passes : largest number of rounds; in a round, each addition in turn is replaced by the record that goes best with
        the other members
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
