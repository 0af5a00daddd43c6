"""A single decision tree as boxes: its decisions, and the exact probability that noise changes one.

The leaves of a tree over encoded points are boxes ``lower < x <= upper`` that fill the space and do not overlap. Under
noise that is independent between columns, the probability of ending in a box is the product over columns of
``F((upper - x) / std) - F((lower - x) / std)``, and the invalidation rate is the sum over the unfavourable boxes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr

from app.recourse.models.tree_leaves import Splits, leaves_of

Score: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Maps encoded points (n, d) to scores (n,)."""

Cdf: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Distribution function, elementwise; infinite arguments give 0 and 1."""

CELLS = 1_000_000
"""Points times boxes that are computed at once, to bound memory."""


@dataclass(frozen=True, eq=False)
class Boxes:
    """The leaves of one decision tree over encoded points, as boxes; every finite point lies in exactly one box."""

    lower: Float[np.ndarray, "m d"]
    """Lower side of each box, which is not in it; -inf without such a side."""
    upper: Float[np.ndarray, "m d"]
    """Upper side of each box, which is in it; inf without such a side."""
    scores: Float[np.ndarray, "m"]
    """Scores of the black box, favourable iff >= 0; a NaN is never favourable."""

    @classmethod
    def of_tree(
        cls,
        feature: Int[np.ndarray, "k"],
        threshold: Float[np.ndarray, "k"],
        left: Int[np.ndarray, "k"],
        right: Int[np.ndarray, "k"],
        *,
        columns: int,
        score: Score,
    ) -> "Boxes":
        """The boxes of a tree's leaves; a leaf that no point can reach is left out.

        Parameters
        ----------
        feature, threshold : inner node k sends a point left iff ``x[feature[k]] <= threshold[k]``; ignored in leaves.
            For a library that compares differently, translate thresholds by `single_precision_edge`.
        left, right : children of each node, negative for a leaf; node 0 is the root; no cycles
        columns : number of encoded columns, d
        score : the score of the black box for encoded points; called once, with one point of each box, so that the
            boxes agree with the black box
        """
        leaves = leaves_of([Splits(feature=feature, edge=threshold, left=left, right=right)], columns)
        members = _members(leaves.lower, leaves.upper)
        return cls(leaves.lower, leaves.upper, np.asarray(score(members), dtype=float))

    def of_limits(self, limits: Callable[[np.ndarray], np.ndarray]) -> "Boxes":
        """The boxes in other units.

        Parameters
        ----------
        limits : a function from sides of boxes (m, d) to the same sides in the new units, increasing in each column
        """
        return Boxes(limits(self.lower), limits(self.upper), self.scores)

    @cached_property
    def favourable(self) -> Bool[np.ndarray, "m"]:
        """For each box, whether the decision in it is favourable."""
        return np.asarray(self.scores >= 0.0)

    def score(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """Score of each finite point, looked up in its box."""
        exact = np.zeros(X.shape[1])
        return np.concatenate(
            [np.zeros(0), *(self.scores[inside.argmax(axis=1)] for inside in self._chances(X, exact, ndtr))]
        )

    def rate(self, X: Float[np.ndarray, "n d"], std: Float[np.ndarray, "d"], cdf: Cdf = ndtr) -> Float[np.ndarray, "n"]:
        """For each point, the exact probability that independent noise on each column makes the point unfavourable.

        Parameters
        ----------
        X : (n, d), finite
        std : (d,), >= 0, encoded units; 0 for a column that is implemented exactly
        cdf : distribution function of the noise in units of `std`, symmetric about 0; by default the Gaussian one

        Returns
        -------
        (n,), in [0, 1]; tiny rates, far from the boundary, keep their leading digits

        Notes
        -----
        Theorem 2 of the reference subtracts the sum over favourable boxes from 1. The sum over unfavourable boxes is
        the same, because the boxes fill the space. The latter sum does not lose a small rate in the rounding of 1.

        References
        ----------
        Pawelczyk et al., "Probabilistically Robust Recourse", ICLR 2023, Theorem 2.
        """
        rates = [np.zeros(0), *(chances[:, ~self.favourable].sum(axis=1) for chances in self._chances(X, std, cdf))]
        return np.minimum(np.concatenate(rates), 1.0)

    def _chances(self, X: np.ndarray, std: np.ndarray, cdf: Cdf) -> Iterator[np.ndarray]:
        """Probability of each box, (points, m), for a few points at a time."""
        few = max(1, CELLS // len(self.scores))
        for start in range(0, len(X), few):
            points = X[start : start + few]
            chances = np.ones((len(points), len(self.scores)))
            for j, edges, lower, upper in self._splits:
                chances *= _between(points[:, j, None], edges, lower, upper, float(std[j]), cdf)
            yield chances

    @cached_property
    def _splits(self) -> list[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
        """Columns that the tree splits on: their edges, and which of these bound each box.

        Boxes share most of their sides, and distribution functions are expensive.
        """
        asked = np.flatnonzero((np.isfinite(self.lower) | np.isfinite(self.upper)).any(axis=0))
        splits: list[tuple[int, np.ndarray, np.ndarray, np.ndarray]] = []
        for j in asked:
            edges, index = np.unique(np.concatenate([self.lower[:, j], self.upper[:, j]]), return_inverse=True)
            splits.append((int(j), edges, index[: len(self.scores)], index[len(self.scores) :]))
        return splits


def single_precision_edge(threshold: Float[np.ndarray, "k"], *, strict: bool) -> Float[np.ndarray, "k"]:
    """For each threshold, the largest number that goes left, in a library that rounds numbers to single precision.

    Parameters
    ----------
    threshold : finite
    strict : whether the library goes left on ``<`` (XGBoost) instead of ``<=`` (scikit-learn)

    Returns
    -------
    Numbers `edge` such that ``x <= edge`` iff ``float32(x) < threshold`` (strict) or ``float32(x) <= threshold``.
    Numbers too large for single precision count as infinite.
    """
    with np.errstate(over="ignore"):
        single = threshold.astype(np.float32)
        beyond = single.astype(float) >= threshold if strict else single.astype(float) > threshold
        last = np.where(beyond, np.nextafter(single, np.float32(-np.inf)), single)
        following = np.nextafter(last, np.float32(np.inf))
        # Infinity rounds as if it were the next power of two. Halfway is exact in double precision, and is rounded to
        # the neighbour whose last digit is even.
        below, above = (np.clip(side.astype(float), -(2.0**128), 2.0**128) for side in (last, following))
        halfway = 0.5 * (below + above)
        return np.where(halfway.astype(np.float32) <= last, halfway, np.nextafter(halfway, -np.inf))


def _members(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """A finite point of each box."""
    beyond = np.where(np.isfinite(lower), np.nextafter(lower, np.inf), 0.0)
    return np.where(np.isfinite(upper), upper, beyond)


def _between(
    x: np.ndarray, edges: np.ndarray, lower: np.ndarray, upper: np.ndarray, std: float, cdf: Cdf
) -> np.ndarray:
    """Probability (n, m) that the noisy ``x (n, 1)`` is in ``(edges[lower], edges[upper]]``."""
    if std == 0.0:
        reached = (x <= edges).astype(float)
        return reached[:, upper] - reached[:, lower]
    with np.errstate(over="ignore"):
        distance = (edges - x) / std
    below, above = cdf(distance), cdf(-distance)
    # Beyond x both values of the distribution function are near 1; their complements are as far apart, and precise.
    return np.where((distance > 0.0)[:, lower], above[:, lower] - above[:, upper], below[:, upper] - below[:, lower])
