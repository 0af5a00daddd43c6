"""Several ways to a favourable decision that differ in what is changed.

The k-th way is the cheapest record whose set of changed features contains neither the set of an earlier way nor what is
enough of it (`RecourseResult.enough`): the same with another change that only adds a margin is no other way. It changes
three features at most, or as many as the first way: a longer one is of no use to a person. Sets that the request
excludes are treated as earlier ways.

It is found by branch and bound. Where an answer changes all features of a set that may not be contained, the question
is asked again for each feature of the set, with this feature as it is. A question in which more features stay as they
are never has a cheaper answer, but for what fewer changes are worth (`app.recourse.verification.single`); so the cost
of an answer bounds those of the questions that follow from it, and the cheapest bound is asked first. That is exact for
every method whose search is exact, and else as good as the search.
"""

import heapq
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from app.errors import RecourseError, SolverFailed
from app.recourse.actions.sentences import name_text
from app.recourse.counterfactual import Counterfactual
from app.recourse.method_run import Groundwork
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.robustness.future_validity import least_share, reaches
from app.recourse.verdict import Reason, Relaxation, Verdict

MOST_QUESTIONS = 16
"""Questions for each way that is asked for, and for each excluded set, after which no more are asked."""
FEW_CHANGES = 3
"""Changes that a further way may have where the first has fewer; else it has no more than the first."""
LEEWAY = 0.1
"""By how much the share under stress may miss the asked one before a way comes after others that cost more."""
FEWER_WARNING = (
    "{} ways were asked for that differ in what they change and meet the same constraints as the first; {} found{}."
)
SHORT_PHRASE = ", with no more than {} changes each"
STOPPED_WARNING = "{} ways were asked for; the search for more than {} ended early, at a limit of time or effort."
EXCLUDED_SENTENCE = (
    "The model accepts some changes of this record, but every answer that was found changes features together that the "
    "request excludes."
)

Frozen: TypeAlias = frozenset[int]
"""Features that stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounded:
    """The result of one question, and the `Groundwork` from which it was computed."""

    result: RecourseResult
    groundwork: Groundwork
    """Of the applicant, with or without missing values provided."""

    @property
    def best(self) -> Counterfactual:
        """The counterfactual of the result; of a plan, its first member."""
        return self.result.counterfactuals[0]

    @property
    def needed(self) -> list[frozenset[int]]:
        """Sets of features, none of which a further way may change in full.

        They are the features that this way changes, and smaller sets of these whose changes suffice.
        """
        return [frozenset(some) for some in (self.best.changed, *self.result.enough)]

    @property
    def found(self) -> bool:
        """Whether the result has a counterfactual."""
        return self.result.status is Status.FOUND

    @property
    def key(self) -> tuple[bool, float]:
        """Sort key of ways: those that meet the method's own constraint first, then the cheaper ones."""
        if not self.found:
            return True, math.inf
        rows = self.result.counterfactuals
        return self.result.misses, sum(one.cost for one in rows) / len(rows)


Waiting: TypeAlias = tuple[tuple[bool, float], int, Frozen, Grounded | None]
"""What an answer costs at least, an order among equals, what stays as it is, and the answer once it is known."""


