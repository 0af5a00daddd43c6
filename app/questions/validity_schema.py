"""Certificates of counterfactuals that the caller supplies."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Self

from pydantic import AliasChoices, Field, PrivateAttr, model_validator

from app.api.described import describe
from app.api.examples import APPLICANT, DEMO_MODEL
from app.api.strict import FEW
from app.models.schema import Record
from app.questions import validity
from app.questions.question import Terms
from app.questions.schema import ModelQuestion
from app.questions.validity import ValidityQuestion

MOST_MEMBERS = 20
"""Counterfactuals in one request."""


class ValidityRequest(ModelQuestion):
    """One applicant and one or several counterfactuals from any source."""

    applicant: Record = Field(validation_alias=AliasChoices("applicant", "factual"))
    """`factual` is understood as well."""
    counterfactuals: Annotated[list[Record], Field(min_length=1, max_length=MOST_MEMBERS), FEW]
    """Certified one by one, and jointly as a plan."""
    _record: str = PrivateAttr("applicant")

    @model_validator(mode="wrap")
    @classmethod
    def _noted(cls, value: Any, read: Callable[[Any], Self]) -> Self:
        request = read(value)
        if isinstance(value, dict) and "factual" in value:
            request._record = "factual"  # noqa: SLF001 - of the class beside it
        return request

    def terms(self) -> Terms:
        """The request's fields other than its question, and the name of the field that holds the applicant."""
        return replace(super().terms(), record=self._record)

    def question(self) -> ValidityQuestion:
        """The question of the request, without the records of the request."""
        return ValidityQuestion(certificate=self.certificate, seed=self.seed)


ValidityAnswer: Any = describe(validity.ValidityAnswer)

VALIDITY_EXAMPLES: Any = {
    "plan": {
        "summary": "Two counterfactuals, one by one and jointly",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "counterfactuals": [
                {**APPLICANT, "card_utilisation": 10.0, "guarantor": True},
                {**APPLICANT, "amount": 5000, "savings": "1,000 to 5,000 EUR", "guarantor": True},
            ],
            "certificate": {"ambiguity_radius": 0.02, "noise_samples": 2000},
        },
    },
}
