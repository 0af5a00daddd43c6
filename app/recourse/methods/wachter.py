"""Wachter: least loss and cost under the model itself, without robustness. A baseline of all four papers.

``min loss(f(x)) + cost_weight cost(x)`` over the action set. Exact for a linear model. A model that offers gradients is
linearised repeatedly, each time within a distance that its true score justifies; the papers take Adam steps in encoded
space and round afterwards. Any other model is replaced by its surrogate.

References
----------
Wachter, Mittelstadt, Russell, "Counterfactual explanations without opening the black box", 2018.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.recourse.actions.action_set import ActionSet
from app.recourse.candidates import Candidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.methods.loss_and_cost import minimising
from app.recourse.models.linear import LinearModel
from app.recourse.numerics.linalg import unique_rows
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.consistency_and_robustness import LossAndCost, loss
from app.recourse.search.branching import EXACT
from app.recourse.search.responses import legal
from app.recourse.search.trade_off import TradeOff
from app.recourse.surrogate.linear_fits import SurrogateParams
from app.recourse.surrogate.local import logit_model

RADII = (4.0, 1.0, 0.25, 0.06)
"""Distances within which a linearisation is tried, encoded units; all are scored in one call."""
STEPS = 20
PROGRESS = 1e-6
"""Least relative progress of a step; below it the search ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WachterParams(SurrogateParams, MethodParams):
    """Parameters of Wachter's counterfactuals."""

    cost_weight: Annotated[float, Interval(ge=1e-6, le=1e3)] = 0.1
    """Weight of one unit of cost against the loss; lowered where the model refuses the optimum."""


def generate(problem: RecourseProblem, params: WachterParams, context: MethodContext) -> Candidates:
    """Propose the row with the least loss plus weighted cost, under the model itself or under its linear surrogate."""
    local = logit_model(problem, context.sample, context.meter, params.surrogate)
    objective = LossAndCost(model=local.model, radius=0.0, cost_weight=params.cost_weight)
    trade_off = TradeOff(problem.action_set, objective, deadline=problem.deadline)
    if problem.black_box.linear or problem.black_box.gradient is None:
        return minimising(problem, trade_off, local.report, local.extra_margin_unit)
    first = trade_off.best()
    if first is None:
        return minimising(problem, trade_off, local.report, local.extra_margin_unit)
    row_raw, model = _descend(problem, objective, context, first.row_raw)
    trade_off = TradeOff(problem.action_set, replace(objective, model=model), deadline=problem.deadline)
    return minimising(problem, trade_off, local.report, local.extra_margin_unit, first_raw=row_raw)


def _descend(
    problem: RecourseProblem, objective: LossAndCost, context: MethodContext, row_raw: Float[np.ndarray, "p"]
) -> tuple[Float[np.ndarray, "p"], LinearModel]:
    """A local optimum on the model, and the model's linearisation there."""
    A, meter = problem.action_set, context.meter
    encode = A.space.encode

    def value(rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        return np.where(np.isnan(scores), np.inf, loss(scores)) + objective.cost_weight * A.cost(rows_raw)

    rows = np.array([A.factual_raw, row_raw])
    rows = rows[A.contains(rows)]
    scores = meter.score_raw(rows)
    values = value(rows, scores)
    best = int(values.argmin())
    row_raw, score, reached = rows[best], float(scores[best]), float(values[best])
    model = objective.model
    for _ in range(STEPS):
        x = encode(row_raw[None])
        slope = meter.gradient(x)[0]
        model = LinearModel(slope, score - float(slope @ x[0]))
        tries = [
            one.row_raw
            for radius in RADII
            if (one := TradeOff(_near(A, row_raw, radius), replace(objective, model=model)).best(None, EXACT))
        ]
        rows = unique_rows(np.array(tries).reshape(len(tries), A.space.p))
        rows = rows[A.contains(rows)]
        if not len(rows):
            break
        scores = meter.score_raw(rows)
        values = value(rows, scores)
        best = int(values.argmin())
        if not values[best] < reached * (1.0 - PROGRESS):
            break
        row_raw, score, reached = rows[best], float(scores[best]), float(values[best])
    return row_raw, model


def _near(A: ActionSet, row_raw: Float[np.ndarray, "p"], radius: float) -> ActionSet:
    """The part of the action set whose numbers are within an encoded distance of a legal row."""
    lower, upper = A.lower_raw.copy(), A.upper_raw.copy()
    for k, j in enumerate(A.space.numeric.tolist()):
        reach, here = radius * A.space.scale_raw[k], float(row_raw[j])
        if A.movable[j]:
            lower[j] = max(lower[j], min(here, legal(A, j, here - reach, math.ceil)))
            upper[j] = min(upper[j], max(here, legal(A, j, here + reach, math.floor)))
    return replace(A, lower_raw=lower, upper_raw=upper)


METHOD = Method(
    name="wachter",
    params=WachterParams,
    yields=Yields.COUNTERFACTUAL,
    generate=generate,
    knobs={"cost_weight": -1},
    summary="The least loss and cost under the present model, without robustness; a baseline.",
    reference="Wachter, Mittelstadt, Russell: Counterfactual explanations without opening the black box, 2018",
)
