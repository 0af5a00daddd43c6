"""An ensemble of decision trees as boxes: the sum over the trees of the value of the leaf that a point is in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, eq=False)
class Forest:
    """The leaves of several trees over encoded points, tree after tree; a point is in one leaf of each tree."""

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
        """The forest of several trees, each given by the lower sides, upper sides and values of its leaves."""
        lower, upper, values = (np.concatenate(parts) for parts in zip(*leaves, strict=True))
        sizes = [len(part) for _, _, part in leaves]
        return cls(lower, upper, values, np.cumsum([0, *sizes[:-1]]))

    def of_limits(self, limits: Callable[[np.ndarray], np.ndarray]) -> "Forest":
        """The forest in other units: `limits` maps the sides (m, d) of leaves, increasing in each column."""
        return replace(self, lower=limits(self.lower), upper=limits(self.upper))

    @cached_property
    def edges(self) -> list[Float[np.ndarray, "e"]]:
        """The values at which some tree divides each column, ascending."""
        sides = np.concatenate([self.lower, self.upper])
        return [np.unique(column[np.isfinite(column)]) for column in sides.T]

    def margin(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """The margin of each point: the sum of the values of the leaves that it is in."""
        return np.array([self.most(x, x) for x in X])

    def within(
        self, lower: Float[np.ndarray, "d"], upper: Float[np.ndarray, "d"], columns: Int[np.ndarray, "c"]
    ) -> "Forest":
        """The forest of the leaves that points from `lower` to `upper` can be in, in the given columns only."""
        meets = self._meets(lower, upper)
        sizes = np.add.reduceat(meets.astype(int), self.first)
        first = np.cumsum([0, *sizes[:-1]])
        return Forest(self.lower[meets][:, columns], self.upper[meets][:, columns], self.values[meets], first)

    def most(self, lower: Float[np.ndarray, "d"], upper: Float[np.ndarray, "d"]) -> float:
        """Upper bound on the margin of the points from `lower` to `upper`; exact for a single point."""
        values = np.where(self._meets(lower, upper), self.values, -np.inf)
        return float(np.maximum.reduceat(values, self.first).sum())

    def _meets(self, lower: Float[np.ndarray, "d"], upper: Float[np.ndarray, "d"]) -> Bool[np.ndarray, "m"]:
        """In which leaves some point from `lower` to `upper` is."""
        return np.all((self.lower < upper) & (self.upper >= lower), axis=1)
