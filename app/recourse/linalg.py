"""Linear algebra that more than one room needs."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float
from scipy.linalg import lapack

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this share of the largest are zero."""


def diagonalise_pair(
    S: Float[np.ndarray, "d d"], T: Float[np.ndarray, "d d"], a: Float[np.ndarray, "d"]
) -> tuple[Float[np.ndarray, "d k"], Float[np.ndarray, "k"], Float[np.ndarray, "k"], Float[np.ndarray, "d"] | None]:
    """Coordinates of the range of ``S + T`` in which both positive semidefinite matrices are diagonal.

    Returns
    -------
    V, s, t : ``V'SV = diag(s)``, ``V'TV = diag(t)``, ``s + t = 1``
    outside : the part of `a` outside the range of ``S + T``; None where `a` lies inside
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


@lru_cache(maxsize=16)
def standard_normal(seed: int, n: int, d: int) -> Float[np.ndarray, "n d"]:
    """`n` draws of `d` independent standard normal numbers; kept, because most requests have the same seed."""
    draws = np.random.default_rng(seed).standard_normal((n, d))
    draws.flags.writeable = False
    return draws
