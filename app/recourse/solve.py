"""Answer one applicant's question: ``solve(problem, method, params) -> RecourseResult``.

survey -> sample -> generate -> verify -> repair and polish -> verdict. Methods propose; only
`app.recourse.verification` asks the black box about the records that are returned. At most `MAX_CALLS` model calls:

1. survey: the factual, and a grid towards its nearest favourable neighbours
2. the crossings, refined
3. samples around them (a second time where nearly all of them have the same decision)
4. verify: a ladder of proposals with growing extra margins beyond the method's own constraint
5. repair and polish: proposals between the last refused rung and the first accepted one, and the accepted record with
   one change undone or halved; or, where every rung was refused, records that no method proposed
   (`app.recourse.fallback`)
"""

import math
import time
from dataclasses import fields, replace

import numpy as np

from app.errors import (
    BoundaryNotFound,
    BudgetExceeded,
    DeadlineExceeded,
    DegenerateSurrogate,
    Fault,
    InvalidRequest,
    SolverFailed,
)
from app.recourse.actions.providing import provided
from app.recourse.certificate import CertificateParams, certify, certify_plan, local_model
from app.recourse.fallback import relaxation
from app.recourse.method import Method, MethodContext, MethodParams, PlanCandidates, Yields
from app.recourse.methods import METHODS
from app.recourse.models.black_box import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import (
    NOTHING_PROPOSED,
    PROMISE_NOT_KEPT,
    SENTENCES,
    Counterfactual,
    Diagnostics,
    PlanCertificate,
    Reason,
    RecourseResult,
    Status,
    Verdict,
)
from app.recourse.robustness.future_validity import certify_future
from app.recourse.surrogate.boundary import BoundarySample, SamplerParams, Survey, sample_boundary, survey
from app.recourse.verification import Draft, verify_committee, verify_fallback, verify_one, verify_plan

__all__ = ["METHODS", "solve"]

MOST_ROUNDS = 2
"""Calls of one answer that verify proposals."""
MAX_CALLS = 5
"""Model calls of one answer; a remote model is paid per call."""
WEIGHTS_WARNING = "Cost weights affect the reported cost but not this method's search, which minimises distance."
BUDGET_WARNING = (
    "The model's request budget was used up before the search ended. The model accepts this answer, but a better one "
    "may exist."
)
UNSEEN_WARNING = "The model's decisions about such records may be unreliable."
PROVIDED_WARNING = (
    "This answer provides values that are missing. They are not known yet: the answer assumes typical ones, or those "
    "that it names, and holds for these."
)
NO_FUTURES = Fault("/future_validity", "needs future models, and this model has none: rehearse its retraining first")
NOT_AIMED_WARNING = (
    "Time or budget ran out before the search asked the future models; `validity.future` says how many of them accept "
    "this record."
)


def solve(
    problem: RecourseProblem,
    method: Method,
    params: MethodParams,
    certificate: CertificateParams | None = None,
    *,
    plan_s: float = math.inf,
) -> RecourseResult:
    """Answer one applicant's question with counterfactuals that the black box has confirmed, or with a verdict.

    The same problem, method and parameters give the same answer, timings aside, unless the deadline cuts it short.

    Parameters
    ----------
    plan_s : seconds for the joint bounds of a plan; where they take longer, a bracket is returned

    Raises
    ------
    InvalidRequest : `future_validity` is asked of a model without future models
    ModelOutputInvalid : the model broke its contract, e.g. with a probability above 1
    ModelUnavailable : a remote model does not answer
    SolverFailed : a solver ended without an answer, and no fallback record was accepted
    """
    answer = answer_with(Shared(problem), method, params, certificate, plan_s=plan_s)
    actions = provided(problem.action_set)
    if actions is None or answer.status is Status.ALREADY_FAVOURABLE:
        return answer
    providing = replace(problem, action_set=actions)
    return _cheaper(answer, providing, answer_with(Shared(providing), method, params, certificate, plan_s=plan_s))


