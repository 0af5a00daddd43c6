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
from dataclasses import replace

import numpy as np
from jaxtyping import Bool, Float

from app.errors import BoundaryNotFound, DeadlineExceeded, DegenerateSurrogate, SolverFailed
from app.recourse.actionability import ActionSet
from app.recourse.blackbox import Meter, favourable
from app.recourse.certificate import CertificateParams, certify, local_model
from app.recourse.method import Candidates, Method, MethodParams
from app.recourse.methods import METHODS
from app.recourse.problem import RecourseProblem
from app.recourse.result import (
    SENTENCES,
    Counterfactual,
    Diagnostics,
    Reason,
    RecourseResult,
    Relaxation,
    Status,
    Verdict,
)
from app.recourse.search import Search
from app.recourse.surrogate.boundary import BoundarySample, SamplerParams, sample_boundary, survey
from app.recourse.surrogate.mpm import class_moments, fit

__all__ = ["METHODS", "solve"]

MAX_CALLS = 5
"""Model calls of one answer; a remote model is paid per call."""
LADDER = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0])
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


def solve(
    problem: RecourseProblem, method: Method, params: MethodParams, certificate: CertificateParams | None = None
) -> RecourseResult:
    """Answer one applicant's question with a counterfactual that the black box has confirmed, or with a verdict.

    The same problem, method and parameters give the same answer, timings aside, unless the deadline cuts it short.

    Raises
    ------
    ModelOutputInvalid : the model broke its contract, e.g. with a probability above 1
    """
    return _Answer(problem, method, params, certificate).result()


