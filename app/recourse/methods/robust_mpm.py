"""Covariance-robust minimax probability machine (paper 1): a surrogate that stays right when its moments shift.

The boundary is sampled, a robust minimax probability machine is fitted to the samples, and the cheapest legal record
on its favourable side is the candidate. `radius_unfavourable` pushes that side away from the unfavourable class.

References
----------
Bui, Nguyen, Yue, Nguyen, "Coverage-Validity-Aware Algorithmic Recourse", 2023.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from annotated_types import Interval

from app.recourse.method import Candidates, Ground, Method, MethodParams, Need, Yields
from app.recourse.problem import RecourseProblem
from app.recourse.result import SurrogateReport
from app.recourse.search import Search, SearchKind
from app.recourse.surrogate.boundary import SamplerParams
from app.recourse.surrogate.mpm import Divergence, fit_sample


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustMpmParams(SamplerParams, MethodParams):
    """Parameters of the covariance-robust minimax probability machine."""

    divergence: Divergence = "fisher_rao"
    """Distance that bounds how far a class covariance may be from its estimate."""
    radius_unfavourable: Annotated[float, Interval(ge=0, le=1000)] = 10.0
    """Size of the ambiguity set of the unfavourable class; larger pushes the answer deeper into the favourable side."""
    radius_favourable: Annotated[float, Interval(ge=0, le=1000)] = 0.0
    """Size of the ambiguity set of the favourable class."""
    search: SearchKind = "auto"
    """`projection` moves numbers freely and rounds them afterwards; `actionable` searches whole numbers, steps and
    rules exactly; `auto` takes `actionable` where the schema needs it."""
    margin: Annotated[float, Interval(ge=0, le=100)] = 0.0
    """Distance kept from the surrogate's hyperplane, encoded units."""


def generate(problem: RecourseProblem, params: RobustMpmParams, ground: Ground) -> Candidates:
    """Fit the machine to the samples and search its favourable side."""
    sample = ground.sample
    machine = fit_sample(
        sample,
        params.divergence,
        radius_favourable=params.radius_favourable,
        radius_unfavourable=params.radius_unfavourable,
    )
    search = Search(machine.model, problem.action_set, kind=params.search, deadline=problem.deadline)
    encode, score = problem.action_set.space.encode, machine.model.score
    return Candidates(
        # Where the surrogate accepts the factual and the model does not, pushes go on from where the factual stands.
        propose=lambda pushes: search.rows(
            np.where(pushes > 0.0, max(params.margin, search.start_score), params.margin) + pushes,
            exact_up_to=params.margin,
        ),
        meets=lambda rows_raw: np.asarray(score(encode(rows_raw)) >= params.margin - 1e-9),
        rate=lambda rows_raw: score(encode(rows_raw)),
        push_unit=0.5 * sample.deviation,
        surrogate=SurrogateReport(
            kind=f"{params.divergence}_mpm",
            worst_case_accuracy=machine.worst_case_accuracy,
            fidelity=float(np.count_nonzero((score(sample.X) >= 0.0) == sample.favourable) / len(sample.X)),
            samples=len(sample.X),
        ),
        relax=lambda: search.relaxation(params.margin),
    )


METHOD = Method(
    name="robust_mpm",
    params=RobustMpmParams,
    yields=Yields.COUNTERFACTUAL,
    needs=frozenset({Need.BOUNDARY_SAMPLE}),
    generate=generate,
    knobs={"radius_unfavourable": 1, "margin": 1},
    summary=(
        "The cheapest change that a local model of the decision accepts even when its class covariances are wrong by a "
        "chosen radius."
    ),
    reference="Bui, Nguyen, Yue, Nguyen: Coverage-Validity-Aware Algorithmic Recourse, 2023",
)
