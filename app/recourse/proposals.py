"""Proposals of methods that minimise loss and cost on a linear model of the decision."""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from app.errors import DegenerateSurrogate
from app.recourse.method import Candidates
from app.recourse.problem import RecourseProblem
from app.recourse.result import MethodReport, Relaxation, SurrogateReport
from app.recourse.search import Search
from app.recourse.tradeoff import EXACT, QUICK, TradeOff

PUSH = 0.25
"""The least logits that one unit of push is worth."""
FARTHEST = 30.0
"""Logits beyond which nothing is pushed."""


def minimising(
    problem: RecourseProblem,
    trade_off: TradeOff,
    surrogate: SurrogateReport | None,
    push_unit: float,
    report: Callable[[Float[np.ndarray, "p"]], MethodReport | None] = lambda row_raw: None,  # noqa: ARG005
    first_raw: Float[np.ndarray, "p"] | None = None,
) -> Candidates:
    """The optimum; where the black box refuses it, optima of ever smaller cost weight, as the papers have it.

    A push of one logit divides the cost weight by e, which for a small weight raises the score by one. Among the
    accepted rows the one of least objective is the answer, so pushing does not change what is minimised.

    Parameters
    ----------
    push_unit : logits that make a difference
    first_raw : what is proposed without a push, where better is known than the optimum on the linear model
    """
    space, model, weight = problem.action_set.space, trade_off.objective.model, trade_off.objective.cost_weight

    def propose(pushes: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
        rows: list[Float[np.ndarray, p]] = []
        for push in pushes.tolist():
            if push == 0.0 and first_raw is not None:
                rows.append(first_raw)
                continue
            best = trade_off.best(weight * math.exp(-min(push, FARTHEST)), QUICK if push > 0.0 else EXACT)
            if best is None:
                break
            rows.append(best.row_raw)
        return np.array(rows).reshape(len(rows), space.p)

    def relax() -> Relaxation | None:
        try:
            return Search(model.unit(), problem.action_set).relaxation(0.0)
        except DegenerateSurrogate:
            return None

    return Candidates(
        propose=propose,
        meets=lambda rows_raw: np.ones(len(rows_raw), dtype=bool),
        rate=lambda rows_raw: model.score(space.encode(rows_raw)),
        push_unit=max(PUSH, push_unit),
        objective=trade_off.value,
        surrogate=surrogate,
        report=report,
        relax=relax,
    )