class _Answer:
    """One question on its way to its answer: what the black box has been asked so far, and what it said."""

    def __init__(
        self, problem: RecourseProblem, method: Method, params: MethodParams, certificate: CertificateParams | None
    ) -> None:
        self.started = time.perf_counter()
        self.certificate = certificate
        self.sample: BoundarySample | None = None
        self.problem, self.method, self.params = problem, method, params
        self.actions = problem.action_set
        self.meter = Meter(problem.black_box, problem.deadline)
        self.factual_score = math.nan
        self.best: Counterfactual | None = None
        """The cheapest record that the black box has accepted; a fallback record only where no proposal was."""
        self.nearest: Counterfactual | None = None
        """The refused record with the highest score."""
        self.candidates: Candidates | None = None
        self.relax: Relaxation | None = None
        self.warnings: list[str] = []

    def result(self) -> RecourseResult:
        """Work until there is an answer or a reason why there is none."""
        reason: Reason | None
        try:
            reason = self._work()
        except (DeadlineExceeded, SolverFailed):
            reason = Reason.DEADLINE
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
        assert isinstance(self.params, SamplerParams)
        seen = survey(self.problem, self.meter, self.params)
        self.factual_score = seen.factual_score
        if math.isnan(self.factual_score):
            return Reason.MODEL_OUTPUT_INVALID
        if self.factual_score >= 0.0:
            return None
        try:
            self.sample = sample_boundary(self.problem, self.meter, self.params, seen)
            self.candidates = self.method.generate(self.problem, self.params, self.sample)
            reason = self._climb(self.candidates)
        except DegenerateSurrogate:
            reason = Reason.DEGENERATE_SURROGATE
        if self.best is None and self.meter.calls < MAX_CALLS:
            self._verify(np.empty((0, self.actions.space.p)), fallback=self._fallback_rows())
        if self.best is None and not (self.relax and self.relax.sufficient):
            self.relax = _relaxation(self.problem) or self.relax
            if self.relax and reason is Reason.DEGENERATE_SURROGATE:
                reason = Reason.INFEASIBLE_CONSTRAINTS  # no decision differs because of what cannot change
        return reason

    def _certify(self) -> None:
        if self.best is None or self.sample is None or self.certificate is None:
            return
        try:
            (certificate,) = certify(
                self.problem,
                self.meter,
                local_model(self.problem, self.sample, self.certificate),
                self.factual_score,
                self.best.row_raw[None],
                np.array([self.best.score]),
                self.certificate,
            )
            self.best = replace(self.best, certificate=certificate)
        except (DegenerateSurrogate, DeadlineExceeded) as error:
            self.warnings.append(f"There is no certificate. {error.detail}")

    def _climb(self, candidates: Candidates) -> Reason:
        """Verify proposals of growing push together, then look between the last refused and the first accepted one."""
        pushes = LADDER * candidates.push_unit
        rungs = candidates.propose(pushes)
        if not len(rungs):
            self.relax = candidates.relax()
            return Reason.INFEASIBLE_CONSTRAINTS
        last_call = self.meter.calls + 1 >= MAX_CALLS
        accepted = self._verify(rungs, fallback=self._fallback_rows() if last_call else None)
        first = int(accepted.argmax())
        if not accepted[first]:
            self.relax = candidates.relax()
        elif first > 0 and not last_call:
            between = candidates.propose(np.linspace(pushes[first - 1], pushes[first], BETWEEN + 2)[1:-1])
            undone = _undone(self.actions, rungs[first])
            self._verify(np.concatenate([between, undone[candidates.meets(undone)]]))
        return Reason.TARGET_NOT_REACHED

    def _verify(
        self, proposals: Float[np.ndarray, "n p"], *, fallback: Float[np.ndarray, "m p"] | None = None
    ) -> Bool[np.ndarray, "n"]:
        """Ask the black box, in one call, about the legal ones of these records; which proposals it accepts."""
        rows_raw = proposals if fallback is None else np.concatenate([proposals, fallback])
        legal = self.actions.contains(rows_raw) & (rows_raw != self.problem.factual_raw).any(axis=1)
        legal[1:] &= (rows_raw[1:] != rows_raw[:-1]).any(axis=1)
        scores = np.full(len(rows_raw), np.nan)
        if legal.any():
            scores[legal] = self.meter.score_raw(rows_raw[legal])
        n = len(proposals)
        self._keep(proposals, scores[:n])
        if fallback is not None and self.best is None and self._keep(fallback, scores[n:]):
            self.warnings.append(FALLBACK_WARNING)
        return favourable(scores[:n])

    def _keep(self, rows_raw: Float[np.ndarray, "n p"], scores: Float[np.ndarray, "n"]) -> bool:
        """Remember the cheapest accepted record, or else the one that came nearest; whether one is accepted."""
        accepted = np.flatnonzero(scores >= 0.0)
        if accepted.size:
            costs = self.actions.cost(rows_raw[accepted])
            pick = int(np.lexsort((-scores[accepted], costs))[0]) if accepted.size > 1 else 0
            one = self._counterfactual(rows_raw[accepted[pick]], float(scores[accepted[pick]]), float(costs[pick]))
            if self.best is None or (one.cost, -one.score) < (self.best.cost, -self.best.score):
                self.best = one
        elif (finite := np.flatnonzero(scores < 0.0)).size:
            pick = int(finite[scores[finite].argmax()])
            if self.nearest is None or scores[pick] > self.nearest.score:
                cost = float(self.actions.cost(rows_raw[pick : pick + 1])[0])
                self.nearest = self._counterfactual(rows_raw[pick], float(scores[pick]), cost)
        return bool(accepted.size)

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
        status = Status.FOUND if self.best else Status.ALREADY_FAVOURABLE if reason is None else Status.NOT_FOUND
        verdict = None
        if status is Status.NOT_FOUND:
            assert reason is not None
            verdict = Verdict(reason=reason, sentence=SENTENCES[reason], nearest=self.nearest, relax=self.relax)
        return RecourseResult(
            status=status,
            factual_score=None if math.isnan(self.factual_score) else self.factual_score,
            factual_probability=self.problem.black_box.probability_of(self.factual_score),
            counterfactuals=(self.best,) if self.best else (),
            verdict=verdict,
            surrogate=self.candidates.surrogate if self.candidates else None,
            diagnostics=Diagnostics(
                model_calls=self.meter.calls,
                model_rows=self.meter.rows,
                elapsed_ms=1e3 * (time.perf_counter() - self.started),
            ),
            warnings=tuple(self.warnings),
        )

    def _counterfactual(self, row_raw: Float[np.ndarray, "p"], score: float, cost: float) -> Counterfactual:
        return Counterfactual(
            row_raw=row_raw,
            score=score,
            probability=self.problem.black_box.probability_of(score),
            cost=cost,
            changed=tuple(np.flatnonzero(row_raw != self.problem.factual_raw).tolist()),
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
        search = Search(fit(*class_moments(reference.X[near], accepted[near]), "none").model, problem.action_set)
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
