"""ROAR: recourse for the worst linear model within a radius. A baseline of papers 1 and 2.

The authors descend by gradients; the problem is convex (`app.recourse.robustness.consistency_and_robustness`), so it is
solved exactly here.

References
----------
Upadhyay, Joshi, Lakkaraju, "Towards Robust and Reliable Algorithmic Recourse", NeurIPS 2021.
"""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Interval

from app.recourse.candidates import Candidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.methods.loss_and_cost import minimising
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.consistency_and_robustness import LossAndCost
from app.recourse.search.trade_off import TradeOff
from app.recourse.surrogate.linear_fits import SurrogateKind, SurrogateParams
from app.recourse.surrogate.local import logit_model


@dataclass(frozen=True, slots=True, kw_only=True)
class RoarParams(SurrogateParams, MethodParams):
    """Parameters of ROAR."""

    surrogate: SurrogateKind = "lime"
    """Linear model that approximates a black box that is not linear: `lime` as published, or `clime`, `ridge` (LIMELS),
    `svm`, `mpm`."""
    weight_radius: Annotated[float, Interval(ge=0, le=100)] = 0.2
    """How far each weight of the model, and its intercept, may move, in logits per encoded unit (delta_max)."""
    cost_weight: Annotated[float, Interval(ge=1e-6, le=1e3)] = 0.1
    """Weight of one unit of cost against the loss; lowered where the model refuses the optimum."""


def generate(problem: RecourseProblem, params: RoarParams, context: MethodContext) -> Candidates:
    """Propose the legal row with the least loss plus weighted cost under the worst model, found exactly."""
    local = logit_model(problem, context.sample, context.meter, params.surrogate)
    objective = LossAndCost(model=local.model, radius=params.weight_radius, cost_weight=params.cost_weight)
    trade_off = TradeOff(problem.action_set, objective, deadline=problem.deadline)
    return minimising(problem, trade_off, local.report, local.extra_margin_unit)


METHOD = Method(
    name="roar",
    params=RoarParams,
    yields=Yields.COUNTERFACTUAL,
    generate=generate,
    knobs={"weight_radius": 1, "cost_weight": -1},
    summary="The least loss and cost under the worst linear model within a radius; a baseline, solved exactly.",
    reference="Upadhyay, Joshi, Lakkaraju: Towards Robust and Reliable Algorithmic Recourse, NeurIPS 2021",
)
