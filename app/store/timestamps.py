"""Timestamps as text: of one length and in UTC, so that they sort by time in every database."""

from datetime import UTC, datetime, timedelta


def timestamp(moment: datetime) -> str:
    """A time in ISO 8601 in UTC, as clients get it and the ledger stores it, such as ``2030-01-31T12:00:00.000Z``."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def expiry(created: datetime, days: float) -> str:
    """The end, in UTC, of the day on which so many days have passed: every day up to it is a whole one."""
    until = created.astimezone(UTC) + timedelta(days=days)
    midnight = until.replace(hour=0, minute=0, second=0, microsecond=0)
    return timestamp(midnight if midnight == until else midnight + timedelta(days=1))
