"""Special codes among the numbers of a column: they stand for states, such as -9 for "no bureau record"."""

from collections import Counter
from collections.abc import Collection

import numpy as np
from jaxtyping import Float

CODES = frozenset({
    -1.0, -6.0, -7.0, -8.0, -9.0, *(sign * float("9" * k) for k in range(2, 10) for sign in (1, -1)),
    *(10.0**k - last for k in (2, 3, 4) for last in (2, 3, 4)), 365243.0,
})  # fmt: skip
"""Numbers that stand for states in many data sets: -9, 99, 98, -999, 365243 days and so on."""

CODE_SHARE, CODE_RECORDS = 0.001, 5
"""Least share and number of records with a special code; less could be a mistake of typing."""

CODE_GAP = 5.0
"""How many times the next number a positive code is."""

MOST_TOGETHER = 3
"""Positive codes that stand beside each other, such as 96 and 98."""


def codes_among(numbers: Float[np.ndarray, "n"], family: Collection[float] = ()) -> tuple[float, ...]:
    """The special codes among the numbers of a column: usual codes, such as -9 or 9999, apart from all other numbers.

    A negative code is apart if all other numbers are at least 0; a large code is apart if it is far above all others.
    At least one of the codes must be frequent, or be in `family`, the codes of other columns of the table. Then rare
    ones, such as -8 in a column where -9 is frequent, are codes as well.
    """
    values = numbers[~np.isnan(numbers)]
    counts = Counter(values[np.isin(values, list(CODES))].tolist())
    least = max(CODE_RECORDS, CODE_SHARE * len(values))
    known = set(counts)
    sure = {code for code in known if counts[code] >= least or code in family}
    if not sure:
        return ()
    below = {code for code in known if code < 0.0}
    different = np.unique(values).tolist()
    others = [value for value in different if value not in below]
    # Where any other number is negative, negative numbers are quantities.
    found = below if below & sure and len(others) > 1 and min(others) >= 0.0 else set[float]()
    rest = [value for value in different if value not in found]
    for together in range(MOST_TOGETHER, 0, -1):
        top = set(rest[-together:])
        if len(rest) < together + 2 or not top <= known or not top & sure:
            continue
        if min(top) >= CODE_GAP * max(abs(rest[0]), rest[-together - 1], 1.0):
            return tuple(sorted(found | top))
    return tuple(sorted(found))
