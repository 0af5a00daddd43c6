"""Counter-offers for one applicant."""

from typing import Annotated, Any

from pydantic import Field

from app.api.described import describe
from app.api.examples import APPLICANT, DEMO_MODEL
from app.api.strict import FEW, MOST_ENTRIES, NUMBER, Sent, optional
from app.models.schema import Record
from app.questions import offers
from app.questions.offers import OffersQuestion
from app.questions.schema import AnyQuestion, FeatureName, Reference
from app.recourse.actions.constraints import Constraints
from app.recourse.features import Better

Directions: Any = optional(Annotated[dict[FeatureName, Better], Field(max_length=MOST_ENTRIES), FEW], dict)


class OffersRequest(AnyQuestion):
    """With which terms of the contract the model accepts an applicant as they are."""

    applicant: Record
    """With the terms that the applicant asks for; no offer has more than that of a term of which more is better."""
    reference: Reference | None = None
    """Your own name for this case; returned in the answer."""
    constraints: Annotated[Constraints, Sent()] = Field(default_factory=Constraints)
    """What this applicant would not take: limits of the terms. Those of other features mean nothing here."""
    better: Directions
    """Of a term, whether `more` or `less` of it is better for this applicant, in place of what the manifest says. It is
    never guessed: at least one term needs it, here or there."""

    future_validity: Annotated[float, Field(gt=0, le=1), NUMBER] | None = None
    """Share of the model's future models that must accept each offer too: the largest amount lies at the edge of what
    is accepted today. One half of them is asked in the search, `future` reports the other half. Null asks for none."""

    def question(self) -> OffersQuestion:
        """The question of the request, without the applicant's record."""
        return OffersQuestion(
            constraints=self.constraints, better=self.better, future_validity=self.future_validity, seed=self.seed
        )


OffersAnswer: Any = describe(offers.OffersAnswer)

REGULAR = {**APPLICANT, "late_payments": 0, "card_utilisation": 40.0}

OFFERS_EXAMPLES: Any = {
    "amounts": {
        "summary": "The largest amount for each term that is accepted",
        "value": {"model": DEMO_MODEL, "applicant": REGULAR},
    },
    "shorter": {
        "summary": "At least 4,000 EUR; a shorter term is better for this applicant",
        "value": {
            "model": DEMO_MODEL,
            "applicant": REGULAR,
            "constraints": {"bounds": {"amount": {"min": 4000}}},
            "better": {"term": "less"},
        },
    },
}
