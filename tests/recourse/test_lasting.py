"""Whether a yes lasts until the answer expires, whatever time changes: by the calendar, and one record at a time."""

from dataclasses import replace
from datetime import date, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest

from app.recourse.actions.accepted_values import AcceptedValues
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.timing import Clock, Timing, months_for_changes
from app.recourse.counterfactual import Counterfactual, Step
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.features.feature_options import MovesWithTime, Takes
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.meter import Meter
from app.recourse.models.score import Output
from app.recourse.steps import with_lasting

AGE = Feature(name="age", type=FeatureType.INTEGER, min=18, max=90, center=40.0, scale=10.0,
              moves_with_time=MovesWithTime(per_year=1.0))  # fmt: skip
JOB = Feature(name="job", type=FeatureType.INTEGER, min=0, center=50.0, scale=20.0,
              moves_with_time=MovesWithTime(per_year=12.0))  # fmt: skip
LEFT = Feature(name="left", type=FeatureType.INTEGER, min=0, max=60, center=50.0, scale=20.0,
               moves_with_time=MovesWithTime(per_year=-12.0))  # fmt: skip
DEBT = Feature(name="debt", type=FeatureType.INTEGER, min=0, max=20, center=5.0, scale=5.0, takes=Takes(months=2.0))
INCOME = Feature(name="income", type=FeatureType.INTEGER, min=0, max=20, center=5.0, scale=5.0, provide=True)
SPACE = FeatureSpace([AGE, JOB, DEBT, INCOME])
FACT = np.array([41.0, 122.0, 10.0, 5.0])


def whole_months(start: date, day: date) -> int:
    """Completed months between two days of the calendar."""
    return 12 * (day.year - start.year) + day.month - start.month - (day.day < start.day)


@pytest.mark.parametrize("days", [20, 45, 100, 200])
def test_every_value_that_the_calendar_brings_is_there(days: int) -> None:
    clock = Clock([AGE, JOB, LEFT, DEBT], np.array([41.0, 122.0, 3.0, 10.0]), valid_months=months_for_changes(days))
    rows = {tuple(row) for row in clock.until_expiry(np.array([41.0, 124.0, 1.0, 4.0]))}
    assert {row[3] for row in rows} == {4.0}, "what the person changes stays"
    today, seen = date(2026, 11, 27), set()
    for past in range(366):
        hired = today - timedelta(days=past)
        for later in (0, days // 2, days):
            passed = whole_months(hired, today + timedelta(days=later)) - whole_months(hired, today)
            for older in (0, 1):
                seen.add((41.0 + older, 122.0 + passed, max(3.0 - passed, 0.0), 4.0))
    assert seen <= rows
    assert max(row[1] for row in rows) <= max(row[1] for row in seen) + 2.0, "and hardly more"
    assert max(row[0] for row in rows) == 42.0


def actions_of(**options: Any) -> ActionSet:
    return action_set(SPACE, FACT, valid_months=3.0, **options)


def way(row_raw: list[float], **changes: Any) -> Counterfactual:
    return Counterfactual(row_raw=np.array(row_raw), score=1.0, probability=0.7, cost=1.0, changed=(2,), **changes)


def lasts(found: Counterfactual, predict: Any) -> tuple[bool | None, int]:
    """What is said of it, and how many rows the model was asked about."""
    meter = Meter(BlackBox(space=SPACE, predict=predict, input=Input.RAW, output=Output.LOGIT, threshold=0.0))
    (one,) = with_lasting(actions_of(), meter, [found])
    return one.lasts, meter.rows


@pytest.mark.parametrize(("limit", "lasting"), [(120.0, True), (122.5, False), (125.5, False), (130.0, True)])
def test_a_yes_lasts_if_the_model_accepts_every_record_until_then(limit: float, lasting: bool) -> None:
    """A model that changes its mind at some number of months, in one direction and in the other."""
    sign = 1.0 if limit < 125.0 else -1.0
    said, _ = lasts(way([41.0, 124.0, 4.0, 5.0]), lambda rows: sign * (rows[:, 1] - limit))
    assert said is lasting


def test_a_birthday_counts_and_so_do_the_first_changes_that_are_enough() -> None:
    young = lambda rows: 41.5 - rows[:, 0]  # noqa: E731
    assert lasts(way([41.0, 124.0, 4.0, 5.0]), young)[0] is False
    row_raw = np.array([41.0, 124.0, 8.0, 5.0])
    step = Step(feature=2, row_raw=row_raw, score=0.5, probability=0.6)
    one = way([41.0, 124.0, 4.0, 5.0], steps=(step, replace(step, row_raw=np.array([41.0, 124.0, 4.0, 5.0]))))
    assert lasts(one, lambda rows: (rows[:, 1] - 122.5) + 3.0 * (6.0 - rows[:, 2]))[0] is False
    assert lasts(one, lambda rows: (rows[:, 1] - 122.5) + 3.0 * (9.0 - rows[:, 2]))[0] is True


def test_of_a_value_to_state_both_ends_are_asked_about() -> None:
    one = way([41.0, 124.0, 4.0, 12.0], accepted={3: AcceptedValues(min=8, max=None)})
    assert lasts(one, lambda rows: (rows[:, 1] - 122.5) + (rows[:, 3] - 9.0))[0] is False
    assert lasts(one, lambda rows: (rows[:, 1] - 122.5) + (rows[:, 3] - 7.0))[0] is True


def test_nothing_is_asked_about_a_way_that_ends_later_or_where_time_changes_nothing() -> None:
    yes = lambda rows: np.ones(len(rows))  # noqa: E731
    assert lasts(way([41.0, 128.0, 4.0, 5.0], takes_months=6.0), yes) == (None, 0)
    still = action_set(
        FeatureSpace([replace(AGE, moves_with_time=None), DEBT]), np.array([41.0, 10.0]), valid_months=3.0
    )
    assert still.clock.until_expiry(np.array([41.0, 4.0])).shape == (0, 2)
    assert action_set(SPACE, FACT, timing=Timing(horizon_months=2.0)).clock.until_expiry(FACT).shape == (0, 4)


def test_the_values_of_several_features_are_combined() -> None:
    rows = actions_of().clock.until_expiry(np.array([41.0, 124.0, 4.0, 5.0]))
    assert {tuple(row[:2]) for row in rows} == set(product({41.0, 42.0}, np.unique(rows[:, 1])))
