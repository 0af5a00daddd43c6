"""The terms of a question, and the rows of a batch."""

from collections.abc import Iterable
from dataclasses import dataclass

from app.questions.answers import Json


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
