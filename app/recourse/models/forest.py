"""An ensemble of decision trees as boxes: the sum over the trees of the value of the leaf that a point is in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Forest:
    """The leaves of several decision trees over encoded points, one tree after the other.

    A point is in one leaf of each tree.
    """

    lower: Float[np.ndarray, "m d"]
    """Lower side of each leaf, which is not in it; -inf without such a side."""
    upper: Float[np.ndarray, "m d"]
    """Upper side of each leaf, which is in it; inf without such a side."""
    values: Float[np.ndarray, "m"]
    """What a leaf adds to the margin."""
    first: Int[np.ndarray, "t"]
    """The first leaf of each tree."""

    @classmethod
    def of_trees(
        cls, leaves: Sequence[tuple[Float[np.ndarray, "_ d"], Float[np.ndarray, "_ d"], Float[np.ndarray, "_"]]]
    ) -> "Forest":
        """The forest of several trees.

        Parameters
        ----------
        leaves : for each tree, the lower sides, the upper sides and the values of its leaves
        """
        lower, upper, values = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
        sizes = [len(part) for _, _, part in leaves]
        return cls(lower, upper, values, np.cumsum([0, *sizes[:-1]]))

    def of_limits(self, limits: Callable[[np.ndarray], np.ndarray]) -> "Forest":
        """The forest in other units.

        Parameters
        ----------
        limits : a function from sides of leaves (m, d) to the same sides in the new units, increasing in each column
        """
        return replace(self, lower=limits(self.lower), upper=limits(self.upper))

    @cached_property
    def edges(self) -> list[Float[np.ndarray, "e"]]:
        """For each column, the values at which any of the trees splits it, ascending."""
        sides = np.concatenate([self.lower, self.upper])
        return [np.unique(column[np.isfinite(column)]) for column in sides.T]

    def margin(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """The margin of each point: the sum of the values of the leaves that contain the point."""
        return np.array([self.most(x, x) for x in X])

    def within(
        self, lower: Float[np.ndarray, "d"], upper: Float[np.ndarray, "d"], columns: Int[np.ndarray, "c"]
    ) -> "Forest":
        """The leaves that points between `lower` and `upper` can be in, as a forest of the given columns only."""
        meets = self._meets(lower, upper)
        sizes = np.add.reduceat(meets.astype(int), self.first)
        first = np.cumsum([0, *sizes[:-1]])
        return Forest(self.lower[meets][:, columns], self.upper[meets][:, columns], self.values[meets], first)

    def most(self, lower: Float[np.ndarray, "d"], upper: Float[np.ndarray, "d"]) -> float:
        """Upper bound on the margin of all points between `lower` and `upper`; exact if both are the same point."""
        values = np.where(self._meets(lower, upper), self.values, -np.inf)
        return float(np.maximum.reduceat(values, self.first).sum())

    def _meets(self, lower: Float[np.ndarray, "d"], upper: Float[np.ndarray, "d"]) -> Bool[np.ndarray, "m"]:
        """In which leaves some point from `lower` to `upper` is."""
        return np.all((self.lower < upper) & (self.upper >= lower), axis=1)
