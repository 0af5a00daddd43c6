"""Corrections of a plan that the caller supplies."""

from typing import Annotated, Any

from pydantic import Field

from app.api.described import describe
from app.api.strict import Sent
from app.questions.correction import CorrectAnswer as Answer
from app.questions.correction import CorrectionQuestion
from app.questions.validity_schema import VALIDITY_EXAMPLES, ValidityRequest
from app.recourse.actions.constraints import Constraints
from app.recourse.plans.corrector import CorrectionParams


class CorrectRequest(ValidityRequest):
    """One applicant, a plan from any source, and how to correct it."""

    correction: Annotated[CorrectionParams, Sent()] = Field(default_factory=CorrectionParams)
    """Aim and limits of the correction."""
    constraints: Annotated[Constraints, Sent()] = Field(default_factory=Constraints)
    """What this applicant cannot or will not do; every corrected record respects it."""

    def question(self) -> CorrectionQuestion:
        """The question of the request, without the records of the request."""
        return CorrectionQuestion(
            constraints=self.constraints,
            certificate=self.certificate,
            seed=self.seed,
            correction=self.correction,
        )


CorrectAnswer: Any = describe(Answer)

CORRECT_EXAMPLES: Any = {
    "mahalanobis": {
        "summary": "Correct the two records most at risk, by a limited shift",
        "value": {
            **VALIDITY_EXAMPLES["plan"]["value"],
            "correction": {"kind": "mahalanobis", "count": 2, "max_shift": 0.4},
        },
    },
}
