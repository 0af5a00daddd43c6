"""The only verb: ``solve(problem, method, params) -> RecourseResult``.

survey -> sample -> generate -> verify -> repair and polish -> verdict. Methods propose; here, and only here, the black
box is asked about the very records that are returned. At most `MAX_CALLS` model calls:

1. survey: the factual, and a grid towards its nearest favourable neighbours
2. the crossings, refined
3. samples around them (a second time where nearly all of them decide alike)
4. verify: a ladder of proposals, each going further beyond the method's own constraint than the one before
5. repair and polish: what lies between the last refused rung and the first accepted one, and the accepted record with
   one change undone or halved; or, where every rung was refused, favourable reference records made legal for this
   person
"""

import math
import time
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import BoundaryNotFound, BudgetExceeded, DeadlineExceeded, DegenerateSurrogate, SolverFailed
from app.recourse.actionability import ActionSet
from app.recourse.blackbox import Meter, favourable
from app.recourse.certificate import CertificateParams, certify, certify_plan, local_model
from app.recourse.method import HAIR, Candidates, Ground, Method, MethodParams, PlanCandidates, Yields
from app.recourse.methods import METHODS
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
    Relaxation,
    Status,
    Verdict,
)
from app.recourse.search import Search
from app.recourse.surrogate.boundary import BoundarySample, SamplerParams, Survey, sample_boundary, survey
from app.recourse.surrogate.classes import class_moments
from app.recourse.surrogate.mpm import fit

__all__ = ["METHODS", "solve"]

