"""The objective of a plan: distance to the factual, loss of validity, and lack of diversity (paper 4, section 4).

``min  proximity mean_j c(x_j, x0) + validity(plan) - diversity det K,  K_ij = 1 / (1 + c(x_i, x_j))``, with ``c`` the
L2 distance in encoded space, on the favourable side of given hyperplanes. Each method has its own `Validity`.

References
----------
Bui, Nguyen, Nguyen, "Counterfactual Plans under Distributional Ambiguity", ICLR 2022, section 4.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from app.recourse.models.linear import homogeneous
from app.recourse.numerics.linalg import SAME, distances

PENALTY = 1e6
"""Penalty of a unit on the wrong side of a hyperplane."""
TWIN = 1e9
"""Penalty of two equal members."""
SLACK = 1e-9
"""Tolerance of a hyperplane, for rounding."""


@runtime_checkable
class Validity(Protocol):
    """How well members withstand a change of the model: a number per member, and a loss of all of them together."""

    def of(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """The number of each homogeneous point; larger is better."""

    def gradient(self, points: Float[np.ndarray, "*n m"], values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n m"]:
        """Its gradient, given its `values`."""

    def loss(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n"]:
        """The term of the members' numbers in the objective of a plan."""

    def slope(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n j"]:
        """A subgradient of the loss."""


@dataclass(frozen=True, slots=True)
class HalfSpaces:
    """Half-spaces that members must lie in: ``normals @ x~ >= needs``."""

    normals: Float[np.ndarray, "c m"]
    """Homogeneous, intercept last; numbers are projected onto the first."""
    needs: Float[np.ndarray, "c"]

    def shortfall(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """Sum of the distances by which homogeneous points miss them."""
        return np.maximum(self.needs - points @ self.normals.T - SLACK, 0.0).sum(axis=-1)

    def with_extra_margin(self, extra_margin: float) -> "HalfSpaces":
        """The same hyperplanes, moved further into the favourable side."""
        return replace(self, needs=self.needs + extra_margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanObjective:
    """The objective of a plan, with penalties for missed half-spaces and equal members."""

    x0: Float[np.ndarray, "d"]
    validity: Validity
    proximity_weight: float
    diversity_weight: float
    sides: HalfSpaces

    def value(self, X: Float[np.ndarray, "b j d"]) -> Float[np.ndarray, "b"]:
        """Of whole plans; J members each."""
        return self.value_and_gradient(X)[0]

    def value_and_gradient(
        self, X: Float[np.ndarray, "b j d"]
    ) -> tuple[Float[np.ndarray, "b"], Float[np.ndarray, "b j d"]]:
        """Value with all penalties, and a subgradient of the value without them."""
        j, points = X.shape[-2], _homogeneous(X)
        away = X - self.x0
        length = np.sqrt(_squares(away))
        distance = np.sqrt(_squares(X[..., :, None, :] - X[..., None, :, :]))
        K = 1.0 / (1.0 + distance)
        determinant = np.linalg.det(K)
        stats = self.validity.of(points)
        twins = (distance < SAME).sum(axis=(-1, -2)) - j
        value = (
            self.proximity_weight * length.mean(axis=-1)
            + self.validity.loss(stats)
            - self.diversity_weight * determinant
            + PENALTY * self.sides.shortfall(points).sum(axis=-1)
            + TWIN * twins
        )
        gradient = away * (self.proximity_weight / j / np.maximum(length, SAME))[..., None]
        gradient += self.validity.slope(stats)[..., None] * self.validity.gradient(points, stats)[..., :-1]
        # d det K / d K_ij is det K inv(K)_ij, K_ij is there twice, and d K_ij / d x_i is -K_ij^2 (x_i - x_j)/distance.
        pull = 2.0 * determinant[..., None, None] * np.linalg.inv(K + SAME * np.eye(j)) * K**2
        pull = pull / np.maximum(distance, SAME) * (distance >= SAME)
        gradient += self.diversity_weight * (pull.sum(axis=-1)[..., None] * X - pull @ X)
        return value, gradient

    def joined(self, others: Float[np.ndarray, "k d"]) -> Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n"]]:
        """The value of the plan of `others` and one more member, for rows of points as that member."""
        k, rest = len(others), homogeneous(others)
        K = 1.0 / (1.0 + distances(others, others))
        inverse, determinant = np.linalg.inv(K + SAME * np.eye(k)), float(np.linalg.det(K))
        length, missing, stats = (
            distances(others, self.x0[None]).sum(),
            self.sides.shortfall(rest).sum(),
            self.validity.of(rest),
        )

        def value(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
            points = homogeneous(X)
            distance = distances(X, np.vstack([others, self.x0]))
            near = 1.0 / (1.0 + distance[:, :k])
            all_stats = np.concatenate([np.broadcast_to(stats, (len(X), k)), self.validity.of(points)[:, None]], axis=1)
            return (
                self.proximity_weight * (length + distance[:, k]) / (k + 1)
                + self.validity.loss(all_stats)
                - self.diversity_weight * determinant * (1.0 - ((near @ inverse) * near).sum(axis=1))
                + PENALTY * (self.sides.shortfall(points) + missing)
                + 2.0 * TWIN * (distance[:, :k] < SAME).sum(axis=1)
            )

        return value


def _squares(X: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n"]:
    return np.einsum("...d,...d->...", X, X)


def _homogeneous(X: Float[np.ndarray, "*n d"]) -> Float[np.ndarray, "*n m"]:
    return np.concatenate([X, np.ones((*X.shape[:-1], 1))], axis=-1)
