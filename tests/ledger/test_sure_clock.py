"""The time by which old data is deleted, under clocks that are wrong."""

from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from app.ledger import sure_clock
from app.ledger.sure_clock import DOUBTED, JUMP, SureClock

KNOWN = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Machine:
    """A clock, which may be set, and the time since the machine began, which may not."""

    def __init__(self, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.passed_s = now, 1000.0
        monkeypatch.setattr(sure_clock, "datetime", self)
        monkeypatch.setattr(sure_clock.time, "monotonic", lambda: self.passed_s)

    def now(self, _zone: object) -> datetime:
        return self.clock

    def wait(self, passed: timedelta) -> None:
        self.clock += passed
        self.passed_s += passed.total_seconds()


def test_a_right_clock_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    for known in (None, KNOWN, KNOWN - JUMP, KNOWN + 1000 * JUMP):
        machine = Machine(KNOWN, monkeypatch)
        clock = SureClock(known)
        for _ in range(3):
            assert clock.now() == machine.clock
            machine.wait(HOUR)


def test_a_clock_that_is_ahead_at_the_start_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(KNOWN + timedelta(days=3650), monkeypatch)
    clock = SureClock(KNOWN)
    machine.wait(HOUR)
    with capture_logs() as logged:
        assert clock.now() == KNOWN + HOUR
    assert "recourse db sweep --trust-clock" in logged[0]["detail"]
    assert clock.doubted
    machine.clock = KNOWN + 2 * HOUR  # set right
    assert clock.now() == machine.clock
    assert not clock.doubted


def test_a_clock_that_jumps_ahead_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(KNOWN, monkeypatch)
    clock = SureClock(None)
    assert clock.now() == KNOWN
    machine.clock += timedelta(days=3650)
    machine.wait(HOUR)
    assert clock.now() == KNOWN + HOUR


def test_after_a_pause_of_the_service_its_clock_is_believed_a_day_later(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(KNOWN + timedelta(days=30), monkeypatch)
    clock = SureClock(KNOWN)
    assert clock.now() == KNOWN
    machine.wait(DOUBTED - HOUR)
    assert clock.now() == KNOWN + DOUBTED - HOUR
    machine.wait(HOUR)
    assert clock.now() == machine.clock
    assert not clock.doubted


def test_a_clock_that_was_behind_and_is_set_right_is_believed_a_day_later(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(datetime(1970, 1, 1, tzinfo=UTC), monkeypatch)
    clock = SureClock(KNOWN)
    assert clock.now() == machine.clock
    machine.clock = KNOWN
    clock.now()
    machine.wait(DOUBTED)
    assert clock.now() == machine.clock
