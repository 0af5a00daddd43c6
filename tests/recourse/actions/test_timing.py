"""What takes time: a record is looked at once, with the same outcome as one question after another."""

import numpy as np
import pytest

from app.recourse.actions.advice_ranges import tick_slack
from app.recourse.actions.timing import SLACK, Clock, months_for_changes
from app.recourse.features import Feature, FeatureType
from app.recourse.features.feature_options import MovesWithTime, Takes

FEATURES = [
    Feature(name="age", type=FeatureType.INTEGER, min=18, max=90, moves_with_time=MovesWithTime(per_year=1.0)),
    Feature(name="debt", type=FeatureType.CONTINUOUS, min=0, max=100, takes=Takes(months=1, months_per_unit=0.5)),
]
FACT = np.array([30.0, 40.0])


@pytest.mark.parametrize("days", [7, 30, 31, 61, 62, 90, 93, 100, 186, 365, 730])
def test_months_for_changes_end_in_time_whenever_they_begin(days: int) -> None:
    months = months_for_changes(days)
    assert 30 * months <= days
    begun = np.arange("2027-01", "2031-01", dtype="datetime64[M]")
    if months >= 1.0:
        ended = begun + int(months)
        assert ((ended.astype("datetime64[D]") - begun.astype("datetime64[D]")).astype(int) <= days).all()
        assert months == int(months) >= days / 31 - 1


@pytest.mark.parametrize("features", [FEATURES, FEATURES[1:]], ids=["time moves the age", "time moves nothing"])
@pytest.mark.parametrize("sequential", [False, True])
def test_records_that_are_reached_in_time_are_those_whose_total_fits_and_which_keep_pace(
    features: list[Feature], sequential: bool
) -> None:
    fact = FACT[-len(features) :]
    clock = Clock(features, fact, 18.0, sequential=sequential)
    ages, debts = np.meshgrid([30.0, 31.0, 32.0], np.arange(0.0, 41.0))
    rows_raw = np.column_stack([ages.ravel(), debts.ravel()])[:, -len(features) :]
    in_time = clock.total(rows_raw) <= 18.0 * (1.0 + SLACK)
    np.testing.assert_array_equal(clock.holds(rows_raw), in_time & clock.keeps_pace(rows_raw))
    assert clock.holds(fact[None]).all()
    assert in_time.any()
    assert not in_time.all()
    # Each record is judged by itself, so alone as among others.
    np.testing.assert_array_equal(clock.holds(rows_raw), [clock.holds(row_raw[None])[0] for row_raw in rows_raw])


@pytest.mark.parametrize("tick", [0.0, 1.0, -3.5, 1e9, 123_456_789.123])
def test_the_slack_of_a_tick_is_a_millionth_and_four_roundings_of_it(tick: float) -> None:
    assert tick_slack(tick) == 1e-6 + 4.0 * np.spacing(1.0) * abs(tick)
