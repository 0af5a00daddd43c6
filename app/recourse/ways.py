"""Several ways to a favourable decision that differ in what is changed, and answers as the person wishes.

The k-th way is the cheapest record whose set of changed features does not contain the set of an earlier way, and which
changes three features at most, or as many as the first way: a longer one is of no use to a person. It is found by
branching: where an answer changes all features of a set that may not be contained, the question is asked
again for each feature of the set, with this feature as it is. What these answers cost bounds what others can cost, so
few of them are asked for: a question in which more features stay as they are never has a cheaper answer, but for what
fewer changes are worth (`app.recourse.verification.single`). That is exact for every method whose search is exact; for
others it is as good as their searches are. Sets that the request excludes
are treated as earlier ways.

All of these questions share survey, samples and budget. Changes that the person makes anyway are made before the search
begins (`app.recourse.actions.beginning`); who may provide missing values is asked about with and without these
(`app.recourse.actions.providing`).
"""

import heapq
import math
import time
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from app.errors import SolverFailed
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.beginning import beginnings
from app.recourse.actions.providing import provided
from app.recourse.actions.sentences import name_text
from app.recourse.certificate import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.method import Method, MethodParams, Yields
from app.recourse.method_run import Shared, answer_with, certified
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, RecourseResult, Status
from app.recourse.robustness.future_validity import certify_future
from app.recourse.steps import with_steps
from app.recourse.verdict import Reason, Relaxation, Verdict
from app.recourse.verification import Draft

MOST_QUESTIONS = 16
"""Questions for each way that is asked for, and for each excluded set, after which no more are asked."""
PROVIDED_WARNING = (
    "This answer provides values that are missing. They are not known yet: the answer assumes typical ones, or those "
    "that it names, and holds for these."
)
FEW_CHANGES = 3
"""Changes that a further way may have where the first has fewer; else it has no more than the first."""
FEWER_WARNING = "{} ways were asked for; {} found that differ in what they change{}."
SHORT_PHRASE = ", with no more than {} changes each"
STOPPED_WARNING = "{} ways were asked for; the search for more than {} ended early, at a limit of time or effort."
EXCLUDED_SENTENCE = (
    "The model accepts some changes of this record, but every answer that was found changes features together that the "
    "request excludes."
)

Frozen = frozenset[int]
"""Features that stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The answer to one question, and what it belongs to."""

    result: RecourseResult
    shared: Shared
    """Of the applicant, with or without missing values provided."""

    @property
    def best(self) -> Counterfactual:
        return self.result.counterfactuals[0]

    @property
    def found(self) -> bool:
        return self.result.status is Status.FOUND

    @property
    def key(self) -> tuple[bool, float]:
        """The order of ways: those that meet the method's own constraint first, then by cost."""
        if not self.found:
            return True, math.inf
        rows = self.result.counterfactuals
        return self.result.misses, sum(one.cost for one in rows) / len(rows)


