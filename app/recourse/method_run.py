"""Answer one question about one applicant with one method: `answer_with`, and what several questions share.

survey -> sample -> generate -> verify -> repair and polish -> verdict. Methods propose; only
`app.recourse.verification` asks the black box about the records that are returned. At most `SEARCH_CALLS` model calls:

1. survey: the factual, and a grid towards its nearest favourable neighbours
2. the crossings, refined
3. samples around them (a second time where nearly all of them have the same decision)
4. verify: a ladder of proposals with growing extra margins beyond the method's own constraint
5. repair and polish: proposals between the last refused rung and the first accepted one, and the accepted record with
   one change undone or halved, or undone with another number moved further; or, where every rung was refused, records
   that no method proposed (`app.recourse.fallback`)
"""

import math
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from operator import attrgetter

import numpy as np

from app.errors import (
    BoundaryNotFound,
    BudgetExceeded,
    DeadlineExceeded,
    DegenerateSurrogate,
    Fault,
    InvalidRequest,
    RecourseError,
    SolverFailed,
)
from app.recourse.actions.action_set import ActionSet
from app.recourse.candidates import Candidates, PlanCandidates
from app.recourse.certificate import certify, certify_plan
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.fallback import relaxation
from app.recourse.method import Method, MethodContext, MethodParams, Yields
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, PlanCertificate, RecourseResult, Status
from app.recourse.robustness.future_validity import certify_future, fewer_than_asked, given_up
from app.recourse.shift import shift_of
from app.recourse.surrogate.boundary import BoundarySample, SamplerParams, Survey, sample_boundary, survey
from app.recourse.surrogate.limits import Limits, limits_of
from app.recourse.verdict import LIMITED, NOTHING_PROPOSED, PROMISE_NOT_KEPT, SENTENCES, Reason, Verdict, all_refused
from app.recourse.verification import Draft, verify_committee, verify_fallback, verify_offered, verify_one, verify_plan

SEARCH_CALLS = 5
"""Model calls of the search for one record."""
VERIFY_CALLS = 2
"""How many of these, at most, verify proposals."""
MAX_CALLS = SEARCH_CALLS + 1
"""Model calls of an answer with one record, the order of its changes included; a remote model is paid per call."""
WEIGHTS_WARNING = "Cost weights affect the reported cost but not this method's search, which minimises distance."
BUDGET_WARNING = (
    "The model's request budget was used up before the search ended. The model accepts this answer, but a better one "
    "may exist."
)
UNSEEN_WARNING = "The model's decisions about such records may be unreliable."
NO_FUTURES = Fault("/future_validity", "needs future models, and this model has none: rehearse its retraining first")
NOT_AIMED_WARNING = (
    "Time or budget ran out before the search asked the future models; `validity.future` says how many of them accept "
    "this record."
)


_key = attrgetter(*(field.name for field in fields(SamplerParams)))
"""Of a method's parameters those that say how the boundary is sampled."""


