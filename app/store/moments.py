"""Moments as text: of one length, in UTC, so that their order as text is their order in time, on every database."""

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """A moment as clients read it and the ledger keeps it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
