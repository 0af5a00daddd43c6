"""Equal rows of a matrix, each taken once.

By a sort of the columns one after another: `numpy.unique` with an axis compares rows as structures, which takes 3 to 10
times as long for the few hundred rows of an answer.
"""

import numpy as np
from jaxtyping import Bool, Float, Int


def unique_rows(rows: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "m p"]:
    """The different rows in lexicographic order."""
    order, new = _sorted(rows)
    return rows[order[new]]


def first_of_equal(rows: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "m"]:
    """The index of the first of each set of equal rows, ascending."""
    order, new = _sorted(rows)
    return np.sort(order[new])


def unique_rows_and_places(
    rows: Float[np.ndarray, "n p"],
) -> tuple[Float[np.ndarray, "m p"], Int[np.ndarray, "n"]]:
    """As `unique_rows`, and which of these each row is."""
    order, new = _sorted(rows)
    places = np.empty(len(rows), dtype=np.intp)
    places[order] = new.cumsum() - 1
    return rows[order[new]], places


def _sorted(rows: Float[np.ndarray, "n p"]) -> tuple[Int[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """Lexicographic order, and which rows differ from the one before them in it."""
    order = np.lexsort(rows.T[::-1])
    ordered, new = rows[order], np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, new
