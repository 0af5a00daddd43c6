"""Recourse that stays cheap and favourable under the worst linear model near the present one (paper 2).

``J(x, theta) = loss(theta.x) + lambda |x - x0|_1``, ``loss(s) = log(1 + exp(-s))``, against the worst model within
``alpha`` of ``theta0`` in every weight and in the intercept.

==============  =========================================
symbol          name
==============  =========================================
``theta0``      `LossAndCost.model`
``theta^``      `LossAndCost.predicted`
``alpha``       `LossAndCost.radius`
``lambda``      `LossAndCost.cost_weight`
``beta``        `LossAndCost.share`
==============  =========================================

Differences from the paper:

* Its problem is convex. The worst score is ``theta0.x - alpha |x|_1``, concave in ``x``, and the loss is convex and
  falls with the score, so the optimum is global, also of the trade-off with a prediction and under any convex
  constraints (the paper calls it non-convex; the example in its appendix has the adversary's sign wrong).
* Line 19 of its algorithm 1 is wrong: a coordinate that has reached 0 may go on only if ``|theta0| > alpha``. As
  printed, the result can be far from the optimum; a test counts how often. The corrected one is there too, as a check
  of `app.recourse.search.trade_off`.

References
----------
Kayastha, Gkatzelis, Jabbari, "Learning-Augmented Robust Algorithmic Recourse", 2024.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from app.recourse.models.linear import LinearModel


@dataclass(frozen=True, slots=True, kw_only=True)
class LossAndCost:
    """The objective ``share J_worst + (1 - share) J_predicted``; each J is a loss plus the weighted cost.

    ``J_worst`` is the largest J over all models within `radius` of `model`. ``J_predicted`` is the J under the model
    `predicted`.
    """

    model: LinearModel
    """On the scale of logits, like the loss."""
    radius: float
    """How far each weight, and the intercept, may move."""
    cost_weight: float
    """Weight of one unit of cost against the loss, > 0."""
    predicted: LinearModel | None = None
    share: float = 1.0
    """Of the worst case, in [0, 1]; 1 without a prediction."""

    def worst_score(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """Score of each point under the model, within the radius, that is worst for this point."""
        return self.model.score(X) - self.radius * (np.abs(X).sum(axis=1) + 1.0)

    def worst(self, X: Float[np.ndarray, "n d"], cost: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """For each point, the largest loss plus weighted cost over all models within the radius.

        Parameters
        ----------
        cost : cost of each point
        """
        return loss(self.worst_score(X)) + self.cost_weight * cost

    def as_predicted(self, X: Float[np.ndarray, "n d"], cost: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """For each point, the loss plus weighted cost under the predicted model.

        Parameters
        ----------
        cost : cost of each point
        """
        assert self.predicted is not None
        return loss(self.predicted.score(X)) + self.cost_weight * cost

    def value(self, X: Float[np.ndarray, "n d"], cost: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """The objective at each point; smaller is better.

        Parameters
        ----------
        cost : cost of each point
        """
        if self.predicted is None:
            return self.worst(X, cost)
        return self.share * self.worst(X, cost) + (1.0 - self.share) * self.as_predicted(X, cost)


def loss(score: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
    """The logistic loss ``log(1 + exp(-score))`` of each score."""
    return np.asarray(np.logaddexp(0.0, -score))
