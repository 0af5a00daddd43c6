"""Days and times in a letter: from when until when a yes is, and how long steps take."""

from datetime import date
from typing import Any

import pytest

from app.letters import dates
from app.recourse.features import Feature, FeatureType, MovesWithTime
from tests.letters.test_letter import FEATURES, JOB, answered, notice, shipped, way

END = "2026-05-30"


def moving(per_year: float, kind: FeatureType = FeatureType.INTEGER, decimals: int | None = None) -> Feature:
    return Feature(name="x", type=kind, decimals=decimals, moves_with_time=MovesWithTime(per_year=per_year))


@pytest.mark.parametrize(
    ("per_year", "months", "until"),
    [
        (12.0, 0.0, "2026-04-01"), (12.0, 0.5, "2026-04-01"), (12.0, 1.0, "2026-05-01"), (12.0, 1.9, "2026-05-01"),
        (-12.0, 1.0, "2026-05-01"), (12.0, 2.0, END), (1.0, 0.0, END), (24.0, 0.0, "2026-03-16"),
    ],
)  # fmt: skip
def test_a_yes_lasts_until_time_changes_the_record_again(per_year: float, months: float, until: str) -> None:
    """From the second of March."""
    assert dates.unchanged_until(answered(), months, (FEATURES[0], moving(per_year)), END) == until


def test_what_time_changes_every_day_lasts_no_day() -> None:
    assert dates.unchanged_until(answered(), 0.0, (moving(1.0, FeatureType.CONTINUOUS),), END) is None
    tenths = moving(1.2, FeatureType.CONTINUOUS, decimals=1)
    assert dates.unchanged_until(answered(), 0.0, (tenths,), END) == "2026-04-01"
    assert dates.unchanged_until(answered(), 0.0, FEATURES[:4], END) == END


def told(monkeypatch: pytest.MonkeyPatch, one: dict[str, Any], asked: Any = None) -> Any:
    monkeypatch.setitem(notice.__globals__, "FEATURES", (FEATURES[0], JOB, *FEATURES[2:]))
    return notice(shipped("general"), "en", counterfactuals=[one], asked=asked).ways[0]


@pytest.mark.parametrize(("months", "last"), [(1.0, "1 May 2026"), (2.0, "30 May 2026"), (2.9, "30 May 2026")])
def test_a_dated_yes_names_all_its_days(months: float, last: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No day after the letter, and none before the first."""
    assert told(monkeypatch, way(amount=15700, months=months)).last == last


def test_a_late_way_has_no_last_day(monkeypatch: pytest.MonkeyPatch) -> None:
    late = told(monkeypatch, way(amount=15700, months=24.0))
    assert (late.late, late.last) == (True, None)


@pytest.mark.parametrize(
    ("sequential", "enough", "said"), [(False, 2, "up to 2 months"), (True, 2, "up to 3 months"), (False, None, None)]
)
def test_the_time_of_the_steps_that_are_enough_is_said(
    sequential: bool, enough: int | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = way(amount=15700, guarantor=True, housing="owned", months=3.0)
    for change, months in zip(one["changes"], (2.0, 1.0, 3.0), strict=True):
        change |= {"takes_months": months, "from": 0}
    one["steps"] = [
        {"feature": name, "favourable": enough is not None and k >= enough}
        for k, name in enumerate(("amount", "guarantor", "housing"), start=1)
    ]
    one["steps"][-1]["favourable"] = True
    found = told(monkeypatch, one, {"timing": {"sequential": sequential}})
    assert (found.enough, found.enough_time) == (enough, said)


def test_a_part_takes_no_longer_than_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine weeks are more than two months."""
    one = way(amount=15700, guarantor=True, months=2.0)
    for change, months in zip(one["changes"], (1.872, 2.0), strict=True):
        change |= {"takes_months": months, "from": 0}
    one["steps"] = [{"feature": name, "favourable": True} for name in ("amount", "guarantor")]
    assert told(monkeypatch, one).enough_time == "up to 2 months"


def test_days_are_those_of_the_calendar() -> None:
    at_the_end = answered(created_at="2026-01-31T10:00:00.000Z")
    assert dates.unchanged_until(at_the_end, 0.0, (moving(12.0),), "2026-04-30") == date(2026, 2, 27).isoformat()
