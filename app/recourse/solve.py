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

import time

import numpy as np
from jaxtyping import Float, Int

from app.errors import BoundaryNotFound, DeadlineExceeded, DegenerateSurrogate, SolverFailed
from app.recourse.actionability import ActionSet
from app.recourse.blackbox import Meter, favourable
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
from app.recourse.surrogate.boundary import SamplerParams, sample_boundary, survey

__all__ = ["METHODS", "solve"]

MAX_CALLS = 5
"""Model calls of one answer; a remote model is paid per call."""
LADDER = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0)
"""Pushes of the proposals that are verified together, in the method's own unit."""
BETWEEN = 7
"""Proposals between a refused and an accepted rung."""
REFERENCES = 20
"""Favourable reference records that are tried where every proposal was refused."""
MAX_PAIRS = 3000
"""Pairs of extreme changes that are tried with them."""
FALLBACK_WARNING = (
    "The method's own constraint cannot be met, or the model refused what met it. This answer comes from favourable "
    "reference records made legal for this person, or from extreme changes of one or two features; the model accepts "
    "it, but it need not be robust."
)


def solve(problem: RecourseProblem, method: Method, params: MethodParams) -> RecourseResult:
    """Answer one applicant's question with a counterfactual that the black box has confirmed, or with a verdict.

    The same problem, method and parameters give the same answer, timings aside, unless the deadline cuts it short.

    Raises
    ------
    ModelOutputInvalid : the model broke its contract, e.g. with a probability above 1
    """
    return _Answer(problem, method, params).result()


