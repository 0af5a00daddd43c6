"""Covariance-robust minimax probability machine (paper 1): a surrogate that is robust to errors in class covariances.

The boundary is sampled, a robust minimax probability machine is fitted to the samples, and the cheapest legal record
on its favourable side is the candidate. `radius_unfavourable` moves that side away from the unfavourable class.

References
----------
Bui, Nguyen, Yue, Nguyen, "Coverage-Validity-Aware Algorithmic Recourse", 2023.
"""

import math
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
from annotated_types import Interval
from jaxtyping import Float

from app.recourse.candidates import Candidates
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.problem import RecourseProblem
from app.recourse.reports import SurrogateReport
from app.recourse.search.cheapest import Search, SearchKind
from app.recourse.surrogate.boundary import SamplerParams
from app.recourse.surrogate.divergences import Divergence
from app.recourse.surrogate.mpm import fit_sample

# Annotations of functions within a function are evaluated at each of its calls, which costs more than such a name.
Row: TypeAlias = Float[np.ndarray, "p"]
Rows: TypeAlias = Float[np.ndarray, "n p"]

RADIUS = 10.0
"""Of the unfavourable class, where the request sets none."""
RUNGS = 24
"""Proposals below a margin that no record reaches, or that the black box refuses."""
SLACK = 1e-6
"""By which a margin may be missed, encoded units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustMpmParams(SamplerParams, MethodParams):
    """Parameters of the covariance-robust minimax probability machine."""

    divergence: Divergence = "fisher_rao"
    """Distance that bounds how far a class covariance may be from its estimate. With `none` and no `margin` the machine
    only leads the search: the cheapest record found that the model accepts is answered."""
    radius_unfavourable: Annotated[float, Interval(ge=0, le=1000)] = RADIUS
    """Size of the ambiguity set of the unfavourable class; larger moves the answer deeper into the favourable side.
    With `fisher_rao` most of its effect is reached at 10 and all of it at about 20; `margin` goes further."""
    radius_favourable: Annotated[float, Interval(ge=0, le=1000)] = 0.0
    """Size of the ambiguity set of the favourable class."""
    search: SearchKind = "auto"
    """`projection` moves numbers freely and rounds them afterwards, at the least cost however many changes that takes;
    `actionable` searches whole numbers, steps and rules exactly; `auto` takes `actionable` where the schema needs
    it."""
    margin: Annotated[float, Interval(ge=0, le=100)] = 0.0
    """Distance kept from the surrogate's boundary, encoded units."""


def generate(problem: RecourseProblem, params: RobustMpmParams, context: MethodContext) -> Candidates:
    """Fit a minimax probability machine to the samples, and propose the cheapest legal rows on its favourable side."""
    sample = context.sample
    machine = fit_sample(
        sample,
        params.divergence,
        radius_favourable=params.radius_favourable,
        radius_unfavourable=params.radius_unfavourable,
    )
    search = Search(machine.model, problem.action_set, kind=params.search, deadline=problem.deadline)
    encode, score = problem.action_set.space.encode, machine.model.score
    takes_any = params.divergence == "none" and params.margin == 0.0
    at_defaults = params.radius_unfavourable == RADIUS and params.margin == 0.0

    def nearest() -> Rows:
        top = min(params.margin, search.reach)
        if not top > search.start_score:
            return np.empty((0, problem.action_set.space.p))
        return search.rows(np.linspace(search.start_score, top, RUNGS + 1)[1:], exact_up_to=-math.inf)

    def how_far(row_raw: Row) -> str | None:
        reached = float(score(encode(row_raw[None]))[0])
        if takes_any or reached >= params.margin - SLACK:
            return None
        return (
            f"Its distance to the local model's boundary is {reached:.3g}; at least {params.margin:g} is asked for, "
            f"with radius_unfavourable {params.radius_unfavourable:g}."
        )

    return Candidates(
        # Where the surrogate accepts the factual and the model does not, extra margins count from the factual's score.
        propose=lambda extra_margins: search.rows(
            np.where(extra_margins > 0.0, max(params.margin, search.start_score), params.margin) + extra_margins,
            exact_up_to=params.margin,
        ),
        meets=lambda rows_raw: np.asarray(takes_any | (score(encode(rows_raw)) >= params.margin - 1e-9)),
        nearest=nearest,
        how_far=how_far,
        rank=lambda rows_raw: score(encode(rows_raw)),
        objective=problem.action_set.cost if params.search == "projection" else None,
        extra_margin_unit=0.5 * sample.deviation,
        is_optimal=not takes_any and (params.search != "projection" or problem.action_set.is_box),
        takes_any=takes_any,
        yields_to_model=at_defaults and not takes_any and params.search != "projection",
        surrogate=SurrogateReport(
            kind=f"{params.divergence}_mpm",
            worst_case_accuracy=machine.worst_case_accuracy,
            fidelity=sample.fidelity(machine.model),
            samples=len(sample.X),
        ),
        relax=lambda: search.relaxation(params.margin),
    )


METHOD = Method(
    name="robust_mpm",
    params=RobustMpmParams,
    yields=Yields.COUNTERFACTUAL,
    generate=generate,
    knobs={"radius_unfavourable": 1, "margin": 1},
    summary=(
        "The cheapest change that a local model of the decision accepts even when its class covariances are wrong by a "
        "chosen radius."
    ),
    reference="Bui, Nguyen, Yue, Nguyen: Coverage-Validity-Aware Algorithmic Recourse, 2023",
)