class Groundwork:
    """What several questions about one applicant share: survey (first model call), samples, earlier answers."""

    def __init__(self, problem: RecourseProblem, meter: Meter) -> None:
        self.problem, self.meter = problem, meter
        self.known: list[Counterfactual] = []
        """Earlier answers; candidates for the next one."""
        self._surveys: dict[tuple[object, ...], Survey] = {}
        self._samples: dict[tuple[object, ...], BoundarySample | RecourseError] = {}
        self._limits: dict[tuple[object, ...], Limits | None] = {}
        self._whole = problem
        """What is surveyed and sampled: with all legal records, and nothing done yet of what the person does anyway."""

    def narrowed(self, actions: ActionSet) -> "Groundwork":
        """The groundwork for the same applicant with fewer legal records, `actions`; it shares survey and samples."""
        other = self._like(replace(self.problem, action_set=actions))
        other._whole = self._whole  # noqa: SLF001 - of this class
        other.known = [one for one in self.known if actions.contains(one.row_raw[None])[0]]
        return other

    def asking(self, future_validity: float | None) -> "Groundwork":
        """A copy of this groundwork for another `future_validity`; both share the model's survey and samples."""
        if future_validity == self.problem.future_validity:
            return self
        other = self._like(replace(self.problem, future_validity=future_validity))
        other.known = self.known
        return other

    def _like(self, problem: RecourseProblem) -> "Groundwork":
        other = Groundwork(problem, self.meter)
        other._surveys, other._samples, other._limits = self._surveys, self._samples, self._limits
        return other

    def survey(self, sampler: SamplerParams) -> Survey:
        """The survey of the neighbourhood, from the first model call, which is made once.

        For a narrower action set, its neighbours are moved to the nearest values that are legal there.
        """
        key = _key(sampler)
        if key not in self._surveys:
            self._surveys[key] = survey(self._whole, self.meter, sampler)
        seen = self._surveys[key]
        if self._whole is self.problem:
            return seen
        actions, space = self.problem.action_set, self.problem.reference.space
        return replace(seen, ends=space.encode(actions.snap(space.decode(seen.ends))))

    def sample(self, sampler: SamplerParams) -> BoundarySample:
        """The boundary sample, drawn once.

        Where the draw raises `BoundaryNotFound` or `DegenerateSurrogate`, later calls raise the same error.
        """
        key = _key(sampler)
        if key not in self._samples:
            try:
                limits, whole = self.limits(sampler), self._whole
                if limits is None:
                    found = sample_boundary(whole, self.meter, sampler, self._surveys[key])
                else:
                    actions = limits.of(whole.action_set)
                    asked = replace(whole, action_set=actions)
                    found = sample_boundary(asked, self.meter, sampler, self._surveys[key], limits.columns(actions))
            except (BoundaryNotFound, DegenerateSurrogate) as error:
                self._samples[key] = error
                raise
            self._samples[key] = found
        known = self._samples[key]
        if isinstance(known, RecourseError):
            raise known
        return known

    def limits(self, sampler: SamplerParams) -> Limits | None:
        """The features and levels that the search in a wide schema is limited to, computed once; None for no limits."""
        key = _key(sampler)
        if key not in self._limits:
            self.survey(sampler)
            self._limits[key] = limits_of(self._whole, self._surveys[key].ends)
        return self._limits[key]

    def searched(self, sampler: SamplerParams) -> RecourseProblem:
        """The problem restricted to the records that are searched: all of them, or those within `limits`."""
        limits = self.limits(sampler)
        return self.problem if limits is None else replace(self.problem, action_set=limits.of(self.problem.action_set))

    def sampled(self, sampler: SamplerParams) -> BoundarySample | None:
        """The boundary sample if it has been drawn already, else None."""
        known = self._samples.get(_key(sampler))
        return known if isinstance(known, BoundarySample) else None


def sampler_of(params: MethodParams) -> SamplerParams:
    """The sampler parameters that a method's parameters contain, or the default ones."""
    return params if isinstance(params, SamplerParams) else SamplerParams()


def answer_with(
    groundwork: Groundwork,
    method: Method,
    params: MethodParams,
    certificate: CertificateParams | None,
) -> RecourseResult:
    """The answer of one method to one question, without certificates; `certified` adds them.

    The diagnostics count the model calls of this answer only.

    Parameters
    ----------
    certificate : its moments of retrained models go to methods that use such moments

    Raises
    ------
    InvalidRequest : `future_validity` is asked of a model without future models
    ModelOutputInvalid : the model broke its contract
    ModelUnavailable : a remote model does not answer
    SolverFailed : a solver ended without an answer, and no fallback record was accepted
    """
    started = time.perf_counter()
    problem = groundwork.problem
    if problem.future_validity is not None and problem.futures is None:
        raise InvalidRequest(faults=[NO_FUTURES])
    draft = Draft(problem, groundwork.meter)
    own = problem.action_set.beginning or problem.action_set
    draft.warnings += [f"{sentence} {UNSEEN_WARNING}" for sentence in problem.reference.unseen(own.factual_raw)]
    reason: Reason | None
    try:
        reason = _derive(draft, groundwork, method, params, certificate or CertificateParams())
    except DeadlineExceeded:
        reason = Reason.DEADLINE
    except BudgetExceeded:
        reason = Reason.BUDGET
        if draft.found:
            draft.warnings.append(BUDGET_WARNING)
    except BoundaryNotFound:
        reason = Reason.BOUNDARY_NOT_FOUND
    if problem.offered_raw is not None and reason is not None and not draft.found:
        with suppress(DeadlineExceeded, BudgetExceeded):
            verify_offered(draft, problem.offered_raw)
    if draft.found and problem.future_validity is not None and not draft.aimed:
        draft.warnings.append(NOT_AIMED_WARNING)
    draft.found = certify_future(problem, draft.found)
    if draft.aimed:
        draft.warnings += fewer_than_asked(problem, draft.found, draft.dearer)
        draft.warnings += given_up(problem, draft.found, draft.default)
    draft.warnings += draft.price_warnings
    status = Status.FOUND if draft.found else Status.ALREADY_FAVOURABLE if reason is None else Status.NOT_FOUND
    return RecourseResult(
        status=status,
        factual_score=None if math.isnan(draft.factual_score) else draft.factual_score,
        factual_probability=problem.black_box.probability_of(draft.factual_score),
        counterfactuals=tuple(draft.found),
        verdict=_verdict(draft, reason) if status is Status.NOT_FOUND else None,
        fallback=draft.fallback,
        misses=draft.misses,
        enough=draft.enough,
        surrogate=draft.candidates.surrogate if isinstance(draft.candidates, Candidates) else None,
        diagnostics=Diagnostics.since(started, draft.calls, draft.rows),
        warnings=(*([draft.fallback_warning] if draft.fallback and draft.found else []), *draft.warnings),
    )


