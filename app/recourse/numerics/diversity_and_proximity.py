"""Diversity and proximity of a plan, in encoded units."""

import numpy as np
from jaxtyping import Float

from app.recourse.numerics.linalg import distances


def diversity(X: Float[np.ndarray, "n d"]) -> float:
    """Determinant of ``1/(1 + distance)``: 0 for equal members, towards 1 for distant ones."""
    return float(np.linalg.det(1.0 / (1.0 + distances(X, X))))


def proximity(X: Float[np.ndarray, "n d"], x0: Float[np.ndarray, "d"]) -> float:
    """Mean distance to the factual."""
    return float(np.sqrt(((X - x0) ** 2).sum(axis=1)).mean())
