"""Cost against robustness for one applicant: ``frontier(problem, method, params, parameter, values)``.

One survey and one sample of the boundary serve all points. The most robust point is answered first, and its record
is also a candidate for less robust points, so the cost grows with robustness.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.recourse.certificate_params import CertificateParams
from app.recourse.method import Method, MethodParams
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, RecourseResult, Status
from app.recourse.solve import Questions
from app.recourse.verdict import PROMISE_NOT_KEPT, Reason, Verdict

FUTURE_VALIDITY = "future_validity"
"""The knob of every method of a model with future models: the share of them that must accept the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierPoint:
    """The answer at one value of the parameter that trades cost for robustness."""

    value: float
    result: RecourseResult
    dominated: bool
    """Whether another point is at least as robust and costs no more, and is better in one of the two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontier:
    """The answers for one applicant along a parameter that trades cost for robustness."""

    parameter: str
    """The robustness knob."""
    points: tuple[FrontierPoint, ...]
    """In the order of the values asked for."""
    diagnostics: Diagnostics
    """Of all points together."""


def frontier(
    problem: RecourseProblem,
    method: Method,
    params: MethodParams,
    parameter: str,
    values: Sequence[float],
    certificate: CertificateParams | None = None,
) -> Frontier:
    """The answers to one question at several values of a parameter that trades cost for robustness.

    Parameters
    ----------
    parameter : one of `method.knobs`, or `FUTURE_VALIDITY` where the model has future models
    values : distinct values of the parameter, each within its limits; points of the frontier keep this order

    Raises
    ------
    ModelOutputInvalid : the model broke its contract
    """
    started = time.perf_counter()
    questions = Questions(replace(problem, count=1, on_curve=True), method)
    sign = 1 if parameter == FUTURE_VALIDITY else method.knobs[parameter]
    results: dict[float, RecourseResult] = {}
    for value in sorted(values, key=lambda value: sign * value, reverse=True):
        if parameter == FUTURE_VALIDITY:
            answer = questions.solve(params, certificate, future_validity=value, steps=False)
        else:
            answer = questions.solve(replace(params, **{parameter: value}), certificate, steps=False)
        results[value] = _not_so_robust(answer) if answer.fallback else answer
        questions.remember(results[value])
    robustness_and_cost = [
        (sign * value, result.counterfactuals[0].cost) for value, result in results.items() if result.counterfactuals
    ]
    return Frontier(
        parameter=parameter,
        points=tuple(
            FrontierPoint(
                value=value,
                result=results[value],
                dominated=_dominated(sign * value, results[value], robustness_and_cost),
            )
            for value in values
        ),
        diagnostics=Diagnostics.since(started, questions.meter.calls, questions.meter.rows),
    )


def _not_so_robust(answer: RecourseResult) -> RecourseResult:
    """An answer that may be less robust than its value becomes a verdict with that record as the nearest."""
    verdict = Verdict(
        reason=Reason.TARGET_NOT_REACHED, sentence=PROMISE_NOT_KEPT, nearest=answer.counterfactuals[0], relax=None
    )
    return replace(answer, status=Status.NOT_FOUND, counterfactuals=(), verdict=verdict, warnings=())


def _dominated(robustness: float, result: RecourseResult, others: Sequence[tuple[float, float]]) -> bool:
    if not result.counterfactuals:
        return False
    cost = result.counterfactuals[0].cost
    return any(
        other >= robustness and other_cost <= cost and (other, other_cost) != (robustness, cost)
        for other, other_cost in others
    )
