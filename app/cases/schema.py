"""Letters that were sent, reviews, and the case file."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints
from pydantic_core import PydanticCustomError

from app.api.described import describe
from app.api.strict import FEW, MOST_ENTRIES, Day, Moment, Strict
from app.cases import case
from app.cases.case import Channel, Outcome
from app.ledger.schema import ModelChoice
from app.models.schema import Values
from app.questions.schema import MOST_LINES, Line, printable

MOST_TEXT = 50_000
"""Characters of a letter of the lender's own."""


def readable(text: str) -> str:
    """The text, unchanged. Raises a validation error if a line has characters that cannot be printed."""
    if not all(line.isprintable() for line in text.replace("\t", " ").split("\n")):
        raise PydanticCustomError("not_printable", "must consist of printable characters")
    return text


Lines = Annotated[tuple[Line, ...], Field(max_length=MOST_LINES), FEW]
Letter = Annotated[str, StringConstraints(min_length=1, max_length=MOST_TEXT), AfterValidator(readable)]
Person = Annotated[str, StringConstraints(min_length=1, max_length=200), AfterValidator(printable)]
Why = Annotated[str, StringConstraints(min_length=1, max_length=5000), AfterValidator(readable)]
Corrections = Annotated[Values, Field(max_length=MOST_ENTRIES, description="Corrected values by feature."), FEW]


class NoticeRequest(Strict):
    """A letter that was sent."""

    channel: Channel
    """How."""
    sent_at: Moment | None = None
    """When; now if absent."""
    addressee: Lines = ()
    """Lines of name and address; the letter states them."""
    applied_on: Day | None = None
    """Date of the application."""
    language: Annotated[str, StringConstraints(max_length=35)] | None = None
    """Language of the letter; the operator's default if absent."""
    text: Letter | None = None
    """What was sent, where that is not the letter as the service writes it."""


class ReviewRequest(Strict):
    """A second look at a case: corrected data, a decision by a person, or both."""

    by: Person
    """Who looked."""
    reason: Why
    """Why data were corrected, or why it was decided so."""
    corrections: Corrections = Field(default_factory=dict)
    """Corrected values by feature; the model is asked again about the record with them."""
    model: ModelChoice | None = None
    """The active version that is asked again; the newest one of the model that answered if absent."""
    decision: Outcome | None = None
    """What the person decided about the application, whatever the model says."""


SentLetter: Any = describe(case.SentLetter)
Review: Any = describe(case.Review)
CaseFile: Any = describe(case.CaseFile)

NOTICE_EXAMPLES: Any = {
    "posted": {
        "summary": "The letter of the service, sent by post",
        "value": {"channel": "post", "addressee": ["Ms Ada Example", "1 Example Street", "12345 Sample Town"]},
    },
    "own": {
        "summary": "A text of the lender's own, sent by electronic mail",
        "value": {"channel": "email", "text": "Dear Ms Example,\n\nyour application ..."},
    },
}

REVIEW_EXAMPLES: Any = {
    "corrected": {
        "summary": "The income was wrong: the model is asked again",
        "value": {
            "by": "Sam Clerk",
            "reason": "The payslips of the last three months show a higher income.",
            "corrections": {"monthly_income": 2450},
        },
    },
    "decided": {
        "summary": "A person decides",
        "value": {"by": "Sam Clerk", "reason": "The guarantor was overlooked.", "decision": "accepted"},
    },
}