class _Answer:
    """One question on its way to its answer: what the black box has been asked so far, and what it said."""

    def __init__(self, problem: RecourseProblem, method: Method, params: MethodParams) -> None:
        self.started = time.perf_counter()
        self.problem, self.method, self.params = problem, method, params
        self.actions = problem.action_set
        self.meter = Meter(problem.black_box, problem.deadline)
        self.factual_score = float("nan")
        self.rows_raw = np.empty((0, self.actions.space.p))
        self.scores = np.empty(0)
        self.proposed = np.empty(0, dtype=bool)
        """Which of the records asked about the method itself proposed."""
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
        if np.isnan(self.factual_score):
            return Reason.MODEL_OUTPUT_INVALID
        if self.factual_score >= 0.0:
            return None
        try:
            sample = sample_boundary(self.problem, self.meter, self.params, seen)
            self.candidates = self.method.generate(self.problem, self.params, sample)
            reason = self._climb(self.candidates)
        except DegenerateSurrogate:
            reason = Reason.DEGENERATE_SURROGATE
        if not self.verified.size and self.meter.calls < MAX_CALLS:
            self._verify(np.empty((0, self.actions.space.p)), fallback=self._fallback_rows())
        return reason

    def _climb(self, candidates: Candidates) -> Reason:
        """Verify proposals of growing push together, then look between the last refused and the first accepted one."""
        pushes = np.array(LADDER) * candidates.push_unit
        rungs = candidates.propose(pushes)
        if not len(rungs):
            self.relax = candidates.relax()
            return Reason.INFEASIBLE_CONSTRAINTS
        last_call = self.meter.calls + 1 >= MAX_CALLS
        self._verify(rungs, fallback=self._fallback_rows() if last_call else None)
        first = self._first_accepted(rungs)
        if first is None:
            self.relax = candidates.relax()
        elif first > 0 and not last_call:
            between = candidates.propose(np.linspace(pushes[first - 1], pushes[first], BETWEEN + 2)[1:-1])
            undone = _undone(self.actions, rungs[first])
            self._verify(np.concatenate([between, undone[candidates.meets(undone)]]))
        return Reason.TARGET_NOT_REACHED

    def _first_accepted(self, rungs: Float[np.ndarray, "k p"]) -> int | None:
        accepted = self.rows_raw[self.verified]
        return next((k for k, row_raw in enumerate(rungs) if (accepted == row_raw).all(axis=1).any()), None)

    def _verify(self, rows_raw: Float[np.ndarray, "n p"], *, fallback: Float[np.ndarray, "m p"] | None = None) -> None:
        """Ask the black box, in one call, about the legal ones among these proposals and fallback records."""
        if fallback is not None:
            rows_raw, proposals = np.concatenate([rows_raw, fallback]), len(rows_raw)
        else:
            proposals = len(rows_raw)
        repeated = np.zeros(len(rows_raw), dtype=bool)
        repeated[1:] = (rows_raw[1:] == rows_raw[:-1]).all(axis=1)
        same = (rows_raw == self.problem.factual_raw).all(axis=1)
        legal = np.flatnonzero(self.actions.contains(rows_raw) & ~repeated & ~same)
        if len(legal):
            self.scores = np.concatenate([self.scores, self.meter.score_raw(rows_raw[legal])])
            self.rows_raw = np.concatenate([self.rows_raw, rows_raw[legal]])
            self.proposed = np.concatenate([self.proposed, legal < proposals])

    @property
    def verified(self) -> Int[np.ndarray, "k"]:
        """Which of the records asked about are favourable; fallback records only where no proposal is."""
        accepted = favourable(self.scores)
        own = accepted & self.proposed
        return np.flatnonzero(own if own.any() else accepted)

    def _fallback_rows(self) -> Float[np.ndarray, "n p"]:
        return np.unique(np.concatenate([self._reference_rows(), _corners(self.actions)]), axis=0)

    def _reference_rows(self) -> Float[np.ndarray, "n p"]:
        """Favourable reference records made legal for this person, nearest first, and the way to each.

        A reference record usually differs in many features; the way takes up its changes one after another, those
        that bring the surrogate up most first, so that a record with few changes is found where one exists.
        """
        reference = self.problem.reference
        rows = self.actions.snap(reference.rows_raw[reference.favourable])
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
        silent = bool(np.isnan(self.factual_score))
        best = self._cheapest(self.verified) if self.verified.size else None
        if best and not self.proposed[self.verified].any():
            self.warnings.append(FALLBACK_WARNING)
        status = Status.FOUND if best else Status.ALREADY_FAVOURABLE if reason is None else Status.NOT_FOUND
        verdict = None
        if status is Status.NOT_FOUND:
            assert reason is not None
            nearest = np.flatnonzero(self.scores == self.scores.max(initial=-np.inf))
            verdict = Verdict(
                reason=reason,
                sentence=SENTENCES[reason],
                nearest=self._cheapest(nearest) if nearest.size else None,
                relax=self.relax,
            )
        return RecourseResult(
            status=status,
            factual_score=None if silent else self.factual_score,
            factual_probability=None if silent else self._probability(self.factual_score),
            counterfactuals=(best,) if best else (),
            verdict=verdict,
            surrogate=self.candidates.surrogate if self.candidates else None,
            diagnostics=Diagnostics(
                model_calls=self.meter.calls,
                model_rows=self.meter.rows,
                elapsed_ms=1e3 * (time.perf_counter() - self.started),
            ),
            warnings=tuple(self.warnings),
        )

    def _cheapest(self, asked: Int[np.ndarray, "k"]) -> Counterfactual:
        """The cheapest of these records, the one with the highest score where costs are equal."""
        costs = self.actions.cost(self.rows_raw[asked])
        pick = min(range(len(asked)), key=lambda k: (costs[k], -self.scores[asked[k]]))
        row_raw, score = self.rows_raw[asked[pick]], float(self.scores[asked[pick]])
        return Counterfactual(
            row_raw=row_raw,
            score=score,
            probability=self._probability(score),
            cost=float(costs[pick]),
            changed=tuple(np.flatnonzero(row_raw != self.problem.factual_raw).tolist()),
        )

    def _probability(self, score: float) -> float | None:
        probabilities = self.problem.black_box.probability(np.array([score]))
        return None if probabilities is None else float(probabilities[0])


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
