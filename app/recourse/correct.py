"""Raise the validity of a given plan: ``correct(problem, rows_raw, correction, certificate) -> Correction``.

Members are corrected (`app.recourse.plans.corrector`), decoded to legal records and scored in one model call;
a member changes only where the model accepts the new record and the joint lower bound does not fall. So the returned
plan is never worse than the given one, and equal to it where no correction helps.
"""

import math
import time
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from jaxtyping import Float

from app.errors import (
    BoundaryNotFound,
    BudgetExceeded,
    DeadlineExceeded,
    DegenerateSurrogate,
    RecourseError,
    SolverFailed,
)
from app.recourse.actions.impossible import impossible
from app.recourse.actions.providing import providing
from app.recourse.certificate import certify, judged, mistaken, plan_certificate
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import AssessedCounterfactual, Certificate
from app.recourse.models.linear import homogeneous
from app.recourse.models.meter import Meter
from app.recourse.plans.corrector import CorrectionParams, Corrector, MemberOutcome, keep_better
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, PlanCertificate
from app.recourse.robustness.validity import plan_bounds
from app.recourse.shift import Shift, shift_of
from app.recourse.surrogate.boundary import SamplerParams, sample_boundary, survey
from app.recourse.verdict import Reason, Relaxation

REASONS: dict[type[RecourseError], Reason] = {
    BoundaryNotFound: Reason.BOUNDARY_NOT_FOUND,
    DegenerateSurrogate: Reason.DEGENERATE_SURROGATE,
    DeadlineExceeded: Reason.DEADLINE,
    BudgetExceeded: Reason.BUDGET,
    SolverFailed: Reason.TARGET_NOT_REACHED,
}
"""Reason for no correction where there is no local model, or no time."""
EXTRA_MARGINS = np.array([0.0, 1.0, 2.0, 4.0, 8.0])
"""Distances beyond the margin that are verified together, in half deviations of the boundary sample."""


class CorrectionStatus(StrEnum):
    """Outcome of a correction; none is an error."""

    CORRECTED = "corrected"
    UNCHANGED = "unchanged"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """The outcome of correcting a plan: members and certificates before and after, or why nothing was changed."""

    status: CorrectionStatus
    reason: Reason | None
    """Present iff `status` is `not_found`."""
    relax: Relaxation | None
    """Where constraints prevent a correction, the one whose removal helps most."""
    factual_score: float | None
    factual_probability: float | None
    members: tuple[AssessedCounterfactual, ...]
    """In the given order, corrected or unchanged."""
    outcomes: tuple[MemberOutcome, ...]
    before: PlanCertificate | None
    """Of the given plan; None, like `plan`, where there is no certificate."""
    plan: PlanCertificate | None
    diagnostics: Diagnostics
    warnings: tuple[str, ...]


def correct(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    params: CorrectionParams,
    certificate: CertificateParams,
    *,
    plan_s: float = math.inf,
) -> Correction:
    """Replace members of a given plan so that a lower bound on the probability that all are accepted rises.

    Parameters
    ----------
    plan_s : seconds to compute the bounds on that probability, once before and once after the correction; a member is
        not changed if its correction cannot be shown to help in this time

    Raises
    ------
    DeadlineExceeded, BudgetExceeded : time or budget ran out before the black box had scored the records
    ModelUnavailable : a remote model does not answer
    """
    return _Correcting(problem, rows_raw, params, certificate, plan_s).result()


