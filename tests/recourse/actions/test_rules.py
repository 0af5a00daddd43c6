"""What rules mean, against exact arithmetic, and how rows that break them are repaired."""

import numpy as np
import pytest

from app.recourse.actions.rules import LinearRule
from app.recourse.features import Feature, FeatureType
from app.registry.rules import RuleParser
from tests.recourse.random_rules import rule_sets


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_a_rule_holds_unless_it_is_false_in_exact_arithmetic(seed: int, missing: bool) -> None:
    for _, domain, rules, meanings in rule_sets(seed, 5, missing=missing):
        rows = domain.rows()
        records = [domain.record(row) for row in rows]
        for rule, meaning in zip(rules, meanings, strict=True):
            expected = [meaning(record) is not False for record in records]
            assert rule.holds(rows).tolist() == expected, rule.text


FEATURES = [
    Feature(name="income", type=FeatureType.CONTINUOUS),
    Feature(name="debt", type=FeatureType.CONTINUOUS),
    Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("own", "rent", "free")),
]


@pytest.mark.parametrize(
    ("text", "row", "repaired"),
    [
        ("debt <= 0.5 * income", [10, 8, 0], [[16, 8, 0], [10, 5, 0]]),
        ("debt / income <= 0.5", [10, 8, 0], [[10, 5, 0], [16, 8, 0]]),
        ("housing = own => debt = 0", [10, 8, 0], [[10, 8, 1], [10, 8, 2], [10, 0, 0]]),
        ("housing != rent", [1, 1, 1], [[1, 1, 0], [1, 1, 2]]),
    ],
)
def test_a_broken_rule_is_mended_by_one_feature(
    text: str, row: list[float], repaired: list[list[float]]
) -> None:  # fmt: skip
    rule = RuleParser(FEATURES).parse(text)
    rows = np.array([row, [100, 0, 1 if text == "housing = own => debt = 0" else 2]], dtype=float)
    assert rule.holds(rows).tolist() == [False, True]
    found = np.concatenate([moved for moved, _ in rule.repaired(rows, np.ones(3, dtype=bool))])
    assert np.allclose(found, repaired)
    still = np.concatenate([moved for moved, _ in rule.repaired(rows, np.array([False, True, False]))] or [rows[:0]])
    assert (still[:, [0, 2]] == rows[0, [0, 2]]).all()


def test_numbers_are_rounded_in_the_way_they_were_moved() -> None:
    rule = RuleParser(FEATURES).parse("debt * debt <= 2 * income")
    rows = np.array([[10.0, 8.0, 0.0]])
    ways = {tuple(np.flatnonzero(way[0])): way[0].sum() for _, way in rule.repaired(rows, np.ones(3, dtype=bool))}
    assert ways == {(0,): 1.0, (1,): -1.0}


def test_a_linear_rule_is_left_alone_where_it_holds() -> None:
    rule = LinearRule("a <= 1", (1.0, 0.0, 0.0), 1.0)
    assert all(len(rows) == 0 for rows, _ in rule.repaired(np.zeros((3, 3)), np.ones(3, dtype=bool)))
