"""What is said of a wish that one applicant cannot carry out."""

import numpy as np
import pytest

from app.errors import InvalidRequest
from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Bounds, Constraints, Direction
from app.recourse.actions.inclusion import TAKES_LONGER
from app.recourse.actions.timing import Timing
from app.recourse.actions.wishes import Wishes
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType, Takes

JOB = Feature(
    name="job", type=FeatureType.ORDINAL, categories=("short", "middling", "long"), change=Change.INCREASE,
    center=0.0, scale=1.0, takes=Takes(months_per_level=24),
)  # fmt: skip
DEBT = Feature(name="debt", type=FeatureType.INTEGER, min=0, max=9, center=0.0, scale=1.0)
SPACE = FeatureSpace([JOB, DEBT])


@pytest.mark.parametrize(
    ("name", "job", "timing", "constraints", "why"),
    [
        ("job", 2.0, {}, {}, "the model proposes no other value"),
        ("job", 2.0, {"horizon_months": 30}, {}, "the model proposes no other value"),
        ("job", 1.0, {"horizon_months": 12}, {}, "horizon_months of the request leaves no other value"),
        ("debt", 1.0, {"horizon_months": 12}, {"bounds": {"debt": Bounds(min=4, max=4)}},
         "bounds of the request leaves no other value"),
        ("debt", 1.0, {}, {"bounds": {"debt": Bounds(max=4)}, "direction": {"debt": Direction.INCREASE}},
         "direction and bounds of the request leave no other value"),
    ],
)  # fmt: skip
def test_the_limit_that_leaves_no_other_value_is_named(
    name: str, job: float, timing: dict[str, float], constraints: dict[str, object], why: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        action_set(
            SPACE, np.array([job, 4.0]), constraints=Constraints(**constraints), timing=Timing(**timing),  # type: ignore[arg-type]
            wishes=Wishes(must_include=(name,)),
        )  # fmt: skip
    (fault,) = refused.value.faults
    assert fault.detail == f'"{name}" cannot change for this applicant: {why}'


def test_time_is_named_where_it_is_that_of_the_answer() -> None:
    """Who takes the time can: only the answer is valid for less."""
    wishes = Wishes(must_include=("job",))
    for job, why in ((1.0, TAKES_LONGER), (2.0, "the model proposes no other value")):
        with pytest.raises(InvalidRequest) as refused:
            action_set(SPACE, np.array([job, 4.0]), wishes=wishes, valid_months=3.0)
        (fault,) = refused.value.faults
        assert fault.detail == f'"job" cannot change for this applicant: {why}'
    patient = action_set(SPACE, np.array([1.0, 4.0]), wishes=wishes, timing=Timing(horizon_months=24), valid_months=3.0)
    assert patient.included
