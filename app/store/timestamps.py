"""Timestamps as text: of one length and in UTC, so that they sort by time in every database."""

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """A time in ISO 8601 in UTC, as clients get it and the ledger stores it, such as ``2030-01-31T12:00:00.000Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
