"""Certificates of given counterfactuals: ``assess(problem, rows_raw, certificate) -> Assessment``.

The same certificate as `solve` attaches to its own answers, for the given records, valid or not, and for all of them
jointly as a plan.
"""

import math
import time
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from app.errors import BoundaryNotFound, BudgetExceeded, DeadlineExceeded, DegenerateSurrogate
from app.recourse.actions.impossible import impossible
from app.recourse.actions.providing import providing
from app.recourse.certificate import certify, certify_plan, judged, mistaken
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import AssessedCounterfactual, Certificate
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, PlanCertificate
from app.recourse.shift import shift_of
from app.recourse.surrogate.boundary import SamplerParams, sample_boundary, survey

SAMPLER = SamplerParams()
"""The certificate's own sample of the boundary, independent of the method that made the counterfactuals."""

ACCEPTED_WARNING = "The model already accepts the factual record, so there is nothing to certify."
PROVIDED_WARNING = (
    "The model accepts the factual record once the missing values are provided, so there is nothing more to certify."
)


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
    """Score, cost and certificate of each raw row, and joint bounds on the rows as one plan.

    If no local model can be fitted around the applicant, or the time runs out, there are scores and costs but no
    certificates. A warning then says why.

    Parameters
    ----------
    plan_s : seconds for the joint bounds; where they take longer, wider bounds are returned

    Raises
    ------
    DeadlineExceeded, BudgetExceeded : time or budget ran out before the black box had scored the records
    ModelUnavailable : a remote model does not answer
    """
    started = time.perf_counter()
    meter = Meter(problem.black_box, problem.deadline)
    scores = meter.score_raw(rows_raw)
    certificates: list[Certificate | None] = [None] * len(rows_raw)
    plan: PlanCertificate | None = None
    factual_score, warnings = math.nan, impossible(problem.action_set, rows_raw)
    # Each row is certified around the applicant who has provided the missing values that it provides.
    own = [providing(problem.action_set, row_raw[None]) for row_raw in rows_raw]
    try:
        if all(actions.given for actions in own):
            factual_score = float(meter.score_raw(problem.factual_raw[None])[0])
        for given in dict.fromkeys(actions.given for actions in own):
            which = [i for i, actions in enumerate(own) if actions.given == given]
            provided = replace(problem, action_set=own[which[0]])
            opened = provided.opened(rows_raw[which])
            seen = survey(opened, meter, SAMPLER)
            if not given:
                factual_score = seen.factual_score
            if seen.factual_score >= 0.0:
                warnings.append(PROVIDED_WARNING if given else ACCEPTED_WARNING)
                continue
            sample = sample_boundary(opened, meter, SAMPLER, seen)
            shift = shift_of(provided, sample, certificate)
            found, doubts = certify(provided, meter, shift, seen.factual_score, rows_raw[which], scores[which])
            for i, one in zip(which, found, strict=True):
                certificates[i] = one
            warnings += doubts
            if plan is None:
                plan = certify_plan(provided, shift, rows_raw, plan_s)
    except (BoundaryNotFound, DegenerateSurrogate, DeadlineExceeded, BudgetExceeded) as error:
        warnings.append(f"There is no certificate. {error.detail}")
    warnings += mistaken(scores, certificates)
    return Assessment(
        factual_score=None if math.isnan(factual_score) else factual_score,
        factual_probability=problem.black_box.probability_of(factual_score),
        judged=judged(problem, rows_raw, scores, certificates),
        plan=plan,
        diagnostics=Diagnostics.since(started, meter.calls, meter.rows),
        warnings=tuple(warnings),
    )
