"""The overlap of two members of a plan: how much of what one of them changes the other one changes too.

``o_ij = sum_f min(m_if, m_jf) / min(sum_f m_if, sum_f m_jf)``, with ``m_if`` how far member ``i`` moves feature
``f``, in spreads or changes of category. It is 0 where the members share no feature, and 1 where one of them does all
that the other does, as a needless change more makes no other way, or where both change the same features.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from app.recourse.actions.action_set import ActionSet
from app.recourse.numerics.linalg import SAME

MOST_OVERLAP = 0.8
"""Members of a plan for people with a larger overlap are the same way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """For several records, how far the person has to move each feature."""

    amounts: Float[np.ndarray, "n p"]
    """In spreads; 1 for a change of category, 0 for what time changes."""
    totals: Float[np.ndarray, "n"]
    """Sums of the amounts."""
    made: Float[np.ndarray, "n p"]
    """1 where a feature moves, else 0."""
    counts: Float[np.ndarray, "n"]
    """How many features move."""

    def __getitem__(self, picked: list[int] | slice | Int[np.ndarray, "k"]) -> "Moved":
        return Moved(
            amounts=self.amounts[picked], totals=self.totals[picked], made=self.made[picked], counts=self.counts[picked]
        )


def moved(actions: ActionSet, rows_raw: Float[np.ndarray, "n p"]) -> Moved:
    """For each raw row, how far the person has to move each feature to reach it."""
    amounts = actions.amounts(rows_raw)
    made = (amounts > 0.0).astype(float)
    return Moved(amounts=amounts, totals=amounts.sum(axis=1), made=made, counts=made.sum(axis=1))


def overlaps(one: Moved, other: Moved) -> Float[np.ndarray, "n k"]:
    """Overlap of each record of `one` with each record of `other`, in [0, 1]; 0 if one of the two changes nothing."""
    smaller = np.minimum(one.totals[:, None], other.totals)
    overlap = np.minimum(one.amounts[:, None, :], other.amounts).sum(axis=-1) / np.maximum(smaller, SAME)
    same_features = one.counts[:, None] + other.counts == 2.0 * (one.made @ other.made.T)
    return np.where(same_features & (smaller > 0.0), 1.0, overlap)
