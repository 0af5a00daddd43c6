"""Linear decisions ``f(x) = w.x + c``, favourable iff ``f(x) >= 0``, and distributions of them."""

import math
from dataclasses import dataclass
from functools import reduce

import numpy as np
from jaxtyping import Float, Int

from app.errors import DegenerateSurrogate


@dataclass(frozen=True, slots=True)
class LinearModel:
    """A linear model in encoded space: weights `w` and intercept `c`."""

    w: Float[np.ndarray, "d"]
    c: float

    @property
    def theta(self) -> Float[np.ndarray, "m"]:
        """The weights followed by the intercept, as one vector."""
        return np.append(self.w, self.c)

    def score(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """``w.x + c`` of each point."""
        return X @ self.w + self.c

    def unit(self) -> "LinearModel":
        """The model scaled to ``|w|_2 = 1``: the same decisions, and scores that are distances to the hyperplane.

        Raises
        ------
        DegenerateSurrogate : ``w`` is zero or not finite, so that the model decides the same everywhere
        """
        norm = float(np.linalg.norm(self.w))
        if not norm > 0.0 or not math.isfinite(norm) or not math.isfinite(self.c):
            raise DegenerateSurrogate
        return LinearModel(self.w / norm, self.c / norm)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightMoments:
    """Mean and covariance of uncertain linear models ``(w, c)``, intercept last; the mean has length about 1."""

    mean: Float[np.ndarray, "m"]
    factors: tuple[Float[np.ndarray, "_ _"], ...]
    """Of `root`, in order: products of few rows with them are cheap, and many questions need few rows only."""
    kind: str
    """Their source: a `MomentsKind`."""

    @property
    def root(self) -> Float[np.ndarray, "m q"]:
        """The covariance is ``root @ root.T``; multiplied anew each time."""
        return reduce(np.matmul, self.factors)

    @property
    def covariance(self) -> Float[np.ndarray, "m m"]:
        """The covariance of the weights."""
        root = self.root
        return root @ root.T

    def root_of(self, weights: Int[np.ndarray, "k"]) -> Float[np.ndarray, "k q"]:
        """The rows of `root` for some of the weights, by index."""
        return reduce(np.matmul, self.factors[1:], self.factors[0][weights])

    def along(self, points: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n q"]:
        """``points @ root``: the covariance of the scores of homogeneous points is its product with its transpose."""
        return reduce(np.matmul, self.factors, points)

    @classmethod
    def of(cls, thetas: Float[np.ndarray, "k m"], kind: str) -> "WeightMoments":
        """Mean and covariance of several models.

        Parameters
        ----------
        thetas : weights and intercept of each model, one model per row
        kind : source of the models, a `MomentsKind`
        """
        mean = thetas.mean(axis=0)
        return cls(mean=mean, factors=((thetas - mean).T / math.sqrt(len(thetas) - 1),), kind=kind)

    def project(self, points: Float[np.ndarray, "n m"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        """Mean and standard deviation of the score of each homogeneous point."""
        return points @ self.mean, np.sqrt((self.along(points) ** 2).sum(axis=1))

    def around(
        self, points: Float[np.ndarray, "n m"], columns: Int[np.ndarray, "c"]
    ) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]]:
        """Mean and covariance of the score of each homogeneous point and, after it, of its slopes along `columns`."""
        k = len(columns) + 1
        mean, covariance = np.empty((len(points), k)), np.zeros((len(points), k, k))
        mean[:, 0], mean[:, 1:] = points @ self.mean, self.mean[columns]
        varies = np.flatnonzero(self.factors[0][columns].any(axis=1))  # of a wide schema, few weights do
        own, slopes = self.along(points), self.root_of(columns[varies])
        covariance[:, 0, 0] = (own**2).sum(axis=1)
        covariance[:, 0, 1 + varies] = covariance[:, 1 + varies, 0] = own @ slopes.T
        covariance[:, 1 + varies[:, None], 1 + varies] = slopes @ slopes.T
        return mean, covariance


def homogeneous(X: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n m"]:
    """Each point with a 1 appended, so that its product with ``theta = (w, c)`` is the whole score."""
    return np.concatenate([X, np.ones((*X.shape[:-1], 1))], axis=-1)
