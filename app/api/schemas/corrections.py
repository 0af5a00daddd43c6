"""A request to make a plan more valid that somebody already has, and the answer."""

from datetime import datetime
from typing import Any

from pydantic import Field

from app.api.schemas.models import Decision, Described, ModelVersion
from app.api.schemas.recourse import (
    ConstraintsRequest,
    CounterfactualAnswer,
    DiagnosticsAnswer,
    Plan,
    Relax,
)
from app.api.schemas.strict import derive
from app.api.schemas.validity import ValidityRequest
from app.recourse.correct import CorrectionStatus
from app.recourse.corrections import CorrectionParams
from app.recourse.result import MemberOutcome, Reason

CorrectionRequest: Any = derive(CorrectionParams)


class CorrectRequest(ValidityRequest):
    """One applicant, a plan that some system gave them, and how it is to be corrected."""

    correction: CorrectionRequest = Field(default_factory=CorrectionRequest)
    """What the correction aims for, and how far it may go."""
    constraints: ConstraintsRequest = Field(default_factory=ConstraintsRequest)
    """What this applicant cannot or will not do; no corrected record breaks it."""


class MemberCorrection(Described):
    """What became of one member."""

    changed: bool
    """Whether the record differs from the one that was sent."""
    outcome: MemberOutcome
    """`corrected`, or why not: `met` the requirement already, `not_selected`, `infeasible`, `refused` by the model,
    `no_gain`, `undecided` in the time."""
    detail: str
    """The outcome as a sentence."""


class CorrectedMember(CounterfactualAnswer):
    """A record of the plan: corrected, which the model accepts, or as it was sent."""

    correction: MemberCorrection


class CorrectedPlan(Plan):
    """All records together, after the correction and before."""

    before: Plan | None
    """The plan as it was sent."""


class CorrectAnswer(Described):
    """The plan with those members corrected that make it more valid; never less valid than it was."""

    id: str
    status: CorrectionStatus
    """`corrected`: at least one member; `unchanged`: nothing to gain; `not_found`: `reason` says why not."""
    model: ModelVersion
    reason: Reason | None
    detail: str | None
    """The reason as a sentence."""
    relax: Relax | None
    factual: Decision
    counterfactuals: list[CorrectedMember]
    """In the order given."""
    plan: CorrectedPlan | None
    """Null where there is no certificate; `warnings` says why."""
    diagnostics: DiagnosticsAnswer
    warnings: list[str]
    seed: int
    created_at: datetime