class Ways:
    """The answers to one applicant's questions, with one method."""

    def __init__(self, problem: RecourseProblem, method: Method) -> None:
        self.problem, self.method, self.actions = problem, method, problem.action_set
        self.is_plan = method.yields is Yields.PLAN
        # The members of a plan are chosen among legal records; one answer is instead searched for until it is legal.
        asked = self.actions if self.is_plan else replace(self.actions, barred=())
        self.shared = Shared(replace(problem, action_set=asked))
        self._providing: dict[tuple[int, ...], Shared] = {}
        self.alone: list[Shared] = []
        """Questions that share nothing with others."""

    @property
    def calls(self) -> int:
        """Model calls until now."""
        return sum(shared.meter.calls for shared in self._all())

    @property
    def rows(self) -> int:
        """Records in these calls."""
        return sum(shared.meter.rows for shared in self._all())

    def remember(self, result: RecourseResult) -> None:
        """Keep an answer as a candidate for the next one."""
        for shared in self._all():
            rows = [one for one in result.counterfactuals if shared.problem.action_set.contains(one.row_raw[None])[0]]
            shared.known.extend(rows)

    def answer(
        self,
        params: MethodParams,
        certificate: CertificateParams | None = None,
        *,
        plan_s: float = math.inf,
        future_validity: float | None = None,
        steps: bool = True,
    ) -> RecourseResult:
        """As `solve`.

        Parameters
        ----------
        future_validity : in place of the problem's own
        steps : whether to look for the order of changes that helps most
        """
        began, calls, rows = time.perf_counter(), self.calls, self.rows
        if self.is_plan and self.problem.count > 1:
            several: dict[str, Any] = {"count": self.problem.count}
            params = replace(params, **several)
        asked = _Asked(self, params, certificate, future_validity)
        first = asked.first()
        if self.is_plan or not first.found or (self.problem.count == 1 and not self.actions.barred):
            listed, result = [first], first.result
        else:
            listed = asked.search(first)
            result = self._put_together(listed, asked) if listed else self._excluded(first)
        if result.status is Status.FOUND:
            result = self._certified(result, listed, params, certificate, plan_s)
            if steps:
                found = with_steps(self.actions, self.shared.meter, result.counterfactuals)
                result = replace(result, counterfactuals=tuple(found))
        spent = Diagnostics(
            model_calls=self.calls - calls, model_rows=self.rows - rows,
            elapsed_ms=1e3 * (time.perf_counter() - began),
        )  # fmt: skip
        return replace(result, diagnostics=spent)

    def providing(self, but: Frozen) -> Shared | None:
        """What is shared by questions in which missing values are provided, those of some features aside."""
        actions = provided(self.shared.problem.action_set, but=but)
        if actions is None:
            return None
        if actions.given not in self._providing:
            self._providing[actions.given] = Shared(replace(self.problem, action_set=actions))
        return self._providing[actions.given]

    def apart(self, actions: ActionSet) -> Shared:
        """What a question that shares nothing with others is asked with."""
        self.alone.append(Shared(replace(self.problem, action_set=actions)))
        return self.alone[-1]

    def _all(self) -> list[Shared]:
        return [self.shared, *self._providing.values(), *self.alone]

    def _put_together(self, listed: list[_Answer], asked: "_Asked") -> RecourseResult:
        wanted, first = self.problem.count, listed[0].result
        warnings = [*dict.fromkeys(warning for one in listed for warning in one.result.warnings)]
        if len(listed) < wanted:
            number = f"only {len(listed)} {'was' if len(listed) == 1 else 'were'}"
            short = "" if asked.most_changes is None else SHORT_PHRASE.format(asked.most_changes)
            few = FEWER_WARNING.format(wanted, number, short)
            warnings.append(few if asked.is_complete else STOPPED_WARNING.format(wanted, len(listed)))
        return replace(
            first,
            counterfactuals=tuple(one.best for one in listed),
            fallback=any(one.result.fallback for one in listed),
            warnings=tuple(warnings),
        )

    def _excluded(self, first: _Answer) -> RecourseResult:
        """The verdict where everything that was found is excluded."""
        changed, features = set(first.best.changed), self.actions.space.features
        together = next(some for some in self.actions.barred if changed.issuperset(some))
        names = " and ".join(name_text(features[j]) for j in together if not features[j].protected)
        relax = Relaxation(
            constraint="exclude", feature=None, sufficient=True,
            text=f"Allowing to change the {names} together would help most.",
        )  # fmt: skip
        verdict = Verdict(reason=Reason.TARGET_NOT_REACHED, sentence=EXCLUDED_SENTENCE, relax=relax)
        return replace(first.result, status=Status.NOT_FOUND, counterfactuals=(), verdict=verdict, fallback=False)

    def _certified(
        self,
        result: RecourseResult,
        listed: list[_Answer],
        params: MethodParams,
        certificate: CertificateParams | None,
        plan_s: float,
    ) -> RecourseResult:
        """The answer with a certificate for each counterfactual, and one of all together where there are several."""
        if certificate is None:
            return result
        found, warnings = list(result.counterfactuals), list(result.warnings)
        together = found if self.is_plan or len(found) > 1 else []
        for shared in dict.fromkeys(one.shared for one in listed):
            own = [k for k in range(len(found)) if self.is_plan or listed[k].shared is shared]
            with_them, plan, more = certified(
                shared, params, certificate, [found[k] for k in own], together=together, plan_s=plan_s
            )
            for k, one in zip(own, with_them, strict=True):
                found[k] = one
            warnings += more
            # Of those who may provide missing values: seen from the first way's record.
            together, result = [], replace(result, plan=plan or result.plan)
        return replace(result, counterfactuals=tuple(found), warnings=tuple(dict.fromkeys(warnings)))


