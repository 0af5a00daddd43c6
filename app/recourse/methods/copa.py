"""COPA (paper 4): a plan that stays valid together when the model is retrained, near the factual and diverse.

With `objective: paper` ``min mean_j c(x_j, x0) - l1 min_j mu.x~_j / |Sigma^1/2 x~_j| - l2 det K  subject to
mu.x~_j >= eps``, over legal records; ``mu, Sigma`` are the moments that the certificate asks for. The ratio is the size
of the ellipsoid of models around the mean that accept the whole plan. With `objective: people`, the default, the same
form in people's terms (`app.recourse.plans.objective`), with the mean of the members' own lower bounds for the ratio.

==============  ===================
symbol          name
==============  ===================
``mu``          ``moments.mean``
``Sigma^1/2``   ``moments.root``
``l1``          `validity_weight`
``l2``          `diversity_weight`
``eps``         `margin`
==============  ===================

References
----------
Bui, Nguyen, Nguyen, "Counterfactual Plans under Distributional Ambiguity", ICLR 2022.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.recourse.candidates import PlanCandidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.models.linear import WeightMoments
from app.recourse.plans.corrector import CorrectionParams, corrected
from app.recourse.plans.objective import HalfSpaces, Objective, objective_of
from app.recourse.plans.search import propose
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.validity import validity_lower
from app.recourse.shift import local_model
from app.recourse.surrogate.local import acting_linear

LEAST_DEVIATION = 0.01
"""Least standard deviation of the models' weights in every direction. Weights of length 1 do not vary along their mean,
to first order, so a point in that direction would look certain; the paper's radius of 0.01 allows this much."""


