"""Recourse between the worst model and a predicted one (paper 2): cheap if the prediction is right, safe if it is not.

References
----------
Kayastha, Gkatzelis, Jabbari, "Learning-Augmented Robust Algorithmic Recourse", 2024.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.errors import Fault
from app.recourse.candidates import Candidates
from app.recourse.features import FeatureSpace, escape
from app.recourse.input_part import InputPart
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.methods.loss_and_cost import minimising
from app.recourse.models.linear import LinearModel
from app.recourse.problem import RecourseProblem
from app.recourse.reports import TradeOffReport
from app.recourse.robustness.consistency_and_robustness import LossAndCost
from app.recourse.search.branching import QUICK
from app.recourse.search.trade_off import TradeOff
from app.recourse.surrogate.linear_fits import SurrogateParams
from app.recourse.surrogate.local import logit_model, other_logit_model

CostWeight: TypeAlias = Annotated[float, Interval(ge=1e-6, le=1e3)] | Literal["auto", "paper"]

SEARCHED = (1.0, 0.75, 0.5, 0.35, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.035, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Cost weights that the paper's search tries, largest first."""
SHRINKING = (1.0 - 1e-6, 0.9, 0.75, 0.6, 0.45, 0.3, 0.2, 0.1)
"""Shares of the automatic cost weight that are tried until the optimum over lattices is valid too."""
SLACK = 1e-6
"""By which a worst score may miss 0, logits."""
HALVINGS = 12
"""Of the interval in which the largest radius with a valid action lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsPrediction(InputPart):
    """The model that is expected, by its weights in encoded units."""

    weights: Mapping[str, Annotated[float, Interval(ge=-1e6, le=1e6)]]
    """Weight of each column, `feature` or `feature=category`, in logits; others keep their present weight."""
    intercept: Annotated[float, Interval(ge=-1e6, le=1e6)] | None = None
    """Of the logit, minus the threshold's logit; the present one when absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPrediction(InputPart):
    """The model that is expected, by its name."""

    model: str
    """`id@version` of a registered model with the same features."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftPrediction(InputPart):
    """The present model with another threshold."""

    threshold_shift: Annotated[float, Interval(ge=-20, le=20)]
    """Logits by which the threshold rises; negative for a looser policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningAugmentedParams(SurrogateParams, MethodParams):
    """Parameters of learning-augmented robust recourse."""

    weight_radius: Annotated[float, Interval(ge=0, le=100)] = 0.1
    """How far each weight of the model, and its intercept, may move, in logits per encoded unit."""
    cost_weight: CostWeight = 0.1
    """Weight of one unit of cost against the loss. `auto`: the weight at which the recourse for the worst model is the
    cheapest that this model accepts; `paper`: the largest on a fixed list at which the present model accepts it."""
    robustness_weight: Annotated[float, Interval(ge=0, le=1)] = 1.0
    """Share of the worst model in the objective; the rest belongs to the prediction. 1 without a prediction."""
    prediction: WeightsPrediction | ModelPrediction | ShiftPrediction | None = None
    """What the next model is expected to be: its weights, its name, or the present one with a tighter threshold."""

    def other_models(self) -> Mapping[str, str]:
        """The predicted model's `id@version`, keyed by the JSON pointer of the parameter that names it.

        The result is empty if the prediction names no model.
        """
        if isinstance(self.prediction, ModelPrediction):
            return {"/prediction/model": self.prediction.model}
        return {}


def faults(space: FeatureSpace, params: LearningAugmentedParams) -> Sequence[Fault]:
    """One fault for each predicted weight whose column the model does not have.

    The JSON pointer of a fault starts at the parameters.
    """
    if not isinstance(params.prediction, WeightsPrediction):
        return ()
    return [
        Fault(f"/prediction/weights/{escape(name)}", f"is not a column of this model: {', '.join(space.columns)}")
        for name in params.prediction.weights
        if name not in space.columns
    ]


