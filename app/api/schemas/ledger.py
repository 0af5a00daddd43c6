"""Recourse that was given: looked up, erased, verified again."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import StrictBool, StringConstraints

from app.api.schemas.models import Described, ModelVersion
from app.api.schemas.strict import Moment, Strict
from app.recourse.result import Status

ModelChoice = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class GivenOutline(Described):
    """A recourse that was given."""

    id: str
    status: Status
    reference: str | None
    model: ModelVersion
    created_at: datetime
    expires_at: datetime


class GivenList(Described):
    """A page of them."""

    recourse: list[GivenOutline]
    """Newest first, without those that were erased."""
    next_cursor: str | None
    """Pass it as `cursor` for those before these; null on the last page."""


class Tombstone(Described):
    """What is left of a recourse whose personal data was erased."""

    id: str
    status: Literal["erased"]
    model: ModelVersion
    created_at: datetime
    expires_at: datetime
    erased_at: datetime


class VerifyRequest(Strict):
    """Which version of the model to ask."""

    model: ModelChoice | None = None
    """`id@version`, active or not; the newest active version of the model that gave the answer when absent."""


class Check(Described):
    """What the model says now about one counterfactual."""

    rank: int
    """As in the answer."""
    favourable: bool
    probability: float | None
    score: float | None
    reason: Literal["refused", "does_not_fit"] | None
    """Why it no longer holds: the model says no, or the record is none of its schema; null where it holds."""


class VerifyAnswer(Described):
    """Whether a promise still holds."""

    id: str
    model: ModelVersion
    """The version that was asked."""
    still_valid: bool | None
    """Whether it accepts every counterfactual; null where the answer had none."""
    expires_at: datetime
    verified_at: datetime
    counterfactuals: list[Check]


class AuditRequest(Strict):
    """Which version to ask about which promises."""

    model: ModelChoice
    """The candidate, `id@version`; it may be registered with `--inactive`."""
    since: Moment | None = None
    """Only promises given at this moment or later."""
    until: Moment | None = None
    """Only promises given before this moment."""
    reissue: StrictBool = False
    """Also ask the candidate the question behind each broken promise again, to see what it would cost."""


class Reissue(Described):
    """The answer that would be given instead."""

    status: str
    """As of an answer, or the code of the error that the question meets now."""
    cost: float | None


class BrokenPromise(Described):
    """A promise that the candidate does not keep."""

    id: str
    expires_at: datetime
    reason: Literal["refused", "does_not_fit"]
    score: float | None
    """Of the counterfactual that is refused."""
    promised_cost: float
    """What the change that was promised costs."""
    reissue: Reissue | None


class ReissueSummary(Described):
    """What it would cost to answer again."""

    found: int
    not_found: int
    mean_cost: float | None
    """Of those found."""


class AuditAnswer(Described):
    """How a version of a model would keep the promises that were made."""

    model: ModelVersion
    """The candidate."""
    as_of: datetime
    """Promises that had not expired at this moment."""
    since: datetime | None
    until: datetime | None
    promises: int
    """That the candidate was asked about."""
    unchecked: int
    """Promises for which there was no time; no other number here counts them."""
    still_valid: int
    broken: int
    kept_share: float | None
    """`still_valid` of `promises`; null where there are none."""
    promised_lower: float | None
    """Mean of the lower bounds with which the promises were made; null where none had a certificate."""
    reissue: ReissueSummary | None
    broken_promises: list[BrokenPromise]
    """A page of them, in the order in which they were made."""
    next_cursor: str | None
    """Pass it as `cursor` to GET /jobs/{id}/results for those after these; null on the last page."""
