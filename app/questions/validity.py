"""Certificates of records of the caller: what a child computes, and the answer."""

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from jaxtyping import Float

from app.questions.answers import (
    CounterfactualAnswer,
    Decision,
    ModelVersion,
    Plan,
    counterfactual_answers,
    decision,
    plan_answer,
)
from app.questions.frame import Frame
from app.questions.question import NUMBERS, Case
from app.recourse.actions.action_set import ActionSet
from app.recourse.answer_part import AnswerPart
from app.recourse.assess import Assessment, assess
from app.recourse.problem import RecourseProblem
from app.recourse.result import Diagnostics


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityQuestion(Case):
    """Asks for certificates of counterfactuals that the caller supplies."""

    rows_raw: Annotated[Float[np.ndarray, "n p"], *NUMBERS] = field(default_factory=lambda: np.empty((0, 0)))
    """Their raw rows; empty until the records have been checked against the model's schema."""

    @classmethod
    def about(cls, question: Case, rows_raw: Float[np.ndarray, "n p"]) -> "ValidityQuestion":
        """The question for certificates of `rows_raw`, with applicant, constraints, weights and seed of `question`."""
        return cls(
            factual_raw=question.factual_raw,
            rows_raw=rows_raw,
            certificate=question.certificate,
            seed=question.seed,
            constraints=question.constraints,
            cost_weights=question.cost_weights,
        )

    @property
    def takes_long(self) -> bool:
        """True for several records, since their joint bounds take long; false for one record."""
        return len(self.rows_raw) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityAnswer(AnswerPart):
    """The certificates of exactly the records given, favourable or not."""

    model: ModelVersion
    """The version that was asked."""
    factual: Decision
    """The model's decision on the applicant's record."""
    counterfactuals: tuple[CounterfactualAnswer, ...]
    """In the order of the request."""
    plan: Plan | None
    """Null where there is no certificate; `warnings` says why."""
    diagnostics: Diagnostics
    """What the answer took to compute."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""
    seed: int
    """Seed of all random numbers."""


def compute(asked: RecourseProblem, question: ValidityQuestion, plan_s: float) -> Assessment:
    """The certificates of the question's counterfactuals; `plan_s` is the time in seconds for their joint bounds."""
    return assess(asked, question.rows_raw, question.certificate, plan_s=plan_s)


def render(frame: Frame, action_set: ActionSet, found: Assessment) -> ValidityAnswer:
    """The answer, made from the frame and the certificates, in the order of the request's counterfactuals."""
    return ValidityAnswer(
        **frame.known("model", "seed"),
        factual=decision(found.factual_score, found.factual_probability, frame.points),
        counterfactuals=counterfactual_answers(action_set, found.judged, frame.points),
        plan=plan_answer(found.plan),
        diagnostics=found.diagnostics,
        warnings=found.warnings,
    )
