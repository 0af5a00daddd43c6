"""The best prices of several rules, from the optima at the prices that were tried.

Each optimum has a value, without prices, and exceeds each rule by some amount. Both are linear where optima are mixed,
so the mixture of least value that keeps every rule is a linear program with one row per rule. Its duals are the prices
at which the tangents of all optima (``value + prices.excess``) meet highest: the prices to try next (Dantzig-Wolfe
decomposition). The program is solved by the simplex method, from the last basis on, as it has few rows and grows by one
column at a time.
"""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

PIVOTS = 100
"""Largest number of exchanges for one column."""
ROUNDING = 1e-12
"""Relative: smaller improvements are not looked for."""
LEAST_PIVOT = 1e-9
"""Relative to the largest entry of its column."""


class RulePrices:
    """The program of the optima so far.

    Parameters
    ----------
    rules : how many
    most : optima that are added at most
    """

    def __init__(self, rules: int, most: int) -> None:
        # Besides the optima: what keeps every rule at the value `beyond`, and what is left of each rule.
        self._columns = np.eye(rules + 1, rules + 1 + most)
        self._costs = np.zeros(rules + 1 + most)
        self._basis = list(range(rules + 1))
        self._inverse = np.eye(rules + 1)
        self._size = rules + 1

    def add(self, value: float, excess: Float[np.ndarray, "k"]) -> None:
        """One more optimum: its value without prices, and by how much it exceeds each rule."""
        self._columns[0, self._size], self._columns[1:, self._size] = 1.0, excess
        self._costs[self._size] = value
        self._size += 1

    def best(self, beyond: float) -> tuple[list[tuple[int, float]], Float[np.ndarray, "k"]]:
        """The mixture of least value that keeps every rule, and the prices to try next.

        Parameters
        ----------
        beyond : value of what keeps every rule but is none of the optima; worse than any that is of interest

        Returns
        -------
        shares : which optima, in the order in which they were added, and how much of each; less than 1 together where
            no mixture of them keeps every rule
        prices : >= 0
        """
        columns, costs, rows = self._columns[:, : self._size], self._costs[: self._size], len(self._columns)
        costs[0] = beyond
        for _ in range(PIVOTS):
            reduced = costs - costs[self._basis] @ self._inverse @ columns
            entering = int(reduced.argmin())
            way = self._inverse @ columns[:, entering]
            may_leave = way > LEAST_PIVOT * np.abs(way).max()
            if reduced[entering] >= -ROUNDING * (1.0 + abs(beyond)) or not may_leave.any():
                break
            ratios = np.divide(self._inverse[:, 0], way, out=np.full(rows, math.inf), where=may_leave)
            leaving = int(ratios.argmin())
            pivot = self._inverse[leaving] / way[leaving]
            self._inverse -= np.outer(way, pivot)
            self._inverse[leaving] = pivot
            self._basis[leaving] = entering
        shares = zip(self._basis, self._inverse[:, 0].tolist(), strict=True)
        used = [(one - rows, share) for one, share in shares if one >= rows and share > 0.0]
        return used, self._duals(costs[self._basis])

    def prices(self, values: Sequence[float]) -> Float[np.ndarray, "k"]:
        """The prices at which the optima of the mixture are equally good, were these their values."""
        rows = len(self._columns)
        return self._duals(np.array([self._costs[k] if k < rows else values[k - rows] for k in self._basis]))

    def _duals(self, costs: Float[np.ndarray, "m"]) -> Float[np.ndarray, "k"]:
        return np.maximum(-(costs @ self._inverse)[1:], 0.0)
