"""Special codes among the numbers of a column: they stand for states, such as -9 for "no bureau record"."""

from collections import Counter

import numpy as np
from jaxtyping import Float

CODES = (-1.0, -6.0, -7.0, -8.0, -9.0, *(sign * float("9" * k) for k in range(2, 10) for sign in (1, -1)))
"""Numbers that stand for states in many data sets: -9, 99, -999 and so on."""

CODE_SHARE, CODE_RECORDS = 0.005, 5
"""Least share and number of records with a special code; less could be a mistake of typing."""

CODE_GAP = 5.0
"""How many times the next number a positive code is."""


def codes_among(numbers: Float[np.ndarray, "n"]) -> tuple[float, ...]:
    """Numbers that stand apart: negative ones where all others are at least 0, or far above the others."""
    values = numbers[~np.isnan(numbers)]
    counts = Counter(values.tolist())
    least = max(CODE_RECORDS, CODE_SHARE * len(values))
    often = {code for code in CODES if counts[code] >= least}
    below = {code for code in often if code < 0.0}
    others = [value for value in counts if value not in below]
    # Where any other number is negative, negative numbers are quantities.
    found = below if len(others) > 1 and min(others) >= 0.0 else set()
    rest = sorted(value for value in counts if value not in found)
    while len(rest) > 2 and rest[-1] in often and rest[-1] >= CODE_GAP * max(rest[-2], 1.0):
        found.add(rest.pop())
    return tuple(sorted(found))
