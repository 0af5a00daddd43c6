"""Divergences between covariance matrices, and the largest deviation in the ambiguity set of each (paper 1).

An ambiguity set holds every covariance within a radius of an estimate; the divergence is what the radius measures.

References
----------
Bui, Nguyen, Yue, Nguyen, "Coverage-Validity-Aware Algorithmic Recourse", 2023.
"""

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.special import lambertw

Divergence: TypeAlias = Literal["none", "quadratic", "bures", "fisher_rao", "logdet"]


@dataclass(frozen=True, slots=True)
class Deviation:
    """The largest standard deviation along a direction ``w`` over all covariances of an ambiguity set.

    It is ``scale sqrt(w' covariance w) + norm |w|_2``.
    """

    covariance: Float[np.ndarray, "d d"]
    scale: float = 1.0
    norm: float = 0.0

    def __call__(self, w: Float[np.ndarray, "d"]) -> float:
        """Largest standard deviation along `w`."""
        deviation = self.scale * math.sqrt(max(w @ self.covariance @ w, 0.0))
        return deviation + self.norm * float(np.linalg.norm(w)) if self.norm else deviation


def largest_deviation(covariance: Float[np.ndarray, "d d"], divergence: Divergence, radius: float) -> Deviation:
    """The largest standard deviation over all covariances within `radius` of `covariance`, as a function of direction.

    Parameters
    ----------
    radius : in the unit of the divergence (rho in its definition)
    """
    if divergence == "quadratic":
        return Deviation(covariance + math.sqrt(radius) * np.eye(len(covariance)))
    if divergence == "bures":
        return Deviation(covariance, norm=math.sqrt(radius))
    if divergence == "fisher_rao":
        return Deviation(covariance, scale=math.exp(min(radius, 1400.0) / 2.0))
    if divergence == "logdet":
        return Deviation(covariance, scale=math.sqrt(_logdet_factor(radius)))
    return Deviation(covariance)


def _logdet_factor(radius: float) -> float:
    """The root ``c >= 1`` of ``c - log c - 1 = radius``, i.e. ``-W_{-1}(-exp(-radius - 1))``."""
    if radius <= 700.0:
        return max(1.0, -float(lambertw(-math.exp(-radius - 1.0), -1).real))
    c = radius
    for _ in range(50):  # the argument of W underflows; c = 1 + radius + log c contracts quickly for large c
        c = 1.0 + radius + math.log(c)
    return c
