"""Combinations of moves, of which the most promising are followed."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

WIDTH = 24
"""Combinations of the same number of moves that are followed."""


@dataclass(frozen=True, slots=True)
class Combination:
    """Several moves of different features from one base record, with estimated scores, as if their gains added up."""

    scores: Float[np.ndarray, "m"]
    cost: float
    count: int
    moves: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Expansion:
    """All combinations of a beam, each extended by every possible move.

    Each array has one entry per extended combination; those that extend the same combination are next to each other.
    """

    beam: list[Combination]
    scores: Float[np.ndarray, "b m"]
    costs: Float[np.ndarray, "b"]
    counts: Int[np.ndarray, "b"]
    allowed: Bool[np.ndarray, "b"]
    """Whether the move touches no feature that the combination has set already."""

    @classmethod
    def of(
        cls,
        beam: list[Combination],
        gains: Float[np.ndarray, "n m"],
        extra: Float[np.ndarray, "n"],
        counted: Int[np.ndarray, "n"],
        touched: Bool[np.ndarray, "n p"],
    ) -> "Expansion":
        """All combinations of `beam`, each extended by every move.

        Parameters
        ----------
        gains : what each move adds to each model's score
        extra : what each move adds to the cost
        counted : what each move adds to the number of changes
        touched : which features each move sets
        """
        scores = np.stack([one.scores for one in beam])[:, None, :] + gains
        used = np.stack([touched[list(one.moves)].any(axis=0) for one in beam])
        return cls(
            beam=beam,
            scores=scores.reshape(-1, scores.shape[-1]),
            costs=(np.array([one.cost for one in beam])[:, None] + extra).ravel(),
            counts=(np.array([one.count for one in beam])[:, None] + counted).ravel(),
            allowed=~(used.astype(float) @ touched.T.astype(float) > 0.0).ravel(),
        )

    def combination(self, flat: int) -> tuple[float, tuple[int, ...]]:
        """Cost and moves of the combination at a place in the flat arrays."""
        before, move = divmod(flat, len(self.costs) // len(self.beam))
        return float(self.costs[flat]), (*self.beam[before].moves, move)

    def best(self, promise: Float[np.ndarray, "b"], beam: list[Combination]) -> list[Combination]:
        """The combinations of moves with the smallest `promise`, at most `WIDTH`; each set of moves occurs once.

        Parameters
        ----------
        promise : one number per extended combination, smaller is better; an infinite one excludes the combination
        beam : the combinations before they were extended by one move each
        """
        chosen: dict[frozenset[int], Combination] = {}
        for flat in np.argsort(promise, kind="stable")[: len(beam[0].moves) * WIDTH + WIDTH].tolist():
            if not np.isfinite(promise[flat]) or len(chosen) == WIDTH:
                break
            cost, moves = self.combination(flat)
            one = Combination(self.scores[flat], cost, int(self.counts[flat]), moves)
            chosen.setdefault(frozenset(moves), one)
        return list(chosen.values())
