"""Counterfactuals that the caller already has, and what they are worth."""

from typing import Annotated

from pydantic import Field, StringConstraints

from app.api.schemas.models import Decision, Described, ModelVersion, Record
from app.api.schemas.recourse import (
    LONGEST_DEADLINE_MS,
    CertificateRequest,
    CounterfactualAnswer,
    DiagnosticsAnswer,
    Plan,
)
from app.api.schemas.strict import FEW, NUMBER, Strict
from app.jobs.batch import SEEDS

MOST_MEMBERS = 20
"""Counterfactuals that are judged together."""


class ValidityRequest(Strict):
    """One applicant and one or several counterfactuals that some system gave them."""

    model: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    """`id` for its newest active version, or `id@version`."""
    factual: Record
    counterfactuals: Annotated[list[Record], Field(min_length=1, max_length=MOST_MEMBERS), FEW]
    """Judged one by one, and jointly as a plan."""
    certificate: CertificateRequest = Field(default_factory=CertificateRequest)
    """What the certificates are to say."""
    deadline_ms: Annotated[int, Field(ge=1, le=LONGEST_DEADLINE_MS), NUMBER] | None = None
    """Milliseconds until the answer; the operator's default when absent."""
    seed: Annotated[int, Field(ge=0, le=SEEDS - 1), NUMBER] = 0
    """The same question with the same seed has the same answer."""


class ValidityAnswer(Described):
    """The certificates, for exactly the records given, valid or not."""

    model: ModelVersion
    factual: Decision
    counterfactuals: list[CounterfactualAnswer]
    """In the order given."""
    plan: Plan | None
    """Null where there is no certificate; `warnings` says why."""
    diagnostics: DiagnosticsAnswer
    warnings: list[str]
    seed: int