MOST_ROUNDS = 2
"""Calls of one answer that verify proposals."""
MAX_CALLS = 5
"""Model calls of one answer; a remote model is paid per call."""
LADDER = np.array([0.0, HAIR, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
"""Pushes of the proposals that are verified together, in the method's own unit."""
BETWEEN = 7
"""Proposals between a refused and an accepted rung."""
REFERENCES = 20
"""Favourable reference records that are tried where every proposal was refused."""
MAX_PAIRS = 3000
"""Pairs of extreme changes that are tried with them."""
RELAXATION_RECORDS = 200
"""Reference records of each decision that tell which constraint stands in the way."""
FALLBACK_WARNING = (
    "The method's own constraint cannot be met, or the model refused what met it. This answer comes from favourable "
    "reference records made legal for this person, or from extreme changes of one or two features; the model accepts "
    "it, but it need not be robust."
)
WEIGHTS_WARNING = (
    "The weights of the cost count in the costs that are told, but this method does not look for a plan by them: what "
    "it keeps short are distances."
)
BUDGET_WARNING = (
    "What one answer may ask of the model was used up before a better one could be looked for; the model accepts this "
    "one all the same."
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
    plan_s : time for the joint bounds of a plan; a bracket takes their place where they need longer

    Raises
    ------
    ModelOutputInvalid : the model broke its contract, e.g. with a probability above 1
    ModelUnavailable : a remote model does not answer
    SolverFailed : a solver ended without an answer, and no fallback record was accepted
    """
    return _Answer(Shared(problem), method, params, certificate, plan_s).result()


class Shared:
    """What several answers to one applicant have in common, so that it is computed once."""

    def __init__(self, problem: RecourseProblem) -> None:
        self.problem = problem
        self.meter = Meter(problem.black_box, problem.deadline)
        self.known: list[Counterfactual] = []
        """Earlier answers; the next one may be content with them."""
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
    shared: Shared, method: Method, params: MethodParams, certificate: CertificateParams | None = None
) -> RecourseResult:
    """As `solve`, for another question about the same applicant; the diagnostics count this answer's own calls."""
    return _Answer(shared, method, params, certificate, math.inf).result()


class _Answer:
    """One question on its way to its answer: what the black box has been asked so far, and what it said."""

    def __init__(
        self,
        shared: Shared,
        method: Method,
        params: MethodParams,
        certificate: CertificateParams | None,
        plan_s: float,
    ) -> None:
        self.started = time.perf_counter()
        self.shared = shared
        self.certificate, self.plan_s = certificate, plan_s
        self.sample: BoundarySample | None = None
        self.problem, self.method, self.params = shared.problem, method, params
        self.actions = shared.problem.action_set
        self.meter = shared.meter
        self.calls_before, self.rows_before = self.meter.calls, self.meter.rows
        self.rounds = 1
        """Calls left to verify proposals in; what a method asks on its own account is not among them."""
        self.factual_score = math.nan
        self.found: list[Counterfactual] = []
        """What will be answered: the best record that the black box has accepted, or the members of a plan."""
        self.value = math.inf
        """The method's objective at the best record."""
        self.nearest: Counterfactual | None = None
        """The refused record with the highest score."""
        self.missed: tuple[float, Counterfactual] | None = None
        """The accepted record that misses the method's promise least, and by how much."""
        self.gave_up = False
        """Whether the method proposed nothing, without a proof that there is nothing."""
        self.candidates: Candidates | PlanCandidates | None = None
        self.plan: PlanCertificate | None = None
        self.relax: Relaxation | None = None
        self.warnings: list[str] = []

    def result(self) -> RecourseResult:
        """Work until there is an answer or a reason why there is none."""
        reason: Reason | None
        try:
            reason = self._work()
        except DeadlineExceeded:
            reason = Reason.DEADLINE
        except BudgetExceeded:
            reason = Reason.BUDGET
            if self.found:
                self.warnings.append(BUDGET_WARNING)
        except BoundaryNotFound:
            reason = Reason.BOUNDARY_NOT_FOUND
        self._certify()
        if self.meter.silent:
            self.warnings.append(
                f"The model gave no finite score for {self.meter.silent} of the {self.meter.rows} points it was asked "
                "about; none of them counts as favourable."
            )
        return self._render(reason)

    def _work(self) -> Reason | None:
        """Ask until a favourable record is verified; the reason is what holds if none is."""
        failed: SolverFailed | None = None
        sampler = self.params if isinstance(self.params, SamplerParams) else SamplerParams()
        seen = self.shared.survey(sampler)
        self.factual_score = seen.factual_score
        if math.isnan(self.factual_score):
            return Reason.MODEL_OUTPUT_INVALID
        if self.factual_score >= 0.0:
            return None
        try:
            self.sample = self.shared.sample(sampler)
            self.rounds = min(MAX_CALLS - (self.meter.calls - self.calls_before), MOST_ROUNDS)
            ground = Ground(
                sample=self.sample,
                factual_score=self.factual_score,
                neighbours=seen.ends,
                certificate=self.certificate or CertificateParams(),
                meter=self.meter,
            )
            self.candidates = self.method.generate(self.problem, self.params, ground)
            if isinstance(self.candidates, PlanCandidates):
                reason = self._gather(self.candidates)
                if self.found and self.actions.reweighted and not self.method.weighs_costs:
                    self.warnings.append(WEIGHTS_WARNING)
            else:
                reason = self._climb(self.candidates)
                self._recall(self.candidates)
        except (DegenerateSurrogate, SolverFailed) as error:
            reason = Reason.DEGENERATE_SURROGATE
            failed = error if isinstance(error, SolverFailed) else None
            if self.candidates is None and self.method.promise is not None:
                self.candidates = self.method.promise(self.problem, self.params, self.meter)
        if not self.found and self.rounds > 0:
            self._verify(np.empty((0, self.actions.space.p)), fallback=self._fallback_rows())
        if not self.found and not (self.relax and self.relax.sufficient):
            self.relax = _relaxation(self.problem) or self.relax
            if self.relax and reason is Reason.DEGENERATE_SURROGATE:
                reason = Reason.INFEASIBLE_CONSTRAINTS  # no decision differs because of what cannot change
        if failed and not self.found:
            raise failed
        return reason

    def _certify(self) -> None:
        if not self.found or self.sample is None or self.certificate is None:
            return
        rows_raw = np.array([one.row_raw for one in self.found])
        try:
            local = local_model(self.problem, self.sample, self.certificate)
            certificates, warnings = certify(
                self.problem,
                self.meter,
                local,
                self.factual_score,
                rows_raw,
                np.array([one.score for one in self.found]),
                self.certificate,
            )
            self.found = [replace(one, certificate=c) for one, c in zip(self.found, certificates, strict=True)]
            self.warnings += warnings
            if self.method.yields is Yields.PLAN:
                self.plan = certify_plan(self.problem, local[1], rows_raw, self.certificate, self.plan_s)
        except (DegenerateSurrogate, DeadlineExceeded, BudgetExceeded) as error:
            self.warnings.append(f"There is no certificate. {error.detail}")

    # --- one counterfactual ------------------------------------------------------------------------------------------

    def _climb(self, candidates: Candidates) -> Reason:
        """Verify proposals of growing push together, then look between the last refused and the first accepted one."""
        pushes = LADDER * candidates.push_unit
        rungs = candidates.propose(pushes)
        if not len(rungs):
            self.relax = candidates.relax()
            self.gave_up = not candidates.complete
            return Reason.INFEASIBLE_CONSTRAINTS if candidates.complete else Reason.TARGET_NOT_REACHED
        last_call = self.rounds <= 1
        accepted = self._verify(rungs, fallback=self._fallback_rows() if last_call else None)
        first = int(accepted.argmax())
        if not accepted[first]:
            self.relax = candidates.relax()
        elif not last_call and (first > 0 or not candidates.exact):
            between = np.linspace(pushes[first - 1], pushes[first], BETWEEN + 2)[1:-1] if first else pushes[:0]
            undone = _undone(self.actions, rungs[first])
            self._verify(np.concatenate([candidates.propose(between), undone[candidates.meets(undone)]]))
        return Reason.TARGET_NOT_REACHED

    def _recall(self, candidates: Candidates) -> None:
        """Be content with a record that the black box accepted in an earlier answer, where it is better."""
        rows_raw = np.array([one.row_raw for one in self.shared.known]).reshape(-1, self.actions.space.p)
        scores = np.array([one.score for one in self.shared.known])
        meets = candidates.meets(rows_raw)
        self._keep(rows_raw[meets], scores[meets])

    def _verify(
        self, proposals: Float[np.ndarray, "n p"], *, fallback: Float[np.ndarray, "m p"] | None = None
    ) -> Bool[np.ndarray, "n"]:
        """Ask the black box, in one call, about the legal ones of these records; which proposals are good answers."""
        rows_raw = proposals if fallback is None else np.concatenate([proposals, fallback])
        scores = self._scores(rows_raw)
        n = len(proposals)
        good = self._keep(proposals, scores[:n])
        if fallback is not None and not self.found:
            good_fallback = self._keep(fallback, scores[n:])
            if good_fallback.any() and self._shortfall() is None:  # a promise that was measured holds for these as well
                self.warnings.append(FALLBACK_WARNING)
        return good

    def _scores(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Scores of the legal records that change something, of repeated ones the first; NaN for the others."""
        self.rounds -= 1
        legal = self.actions.contains(rows_raw) & (rows_raw != self.problem.factual_raw).any(axis=1)
        legal[1:] &= (rows_raw[1:] != rows_raw[:-1]).any(axis=1)
        scores = np.full(len(rows_raw), np.nan)
        if legal.any():
            scores[legal] = self.meter.score_raw(rows_raw[legal])
        return scores

    def _keep(self, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Remember the best good answer among these records, or else what came nearest; which of them are good."""
        good = self.problem.black_box.accepts(scores)
        accepted = np.flatnonzero(good)
        if not accepted.size:
            self._remember_refused(rows_raw, scores)
            return good
        value = self._objective(rows_raw[accepted])
        order = np.lexsort((-scores[accepted], value)) if accepted.size > 1 else np.zeros(1, dtype=int)
        better = order[value[order] <= self.value]
        picks = accepted[better]
        if (shortfall := self._shortfall()) is not None and picks.size:
            misses = shortfall(rows_raw[picks])
            good[:] = False
            good[picks[misses <= 0.0]] = True
            for pick, miss in zip(picks[misses > 0.0].tolist(), misses[misses > 0.0].tolist(), strict=True):
                if self.missed is None or miss < self.missed[0]:
                    self.missed = (miss, self._counterfactual(rows_raw[pick], scores[pick]))
            better = better[misses <= 0.0]
        if better.size:
            best = int(better[0])
            one = self._counterfactual(rows_raw[accepted[best]], scores[accepted[best]])
            if not self.found or (value[best], -one.score) < (self.value, -self.found[0].score):
                self.found, self.value = [one], float(value[best])
        return good

    def _remember_refused(self, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> None:
        finite = np.flatnonzero(scores < 0.0)
        if finite.size:
            pick = int(finite[scores[finite].argmax()])
            if self.nearest is None or scores[pick] > self.nearest.score:
                self.nearest = self._counterfactual(rows_raw[pick], scores[pick])

    def _objective(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """What the best answer minimises."""
        if isinstance(self.candidates, Candidates) and self.candidates.objective is not None:
            return self.candidates.objective(rows_raw)
        return self.actions.cost(rows_raw)

    def _shortfall(self) -> Callable[[Float[np.ndarray, "n p"]], Float[np.ndarray, "n"]] | None:
        return self.candidates.shortfall if isinstance(self.candidates, Candidates) else None

    # --- a plan ------------------------------------------------------------------------------------------------------

    def _gather(self, candidates: PlanCandidates) -> Reason:
        """Verify all proposals together and take the best plan among the accepted; then fill up from elsewhere."""
        if not len(candidates.rows_raw):
            self.relax = candidates.relax()
            return Reason.INFEASIBLE_CONSTRAINTS
        rows_raw, scores = candidates.rows_raw, self._scores(candidates.rows_raw)
        self._choose(candidates, rows_raw, scores)
        refused = int((scores[: candidates.count] < 0.0).sum())
        if refused and self.found:
            self.warnings.append(
                f"The model refused {refused} of the {candidates.count} members that the method wanted; others that go "
                "further took their places, as far as there are such."
            )
        if len(self.found) < candidates.count and self.rounds > 0:
            proposed, more = len(rows_raw), self._fallback_rows()
            rows_raw, scores = np.concatenate([rows_raw, more]), np.concatenate([scores, self._scores(more)])
            if self._choose(candidates, rows_raw, scores).max(initial=-1) >= proposed:
                self.warnings.append(FALLBACK_WARNING)
        if 0 < len(self.found) < candidates.count:
            self.warnings.append(
                f"{candidates.count} counterfactuals were asked for; the model accepted {len(self.found)} different "
                "ones among those that were tried."
            )
        if not self.found:
            self._remember_refused(rows_raw, scores)
            self.relax = candidates.relax()
        return Reason.TARGET_NOT_REACHED

    def _choose(
        self, candidates: PlanCandidates, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]
    ) -> Int[np.ndarray, "k"]:
        """Take the best plan among the different accepted rows; which rows those are."""
        accepted = np.flatnonzero(self.problem.black_box.accepts(scores))
        if accepted.size:
            accepted = accepted[np.sort(np.unique(rows_raw[accepted], axis=0, return_index=True)[1])]
            accepted = accepted[candidates.choose(rows_raw[accepted])]
            self.found = [self._counterfactual(rows_raw[k], scores[k]) for k in accepted]
        return accepted

    # --- records that nobody proposed --------------------------------------------------------------------------------

    def _fallback_rows(self) -> Float[np.ndarray, "n p"]:
        return np.unique(np.concatenate([self._reference_rows(), _corners(self.actions)]), axis=0)

    def _reference_rows(self) -> Float[np.ndarray, "n p"]:
        """Favourable reference records made legal for this person, nearest first, and the way to each.

        A reference record usually differs in many features; the way takes up its changes one after another, those
        that bring the surrogate up most first, so that a record with few changes is found where one exists.
        """
        reference = self.problem.reference
        rows = self.actions.snap(reference.rows_favourable_raw)
        rows = rows[self.actions.cost(rows).argsort(kind="stable")[:REFERENCES]]
        fact, space = self.problem.factual_raw, self.actions.space
        ways = []
        for row_raw in rows:
            single = np.where(np.eye(space.p, dtype=bool), row_raw, fact)
            gain = self.actions.cost(single) if self.candidates is None else self.candidates.rate(single)
            order = np.argsort(-gain, kind="stable")
            taken = np.tri(space.p, dtype=bool)[:, np.argsort(order, kind="stable")]
            ways.append(np.where(taken, row_raw, fact))
        return np.concatenate(ways) if ways else np.empty((0, space.p))

    def _render(self, reason: Reason | None) -> RecourseResult:
        status = Status.FOUND if self.found else Status.ALREADY_FAVOURABLE if reason is None else Status.NOT_FOUND
        verdict = None
        if status is Status.NOT_FOUND:
            assert reason is not None
            sentence, nearest = SENTENCES[reason], self.nearest
            if reason is Reason.TARGET_NOT_REACHED:
                if self.missed:
                    sentence, nearest = PROMISE_NOT_KEPT, self.missed[1]
                elif self.gave_up:
                    sentence = NOTHING_PROPOSED
            verdict = Verdict(reason=reason, sentence=sentence, nearest=nearest, relax=self.relax)
        return RecourseResult(
            status=status,
            factual_score=None if math.isnan(self.factual_score) else self.factual_score,
            factual_probability=self.problem.black_box.probability_of(self.factual_score),
            counterfactuals=tuple(self.found),
            plan=self.plan,
            verdict=verdict,
            fallback=FALLBACK_WARNING in self.warnings,
            surrogate=self.candidates.surrogate if self.candidates else None,
            diagnostics=Diagnostics(
                model_calls=self.meter.calls - self.calls_before,
                model_rows=self.meter.rows - self.rows_before,
                elapsed_ms=1e3 * (time.perf_counter() - self.started),
            ),
            warnings=tuple(self.warnings),
        )

    def _counterfactual(self, row_raw: Float[np.ndarray, "p"], score: float) -> Counterfactual:
        score = float(score)
        return Counterfactual(
            row_raw=row_raw,
            score=score,
            probability=self.problem.black_box.probability_of(score),
            cost=float(self.actions.cost(row_raw[None])[0]),
            changed=tuple(np.flatnonzero(row_raw != self.problem.factual_raw).tolist()),
            report=self.candidates.report(row_raw) if isinstance(self.candidates, Candidates) else None,
        )


def _relaxation(problem: RecourseProblem) -> Relaxation | None:
    """What stands in the way among all features, also those that cannot change and on which samples say nothing.

    By a machine of the nearest reference records of both decisions, whose scores are known: it takes no model call.
    """
    reference = problem.reference
    accepted = favourable(reference.scores)
    distance = ((reference.X - problem.x0) ** 2).sum(axis=1)
    order = distance.argsort(kind="stable")
    near = np.concatenate([order[accepted[order]][:RELAXATION_RECORDS], order[~accepted[order]][:RELAXATION_RECORDS]])
    try:
        search = Search(fit(class_moments(reference.X[near], accepted[near]), "none").model, problem.action_set)
    except DegenerateSurrogate:
        return None
    return search.relaxation(max(search.start_score, 0.0))


def _corners(actions: ActionSet) -> Float[np.ndarray, "n p"]:
    """Records in which one feature, or two, have gone as far as they can: what a cap on changes leaves most room to."""
    space = actions.space
    singles = [
        (j, value)
        for j in np.flatnonzero(actions.movable).tolist()
        for value in (
            range(len(space.features[j].levels))
            if space.features[j].is_group
            else (actions.lower_raw[j], actions.upper_raw[j])
        )
        if np.isfinite(value) and value != actions.factual_raw[j]
    ]
    pairs = [(one, other) for k, one in enumerate(singles) for other in singles[k + 1 :] if one[0] != other[0]]
    chosen = [(one, one) for one in singles] + pairs[:MAX_PAIRS]
    rows = np.tile(actions.start_raw, (len(chosen), 1))
    for row_raw, moves in zip(rows, chosen, strict=True):
        for j, value in moves:
            row_raw[j] = value
    return rows


def _undone(actions: ActionSet, row_raw: Float[np.ndarray, "p"]) -> Float[np.ndarray, "n p"]:
    """A record with one of its changes taken back, or a number moved only half as far."""
    fact = actions.factual_raw
    changed = np.flatnonzero(row_raw != fact)
    undone = np.tile(row_raw, (len(changed), 1))
    undone[np.arange(len(changed)), changed] = actions.start_raw[changed]
    numbers = changed[~np.isin(changed, actions.space.groups)]
    halved = np.tile(row_raw, (len(numbers), 1))
    halved[np.arange(len(numbers)), numbers] = 0.5 * (row_raw + fact)[numbers]
    return np.concatenate([undone, actions.round(halved, toward_raw=np.broadcast_to(row_raw, halved.shape))])
