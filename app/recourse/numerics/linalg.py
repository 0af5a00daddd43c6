"""Linear algebra and equal rows of matrices, which several packages use."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import lapack

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this share of the largest are zero."""
SAME = 1e-12
"""Distances below this count as zero."""


DiagonalPair: TypeAlias = tuple[
    Float[np.ndarray, "d k"], Float[np.ndarray, "k"], Float[np.ndarray, "k"], Float[np.ndarray, "d"] | None
]
"""``V, s, t, outside`` of `diagonalise_pair`."""


def diagonalise_pair(
    S: Float[np.ndarray, "d d"], T: Float[np.ndarray, "d d"], a: Float[np.ndarray, "d"]
) -> DiagonalPair:
    """Coordinates of the range of ``S + T`` in which both matrices are diagonal; both are positive semidefinite.

    Returns
    -------
    V, s, t : ``V'SV = diag(s)``, ``V'TV = diag(t)``, ``s + t = 1``
    outside : the part of `a` outside the range of ``S + T``; None if `a` lies inside. With such a part, ``V``, ``s``
        and ``t`` are empty
    """
    total = S + T
    t, V, failed = lapack.dsygvd(T, total)
    if not failed and float((V * V).sum(axis=0).max()) * float(total.diagonal().max()) < 1.0 / RANK_TOLERANCE:
        t = np.minimum(np.maximum(t, 0.0), 1.0)
        return V, 1.0 - t, t, None
    values, vectors = np.linalg.eigh(total)
    keep = values > RANK_TOLERANCE * max(float(values[-1]), np.finfo(float).tiny)
    inside = vectors[:, keep]
    outside = a - inside @ (inside.T @ a)
    if np.linalg.norm(outside) > 1e-9 * np.linalg.norm(a):
        return np.empty((len(a), 0)), np.empty(0), np.empty(0), outside
    half = inside / np.sqrt(values[keep])
    t, rotation = np.linalg.eigh(half.T @ T @ half)
    t = np.minimum(np.maximum(t, 0.0), 1.0)
    return half @ rotation, 1.0 - t, t, None


def distances(X: Float[np.ndarray, "n d"], Y: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "n k"]:
    """L2 distance of each row of `X` to each row of `Y`."""
    between = X[:, None] - Y[None]
    return np.sqrt(np.einsum("nkd,nkd->nk", between, between))


def diversity(X: Float[np.ndarray, "n d"]) -> float:
    """Determinant of the matrix of ``1/(1 + distance)`` over all pairs of rows, in [0, 1].

    It is 0 if two rows are equal, and near 1 if all rows are far apart.
    """
    return float(np.linalg.det(1.0 / (1.0 + distances(X, X))))


def proximity(X: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "d"]) -> float:
    """Mean L2 distance of the rows to the factual `x0`."""
    return float(np.sqrt(((X - x0) ** 2).sum(axis=1)).mean())


def project(
    X: Float[np.ndarray, "n k"],
    normal: Float[np.ndarray, "k"],
    need: Float[np.ndarray, "n"],
    lower: Float[np.ndarray, "n k"],
    upper: Float[np.ndarray, "n k"],
) -> Float[np.ndarray, "n k"]:
    """The nearest point to each row of `X` in ``{x : normal.x >= need, lower <= x <= upper}``, exactly.

    The answer is ``clip(x + t normal)`` for the least ``t >= 0`` that meets the need. ``normal.x(t)`` grows with ``t``
    and is linear between the values of ``t`` at which a coordinate enters or leaves its range; so the values are sorted
    and ``t`` is interpolated.

    Returns
    -------
    (n, k); if no point within `lower` and `upper` meets the need, the point within them with the largest ``normal.x``
    """
    projected = np.clip(X, lower, upper)
    short = np.flatnonzero(projected @ normal < need)
    if not short.size or not normal.any():
        return projected
    used = normal != 0.0
    a, x = normal[used], X[short][:, used]
    low, high = lower[short][:, used], upper[short][:, used]
    leave = np.maximum((np.where(a > 0.0, high, low) - x) / a, 0.0)
    enter = np.clip((np.where(a > 0.0, low, high) - x) / a, 0.0, leave)
    missing = need[short] - projected[short] @ normal
    finite = np.where(np.isfinite(leave), leave, enter).max(axis=1)
    last = finite + missing / (a**2).min()  # beyond which no coordinate has to move; instead of infinity
    times = np.concatenate([np.minimum(enter, last[:, None]), np.minimum(leave, last[:, None])], axis=1)
    order = times.argsort(axis=1)
    times = np.take_along_axis(times, order, axis=1)
    slopes = np.concatenate([a**2, -(a**2)])[order].cumsum(axis=1)
    gained = (slopes[:, :-1] * np.diff(times, axis=1)).cumsum(axis=1)
    enough = gained >= missing[:, None]
    k = np.where(enough.any(axis=1), enough.argmax(axis=1), gained.shape[1] - 1)
    rows = np.arange(len(short))
    before = np.where(k > 0, gained[rows, k - 1], 0.0)
    slope = slopes[rows, k]
    t = times[rows, k] + np.where(slope > 0.0, (missing - before) / np.where(slope > 0.0, slope, 1.0), 0.0)
    t = np.where(enough.any(axis=1), t, times[:, -1])
    projected[short] = np.clip(X[short] + t[:, None] * normal, lower[short], upper[short])
    return projected


# --- equal rows -------------------------------------------------------------------------------------------------------


def unique_rows(rows: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "m p"]:
    """The distinct rows in lexicographic order."""
    order, new = _sorted(rows)
    return rows[order[new]]


def first_of_equal(rows: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "m"]:
    """For each group of equal rows, the index of its first row; in ascending order."""
    order, new = _sorted(rows)
    return np.sort(order[new])


def unique_rows_and_places(
    rows: Float[np.ndarray, "n p"],
) -> tuple[Float[np.ndarray, "m p"], Int[np.ndarray, "n"]]:
    """The distinct rows in lexicographic order, and for each row of `rows` its index among the distinct rows."""
    order, new = _sorted(rows)
    places = np.empty(len(rows), dtype=np.intp)
    places[order] = new.cumsum() - 1
    return rows[order[new]], places


def _sorted(rows: Float[np.ndarray, "n p"]) -> tuple[Int[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """Lexicographic order, and which rows differ from the one before them in it.

    `numpy.unique` with an axis compares rows as structures, which takes 3 to 10 times as long for the few hundred rows
    of an answer.
    """
    order = np.lexsort(rows.T[::-1])
    ordered, new = rows[order], np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return order, new