def _cheaper(answer: RecourseResult, problem: RecourseProblem, other: RecourseResult) -> RecourseResult:
    """The answer itself, or what costs less for a person who provides missing values, by the mean of the members."""
    found = list(other.counterfactuals)
    if other.status is Status.ALREADY_FAVOURABLE and other.factual_score is not None:
        actions, row_raw = problem.action_set, problem.factual_raw
        found = certify_future(problem, [
            Counterfactual(
                row_raw=row_raw, score=other.factual_score, probability=other.factual_probability,
                cost=float(actions.cost(row_raw[None])[0]), changed=actions.changes(row_raw),
            )
        ])  # fmt: skip
        wanted, reached = problem.future_validity, found[0].future
        if wanted is not None and (reached is None or reached.probability < wanted):
            found = []
    spent = replace(
        answer.diagnostics,
        model_calls=(answer.diagnostics.model_calls or 0) + (other.diagnostics.model_calls or 0),
        model_rows=(answer.diagnostics.model_rows or 0) + (other.diagnostics.model_rows or 0),
        elapsed_ms=answer.diagnostics.elapsed_ms + other.diagnostics.elapsed_ms,
    )
    cost = [sum(one.cost for one in rows) / max(len(rows), 1) for rows in (answer.counterfactuals, found)]
    if not found or (answer.counterfactuals and cost[0] <= cost[1]):
        return replace(answer, diagnostics=spent)
    return replace(
        other, status=Status.FOUND, counterfactuals=tuple(found), factual_score=answer.factual_score,
        factual_probability=answer.factual_probability, diagnostics=spent, warnings=(*other.warnings, PROVIDED_WARNING),
    )  # fmt: skip


class Shared:
    """Survey, samples and earlier answers that several questions about one applicant share."""

    def __init__(self, problem: RecourseProblem) -> None:
        self.problem = problem
        self.meter = Meter(problem.black_box, problem.deadline)
        self.known: list[Counterfactual] = []
        """Earlier answers; candidates for the next one."""
        self._surveys: dict[tuple[object, ...], Survey] = {}
        self._samples: dict[tuple[object, ...], BoundarySample] = {}

    def survey(self, sampler: SamplerParams) -> Survey:
        """As `surrogate.boundary.survey`."""
        key = _key(sampler)
        if key not in self._surveys:
            self._surveys[key] = survey(self.problem, self.meter, sampler)
        return self._surveys[key]

    def sample(self, sampler: SamplerParams) -> BoundarySample:
        """As `surrogate.boundary.sample_boundary`."""
        key = _key(sampler)
        if key not in self._samples:
            self._samples[key] = sample_boundary(self.problem, self.meter, sampler, self.survey(sampler))
        return self._samples[key]


def _key(sampler: SamplerParams) -> tuple[object, ...]:
    return tuple(getattr(sampler, field.name) for field in fields(SamplerParams))


def answer_with(
    shared: Shared,
    method: Method,
    params: MethodParams,
    certificate: CertificateParams | None = None,
    *,
    plan_s: float = math.inf,
    future_validity: float | None = None,
) -> RecourseResult:
    """As `solve`, for another question about the same applicant; the diagnostics count this answer's own calls.

    Parameters
    ----------
    future_validity : in place of the problem's own
    """
    started = time.perf_counter()
    problem, meter = shared.problem, shared.meter
    if future_validity is not None:
        problem = replace(problem, future_validity=future_validity)
    if problem.future_validity is not None and problem.futures is None:
        raise InvalidRequest(faults=[NO_FUTURES])
    draft = Draft(problem, meter)
    draft.warnings += [f"{sentence} {UNSEEN_WARNING}" for sentence in problem.reference.unseen(problem.factual_raw)]
    reason: Reason | None
    try:
        reason = _derive(draft, shared, method, params, certificate or CertificateParams())
    except DeadlineExceeded:
        reason = Reason.DEADLINE
    except BudgetExceeded:
        reason = Reason.BUDGET
        if draft.found:
            draft.warnings.append(BUDGET_WARNING)
    except BoundaryNotFound:
        reason = Reason.BOUNDARY_NOT_FOUND
    if draft.found and problem.future_validity is not None and not draft.aimed:
        draft.warnings.append(NOT_AIMED_WARNING)
    plan = None if certificate is None else _certify(draft, method, certificate, plan_s)
    if meter.silent:
        draft.warnings.append(
            f"The model gave no finite score for {meter.silent} of the {meter.rows} points it was asked about; they "
            "count as unfavourable."
        )
    draft.found = certify_future(problem, draft.found)
    status = Status.FOUND if draft.found else Status.ALREADY_FAVOURABLE if reason is None else Status.NOT_FOUND
    return RecourseResult(
        status=status,
        factual_score=None if math.isnan(draft.factual_score) else draft.factual_score,
        factual_probability=problem.black_box.probability_of(draft.factual_score),
        counterfactuals=tuple(draft.found),
        plan=plan,
        verdict=_verdict(draft, reason) if status is Status.NOT_FOUND else None,
        fallback=draft.fallback,
        surrogate=draft.candidates.surrogate if draft.candidates else None,
        diagnostics=Diagnostics(
            model_calls=draft.calls, model_rows=draft.rows, elapsed_ms=1e3 * (time.perf_counter() - started)
        ),
        warnings=(*([draft.fallback_warning] if draft.fallback and draft.found else []), *draft.warnings),
    )


