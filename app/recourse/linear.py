"""A linear decision ``f(x) = w.x + c``, favourable iff ``f(x) >= 0``."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from app.errors import DegenerateSurrogate


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Weights and intercept in encoded space."""

    w: Float[np.ndarray, "d"]
    c: float

    def score(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """``w.x + c`` of each point."""
        return X @ self.w + self.c

    def unit(self) -> "LinearModel":
        """The same decisions with ``|w|_2 = 1``, so that scores are distances to the hyperplane.

        Raises
        ------
        DegenerateSurrogate : ``w`` is zero or not finite, the model decides the same everywhere.
        """
        norm = float(np.linalg.norm(self.w))
        if not norm > 0.0 or not math.isfinite(norm) or not math.isfinite(self.c):
            raise DegenerateSurrogate
        return LinearModel(self.w / norm, self.c / norm)
