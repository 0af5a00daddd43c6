"""Candidates of methods that minimise loss and cost on a linear model of the decision."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from app.errors import DegenerateSurrogate
from app.recourse.candidates import Candidates
from app.recourse.problem import RecourseProblem
from app.recourse.reports import MethodReport, SurrogateReport
from app.recourse.search.branching import EXACT, QUICK
from app.recourse.search.cheapest import Search
from app.recourse.search.trade_off import TradeOff
from app.recourse.verdict import Relaxation

LEAST_UNIT = 0.25
"""Least unit of extra margin, logits."""
MOST_EXTRA = 30.0
"""Largest extra margin, logits; a larger one counts as this."""
LESS_ROBUST = (0.0, 0.3, 0.6)
"""Shares of the radius whose optima are tried where the black box refuses the one that is asked for."""
ALTERNATIVES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Extra margins of these optima, in units of extra margin."""


def minimising(
    problem: RecourseProblem,
    trade_off: TradeOff,
    surrogate: SurrogateReport | None,
    extra_margin_unit: float,
    report: Callable[[Float[np.ndarray, "p"]], MethodReport | None] = lambda row_raw: None,  # noqa: ARG005
    first_raw: Float[np.ndarray, "p"] | None = None,
) -> Candidates:
    """Candidates that minimise loss plus weighted cost; if the black box refuses one, the cost weight is lowered.

    An extra margin of m logits divides the cost weight by e^m; where the weight is small, that raises the score by
    about m. Of the rows that the black box accepts, the answer is the one that is best by the original weight.

    Parameters
    ----------
    extra_margin_unit : unit of the extra margins, logits; large enough to make a difference to the model
    report : a function from the raw row of the answer to the method's report on it
    first_raw : a row that is better than the optimum on the linear model and is proposed first; None if none is known
    """
    space, model, weight = problem.action_set.space, trade_off.objective.model, trade_off.objective.cost_weight

    def propose(extra_margins: Float[np.ndarray, "k"]) -> Float[np.ndarray, "m p"]:
        rows: list[Float[np.ndarray, p]] = []
        for extra in extra_margins.tolist():
            if extra == 0.0 and first_raw is not None:
                rows.append(first_raw)
                continue
            best = trade_off.best(weight * math.exp(-min(extra, MOST_EXTRA)), QUICK if extra > 0.0 else EXACT)
            if best is None:
                break
            rows.append(best.row_raw)
        return np.array(rows).reshape(len(rows), space.p)

    def alternatives() -> Float[np.ndarray, "n p"]:
        rows: list[Float[np.ndarray, p]] = []
        for share in LESS_ROBUST if trade_off.objective.radius > 0.0 else ():
            objective = replace(trade_off.objective, radius=share * trade_off.objective.radius)
            less = TradeOff(problem.action_set, objective, deadline=problem.deadline)
            optima = (less.best(weight * math.exp(-unit * extra), QUICK) for extra in ALTERNATIVES)
            rows += [best.row_raw for best in optima if best is not None]
        return np.array(rows).reshape(len(rows), space.p)

    unit = max(LEAST_UNIT, extra_margin_unit)

    def relax() -> Relaxation | None:
        try:
            return Search(model.unit(), problem.action_set).relaxation(0.0)
        except DegenerateSurrogate:
            return None

    return Candidates(
        propose=propose,
        meets=lambda rows_raw: np.ones(len(rows_raw), dtype=bool),
        rank=lambda rows_raw: model.score(space.encode(rows_raw)),
        extra_margin_unit=unit,
        is_optimal=first_raw is None,
        alternatives=alternatives,
        objective=trade_off.value,
        surrogate=surrogate,
        report=report,
        relax=relax,
    )
