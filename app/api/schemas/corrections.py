"""Corrections of a plan that the caller supplies."""

from typing import Any

from app.api.schemas.described import describe
from app.api.schemas.recourse import OptionalConstraints
from app.api.schemas.strict import derive, optional, to_record
from app.api.schemas.validity import VALIDITY_EXAMPLES, ValidityRequest
from app.compute.corrections import CorrectAnswer as Answer
from app.compute.messages import CorrectionQuestion
from app.recourse.actions.constraints import Constraints
from app.recourse.certificate_params import CertificateParams
from app.recourse.plans.corrector import CorrectionParams

OptionalCorrection: Any = optional(derive(CorrectionParams))


class CorrectRequest(ValidityRequest):
    """One applicant, a plan from any source, and how to correct it."""

    correction: OptionalCorrection
    """Aim and limits of the correction."""
    constraints: OptionalConstraints
    """What this applicant cannot or will not do; every corrected record respects it."""

    def question(self) -> CorrectionQuestion:
        """The question, without its records."""
        return CorrectionQuestion(
            constraints=to_record(Constraints, self.constraints),
            certificate=to_record(CertificateParams, self.certificate),
            seed=self.seed,
            correction=to_record(CorrectionParams, self.correction),
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
    "requirement": {
        "summary": "Move each record past the estimated mean model by a margin; the term is immutable",
        "value": {
            **VALIDITY_EXAMPLES["plan"]["value"],
            "correction": {"kind": "requirement", "margin": 0.5},
            "constraints": {"immutable": ["term"]},
        },
    },
}
