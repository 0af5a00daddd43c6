"""Ranges that are kept for a value are those of all limits of the person and the request."""

import math
from typing import Any

import pytest

from app.recourse.actions.advice_ranges import Asked, Limit, Range, limits_of, range_of, ranges_of_all
from app.recourse.actions.constraints import Bounds, Constraints, Direction
from app.recourse.actions.wishes import ChangeTo, Exclude
from app.recourse.features import Advice, Feature, FeatureType, MaxChange
from tests.recourse.toys import LOAN, loan_rows


@pytest.mark.parametrize(
    ("constraints", "exclude"),
    [
        ({}, {}),
        ({"immutable": ("age", "housing")}, {}),
        ({"direction": {"income": Direction.DECREASE}}, {}),
        ({"bounds": {"income": Bounds(min=2000.0, max=2500.0), "savings": Bounds(max="some")}}, {}),
        ({"max_change": {"months": MaxChange(absolute=12.0)}}, {}),
        ({"least_change": {"rate": 0.3}, "max_changes": 2}, {}),
        ({}, {"features": ("rate",)}),
        ({}, {"changes": (ChangeTo(feature="housing", to="free"), ChangeTo(feature="income", to=4000.0))}),
    ],
)
def test_what_is_kept_for_those_who_ask_for_nothing_is_not_given_to_others(
    constraints: dict[str, Any], exclude: dict[str, Any]
) -> None:
    changed = False
    for row_raw in loan_rows(20):
        for months, least_share in ((math.inf, 0.0), (3.0, 0.02)):
            both = []
            for own, ruled_out in ((Constraints(), Exclude()), (Constraints(**constraints), Exclude(**exclude))):
                asked = Asked(constraints=own, exclude=ruled_out, months=months, least_share=least_share)
                pairs = list(zip(LOAN.features, row_raw.tolist(), strict=True))
                both.append([range_of(feature, fact, limits_of(feature, fact, asked)) for feature, fact in pairs])
                assert ranges_of_all(LOAN, row_raw, asked) == both[-1]
            changed |= both[0] != both[1]
    assert changed == bool(constraints or exclude)


@pytest.mark.parametrize(
    ("fact", "advised", "limit", "expected"),
    [
        ("c", "ace", {}, Range(0, 0, 4, 4, (0, 2, 4))),
        ("b", "acd", {}, Range(0, 0, 2, 3)),
        ("a", "ce", {}, Range(0, 0, 2, 4, (0, 2, 4))),
        ("e", "acf", {"high": 3}, Range(0, 2, 4, 4, (0, 2, 4))),
        ("c", "abde", {"least": 2}, Range(0, 0, 4, 4, (0, 2, 4))),
        ("f", "abe", {"low": 1}, Range(1, 4, 5, 5, (1, 4, 5))),
    ],
)
def test_an_ordinal_goes_to_the_levels_that_are_advised_within_its_limits(
    fact: str, advised: str, limit: dict[str, float], expected: Range
) -> None:
    feature = Feature(
        name="grade", type=FeatureType.ORDINAL, categories=tuple("abcdef"), advice=Advice(categories=tuple(advised))
    )
    limits = [Limit(name="bounds", asked=True, low=0, high=5), Limit(name="bounds", asked=True, **limit)]
    assert range_of(feature, "abcdef".index(fact), limits) == expected
