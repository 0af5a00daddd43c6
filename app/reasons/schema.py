"""Why the model refuses an applicant."""

from dataclasses import replace
from typing import Any

from app.api.described import describe
from app.api.examples import APPLICANT, DEMO_MODEL
from app.api.strict import to_record, with_fields_of
from app.models.schema import Record
from app.questions.schema import AnyQuestion, Reference
from app.questions.terms import Terms
from app.reasons import answer as reasons
from app.reasons.answer import ReasonsQuestion
from app.recourse.reasons import ReasonsParams


@with_fields_of(ReasonsParams)
class ReasonsRequest(AnyQuestion):
    """The features that lowered the score most."""

    applicant: Record
    reference: Reference | None = None
    """Your own name for this case; returned in the answer."""

    def terms(self) -> Terms:
        """The terms of the request, with the client's own name for the case."""
        return replace(super().terms(), reference=self.reference)

    def question(self) -> ReasonsQuestion:
        """The question, without the applicant's record."""
        return ReasonsQuestion(reasons=to_record(ReasonsParams, self), seed=self.seed)


ReasonsAnswer: Any = describe(reasons.ReasonsAnswer)

REASONS_EXAMPLES: Any = {
    "accepted": {
        "summary": "Compared with those whom the model just accepts",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT},
    },
    "everyone": {
        "summary": "The two largest, compared with all reference records",
        "value": {"model": DEMO_MODEL, "applicant": APPLICANT, "against": "everyone", "count": 2},
    },
}