def generate(problem: RecourseProblem, params: LearningAugmentedParams, context: MethodContext) -> Candidates:
    """Propose the legal row with the best trade-off between the worst model and the predicted model, found exactly."""
    local = logit_model(problem, context.sample, context.meter, params.surrogate)
    predicted = _predicted(problem, params, context, local.model)
    objective = LossAndCost(
        model=local.model,
        radius=params.weight_radius,
        cost_weight=1.0,
        predicted=predicted,
        share=1.0 if predicted is None else params.robustness_weight,
    )
    reached = _reachable_radius(problem, params, objective)
    objective = replace(objective, radius=reached)
    weight = _cost_weight(problem, params, objective)
    objective = replace(objective, cost_weight=weight)
    trade_off = TradeOff(problem.action_set, objective, deadline=problem.deadline)

    @lru_cache(maxsize=3)
    def least(share: float) -> float:
        if share != objective.share:
            return least_of(replace(objective, share=share))
        best = trade_off.best()
        return float("nan") if best is None else best.value

    def least_of(other: LossAndCost) -> float:
        best = TradeOff(problem.action_set, other, deadline=problem.deadline).best()
        return float("nan") if best is None else best.value

    def report(row_raw: Float[np.ndarray, "p"]) -> TradeOffReport | None:
        if math.isnan(least(objective.share)):
            return None
        X, cost = problem.action_set.space.encode(row_raw[None]), problem.action_set.cost(row_raw[None])
        worst = float(objective.worst(X, cost)[0])
        hopeful = None if predicted is None else float(objective.as_predicted(X, cost)[0])
        return TradeOffReport(
            cost_weight=weight,
            theta_scale=float(np.linalg.norm(local.model.w)),
            objective=float(objective.value(X, cost)[0]),
            optimum=least(objective.share),
            worst=worst,
            predicted=hopeful,
            robustness=max(worst - least(1.0), 0.0),
            consistency=None if hopeful is None else max(hopeful - least(0.0), 0.0),
        )

    def how_far(row_raw: Float[np.ndarray, "p"]) -> str | None:
        asked = f"weight_radius is {params.weight_radius:g}"
        if reached < params.weight_radius:
            return f"{asked}, but no legal record is valid for every model within more than {reached:.3g}."
        X = problem.action_set.space.encode(row_raw[None])
        if params.cost_weight != "auto" or objective.share < 1.0 or objective.worst_score(X)[0] >= -SLACK:
            return None
        valid = max(float(local.model.score(X)[0]) / float(np.abs(X).sum() + 1.0), 0.0)
        return f"{asked}, but this record is valid for every model within {valid:.3g} only."

    candidates = minimising(problem, trade_off, local.report, local.extra_margin_unit, report)
    return replace(candidates, how_far=how_far)


def _reachable_radius(problem: RecourseProblem, params: LearningAugmentedParams, objective: LossAndCost) -> float:
    """The radius of the request; with cost_weight `auto`, at most the largest for which a legal action is valid.

    By bisection. Where no action is valid even for the present model, the radius of the request.
    """

    def reaches(radius: float) -> bool:
        robust = replace(objective, radius=radius, share=1.0, predicted=None)
        return TradeOff(problem.action_set, robust).weight_for(0.0) is not None

    if params.cost_weight != "auto" or reaches(params.weight_radius) or not reaches(0.0):
        return params.weight_radius
    low, high = 0.0, params.weight_radius
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if reaches(middle) else (low, middle)
    return low


def _predicted(
    problem: RecourseProblem, params: LearningAugmentedParams, context: MethodContext, model: LinearModel
) -> LinearModel | None:
    prediction = params.prediction
    if prediction is None:
        return None
    if isinstance(prediction, ShiftPrediction):
        return LinearModel(model.w, model.c - prediction.threshold_shift)
    if isinstance(prediction, ModelPrediction):
        other = problem.others[prediction.model]
        return other_logit_model(problem, context.sample, other, problem.deadline, params.surrogate)
    w = model.w.copy()
    for name, weight in prediction.weights.items():
        w[problem.action_set.space.columns.index(name)] = weight
    return LinearModel(w, model.c if prediction.intercept is None else prediction.intercept)


def _cost_weight(problem: RecourseProblem, params: LearningAugmentedParams, objective: LossAndCost) -> float:
    """The cost weight of the request, or the automatic one; see `cost_weight`."""
    if isinstance(params.cost_weight, float | int):
        return float(params.cost_weight)
    robust = TradeOff(problem.action_set, replace(objective, share=1.0, predicted=None), deadline=problem.deadline)
    space = problem.action_set.space

    def score(weight: float, model: LossAndCost) -> float:
        best = robust.best(weight, QUICK)
        return float("nan") if best is None else float(model.worst_score(space.encode(best.row_raw[None]))[0])

    if params.cost_weight == "paper":
        return next((one for one in SEARCHED if score(one, replace(objective, radius=0.0)) >= 0.0), SEARCHED[-1])
    weight = robust.weight_for(0.0)
    if weight is None:
        return SEARCHED[-1]
    return next((weight * s for s in SHRINKING if score(weight * s, objective) >= 0.0), weight * SHRINKING[-1])


METHOD = Method(
    name="learning_augmented",
    params=LearningAugmentedParams,
    yields=Yields.COUNTERFACTUAL,
    generate=generate,
    faults=faults,
    knobs={"weight_radius": 1, "cost_weight": -1, "robustness_weight": 1},
    summary=(
        "The best trade-off of cost against the worst model within a radius and against a predicted one: cheap if the "
        "prediction is right, safe if it is not."
    ),
    reference="Kayastha, Gkatzelis, Jabbari: Learning-Augmented Robust Algorithmic Recourse, 2024",
)