def _derive(
    draft: Draft, groundwork: Groundwork, method: Method, params: MethodParams, certificate: CertificateParams
) -> Reason | None:
    """Fill the draft; the reason to give if nothing is found, None where the factual is favourable."""
    problem, meter = draft.problem, draft.meter
    sampler = sampler_of(params)
    seen = groundwork.survey(sampler)
    draft.factual_score = seen.factual_score
    if math.isnan(seen.factual_score):
        return Reason.MODEL_OUTPUT_INVALID
    if seen.factual_score >= 0.0:
        return None
    failed: SolverFailed | None = None
    try:
        draft.sample = groundwork.sample(sampler)
        draft.calls_left = min(SEARCH_CALLS - draft.calls, VERIFY_CALLS)
        context = MethodContext(
            sample=draft.sample,
            factual_score=seen.factual_score,
            neighbours=seen.ends,
            certificate=certificate,
            meter=meter,
        )
        searched = groundwork.searched(sampler)
        draft.searched = searched.action_set
        draft.candidates = candidates = method.generate(searched, params, context)
        if isinstance(candidates, PlanCandidates):
            reason = verify_plan(draft, candidates)
            if draft.found and problem.action_set.reweighted and not method.weighs_costs(params):
                draft.warnings.append(WEIGHTS_WARNING)
        else:
            reason = verify_one(draft, candidates, groundwork.known)
            if reason is Reason.INFEASIBLE_CONSTRAINTS and searched is not problem:
                draft.sentence = LIMITED
    except (DegenerateSurrogate, SolverFailed) as error:
        reason = Reason.DEGENERATE_SURROGATE
        failed = error if isinstance(error, SolverFailed) else None
        if draft.candidates is None and method.promise is not None:
            draft.candidates = method.promise(problem, params, meter)
    if not draft.found and draft.calls_left > 0:
        verify_fallback(draft)
    refused = None if draft.found or draft.missed else draft.all_changes
    if problem.future_validity is not None:
        assert problem.futures is not None  # checked at the beginning
        known = () if method.yields is Yields.PLAN else groundwork.known
        verify_committee(draft, method, params, problem.futures, problem.future_validity, known)
        reason = Reason.TARGET_NOT_REACHED
    if not draft.found and not (draft.relax and draft.relax.sufficient):
        draft.relax = relaxation(problem) or draft.relax
        if draft.relax and reason is Reason.DEGENERATE_SURROGATE:
            reason = Reason.INFEASIBLE_CONSTRAINTS  # all decisions agree because features that cannot change decide
    if refused is not None and not draft.found:
        draft.sentence = all_refused(refused)
        return Reason.INFEASIBLE_CONSTRAINTS
    if failed and not draft.found:
        raise failed
    return Reason.TARGET_NOT_REACHED if draft.missed else reason


def certified(
    groundwork: Groundwork,
    params: MethodParams,
    certificate: CertificateParams,
    found: Sequence[Counterfactual],
    *,
    together: Sequence[Counterfactual] = (),
    plan_s: float = math.inf,
) -> tuple[list[Counterfactual], PlanCertificate | None, list[str]]:
    """The counterfactuals in `found` with a certificate each, the certificate of a plan, and warnings.

    There are no certificates if no local model can be fitted around the applicant.

    Parameters
    ----------
    together : the counterfactuals that are certified as one plan; empty for no plan
    plan_s : seconds for the joint bounds; where they take longer, wider bounds are returned
    """
    sampler = sampler_of(params)
    sample = groundwork.sampled(sampler)
    if not found or sample is None:
        return list(found), None, []
    problem, rows_raw = groundwork.problem, np.array([one.row_raw for one in found])
    scores, plan, warnings = np.array([one.score for one in found]), None, list[str]()
    try:
        shift = shift_of(problem, sample, certificate)
        factual_score = groundwork.survey(sampler).factual_score
        certificates, warnings = certify(problem, groundwork.meter, shift, factual_score, rows_raw, scores)
        found = [replace(one, certificate=c) for one, c in zip(found, certificates, strict=True)]
        if together:
            plan = certify_plan(problem, shift, np.array([one.row_raw for one in together]), plan_s)
    except (DegenerateSurrogate, DeadlineExceeded, BudgetExceeded) as error:
        warnings = [*warnings, f"There is no certificate. {error.detail}"]
    return list(found), plan, warnings


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
