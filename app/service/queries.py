"""The terms of a question, the rows of a batch, and audits."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from app.compute.answers import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Which model is asked, within which time, and whether the answer is recorded."""

    model: str
    """`id@version`, or `id` for its newest active version."""
    reference: str | None = None
    """The caller's own name for the case."""
    deadline_ms: int | None = None
    """Milliseconds until the answer; None for the operator's default."""
    store: bool = False
    """Keep request and answer in the ledger."""
    detail: str = "full"
    """How much of the answer a job shows, `short` or `full`."""
    exclude_ids: tuple[str, ...] = ()
    """Earlier answers, and counterfactuals of them, whose sets of changed features are excluded."""
    record: str = "applicant"
    """Where the request has the applicant's record, for pointers to its faults."""


Rows = Iterable[Json]
"""The rows of a batch, each with its ``applicant`` and ``reference``, or with the error that it is ``refused`` for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditQuery:
    """A request to re-verify the promises of a model."""

    id: str
    """Of the model; the promises of all its versions are checked."""
    candidate: str
    """The version to check them against, `id@version`; it need not be active."""
    since: datetime | None = None
    until: datetime | None = None
    reissue: bool = False
    """Also find the candidate's answers in place of broken promises."""