class _Correcting:
    """The correction of one plan in progress."""

    def __init__(
        self,
        problem: RecourseProblem,
        rows_raw: Float[np.ndarray, "n p"],
        params: CorrectionParams,
        certificate: CertificateParams,
        plan_s: float,
    ) -> None:
        self.started = time.perf_counter()
        # Missing values that every member provides stay provided.
        own = providing(problem.action_set, rows_raw)
        self.problem = problem if own is problem.action_set else replace(problem, action_set=own)
        self.rows_raw, self.params, self.certificate = rows_raw, params, certificate
        self.plan_s, self.applicant = plan_s, problem.action_set
        self.meter = Meter(problem.black_box, problem.deadline)
        self.plan_raw, self.scores = rows_raw.copy(), self.meter.score_raw(rows_raw)
        self.factual_score = math.nan
        """Of the applicant's own record."""
        self.outcomes = [MemberOutcome.UNDECIDED for _ in rows_raw]
        self.certificates: tuple[Certificate | None, ...] = (None,) * len(rows_raw)
        self.before: PlanCertificate | None = None
        self.after: PlanCertificate | None = None
        self.relax: Relaxation | None = None
        self.warnings: list[str] = []

    def result(self) -> Correction:
        """The outcome: the corrected plan, or the plan as it was with the reason why no correction was made."""
        try:
            reason = self._work()
        except (BoundaryNotFound, DegenerateSurrogate, DeadlineExceeded, BudgetExceeded, SolverFailed) as error:
            self.warnings.append(f"The plan was not changed. {error.detail}")
            reason = REASONS[type(error)]
        status = CorrectionStatus.UNCHANGED if reason is None else CorrectionStatus.NOT_FOUND
        if MemberOutcome.CORRECTED in self.outcomes:
            status, reason, self.relax = CorrectionStatus.CORRECTED, None, None
        return Correction(
            status=status,
            reason=reason,
            relax=self.relax,
            factual_score=None if math.isnan(self.factual_score) else self.factual_score,
            factual_probability=self.problem.black_box.probability_of(self.factual_score),
            members=judged(self.problem, self.plan_raw, self.scores, self.certificates),
            outcomes=tuple(self.outcomes),
            before=self.before,
            plan=self.after,
            diagnostics=Diagnostics.since(self.started, self.meter.calls, self.meter.rows),
            warnings=(*impossible(self.applicant, self.plan_raw), *self.warnings),
        )

    def _work(self) -> Reason | None:
        problem, sampler = self.problem, SamplerParams()
        opened = problem.opened(self.rows_raw)
        seen = survey(opened, self.meter, sampler)
        self.factual_score = seen.factual_score
        if problem.action_set.given:
            self.factual_score = float(self.meter.score_raw(self.applicant.factual_raw[None])[0])
        if seen.factual_score >= 0.0:
            self.warnings.append("The model already accepts the factual record, so there is nothing to correct.")
            return None
        sample = sample_boundary(opened, self.meter, sampler, seen)
        shift = shift_of(problem, sample, self.certificate)
        self._change(shift, 0.5 * sample.deviation)
        self.certificates, warnings = certify(
            problem, self.meter, shift, seen.factual_score, self.plan_raw, self.scores
        )
        self.warnings += [*warnings, *mistaken(self.scores, self.certificates)]
        if MemberOutcome.INFEASIBLE in self.outcomes:
            return Reason.INFEASIBLE_CONSTRAINTS
        return Reason.TARGET_NOT_REACHED if MemberOutcome.REFUSED in self.outcomes else None

    def _change(self, shift: Shift, unit: float) -> None:
        """Replace members by accepted corrections as long as the joint lower bound does not fall."""
        problem, radius = self.problem, self.certificate.ambiguity_radius
        actions, until = problem.action_set, problem.deadline
        points = homogeneous(actions.space.encode(self.rows_raw))
        moments = shift.plan_moments(self.rows_raw)
        before = plan_bounds(points, moments, radius, deadline=min(until, time.monotonic() + self.plan_s))
        self.before = self.after = plan_certificate(problem, shift, self.rows_raw, before)
        corrector = Corrector(actions, shift.moments, self.params, until=until)
        chosen = corrector.outcomes(self.rows_raw, before)
        options = [
            corrector.candidates(row, EXTRA_MARGINS * unit) if outcome is None else self.rows_raw[:0]
            for row, outcome in zip(self.rows_raw, chosen, strict=True)
        ]
        asked = np.concatenate(options)
        scores = self.meter.score_raw(asked) if len(asked) else np.empty(0)
        ends = np.cumsum([len(rows) for rows in options])
        proposed: list[Float[np.ndarray, p] | None] = [None] * len(options)
        new_scores = self.scores.copy()
        for k, (rows, end) in enumerate(zip(options, ends.tolist(), strict=True)):
            accepted = np.flatnonzero(problem.black_box.accepts(scores[end - len(rows) : end]))
            if (outcome := chosen[k]) is not None:
                self.outcomes[k] = outcome
            elif not len(rows):
                self.outcomes[k], self.relax = MemberOutcome.INFEASIBLE, corrector.relaxation()
            elif not accepted.size:
                self.outcomes[k] = MemberOutcome.REFUSED
            else:
                proposed[k], new_scores[k] = rows[accepted[0]], scores[end - len(rows) + accepted[0]]
                self.outcomes[k] = MemberOutcome.NO_GAIN if before.exact else MemberOutcome.UNDECIDED
        made, after = keep_better(
            actions,
            self.rows_raw,
            proposed,
            shift.plan_moments,
            radius,
            before,
            gain=self.params.gain,
            until=min(until, time.monotonic() + self.plan_s),
        )
        for k in np.flatnonzero(made).tolist():
            self.plan_raw[k], self.scores[k] = proposed[k], new_scores[k]
            self.outcomes[k] = MemberOutcome.CORRECTED
        self.after = plan_certificate(problem, shift, self.plan_raw, after)
        if MemberOutcome.UNDECIDED in self.outcomes:
            self.warnings.append("There was not enough time for the joint bounds; a job computes them in full.")
