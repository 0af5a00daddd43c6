"""Members of a plan, exchanged and moved one after another under any objective of whole plans."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from app.recourse.search.local_moves import SingleMoves

Joined: TypeAlias = Callable[[np.ndarray], Callable[[np.ndarray], np.ndarray]]
"""From raw rows ``(k, p)`` to a function of raw rows ``(n, p)``: the value of the plan of the first and one of them."""

SWEEPS = 12
"""Largest number of passes over all members by single moves."""
STEPS = 4
"""Single moves of one member before the next member is moved."""


def settled(
    plan_raw: Float[np.ndarray, "j p"],
    joined: Joined,
    moves: SingleMoves,
    *,
    until: float,
    sweeps: int = SWEEPS,
    levels_only: bool = False,
) -> Float[np.ndarray, "j p"]:
    """The plan after single moves of its members, in turn, while they improve it.

    Parameters
    ----------
    plan_raw : legal raw rows
    until : `time.monotonic()` after which nothing moves
    """
    plan = plan_raw.copy()
    for _ in range(sweeps):
        before = plan.copy()
        for j in range(len(plan)):
            value = joined(np.delete(plan, j, axis=0))
            plan[j] = moves.descend(plan[j], value, steps=STEPS, until=until, levels_only=levels_only)
        if (plan == before).all():
            break
    return plan


def chosen(rows_raw: Float[np.ndarray, "n p"], count: int, joined: Joined, kept: list[int], passes: int) -> list[int]:
    """Indices of the best plan of at most `count` members among rows: the kept ones, and the best additions.

    Parameters
    ----------
    kept : indices of rows that stay
    passes : how often each addition is exchanged for the best one given the others, while that improves the plan
    """
    plan = kept[:count]
    first = len(plan)

    def addition(others: list[int]) -> int:
        values = joined(rows_raw[others])(rows_raw)
        values[others] = np.inf
        return int(values.argmin())

    while len(plan) < min(count, len(rows_raw)):
        plan.append(addition(plan))
    for _ in range(passes if len(plan) < len(rows_raw) else 0):
        before = plan.copy()
        for place in range(first, len(plan)):
            plan[place] = addition(plan[:place] + plan[place + 1 :])
        if plan == before:
            break
    return plan
