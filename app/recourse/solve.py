"""Answer one applicant's question: ``solve(problem, method, params) -> RecourseResult``.

`app.recourse.method_run` answers a question with one record or a plan; it is asked again for several ways that differ
in what is changed (`app.recourse.ways`), and for answers as the person wishes. Changes that the person makes anyway are
made before the search begins (`app.recourse.actions.beginning`); who may provide missing values is asked about with and
without these (`app.recourse.actions.providing`). All of these questions share survey, samples and budget.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

from app.errors import BudgetExceeded, DeadlineExceeded
from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.beginning import beginnings
from app.recourse.actions.providing import provided
from app.recourse.actions.relaxed import relaxed
from app.recourse.actions.sentences import months_text
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.method import Method, MethodParams, Yields
from app.recourse.method_run import MAX_CALLS, WEIGHTS_WARNING, Groundwork, answer_with, certified
from app.recourse.methods import DEFAULT_METHOD, METHODS
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, PlanCertificate, RecourseResult, Status
from app.recourse.robustness.future_validity import certify_future, reaches
from app.recourse.stated import with_accepted
from app.recourse.steps import with_lasting, with_steps
from app.recourse.verdict import SENTENCES, Reason, Verdict
from app.recourse.verification import Draft
from app.recourse.ways import Frozen, Grounded, WaySearch

__all__ = ["DEFAULT_METHOD", "MAX_CALLS", "METHODS", "WEIGHTS_WARNING", "Questions", "solve"]

SILENT_WARNING = (
    "The model gave no finite score for {} of the {} points it was asked about; they count as unfavourable."
)
HORIZON = "horizon_months"
PROVIDED_WARNING = (
    "This answer provides values that are missing. They are not known yet: cost, time and certificate are those of "
    "typical ones, or of those that it names; `changes[].accepted` says which values the model accepts."
)
FEWER_MEMBERS_WARNING = "{} ways were asked for; {} that the models accept as asked and that differ {} found."


def solve(
    problem: RecourseProblem,
    method: Method,
    params: MethodParams,
    certificate: CertificateParams | None = None,
    *,
    plan_s: float = math.inf,
    steps: bool = True,
) -> RecourseResult:
    """Answer one applicant's question with counterfactuals that the black box has confirmed, or with a verdict.

    The same problem, method and parameters give the same answer, timings aside, unless the deadline cuts it short.

    Parameters
    ----------
    plan_s : seconds for the joint bounds of a plan; where they take longer, wider bounds are returned
    steps : whether to look for the order of changes that helps most, and for the values of provided features that the
        model accepts

    Raises
    ------
    InvalidRequest : `future_validity` is asked of a model without future models
    ModelOutputInvalid : the model broke its contract, e.g. with a probability above 1
    ModelUnavailable : a remote model does not answer
    SolverFailed : a solver ended without an answer, and no fallback record was accepted
    """
    return Questions(problem, method).solve(params, certificate, plan_s=plan_s, steps=steps)


class Questions:
    """Several questions about one applicant, answered with one method; they share boundary samples and budget."""

    def __init__(self, problem: RecourseProblem, method: Method) -> None:
        self.problem, self.method, self.actions = problem, method, problem.action_set
        self.is_plan = method.yields is Yields.PLAN
        if self.actions.barred and not self.is_plan:
            # The members of a plan are chosen among legal records; one answer is instead searched for until it is.
            problem = replace(problem, action_set=replace(self.actions, barred=()))
        self.meter = Meter(problem.black_box, problem.deadline)
        self.groundwork = Groundwork(problem, self.meter)
        self._providing: dict[tuple[int, ...], Groundwork] = {}
        self.alone: list[Groundwork] = []
        """Questions that share no survey or samples with others."""

    @cached_property
    def own_score(self) -> float | None:
        """The model's score of the applicant's own record.

        None where the model gives none that is finite, or time or budget ran out.
        """
        try:
            score = float(self.meter.score_raw(self.problem.factual_raw[None])[0])
        except (DeadlineExceeded, BudgetExceeded):
            return None
        return None if math.isnan(score) else score

    def remember(self, result: RecourseResult) -> None:
        """Keep the counterfactuals of a result as candidates for later answers."""
        for groundwork in (self.groundwork, *self._providing.values(), *self.alone):
            legal = groundwork.problem.action_set.contains
            groundwork.known.extend(one for one in result.counterfactuals if legal(one.row_raw[None])[0])

    def solve(
        self,
        params: MethodParams,
        certificate: CertificateParams | None = None,
        *,
        plan_s: float = math.inf,
        future_validity: float | None = None,
        steps: bool = True,
    ) -> RecourseResult:
        """Answer one question with counterfactuals that the black box has confirmed, or with a verdict.

        Parameters
        ----------
        plan_s : seconds for the joint bounds of a plan; where they take longer, wider bounds are returned
        future_validity : share of future models that must accept the answer; None for the share of the problem
        steps : whether to look for the order of changes that helps most, and for the values of provided features that
            the model accepts
        """
        began, calls, rows = time.perf_counter(), self.meter.calls, self.meter.rows
        if self.is_plan and self.problem.count > 1:
            several: dict[str, Any] = {"count": self.problem.count}
            params = replace(params, **several)
        problem = self.problem
        if future_validity is not None:
            problem = replace(problem, future_validity=future_validity)
        question = _Question(self, problem, params, certificate)
        first = question.ask(frozenset())
        assert first is not None
        listed, result = [first], first.result
        if first.found and not self.is_plan and (self.problem.count > 1 or self.actions.barred):
            search = WaySearch(problem, first, question.ask)
            listed = search.run()
            result = search.result(listed)
        if result.status is Status.NOT_FOUND:
            result = question.with_more_time(result)
        if result.status is Status.FOUND:
            if self.is_plan and len(result.counterfactuals) < self.problem.count:
                number = len(result.counterfactuals)
                be = "was" if number == 1 else "were"
                fewer = FEWER_MEMBERS_WARNING.format(self.problem.count, number, be)
                result = replace(result, warnings=(*result.warnings, fewer))
            certified, plan, warnings = self._certified(result, listed, params, certificate, plan_s)
            if steps:
                certified = with_steps(self.actions, self.groundwork.meter, certified)
                certified = with_accepted(self.actions, self.groundwork.meter, certified)
                certified = with_lasting(self.actions, self.groundwork.meter, certified)
            found, warnings = tuple(certified), tuple(warnings)
        else:
            found, plan, warnings = result.counterfactuals, result.plan, result.warnings
        if self.meter.silent:
            warnings = (*warnings, SILENT_WARNING.format(self.meter.silent, self.meter.rows))
        diagnostics = Diagnostics.since(began, self.meter.calls - calls, self.meter.rows - rows)
        return replace(result, counterfactuals=found, plan=plan, warnings=warnings, diagnostics=diagnostics)

    def providing(self, but: Frozen) -> Groundwork | None:
        """The `Groundwork` after the person provides all missing values that can be provided.

        None if no missing value can be provided. `but` has the indices of features that stay missing.
        """
        actions = provided(self.groundwork.problem.action_set, but=but)
        if actions is None:
            return None
        if actions.given not in self._providing:
            self._providing[actions.given] = Groundwork(replace(self.problem, action_set=actions), self.meter)
        return self._providing[actions.given]

    def apart(self, actions: ActionSet) -> Groundwork:
        """A new `Groundwork` for the action set `actions`; it shares no survey or samples with other questions."""
        self.alone.append(Groundwork(replace(self.problem, action_set=actions), self.meter))
        return self.alone[-1]

    def _certified(
        self,
        result: RecourseResult,
        listed: list[Grounded],
        params: MethodParams,
        certificate: CertificateParams | None,
        plan_s: float,
    ) -> tuple[list[Counterfactual], PlanCertificate | None, Sequence[str]]:
        """The counterfactuals with a certificate each, one of all together where there are several, and warnings."""
        if certificate is None:
            return list(result.counterfactuals), result.plan, result.warnings
        found, warnings, joint = list(result.counterfactuals), list(result.warnings), result.plan
        together = found if self.is_plan or len(found) > 1 else []
        for groundwork in dict.fromkeys(one.groundwork for one in listed):
            own = [k for k in range(len(found)) if self.is_plan or listed[k].groundwork is groundwork]
            with_them, plan, more = certified(
                groundwork, params, certificate, [found[k] for k in own], together=together, plan_s=plan_s
            )
            for k, one in zip(own, with_them, strict=True):
                found[k] = one
            warnings += more
            # Of those who may provide missing values: seen from the first way's record.
            together, joint = [], plan or joint
        return found, joint, list(dict.fromkeys(warnings))


class _Question:
    """One question, asked with some features as they are."""

    def __init__(
        self,
        questions: Questions,
        problem: RecourseProblem,
        params: MethodParams,
        certificate: CertificateParams | None,
    ) -> None:
        self.questions, self.problem, self.method = questions, problem, questions.method
        self.params, self.certificate = params, certificate
        self._asking = cache(partial(Groundwork.asking, future_validity=problem.future_validity))
        """The same with the share of future models that this question asks for; answers are compared by it."""

    def ask(self, frozen: Frozen, most_changes: int | None = None) -> Grounded | None:
        """The better of two answers: with the missing values that the person can provide, and without them.

        The features in `frozen` stay as they are. None where a change that the request includes is then impossible.

        Parameters
        ----------
        most_changes : largest number of changes, besides any limit of the request; None for no further limit
        """
        questions, best = self.questions, None
        if frozen.isdisjoint(questions.actions.included):
            best = self._best_beginning(self._asking(questions.groundwork), frozen, most_changes, None)
            if best is not None and best.result.status is Status.ALREADY_FAVOURABLE:
                return best
            providing = questions.providing(frozen)
            if providing is not None:
                best = self._best_beginning(self._asking(providing), frozen, most_changes, best)
        return best

    def with_more_time(self, result: RecourseResult) -> RecourseResult:
        """The result; if more time would help most, its verdict says how long an answer takes without a time limit.

        To find out, the question is asked again without that limit. It is not asked again of a remote model, which is
        paid per call, nor for a point of a curve.
        """
        problem = self.questions.groundwork.problem
        verdict = result.verdict
        if (
            verdict is None
            or verdict.relax is None
            or verdict.relax.constraint != HORIZON
            or problem.black_box.remote is not None
            or problem.on_curve
        ):
            return result
        (longer,) = (one.actions for one in relaxed(problem.action_set) if one.constraint == HORIZON)
        asked = self._asking(self.questions.apart(longer))
        found = self._best_beginning(asked, frozenset(), None, None)
        if found is None or not found.found:
            relax = replace(verdict.relax, sufficient=False)
        else:
            months = min(one.takes_months for one in found.result.counterfactuals)
            text = f"{verdict.relax.text.removesuffix('.')}: an answer that takes {months_text(months)} was found."
            relax = replace(verdict.relax, sufficient=True, text=text, takes_months=months)
        return replace(result, verdict=replace(verdict, relax=relax))

    def _best_beginning(
        self, groundwork: Groundwork, frozen: Frozen, most_changes: int | None, best: Grounded | None
    ) -> Grounded | None:
        """The best answer over all ways to begin what the person does anyway, or a better one that is known."""
        own = groundwork.problem.action_set
        asked_of = own.frozen(frozen)
        if most_changes is not None:
            asked_of = replace(asked_of, constraints=replace(asked_of.constraints, max_changes=most_changes))
        begun = sorted(beginnings(asked_of), key=lambda actions: sum(actions.begun.values()))
        for actions in begun:
            if best is not None and best.found and best.key <= (False, sum(actions.begun.values())):
                break
            asked = groundwork if actions is own else groundwork.narrowed(actions)
            apart = bool(own.given and actions.begun)
            if apart:  # a stated value is not the typical one, which the others ask about
                asked = self._asking(self.questions.apart(actions))
            result = answer_with(asked, self.method, self.params, self.certificate)
            if own.given:
                result = self._provided(result, asked, best)
            if actions.begun:
                costed = tuple(self._costed(own, one) for one in result.counterfactuals)
                result = replace(result, counterfactuals=costed)
            other = Grounded(result=result, groundwork=asked if apart else groundwork)
            if best is None or (other.found and (not best.found or other.key[1] < best.key[1])):
                best = other
        return best

    @staticmethod
    def _costed(actions: ActionSet, one: Counterfactual) -> Counterfactual:
        """A counterfactual with the cost of all its changes, those that were made before the search among them."""
        return replace(one, cost=float(actions.cost(one.row_raw[None])[0]), changed=actions.changes(one.row_raw))

    def _seen_from(self, score: float | None, result: RecourseResult) -> RecourseResult:
        """An answer to an applicant whose own record has this score."""
        probability = None if score is None else self.problem.black_box.probability_of(score)
        return replace(result, factual_score=score, factual_probability=probability)

    def _provided(self, result: RecourseResult, groundwork: Groundwork, other: Grounded | None) -> RecourseResult:
        """An answer in which missing values are provided, seen from the applicant who has not."""
        own = self.questions.own_score if other is None else other.result.factual_score
        score, result = result.factual_score, self._seen_from(own, result)
        if own is not None and own >= 0.0:
            return replace(result, status=Status.ALREADY_FAVOURABLE, counterfactuals=(), verdict=None)
        if result.status is Status.ALREADY_FAVOURABLE and score is not None:
            problem = groundwork.problem
            stated = Draft(problem, groundwork.meter).counterfactual(problem.factual_raw, score)
            (stated,) = certify_future(problem, [stated])
            wanted, reason = problem.future_validity, Reason.TARGET_NOT_REACHED
            if wanted is None or reaches(problem, stated.row_raw, wanted):
                result = replace(result, status=Status.FOUND, counterfactuals=(stated,))
            else:
                verdict = Verdict(reason=reason, sentence=SENTENCES[reason], nearest=stated, relax=None)
                result = replace(result, status=Status.NOT_FOUND, verdict=verdict)
        return replace(result, warnings=(*result.warnings, PROVIDED_WARNING)) if result.counterfactuals else result
