"""The cost-robustness curve: what a child computes, and the answer."""

from dataclasses import dataclass, field

from app.questions.answers import (
    CounterfactualAnswer,
    Decision,
    Json,
    ModelVersion,
    counterfactual_answers,
    decision_if_asked,
)
from app.questions.frame import Frame
from app.questions.question import Question
from app.recourse.actions.action_set import ActionSet
from app.recourse.answer_part import EXACT, FULL, AnswerPart
from app.recourse.frontier import FUTURE_VALIDITY, Frontier, FrontierPoint, frontier
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics, Status
from app.recourse.solve import METHODS
from app.recourse.verdict import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierQuestion(Question):
    """Asks what recourse costs at several values of one parameter of the method."""

    parameter: str
    """One of the method's knobs."""
    values: tuple[float, ...]
    """Distinct, each within the limits of the parameter."""

    @property
    def takes_long(self) -> bool:
        """True: every frontier takes long."""
        return True

    @property
    def needs_future_models(self) -> bool:
        """Whether the question asks for a future validity, or for several of them as its parameter."""
        return self.parameter == FUTURE_VALIDITY or self.robustness.future_validity is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(AnswerPart):
    """The answer at one value of the parameter that the frontier varies."""

    value: float = field(metadata=EXACT)
    """Value of the parameter."""
    status: Status
    """What was found at this value."""
    cost: float | None
    """Null unless something was found."""
    dominated: bool
    """Whether another point is at least as robust and costs no more, and is better in one of the two."""
    counterfactual: CounterfactualAnswer | None
    """The cheapest record at this value; null where nothing was found."""
    reason: Reason | None
    """Why nothing was found."""
    detail: str | None
    """The reason as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierAnswer(AnswerPart):
    """The cost-robustness curve; the model itself accepted every record in it."""

    reference: str | None
    """The caller's own name for the case."""
    model: ModelVersion
    """The version that was asked."""
    threshold: float | None = field(metadata=EXACT)
    """Smallest favourable probability; null for a model whose output states none."""
    parameter: str
    """The parameter that varies."""
    factual: Decision | None
    """The model's decision on the applicant's record; null where it was not asked in time."""
    points: tuple[Point, ...]
    """In the order of the values. The cost of points that are not dominated grows with robustness."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""
    method: Json = field(metadata=FULL)
    """The method with every parameter, as in the request; each point has its own value of `parameter`."""
    diagnostics: Diagnostics = field(metadata=FULL)
    """Of all points together."""
    seed: int = field(metadata=FULL)


def compute(asked: RecourseProblem, question: FrontierQuestion, _plan_s: float) -> Frontier:
    """The cost-robustness curve that a question asks for; `_plan_s` is not used."""
    method = METHODS[question.method]
    return frontier(asked, method, question.params, question.parameter, question.values, question.certificate)


def render(frame: Frame, action_set: ActionSet, found: Frontier) -> FrontierAnswer:
    """The answer, made from the frame and the cost-robustness curve, with one point for each value of the parameter."""
    first = found.points[0].result
    reason = first.verdict.reason if first.verdict else None
    return FrontierAnswer(
        **frame.known("reference", "model", "threshold", "method", "seed"),
        parameter=found.parameter,
        factual=decision_if_asked(first.factual_score, first.factual_probability, reason, frame.points),
        points=tuple(_point(frame, action_set, point) for point in found.points),
        diagnostics=found.diagnostics,
        warnings=tuple(dict.fromkeys(warning for point in found.points for warning in point.result.warnings)),
    )


def _point(frame: Frame, action_set: ActionSet, point: FrontierPoint) -> Point:
    result, verdict = point.result, point.result.verdict
    best = next(iter(counterfactual_answers(action_set, result.counterfactuals[:1], frame.points)), None)
    return Point(
        value=point.value,
        status=result.status,
        cost=best.cost.total if best else None,
        dominated=point.dominated,
        counterfactual=best,
        reason=verdict.reason if verdict else None,
        detail=verdict.sentence if verdict else None,
    )
