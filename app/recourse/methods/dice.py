"""DiCE (Mothilal et al. 2020): a diverse plan for the model as it is, the baseline of paper 4.

With `objective: paper` ``min mean_j max(0, 1 - f(x_j)) + w1 mean_j c(x_j, x0) - w2 det K``, ``f`` the logit of the
favourable decision. Weights are those of its source code. Two things differ, so that `copa` differs in the objective
alone: distances are L2 in encoded space, also between categories, and plans are searched on the local model, over legal
records, by `app.recourse.plans.search`. With `objective: people`, the default, the same form in people's terms
(`app.recourse.plans.objective`).

References
----------
Mothilal, Sharma, Tan, "Explaining Machine Learning Classifiers through Diverse Counterfactual Explanations", FAT* 2020.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.recourse.candidates import PlanCandidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.models.linear import LinearModel
from app.recourse.plans.objective import HalfSpaces, Objective, objective_of
from app.recourse.plans.search import propose
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.local import local_linear, own_linear


@dataclass(frozen=True, slots=True, kw_only=True)
class DiceParams(MethodParams):
    """Parameters of DiCE."""

    objective: Objective = "people"
    """What the plan minimises. `people`: the cost of the changes and their number, against what the members change
    differently; costs and cost weights steer it. `paper`: distances between encoded records, as in the baseline of
    paper 4; cost weights do not affect it."""
    count: Annotated[int, Interval(ge=1, le=20)] = 5
    """Members of the plan."""
    proximity_weight: Annotated[float, Interval(ge=0, le=1000)] = 0.5
    """Weight of the mean cost in usual changes (`people`) or the mean distance to the factual (`paper`), against a mean
    hinge loss of 1."""
    diversity_weight: Annotated[float, Interval(ge=0, le=1000)] = 1.0
    """Weight of the diversity of the members, a number between 0 and 1, against a mean hinge loss of 1: of the mean
    share of a member's changes that no other member has (`people`), or of the determinant (`paper`)."""


@dataclass(frozen=True, slots=True)
class Hinge:
    """Validity of a member: its logit. The loss of a plan is the mean of ``max(0, 1 - logit)`` over its members."""

    theta: Float[np.ndarray, "m"]

    def of(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """The logit of each homogeneous point under the linear model."""
        return points @ self.theta

    def gradient(self, points: Float[np.ndarray, "*n m"], values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n m"]:  # noqa: ARG002
        """The gradient of the logit: the weights of the linear model, the same at every point."""
        return np.broadcast_to(self.theta, points.shape)

    def loss(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n"]:
        """The mean hinge loss ``max(0, 1 - logit)`` over the members of each plan."""
        return np.maximum(1.0 - values, 0.0).mean(axis=-1)

    def slope(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n j"]:
        """The derivative of each plan's loss with respect to the logit of each member; 0 for logits of at least 1."""
        return np.where(values < 1.0, -1.0 / values.shape[-1], 0.0)


def generate(problem: RecourseProblem, params: DiceParams, context: MethodContext) -> PlanCandidates:
    """Search for a plan, and propose replacements for members that the black box refuses."""
    model = local_linear(problem, context.sample)
    scale = _logits_per_unit(problem, model)
    theta = model.theta
    objective = objective_of(
        params.objective, problem.action_set, Hinge(scale * theta), HalfSpaces(theta[None], np.zeros(1)),
        proximity_weight=params.proximity_weight, diversity_weight=params.diversity_weight,
    )  # fmt: skip
    return propose(problem, objective, params.count, extra_margin_unit=0.5 * context.sample.deviation)


def _logits_per_unit(problem: RecourseProblem, model: LinearModel) -> float:
    """The model's logit per unit of distance to the local hyperplane; by least squares where it is not linear."""
    if problem.black_box.linear:
        return float(np.linalg.norm(own_linear(problem).w))
    reach = model.score(problem.reference.X)
    return max(float(reach @ problem.reference.scores) / max(float(reach @ reach), 1e-12), 1e-12)


METHOD = Method(
    name="dice",
    params=DiceParams,
    yields=Yields.PLAN,
    takes_long=True,
    generate=generate,
    weighs_costs=lambda params: params.objective == "people",
    summary=(
        "Several different ways for the present model, cheap and with few changes each; a baseline without robustness."
    ),
    reference=(
        "Mothilal, Sharma, Tan: Explaining Machine Learning Classifiers through Diverse Counterfactual Explanations, "
        "FAT* 2020"
    ),
)
