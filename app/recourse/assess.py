"""Certificates of given counterfactuals: ``assess(problem, rows_raw, certificate) -> Assessment``.

The same certificate as `solve` attaches to its own answers, for the given records, valid or not, and for all of them
jointly as a plan.
"""

import math
import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from app.errors import BoundaryNotFound, BudgetExceeded, DeadlineExceeded, DegenerateSurrogate
from app.recourse.actions.impossible import impossible
from app.recourse.certificate import certify, certify_plan, judged
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import AssessedCounterfactual, Certificate
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, PlanCertificate
from app.recourse.shift import shift_of
from app.recourse.surrogate.boundary import SamplerParams, sample_boundary, survey

SAMPLER = SamplerParams()
"""The certificate's own sample of the boundary, independent of the method that made the counterfactuals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Scores, costs and certificates of given counterfactuals of one applicant."""

    factual_score: float | None
    factual_probability: float | None
    judged: tuple[AssessedCounterfactual, ...]
    """In the order given."""
    plan: PlanCertificate | None
    """None where there is no certificate."""
    diagnostics: Diagnostics
    warnings: tuple[str, ...]


def assess(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    certificate: CertificateParams,
    *,
    plan_s: float = math.inf,
) -> Assessment:
    """Score, cost and certificate of each raw row, and the joint bounds of all.

    Where the decisions around the applicant determine no local model, or the time runs out, there is no certificate
    and a warning says why; scores and costs are returned nevertheless.

    Parameters
    ----------
    plan_s : seconds for the joint bounds; where they take longer, a bracket is returned

    Raises
    ------
    DeadlineExceeded, BudgetExceeded : time or budget ran out before the black box had scored the records
    ModelUnavailable : a remote model does not answer
    """
    started = time.perf_counter()
    meter = Meter(problem.black_box, problem.deadline)
    scores = meter.score_raw(rows_raw)
    certificates: tuple[Certificate | None, ...] = (None,) * len(rows_raw)
    plan: PlanCertificate | None = None
    factual_score, warnings = math.nan, impossible(problem.action_set, rows_raw)
    try:
        asked = problem.about(rows_raw)
        seen = survey(asked, meter, SAMPLER)
        factual_score = seen.factual_score
        if factual_score >= 0.0:
            warnings.append("The model already accepts the factual record, so there is nothing to certify.")
        else:
            sample = sample_boundary(asked, meter, SAMPLER, seen)
            shift = shift_of(problem, sample, certificate)
            certificates, doubts = certify(problem, meter, shift, factual_score, rows_raw, scores)
            warnings += doubts
            plan = certify_plan(problem, shift, rows_raw, plan_s)
    except (BoundaryNotFound, DegenerateSurrogate, DeadlineExceeded, BudgetExceeded) as error:
        warnings.append(f"There is no certificate. {error.detail}")
    return Assessment(
        factual_score=None if math.isnan(factual_score) else factual_score,
        factual_probability=problem.black_box.probability_of(factual_score),
        judged=judged(problem, rows_raw, scores, certificates),
        plan=plan,
        diagnostics=Diagnostics(
            model_calls=meter.calls, model_rows=meter.rows, elapsed_ms=1e3 * (time.perf_counter() - started)
        ),
        warnings=tuple(warnings),
    )
