"""The records between an applicant's own and one with several changes: those with only some of the changes.

As much time has passed in them as in the record with all changes.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet

MOST = 7
"""Changes up to which every combination counts: 126 records."""

Made: TypeAlias = frozenset[int]
"""The features whose changes have been made."""


def combined(actions: ActionSet, row_raw: Float[np.ndarray, "p"], changed: Sequence[int]) -> list[Made]:
    """Sets of feature indices: for a record with `changed` features, each set that has some but not all of them.

    Smaller sets come first. Where more than `MOST` features change, there is one set of each size: the features whose
    changes cost most.
    """
    if len(changed) <= MOST:
        return [frozenset(some) for k in range(1, len(changed)) for some in combinations(changed, k)]
    single = np.where(np.eye(actions.space.p, dtype=bool)[list(changed)], row_raw, actions.factual_raw)
    order = [changed[k] for k in actions.cost(single).argsort(kind="stable")[::-1]]
    return [frozenset(order[:k]) for k in range(1, len(order))]


def rows_between(actions: ActionSet, row_raw: Float[np.ndarray, "p"], some: Sequence[Made]) -> Float[np.ndarray, "n p"]:
    """For each set of features in `some`, the raw row in which only these have the values of `row_raw`.

    The other features have the person's own values. Where time has passed in `row_raw`, it passes here, too.
    """
    fact, passive = actions.factual_raw, actions.clock.passive
    rows = np.repeat(fact[None], len(some), axis=0)
    for row, made in zip(rows, some, strict=True):
        row[list(made)] = row_raw[list(made)]
    if (row_raw[passive] != fact[passive]).any():  # time has passed in the counterfactual, so it passes here
        rows = actions.clock.settled(rows)
    return rows
