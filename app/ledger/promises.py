"""A selection of promises in the ledger."""

from dataclasses import dataclass
from datetime import UTC, datetime

from app.store.timestamps import timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """Selects promises of one model; a promise is a recourse that was found and is neither expired nor erased."""

    model: str
    as_of: str
    """Those that expire after this moment."""
    since: str | None = None
    """Those given at this moment or later."""
    until: str | None = None
    """Those given before this moment."""

    @classmethod
    def unexpired(cls, model: str, *, since: datetime | None, until: datetime | None) -> "Promises":
        """Selects the unexpired promises of all versions of a model, given at `since` or later and before `until`.

        Both times have a time zone; None sets no limit.
        """
        return cls(
            model=model,
            as_of=timestamp(datetime.now(UTC)),
            since=None if since is None else timestamp(since),
            until=None if until is None else timestamp(until),
        )