class _Asked:
    """One question with some features as they are, asked again and again."""

    def __init__(
        self, ways: Ways, params: MethodParams, certificate: CertificateParams | None, future_validity: float | None
    ) -> None:
        self.ways, self.problem, self.method = ways, ways.problem, ways.method
        self.params, self.certificate, self.future_validity = params, certificate, future_validity
        wanted = self.problem.future_validity if future_validity is None else future_validity
        self.wanted = 0.0 if wanted is None else wanted
        self.is_complete = True
        """Whether no further way exists, as far as the method's own search can say."""
        self.most_changes: int | None = None
        """Of a further way; None for no limit, as where the request excludes sets and any other answer is welcome."""
        self._answers: dict[Frozen, _Answer | None] = {}

    def first(self) -> _Answer:
        """The answer in which every feature may change."""
        found = self._ask(frozenset())
        assert found is not None
        self._answers[frozenset()] = found
        if found.found and not self.ways.is_plan and not self.ways.actions.barred:
            self.most_changes = max(FEW_CHANGES, len(found.best.changed))
        return found

    # --- several ways ------------------------------------------------------------------------------------------------

    def search(self, first: _Answer) -> list[_Answer]:
        """As many ways as there are, or as are asked for; the cheapest first."""
        listed: list[_Answer] = []
        closed = [frozenset(some) for some in self.ways.actions.barred]
        """Sets that no further way contains."""
        most, newest = MOST_QUESTIONS * (self.problem.count + len(closed)), count()
        waiting: list[tuple[tuple[bool, float], int, Frozen, _Answer | None]] = [
            (first.key, next(newest), frozenset(), first)
        ]
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
                answer = self._answer(frozen)
                if answer is not None:
                    heapq.heappush(waiting, (max(bound, answer.key), next(newest), frozen, answer))
                continue
            changed = frozenset(answer.best.changed)
            contained = min((some for some in closed if some <= changed), key=len, default=None)
            if contained is None:
                if not listed or self._keeps_promise(answer):
                    listed.append(answer)
                    closed.append(changed)
                contained = changed
            for j in sorted(contained):
                if frozen | {j} not in seen:
                    seen.add(frozen | {j})
                    heapq.heappush(waiting, (answer.key, next(newest), frozen | {j}, None))
        return self._in_order(listed)

    def _keeps_promise(self, answer: _Answer) -> bool:
        """Whether as many future models accept a further way as are asked for."""
        return self.wanted == 0.0 or (answer.best.future is not None and answer.best.future.promised >= self.wanted)

    def _bound(self, frozen: Frozen) -> tuple[bool, float]:
        """What an answer costs at least: as much as one in which fewer features stay as they are."""
        known = (answer for fewer, answer in self._answers.items() if fewer < frozen)
        return max(((True, math.inf) if one is None else one.key for one in known), default=(False, 0.0))

    def _answer(self, frozen: Frozen) -> _Answer | None:
        """The answer in which these features stay as they are; one that is known where that changes none of them."""
        for fewer, known in self._answers.items():
            if fewer < frozen and known is not None and frozen.isdisjoint(known.best.changed):
                self._answers[frozen] = known
                return known
        try:
            found = self._ask(frozen)
            if found is not None and self._is_long(found):
                found = self._ask(frozen, self.most_changes)
        except SolverFailed:
            self.is_complete, found = False, None
        if found is not None and not found.found:
            verdict = found.result.verdict
            stopped = verdict is not None and verdict.reason in (Reason.DEADLINE, Reason.BUDGET)
            self.is_complete, found = self.is_complete and not stopped, None
        self._answers[frozen] = found
        return found

    def _is_long(self, answer: _Answer) -> bool:
        """Whether an answer changes too much for a further way."""
        return answer.found and self.most_changes is not None and len(answer.best.changed) > self.most_changes

    @staticmethod
    def _in_order(listed: list[_Answer]) -> list[_Answer]:
        """The ways, cheapest first, where a search that is not exact has found a cheaper one, or a better one, late."""
        kept: list[_Answer] = []
        for answer in sorted(listed, key=lambda one: one.key):
            worse = bool(kept) and answer.result.misses and not kept[0].result.misses
            if not worse and not any(set(other.best.changed) <= set(answer.best.changed) for other in kept):
                kept.append(answer)
        return kept

    def _late(self) -> bool:
        deadline = self.problem.deadline
        return deadline is not None and time.monotonic() >= deadline

    # --- one question ------------------------------------------------------------------------------------------------

    def _ask(self, frozen: Frozen, most_changes: int | None = None) -> _Answer | None:
        """The better of the answers with and without missing values provided; None where nothing can be asked."""
        ways, best = self.ways, None
        if frozen.isdisjoint(ways.actions.included):
            best = self._best_beginning(ways.shared, frozen, most_changes, None)
            if best is not None and best.result.status is Status.ALREADY_FAVOURABLE:
                return best
            providing = ways.providing(frozen)
            if providing is not None:
                best = self._best_beginning(providing, frozen, most_changes, best)
        return best

    def _best_beginning(
        self, shared: Shared, frozen: Frozen, most_changes: int | None, best: _Answer | None
    ) -> _Answer | None:
        """The best answer over all ways to begin what the person does anyway, or a better one that is known."""
        own = shared.problem.action_set
        asked_of = own.frozen(frozen)
        if most_changes is not None:
            asked_of = replace(asked_of, constraints=replace(asked_of.constraints, max_changes=most_changes))
        begun = sorted(beginnings(asked_of), key=lambda actions: sum(actions.begun.values()))
        for actions in begun:
            if best is not None and best.found and best.key <= (False, sum(actions.begun.values())):
                break
            asked = shared if actions is own else shared.narrowed(actions)
            if own.given and actions.begun:  # a stated value is not the typical one, which the others ask about
                asked = self.ways.apart(actions)
            result = answer_with(
                asked, self.method, self.params, self.certificate,
                future_validity=self.future_validity, further=bool(frozen),
            )  # fmt: skip
            if own.given:
                result = self._provided(result, asked, best)
            if actions.begun:
                costed = tuple(self._costed(own, one) for one in result.counterfactuals)
                result = replace(result, counterfactuals=costed)
            other = _Answer(result=result, shared=asked if asked in self.ways.alone else shared)
            if best is None or (other.found and (not best.found or other.key[1] < best.key[1])):
                best = other
        return best

    @staticmethod
    def _costed(actions: ActionSet, one: Counterfactual) -> Counterfactual:
        """A counterfactual with the cost of all its changes, those that were made before the search among them."""
        return replace(one, cost=float(actions.cost(one.row_raw[None])[0]), changed=actions.changes(one.row_raw))

    def _provided(self, result: RecourseResult, shared: Shared, other: _Answer | None) -> RecourseResult:
        """An answer in which missing values are provided, seen from the applicant who has not."""
        if result.status is Status.ALREADY_FAVOURABLE and result.factual_score is not None:
            problem = shared.problem
            stated = Draft(problem, shared.meter).counterfactual(problem.factual_raw, result.factual_score)
            found = certify_future(problem, [stated])
            wanted, reached = self.wanted or None, found[0].future
            if wanted is not None and (reached is None or reached.promised < wanted):
                found = []
            status = Status.FOUND if found else Status.NOT_FOUND
            result = replace(result, status=status, counterfactuals=tuple(found))
        if other is not None:
            score, probability = other.result.factual_score, other.result.factual_probability
            result = replace(result, factual_score=score, factual_probability=probability)
        return replace(result, warnings=(*result.warnings, PROVIDED_WARNING)) if result.counterfactuals else result
