"""The time that has come for sure: data is deleted by its age, and must not be because of a clock that is wrong."""

import time
from datetime import UTC, datetime, timedelta

from app.observability import log

JUMP = timedelta(days=7)
"""A clock further ahead than this of what is expected is doubted."""

DOUBTED = timedelta(days=1)
"""How long a doubted clock must run on until it is believed: a service may have stood still for a while."""


ADVICE = (
    "What is old is not deleted by this clock until it has run on for a day without a restart. Is it wrong, set it "
    "right. Is it right, as after a pause of the service: recourse db sweep --trust-clock."
)
"""For an operator who reads the log."""


class SureClock:
    """This machine's clock, which is doubted while it is too far ahead of the last known time.

    Parameters
    ----------
    known : a time in the past, such as that of the newest entry; None if no such time is known
    """

    def __init__(self, known: datetime | None) -> None:
        self._known = known
        self._known_at_s = time.monotonic()
        self._doubted_at_s: float | None = None

    def now(self) -> datetime:
        """The clock's time; while the clock is doubted, the last known time plus the time that has passed since."""
        now, now_s = datetime.now(UTC), time.monotonic()
        expected = now if self._known is None else self._known + timedelta(seconds=now_s - self._known_at_s)
        if now - expected > JUMP:
            if self._doubted_at_s is None:
                self._doubted_at_s = now_s
                log.error("clock-doubted", clock=now.isoformat(), expected=expected.isoformat(), detail=ADVICE)
            if now_s - self._doubted_at_s < DOUBTED.total_seconds():
                return expected
        self._known, self._known_at_s, self._doubted_at_s = now, now_s, None
        return now

    @property
    def doubted(self) -> bool:
        """Whether the clock was doubted at the last call of `now`."""
        return self._doubted_at_s is not None