def _derive(
    draft: Draft, shared: Shared, method: Method, params: MethodParams, certificate: CertificateParams
) -> Reason | None:
    """Fill the draft; the reason to give if nothing is found, None where the factual is favourable."""
    problem, meter = draft.problem, draft.meter
    sampler = params if isinstance(params, SamplerParams) else SamplerParams()
    seen = shared.survey(sampler)
    draft.factual_score = seen.factual_score
    if math.isnan(seen.factual_score):
        return Reason.MODEL_OUTPUT_INVALID
    if seen.factual_score >= 0.0:
        return None
    failed: SolverFailed | None = None
    try:
        draft.sample = shared.sample(sampler)
        draft.rounds = min(MAX_CALLS - draft.calls, MOST_ROUNDS)
        context = MethodContext(
            sample=draft.sample,
            factual_score=seen.factual_score,
            neighbours=seen.ends,
            certificate=certificate,
            meter=meter,
        )
        draft.candidates = candidates = method.generate(problem, params, context)
        if isinstance(candidates, PlanCandidates):
            reason = verify_plan(draft, candidates)
            if draft.found and problem.action_set.reweighted and not method.weighs_costs:
                draft.warnings.append(WEIGHTS_WARNING)
        else:
            reason = verify_one(draft, candidates, shared.known)
    except (DegenerateSurrogate, SolverFailed) as error:
        reason = Reason.DEGENERATE_SURROGATE
        failed = error if isinstance(error, SolverFailed) else None
        if draft.candidates is None and method.promise is not None:
            draft.candidates = method.promise(problem, params, meter)
    if not draft.found and draft.rounds > 0:
        verify_fallback(draft)
    if problem.future_validity is not None:
        assert problem.futures is not None  # checked at the beginning
        known = () if method.yields is Yields.PLAN else shared.known
        reason = verify_committee(draft, method, params, problem.futures.search, problem.future_validity, known)
    if not draft.found and not (draft.relax and draft.relax.sufficient):
        draft.relax = relaxation(problem) or draft.relax
        if draft.relax and reason is Reason.DEGENERATE_SURROGATE:
            reason = Reason.INFEASIBLE_CONSTRAINTS  # all decisions agree because features that cannot change decide
    if failed and not draft.found:
        raise failed
    return reason


def _certify(draft: Draft, method: Method, certificate: CertificateParams, plan_s: float) -> PlanCertificate | None:
    """Attach a certificate to each counterfactual; the joint one of a plan is returned."""
    if not draft.found or draft.sample is None:
        return None
    problem, rows_raw = draft.problem, np.array([one.row_raw for one in draft.found])
    try:
        local = local_model(problem, draft.sample, certificate)
        certificates, warnings = certify(
            problem,
            draft.meter,
            local,
            draft.factual_score,
            rows_raw,
            np.array([one.score for one in draft.found]),
            certificate,
        )
        draft.found = [replace(one, certificate=c) for one, c in zip(draft.found, certificates, strict=True)]
        draft.warnings += warnings
        if method.yields is Yields.PLAN:
            return certify_plan(problem, local[1], rows_raw, certificate, plan_s)
    except (DegenerateSurrogate, DeadlineExceeded, BudgetExceeded) as error:
        draft.warnings.append(f"There is no certificate. {error.detail}")
    return None


def _verdict(draft: Draft, reason: Reason | None) -> Verdict:
    """Why nothing was found, the nearest record, and the constraint whose removal helps most."""
    assert reason is not None
    sentence, nearest = draft.sentence or SENTENCES[reason], draft.nearest
    if reason is Reason.TARGET_NOT_REACHED:
        if draft.missed:
            sentence, nearest = PROMISE_NOT_KEPT, draft.missed[1]
        elif draft.gave_up:
            sentence = NOTHING_PROPOSED
    if nearest is not None:
        (nearest,) = certify_future(draft.problem, [nearest])
    return Verdict(reason=reason, sentence=sentence, nearest=nearest, relax=draft.relax)