WEIGHTS: Mapping[Objective, tuple[float, float]] = {"people": (8.0, 2.0), "paper": (0.5, 5.0)}
"""Of validity and of diversity where the request gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopaParams(MethodParams):
    """Parameters of COPA."""

    objective: Objective = "people"
    """What the plan minimises. `people`: the cost of the changes and their number, against the members' own lower
    bounds of validity and what they change differently; costs and cost weights steer it. `paper`: distances between
    encoded records, as published; cost weights do not affect it."""
    count: Annotated[int, Interval(ge=1, le=20)] = 5
    """Members of the plan."""
    validity_weight: Annotated[float, Interval(ge=0, le=1000)] | None = None
    """Weight of validity under retraining. `people`: of the members' mean lower bound, a number between 0 and 1,
    against a mean cost of one usual change; 8 when absent. `paper`: of the least ratio, against a mean distance of 1;
    0.5 when absent."""
    diversity_weight: Annotated[float, Interval(ge=0, le=1000)] | None = None
    """Weight of the diversity of the members, a number between 0 and 1. `people`: of the mean share of a member's
    changes that no other member has, against a mean cost of one usual change; 2 when absent. `paper`: of the
    determinant, against a mean distance of 1; 5 when absent."""
    margin: Annotated[float, Interval(ge=0, le=100)] = 0.1
    """Least score of each member under the mean of the retrained models, whose weights have length 1."""
    correction: Literal["none", "requirement", "mahalanobis"] = "none"
    """Correction of the plan before it is verified, as `POST /recourse/correct` with its defaults."""

    @property
    def weights(self) -> tuple[float, float]:
        """The weights of validity and of diversity in the objective: from the request, or else the defaults."""
        validity, diversity = WEIGHTS[self.objective]
        return (
            validity if self.validity_weight is None else self.validity_weight,
            diversity if self.diversity_weight is None else self.diversity_weight,
        )


@dataclass(frozen=True, slots=True)
class Margin:
    """Validity of a point: its mean score over retrained models, in standard deviations of the score.

    The validity of a plan is the least validity of its members.
    """

    mean: Float[np.ndarray, "m"]
    covariance: Float[np.ndarray, "m m"]
    weight: float

    @classmethod
    def under(cls, moments: WeightMoments, weight: float) -> "Margin":
        """The `Margin` for retrained models with the given moments; `weight` is its weight in the objective."""
        covariance = moments.covariance + LEAST_DEVIATION**2 * np.eye(len(moments.mean))
        return cls(moments.mean, covariance, weight)

    def _deviation(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        return np.sqrt(np.einsum("...m,...m->...", points @ self.covariance, points))

    def of(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """The validity ``mu.x~ / |Sigma^1/2 x~|`` of each homogeneous point ``x~``.

        This is the mean score over the standard deviation of the score; ``mu`` and ``Sigma`` are the mean and the
        covariance of the models.
        """
        return points @ self.mean / self._deviation(points)

    def gradient(self, points: Float[np.ndarray, "*n m"], values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n m"]:
        """The gradient of the validity ``v`` at each point, ``(mu - v Sigma x~ / s) / s`` with ``s = |Sigma^1/2 x~|``.

        ``x~`` is the homogeneous point; ``mu`` and ``Sigma`` are the mean and the covariance of the models.
        """
        deviation = self._deviation(points)[..., None]
        return (self.mean - values[..., None] * (points @ self.covariance) / deviation) / deviation

    def loss(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n"]:
        """The loss of each plan: minus `weight` times the least validity of its members."""
        return -self.weight * values.min(axis=-1)

    def slope(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n j"]:
        """The derivative of each plan's loss with respect to the validity of each member.

        It is `-weight` for the member with the least validity, and 0 for the others.
        """
        least = values.argmin(axis=-1)[..., None] == np.arange(values.shape[-1])
        return np.where(least, -self.weight, 0.0)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Validity of a member: a lower bound on the probability that a retrained model accepts it.

    The bound holds for every distribution of models within a Gelbrich distance. The validity of a plan is the mean of
    its members' bounds. The joint lower bound of J members is at least the sum of their own lower bounds, minus
    (J - 1).
    """

    moments: WeightMoments
    radius: float
    weight: float

    @classmethod
    def under(cls, moments: WeightMoments, radius: float, weight: float) -> "Guarantee":
        """The `Guarantee` for retrained models with the given moments; `weight` is its weight in the objective.

        The root of the covariance is replaced by one with no more columns than rows, which gives the same bounds.
        """
        root = np.asarray(np.linalg.qr(moments.root.T, mode="r")).T
        return cls(replace(moments, factors=(root,)), radius, weight)

    def of(self, points: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "n"]:
        """The lower bound on the validity of each point, in [0, 1]."""
        return validity_lower(points, self.moments, self.radius)

    def loss(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n"]:
        """The loss of each plan: minus `weight` times the mean lower bound of its members."""
        return -self.weight * values.mean(axis=-1)


def generate(problem: RecourseProblem, params: CopaParams, context: MethodContext) -> PlanCandidates:
    """Search for a plan, correct it if requested, and propose replacements for members that the black box refuses."""
    local, moments = local_model(problem, context.sample, context.certificate)
    today = acting_linear(problem, local)
    sides = HalfSpaces(np.array([moments.mean, today.theta]), np.array([params.margin, 0.0]))
    validity_weight, diversity_weight = params.weights
    radius = context.certificate.ambiguity_radius
    validity = (
        Guarantee.under(moments, radius, validity_weight)
        if params.objective == "people"
        else Margin.under(moments, validity_weight)
    )
    objective = objective_of(
        params.objective, problem.action_set, validity, sides, proximity_weight=1.0, diversity_weight=diversity_weight
    )

    def correct(plan_raw: Float[np.ndarray, "j p"], until: float) -> Float[np.ndarray, "j p"]:
        if params.correction == "none":
            return plan_raw
        chosen = CorrectionParams(kind=params.correction, margin=params.margin)
        return corrected(problem.action_set, plan_raw, moments, radius, chosen, until=until)

    return propose(problem, objective, params.count, extra_margin_unit=0.5 * context.sample.deviation, adjust=correct)


METHOD = Method(
    name="copa",
    params=CopaParams,
    yields=Yields.PLAN,
    takes_long=True,
    generate=generate,
    weighs_costs=lambda params: params.objective == "people",
    summary=(
        "Several different ways that stay valid together when the model is retrained, with proven bounds on the "
        "probability of that: cheap, with few changes each, and different in what they change."
    ),
    reference="Bui, Nguyen, Nguyen: Counterfactual Plans under Distributional Ambiguity, ICLR 2022",
)
