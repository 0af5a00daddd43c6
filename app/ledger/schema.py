"""Recourse that was given: looked up, erased, verified again."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import StrictBool, StringConstraints

from app.api.described import Described
from app.api.strict import Moment, Strict
from app.jobs.job import JobStatus
from app.models.schema import ModelVersion
from app.recourse.result import Status

ModelChoice = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class GivenOutline(Described):
    """A recourse that was given."""

    id: str
    """Id of the answer."""
    status: Status
    """`found`, `already_favourable` or `not_found`; `erased` where its personal data is gone."""
    reference: str | None
    """The caller's own name for the case."""
    model: ModelVersion
    """The version that answered."""
    created_at: datetime
    """When the answer was given."""
    expires_at: datetime
    """It is intended to hold until then."""
    kept: bool | None
    """Whether the version that was asked last still accepts every way, of all versions but the one that answered: by
    an audit or POST /recourse/{id}/verify. Null where none was asked."""


class GivenList(Described):
    """A page of recourse in the ledger."""

    recourse: list[GivenOutline]
    """Newest first, without those that were erased."""
    next_cursor: str | None
    """Pass it as `cursor` for those before these; null on the last page."""


class Tombstone(Described):
    """Recourse whose personal data was erased."""

    id: str
    """Id of the answer."""
    status: Literal["erased"]
    """Always `erased`."""
    model: ModelVersion
    """The version that answered."""
    created_at: datetime
    """When the answer was given."""
    expires_at: datetime
    """It was intended to hold until then."""
    erased_at: datetime
    """When its personal data was erased."""


class VerifyRequest(Strict):
    """The version of the model that decides."""

    model: ModelChoice | None = None
    """`id@version`, active or not; by default the newest active version of the model that gave the answer."""


class Checked(Described):
    """The model's decision about a record of an answer."""

    favourable: bool
    """Whether this version accepts the record."""
    probability: float | None
    """Probability of the favourable outcome; null where the model states none."""
    score: float | None
    """Score in logit units, favourable from 0 on."""
    points: float | None
    """Points of the record; null for models without points."""
    reason: Literal["refused", "does_not_fit"] | None
    """`refused`: the model refuses the record; `does_not_fit`: the record does not fit its schema; null where it is
    favourable."""


class Check(Checked):
    """The model's decision about one counterfactual."""

    rank: int
    """As in the answer."""


class VerifyAnswer(Described):
    """Whether recourse is still valid."""

    id: str
    """Id of the answer."""
    model: ModelVersion
    """The version that decided."""
    still_valid: bool | None
    """Whether it accepts every counterfactual; null where the answer has none."""
    expires_at: datetime
    """The answer is intended to hold until then."""
    verified_at: datetime
    """When the version was asked."""
    counterfactuals: list[Check]
    """What the version decides about each record, in the order of the answer."""
    offer: Checked | None
    """What it decides about the `offer` of the answer, which counts neither in `still_valid` nor in audits: it was
    stated for then. Null where the answer has none."""


class AuditRequest(Strict):
    """The version to check, and the promises to check it against."""

    model: ModelChoice
    """The candidate, `id@version`; it may be registered with `--inactive`."""
    since: Moment | None = None
    """Only promises given at this time or later."""
    until: Moment | None = None
    """Only promises given before this time."""
    reissue: StrictBool = False
    """Also compute the candidate's answer to the request behind each broken promise."""


class Reissue(Described):
    """The candidate's answer to the same request."""

    status: str
    """Status of the answer, or the code of the error."""
    cost: float | None
    """Cost of the cheapest counterfactual; null where nothing was found."""


class BrokenPromise(Described):
    """A promise that the candidate breaks."""

    id: str
    """Id of the answer in the ledger."""
    reference: str | None
    """The lender's own name for the case; null where there is none, it was erased since, or it is another key's."""
    expires_at: datetime
    """The promise was intended to hold until then."""
    reason: Literal["refused", "does_not_fit"]
    """Why it is broken."""
    score: float | None
    """Score of the first counterfactual that it refuses."""
    promised_cost: float
    """Cost of the first counterfactual of the promise."""
    reissue: Reissue | None
    """The candidate's own answer in its place, where the request asked for that."""


class AuditOutline(Described):
    """An audit in a list; its numbers are null until it has succeeded."""

    id: str
    """Id of its job."""
    status: JobStatus
    """Whether it waits, runs or has ended, and how."""
    candidate: str
    """The version that was checked, `id@version`."""
    created_at: datetime
    """When it was submitted."""
    finished_at: datetime | None
    """When it ended; null before that."""
    promises: int | None
    """Promises that were checked."""
    unchecked: int | None
    """Promises that were not checked in the time."""
    still_valid: int | None
    """Number of promises that the candidate keeps."""
    broken: int | None
    """Number of promises that the candidate does not keep."""
    result: str | None
    """Address of the result, once it has succeeded."""


class AuditList(Described):
    """A page of audits."""

    audits: list[AuditOutline]
    """Newest first."""
    next_cursor: str | None
    """Pass it as `cursor` for the audits before these; null on the last page."""


class ReissueSummary(Described):
    """The candidate's answers in place of broken promises."""

    found: int
    """Number of broken promises for which the candidate has another answer."""
    not_found: int
    """Number of broken promises for which it has none."""
    mean_cost: float | None
    """Mean cost of those found."""


class UnderAudit(Described):
    """The promises whose requests had the same `robustness.under`."""

    under: Literal["stress", "same"] | None
    """`stress` or `same` where a share of future models was asked for and stress was rehearsed; null for others."""
    promises: int
    """Promises that were checked."""
    still_valid: int
    """Number of them that the candidate keeps."""
    kept_share: float
    """`still_valid / promises`."""
    mean_lowest: float | None
    """Mean smallest share of stressed models over their counterfactuals, `validity.future.stressed.lowest`; null where
    no stress was rehearsed."""


class AuditAnswer(Described):
    """How many promises a version of a model keeps."""

    model: ModelVersion
    """The candidate."""
    as_of: datetime
    """Promises that had not expired at this time."""
    since: datetime | None
    """Promises from this time on were checked; null for all."""
    until: datetime | None
    """Promises up to this time were checked; null for all."""
    promises: int
    """Promises that were checked."""
    unchecked: int
    """Promises that were not checked in the time; no other number here counts them."""
    still_valid: int
    """Number of promises that the candidate keeps."""
    broken: int
    """Number of promises that the candidate does not keep."""
    kept_share: float | None
    """`still_valid / promises`; null without promises."""
    promised_lower: float | None
    """Mean lower bound of the certificates of the promises; null where none had one."""
    under: list[UnderAudit]
    """The same for what was asked for under stress, for applicants as they are, and for all others."""
    reissue: ReissueSummary | None
    """What became of the broken promises that were asked again; null where the request did not ask for that."""
    broken_promises: list[BrokenPromise]
    """A page of them, oldest first."""
    next_cursor: str | None
    """Pass it as `cursor` to GET /jobs/{id}/results for those after these; null on the last page."""
