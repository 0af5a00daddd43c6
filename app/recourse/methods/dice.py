"""DiCE (Mothilal et al. 2020): a diverse plan for the model as it is, the baseline of paper 4.

``min mean_j max(0, 1 - f(x_j)) + w1 mean_j c(x_j, x0) - w2 det K``, ``f`` the logit of the favourable decision. Weights
are those of its source code. Two things differ, so that `copa` differs in the objective alone: distances are L2 in
encoded space, also between categories, and plans are searched on the local model, over legal records, by
`app.recourse.plans.search`.

References
----------
Mothilal, Sharma, Tan, "Explaining Machine Learning Classifiers through Diverse Counterfactual Explanations", FAT* 2020.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.recourse.method import Method, MethodContext, MethodParams, PlanCandidates, Yields
from app.recourse.models.linear import LinearModel
from app.recourse.plans.objective import HalfSpaces, PlanObjective
from app.recourse.plans.search import propose
from app.recourse.problem import RecourseProblem
from app.recourse.surrogate.local import local_linear, own_linear


@dataclass(frozen=True, slots=True, kw_only=True)
class DiceParams(MethodParams):
    """Parameters of DiCE."""

    count: Annotated[int, Interval(ge=1, le=20)] = 5
    """Members of the plan."""
    proximity_weight: Annotated[float, Interval(ge=0, le=1000)] = 0.5
    """Weight of the mean distance to the factual, against a mean hinge loss of 1."""
    diversity_weight: Annotated[float, Interval(ge=0, le=1000)] = 1.0
    """Weight of the diversity of the members, a number between 0 and 1, against a mean hinge loss of 1."""


@dataclass(frozen=True, slots=True)
class Hinge:
    """Scores, and by how much they fall short of a logit of 1."""

    theta: Float[np.ndarray, "m"]

    def of(self, points: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
        """The score."""
        return points @ self.theta

    def gradient(self, points: Float[np.ndarray, "*n m"], values: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n m"]:  # noqa: ARG002
        """The weights."""
        return np.broadcast_to(self.theta, points.shape)

    def loss(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n"]:
        """The mean hinge loss."""
        return np.maximum(1.0 - values, 0.0).mean(axis=-1)

    def slope(self, values: Float[np.ndarray, "*n j"]) -> Float[np.ndarray, "*n j"]:
        """On the members that fall short."""
        return np.where(values < 1.0, -1.0 / values.shape[-1], 0.0)


def generate(problem: RecourseProblem, params: DiceParams, context: MethodContext) -> PlanCandidates:
    """Search the plan, and propose members with an extra margin."""
    model = local_linear(problem, context.sample)
    scale = _logits_per_unit(problem, model)
    theta = np.append(model.w, model.c)
    objective = PlanObjective(
        x0=problem.x0,
        validity=Hinge(scale * theta),
        proximity_weight=params.proximity_weight,
        diversity_weight=params.diversity_weight,
        sides=HalfSpaces(theta[None], np.zeros(1)),
    )
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
    generate=generate,
    weighs_costs=False,
    summary=(
        "Several different counterfactuals for the present model; a baseline without robustness. Minimises distance; "
        "cost weights do not affect the search."
    ),
    reference=(
        "Mothilal, Sharma, Tan: Explaining Machine Learning Classifiers through Diverse Counterfactual Explanations, "
        "FAT* 2020"
    ),
)