class WaySearch:
    """The search for several ways in which one applicant can be accepted.

    Parameters
    ----------
    first : the answer in which every feature may change; it has a counterfactual
    ask : takes the features that stay as they are and the largest number of changes (None for no limit), and returns
        the answer; None where nothing can be asked
    """

    def __init__(
        self, problem: RecourseProblem, first: Grounded, ask: Callable[[Frozen, int | None], Grounded | None]
    ) -> None:
        self.problem, self.first, self._ask = problem, first, ask
        self.is_complete = True
        """Whether no further way exists, as far as the method's own search can say."""
        barred = problem.action_set.barred
        self.most_changes = None if barred else max(FEW_CHANGES, len(first.best.changed))
        """Of a further way; None for no limit, as where the request excludes sets and any other answer is welcome."""
        self._answers: dict[Frozen, Grounded | None] = {frozenset(): first}
        self._ahead: dict[tuple[Frozen, int | None], Grounded | RecourseError | None] = {}
        """Replies of a remote model to what was asked or comes soon."""

    def run(self) -> list[Grounded]:
        """Search the ways: as many as are asked for, or fewer if fewer exist or time runs out.

        The cheapest comes first; under stress, before it, those that withstand more.
        """
        listed: list[Grounded] = []
        closed = [frozenset(some) for some in self.problem.action_set.barred]
        """Sets that no further way contains."""
        most, newest = MOST_QUESTIONS * (self.problem.count + len(closed)), count()
        waiting: list[Waiting] = [(self.first.key, next(newest), frozenset(), self.first)]
        seen = {frozenset[int]()}
        while waiting and len(self._in_order(listed)) < self.problem.count:
            if listed and waiting[0][0][0] and not listed[0].result.misses:
                break  # what is left misses the method's own constraint, and the ways before meet it
            bound, _, frozen, answer = heapq.heappop(waiting)
            if answer is None:
                bound = max(bound, self._bound(frozen))
                if math.isinf(bound[1]):
                    continue
                if waiting and waiting[0][0] < bound:
                    heapq.heappush(waiting, (bound, next(newest), frozen, None))
                    continue
                if self._late() or len(self._answers) > most:
                    self.is_complete = False
                    break
                answer = self._answer(frozen, self._soon(waiting))
                if answer is not None:
                    heapq.heappush(waiting, (max(bound, answer.key), next(newest), frozen, answer))
                continue
            changed = frozenset(answer.best.changed)
            contained = min((some for some in closed if some <= changed), key=len, default=None)
            if contained is None:
                contained = changed
                if not listed or self._keeps_promise(answer):
                    listed.append(answer)
                    closed += answer.needed
                    contained = min(answer.needed, key=len)
            for j in sorted(contained):
                if frozen | {j} not in seen:
                    seen.add(frozen | {j})
                    heapq.heappush(waiting, (answer.key, next(newest), frozen | {j}, None))
        found = self._in_order(listed)
        if self.problem.future_validity is None or not self.problem.under_stress:
            return found
        return sorted(found, key=lambda one: -self._held(one.best.row_raw))

    def result(self, listed: list[Grounded]) -> RecourseResult:
        """One answer with all ways in `listed`, which `run` found; a verdict where the list is empty."""
        if not listed:
            return self._excluded()
        wanted, first = self.problem.count, listed[0].result
        warnings = _warnings(listed)
        if len(listed) < wanted:
            number = f"only {len(listed)} {'was' if len(listed) == 1 else 'were'}"
            most = self.problem.action_set.constraints.max_changes
            limited = self.most_changes is not None and (most is None or self.most_changes < most)
            short = SHORT_PHRASE.format(self.most_changes) if limited else ""
            few = FEWER_WARNING.format(wanted, number, short)
            warnings.append(few if self.is_complete else STOPPED_WARNING.format(wanted, len(listed)))
        return replace(
            first,
            counterfactuals=tuple(one.best for one in listed),
            fallback=any(one.result.fallback for one in listed),
            warnings=tuple(warnings),
        )

    def _excluded(self) -> RecourseResult:
        """The verdict where everything that was found is excluded."""
        actions, first = self.problem.action_set, self.first
        changed, features = set(first.best.changed), actions.space.features
        together = next(some for some in actions.barred if changed.issuperset(some))
        names = " and ".join(name_text(features[j]) for j in together if not features[j].protected)
        relax = Relaxation(
            constraint="exclude", feature=None, sufficient=True,
            text=f"Allowing to change the {names} together would help most.",
        )  # fmt: skip
        verdict = Verdict(reason=Reason.TARGET_NOT_REACHED, sentence=EXCLUDED_SENTENCE, relax=relax)
        return replace(first.result, status=Status.NOT_FOUND, counterfactuals=(), verdict=verdict, fallback=False)

    def _keeps_promise(self, answer: Grounded) -> bool:
        """Whether as many future models accept a further way as are asked for.

        Under stress as well where it is a part of the first: that would be the first answer made weaker, in its place.
        """
        wanted, row_raw = self.problem.future_validity, answer.best.row_raw
        if wanted is None:
            return True
        first = self.first.best
        is_part = self.problem.under_stress and set(answer.best.changed) <= set(first.changed)
        if is_part and self._held(row_raw) < self._held(first.row_raw):
            return False
        return reaches(self.problem, row_raw, wanted)

    def _held(self, row_raw: Float[np.ndarray, "p"]) -> float:
        """The share under stress by which ways are told apart: of so few models, one near the asked share does not."""
        assert self.problem.future_validity is not None
        return min(least_share(self.problem, row_raw), self.problem.future_validity - LEEWAY)

    def _bound(self, frozen: Frozen) -> tuple[bool, float]:
        """What an answer costs at least: as much as one in which fewer features stay as they are."""
        known = (answer for fewer, answer in self._answers.items() if fewer < frozen)
        return max(((True, math.inf) if one is None else one.key for one in known), default=(False, 0.0))

    def _soon(self, waiting: Sequence[Waiting]) -> list[Frozen]:
        """The questions that are due before any answer that is known."""
        first = min((bound for bound, _, _, answer in waiting if answer is not None), default=(True, math.inf))
        return [one for bound, _, one, answer in waiting if answer is None and max(bound, self._bound(one)) <= first]

    def _answer(self, frozen: Frozen, soon: Sequence[Frozen]) -> Grounded | None:
        """The answer in which these features stay as they are; one that is known where that changes none of them.

        Parameters
        ----------
        soon : further questions that a remote model is asked with this one
        """
        for fewer, known in self._answers.items():
            if fewer < frozen and known is not None and frozen.isdisjoint(known.best.changed):
                self._answers[frozen] = known
                return known
        try:
            found = self._reply(frozen, None, soon)
            if found is not None and self._is_long(found):
                found = self._reply(frozen, self.most_changes, soon)
        except SolverFailed:
            self.is_complete, found = False, None
        if found is not None and not found.found:
            verdict = found.result.verdict
            stopped = verdict is not None and verdict.reason in (Reason.DEADLINE, Reason.BUDGET)
            self.is_complete, found = self.is_complete and not stopped, None
        self._answers[frozen] = found
        return found

    def _reply(self, frozen: Frozen, most_changes: int | None, soon: Sequence[Frozen]) -> Grounded | None:
        """The answer to one question; a remote model, paid per call, is asked all that may come next in the same calls.

        With future models a question takes the most calls, so what follows a long answer is asked in the same as well.
        """
        meter, short = self.first.groundwork.meter, self.problem.future_validity is not None
        if meter.black_box.remote is None:
            return self._ask(frozen, most_changes)
        if (frozen, most_changes) not in self._ahead:
            limits = dict.fromkeys((most_changes, self.most_changes) if short else (most_changes,))
            asked = [(one, most) for one in (frozen, *soon) for most in limits]
            asked = [one for one in asked if one not in self._ahead]
            replies = meter.together([partial(self._ask, *one) for one in asked])
            self._ahead.update(zip(asked, replies, strict=True))
        reply = self._ahead[frozen, most_changes]
        if isinstance(reply, RecourseError):
            raise reply
        return reply

    def _is_long(self, answer: Grounded) -> bool:
        """Whether an answer changes too much for a further way."""
        return answer.found and self.most_changes is not None and len(answer.best.changed) > self.most_changes

    @staticmethod
    def _in_order(listed: list[Grounded]) -> list[Grounded]:
        """The ways, cheapest first, where a search that is not exact has found a cheaper one, or a better one, late."""
        kept: list[Grounded] = []
        for answer in sorted(listed, key=lambda one: one.key):
            worse = bool(kept) and answer.result.misses and not kept[0].result.misses
            if not worse and not any(some <= set(answer.best.changed) for other in kept for some in other.needed):
                kept.append(answer)
        return kept

    def _late(self) -> bool:
        return time.monotonic() >= self.problem.deadline


def _warnings(listed: Sequence[Grounded]) -> list[str]:
    """The warnings of the ways; what is true of some of them only says of which."""
    ways_of: dict[str, list[int]] = {}
    for k, one in enumerate(listed):
        for warning in dict.fromkeys(one.result.warnings):
            ways_of.setdefault(warning, []).append(k + 1)
    return [
        warning if len(ways) == len(listed) else f"{named_ways(list(map(str, ways)))}: {warning}"
        for warning, ways in ways_of.items()
    ]


def named_ways(numbers: Sequence[str]) -> str:
    """A phrase that names ways by their numbers: "Way 2", or "Ways 1, 2 and 4"."""
    *others, last = numbers
    return f"Ways {', '.join(others)} and {last}" if others else f"Way {last}"
