"""Limits in the way: by which round numbers, ticks and months each has to give."""

import numpy as np
import pytest

from app.portfolio.relaxations import in_the_way
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType, MaxChange, Takes

FEATURES = (
    Feature(
        name="debt", type=FeatureType.CONTINUOUS, min=0, max=1_000, center=0.0, scale=26.7, change=Change.DECREASE,
        max_change=MaxChange(absolute=100), takes=Takes(months_per_unit=0.05),
    ),
    Feature(
        name="term", type=FeatureType.INTEGER, min=6, max=84, step=6, center=0.0, scale=16.3,
        max_change=MaxChange(absolute=6),
    ),
)  # fmt: skip
PERSON = np.array([500.0, 36.0])


@pytest.mark.parametrize(("least", "by"), [(395.0, 7.0), (375.0, 30.0), (360.0, 50.0), (340.0, None)])
def test_a_limit_gives_by_a_round_number(least: float, by: float | None) -> None:
    actions = action_set(FeatureSpace(FEATURES), PERSON)
    found = in_the_way(actions, lambda wider: bool(wider.lower_raw[0] <= least))
    assert [(one.limit, one.feature, one.by) for one in found] == [("max_change", "debt", by)]


def test_a_limit_of_a_number_with_steps_gives_by_steps() -> None:
    actions = action_set(FeatureSpace(FEATURES), PERSON)
    found = in_the_way(actions, lambda wider: bool(wider.upper_raw[1] >= 48.0))
    assert [(one.limit, one.feature, one.by) for one in found] == [("max_change", "term", 6.0)]


@pytest.mark.parametrize(("months", "by"), [(4.9, 3.0), (5.1, 6.0), (30.0, None)])
def test_time_gives_by_months(months: float, by: float | None) -> None:
    def reachable(wider: ActionSet) -> bool:
        return wider.clock.months >= months

    actions = action_set(FeatureSpace(FEATURES), PERSON, valid_months=2.0)
    assert [(one.limit, one.by) for one in in_the_way(actions, reachable)] == [("horizon_months", by)]
