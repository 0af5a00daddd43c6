"""Which values of each feature are legal, and the nearest legal ones: for rows of one person, or of many at once.

A person's limits are two arrays. `limits`, ``(11, p)``, has of each feature the fact, the lower end of its range, the
nearest values below and above the fact, the upper end, 1 where time moves it, and the fields of its lattice.
`proposed`, ``(g, l)``, says of each categorical feature which levels may be proposed.
"""

from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float

from app.recourse.actions.advice_ranges import Lattices
from app.recourse.features import FeatureSpace

FACT, LOWER, BELOW, ABOVE, UPPER, PASSIVE, LATTICE = range(7)
"""Rows of `limits`; from `LATTICE` on, the fields of `Lattices`."""


class LegalValues:
    """The legal values of the features of one space.

    All methods take the limits of each row, or of all rows in arrays whose first length is 1.
    """

    def __init__(self, space: FeatureSpace) -> None:
        self.space, self.groups = space, space.groups
        self.levels = max((len(space.features[g].levels) for g in space.groups.tolist()), default=0)
        """The most levels of a categorical feature."""
        self._every = np.arange(len(space.groups))

    def _is_proposed(
        self, rows_raw: Float[np.ndarray, "n p"], proposed: Bool[np.ndarray, "m g l"]
    ) -> Bool[np.ndarray, "n g"]:
        """Mask, per row and categorical feature, of the levels that may be proposed."""
        people = np.arange(len(proposed))[:, None]
        return proposed[people, self._every, rows_raw.take(self.groups, axis=1).astype(np.intp)]

    def legal(
        self,
        rows_raw: Float[np.ndarray, "n p"],
        limits: Float[np.ndarray, "m k p"],
        proposed: Bool[np.ndarray, "m g l"],
    ) -> Bool[np.ndarray, "n p"]:
        """Mask, per row and feature, of legal values: the person's own, and those that may be proposed."""
        fact, lower, below, above, upper = (limits[:, k] for k in range(PASSIVE))
        legal = (rows_raw >= lower) & (rows_raw <= upper) & (lower != upper)
        legal &= (rows_raw <= below) | (rows_raw >= above)
        if (lattices := _lattices(limits)) is not None:
            ticks = np.rint(lattices.ticks(rows_raw))
            legal &= ~(lattices.exist & lattices.apart(rows_raw, ticks, lattices.points(ticks)))
        if not proposed.all():
            legal[:, self.groups] &= self._is_proposed(rows_raw, proposed)
        legal |= rows_raw == fact
        return legal

    def whole_rows(
        self,
        rows_raw: Float[np.ndarray, "n p"],
        limits: Float[np.ndarray, "m k p"],
        proposed: Bool[np.ndarray, "m g l"],
    ) -> Bool[np.ndarray, "n"]:
        """Mask of the rows whose values are all legal, but for what time moves."""
        return np.asarray((self.legal(rows_raw, limits, proposed) | (limits[:, PASSIVE] != 0.0)).all(axis=1))

    def snapped(
        self,
        rows_raw: Float[np.ndarray, "n p"],
        limits: Float[np.ndarray, "m k p"],
        proposed: Bool[np.ndarray, "m g l"],
    ) -> Float[np.ndarray, "n p"]:
        """Rows with each value moved to the nearest legal one; of states, and of other levels, to the person's own."""
        if self.space.states_raw.size:
            rows_raw = np.where(self.space.in_state(rows_raw), limits[:, FACT], rows_raw)
        rows_raw = np.minimum(np.maximum(rows_raw, limits[:, LOWER]), limits[:, UPPER])
        return self.rounded(rows_raw, rows_raw, limits, proposed)

    def rounded(
        self,
        rows_raw: Float[np.ndarray, "n p"],
        toward_raw: Float[np.ndarray, "n p"],
        limits: Float[np.ndarray, "m k p"],
        proposed: Bool[np.ndarray, "m g l"],
    ) -> Float[np.ndarray, "n p"]:
        """Rows within the ranges, with each number rounded to one that may be proposed.

        To the nearest, or towards the number of `toward_raw` where it is another one.
        """
        fact, lower, below, above, upper = (limits[:, k] for k in range(PASSIVE))
        changed = rows_raw != fact
        in_gap = (rows_raw > below) & (rows_raw < above) & changed
        rounded = rows_raw
        if (lattices := _lattices(limits)) is not None:
            ticks = lattices.ticks(rows_raw)
            whole = np.rint(ticks)
            points = lattices.points(whole)
            if toward_raw is not rows_raw:
                beside = lattices.apart(rows_raw, whole, points) & (toward_raw != rows_raw)
                if beside.any():
                    whole = np.where(beside, np.where(toward_raw > rows_raw, np.ceil(ticks), np.floor(ticks)), whole)
                    points = lattices.points(whole)
            points = np.minimum(np.maximum(points, lower), upper)
            rounded = np.where(lattices.exist & changed, points, rows_raw)
        if in_gap.any():
            under = rows_raw < fact
            low, high = np.where(under, below, fact), np.where(under, fact, above)
            up = np.where(toward_raw == rows_raw, high - rows_raw < rows_raw - low, toward_raw > rows_raw)
            rounded = np.where(in_gap, np.where(up, high, low), rounded)
        if not proposed.all():
            own = rounded.take(self.groups, axis=1)
            kept = np.where(self._is_proposed(rounded, proposed), own, fact[:, self.groups])
            rounded = rounded.copy() if rounded is rows_raw else rounded
            rounded[:, self.groups] = kept
        return rounded


def _lattices(limits: Float[np.ndarray, "m k p"]) -> Lattices | None:
    exist = limits[:, LATTICE] != 0.0
    return Lattices(exist, *(limits[:, LATTICE + k] for k in range(1, 5))) if exist.any() else None


@lru_cache(maxsize=256)
def legal_values(space: FeatureSpace) -> LegalValues:
    """The `LegalValues` of a space, made once."""
    return LegalValues(space)
