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
    """The combinations of a beam, each extended by every possible move that is allowed.

    Each array has one entry per extended combination; those that extend the same combination are next to each other.
    """

    beam: list[Combination]
    before: Int[np.ndarray, "b"]
    """Index of the combination in `beam` that is extended."""
    move: Int[np.ndarray, "b"]
    """The move that extends it."""
    scores: Float[np.ndarray, "b m"]
    costs: Float[np.ndarray, "b"]
    counts: Int[np.ndarray, "b"]

    @classmethod
    def of(
        cls,
        beam: list[Combination],
        gains: Float[np.ndarray, "n m"],
        extra: Float[np.ndarray, "n"],
        counted: Int[np.ndarray, "n"],
        touched: Bool[np.ndarray, "n p"],
        *,
        below: float,
        changes: float,
    ) -> "Expansion":
        """Each combination of `beam` extended by every move of other features.

        Parameters
        ----------
        gains : what each move adds to each model's score
        extra : what each move adds to the cost
        counted : what each move adds to the number of changes
        touched : which features each move sets
        below : what costs as much is left out
        changes : largest number of changes
        """
        used = np.stack([touched[list(one.moves)].any(axis=0) for one in beam])
        costs = np.array([one.cost for one in beam])[:, None] + extra
        counts = np.array([one.count for one in beam])[:, None] + counted
        apart = used.astype(float) @ touched.T.astype(float) == 0.0
        allowed = apart & (costs < below) & (counts <= changes)
        before, move = np.nonzero(allowed)
        # Most of the time of a search goes into these numbers: none are made for what is not allowed.
        scores = np.stack([one.scores for one in beam])[before] + gains[move]
        return cls(beam, before, move, scores, costs[allowed], counts[allowed])

    def combination(self, at: int) -> tuple[float, tuple[int, ...]]:
        """Cost and moves of the extended combination at a place in the arrays."""
        return float(self.costs[at]), (*self.beam[self.before[at]].moves, int(self.move[at]))

    def best(self, promise: Float[np.ndarray, "b"]) -> list[Combination]:
        """The combinations of moves with the smallest `promise`, at most `WIDTH`; each set of moves occurs once.

        Parameters
        ----------
        promise : one number per extended combination, smaller is better; an infinite one excludes the combination
        """
        chosen: dict[frozenset[int], Combination] = {}
        for at in np.argsort(promise, kind="stable")[: len(self.beam[0].moves) * WIDTH + WIDTH].tolist():
            if not np.isfinite(promise[at]) or len(chosen) == WIDTH:
                break
            cost, moves = self.combination(at)
            one = Combination(self.scores[at], cost, int(self.counts[at]), moves)
            chosen.setdefault(frozenset(moves), one)
        return list(chosen.values())
