"""All legal rows, and the nearest ones, against lists of everything."""

import time

import numpy as np
import pytest

from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.search.legal_rows import every_row, nearest_legal
from app.registry.rules import RuleParser
from tests.recourse.random_rules import factual, legal_rows, rule_sets


@pytest.mark.parametrize("seed", range(40))
def test_every_legal_row_is_listed_cheapest_first(seed: int) -> None:
    for draw, domain, rules, meanings in rule_sets(seed, 3):
        cap = draw.choice([None, 1, 2])
        actions = action_set(
            domain.space, factual(draw, domain), rules=rules, constraints=Constraints(max_changes=cap)
        )  # fmt: skip
        rows = legal_rows(domain, meanings)
        rows = rows[actions.changed(rows) <= (cap or 9)]
        found = every_row(actions, 5000)
        assert found is not None
        assert sorted(map(tuple, found)) == sorted(map(tuple, rows))
        assert (np.diff(actions.cost(found)) >= 0.0).all()


@pytest.mark.parametrize("seed", range(40))
def test_the_nearest_legal_row_is_found(seed: int) -> None:
    for draw, domain, rules, meanings in rule_sets(seed, 3):
        space, rows = domain.space, legal_rows(domain, meanings)
        actions = action_set(space, factual(draw, domain), rules=rules)
        targets = np.array([draw.choice(domain.rows()) for _ in range(2)])
        found = nearest_legal(actions, targets)
        assert len(found) == (2 if len(rows) else 0)
        for target, row in zip(targets, found, strict=False):
            distances = np.abs(space.encode(rows) - space.encode(target[None])).sum(axis=1)
            reached = np.abs(space.encode(row[None]) - space.encode(target[None])).sum()
            assert (rows == row).all(axis=1).any()
            assert reached <= distances.min() + 2e-3 * (1.0 + distances.min())


FREE = [Feature(name=name, type=FeatureType.CONTINUOUS, center=0.0, scale=1.0) for name in ("a", "b")]


def test_rows_without_an_end_are_not_listed() -> None:
    actions = action_set(FeatureSpace(FREE), np.zeros(2))
    assert every_row(actions, 10**9) is None
    still = action_set(FeatureSpace(FREE), np.zeros(2), constraints=Constraints(immutable=("a", "b")))
    assert every_row(still, 1).tolist() == [[0.0, 0.0]]  # type: ignore[union-attr]


def test_no_time_means_no_rows() -> None:
    rules = [RuleParser(FREE).parse("a * b = 6")]
    actions = action_set(FeatureSpace(FREE), np.zeros(2), rules=rules)
    assert len(nearest_legal(actions, np.array([[2.0, 2.0]]), deadline=time.monotonic() - 1.0)) == 0
    (row,) = nearest_legal(actions, np.array([[2.0, 4.0]]))
    assert row[0] * row[1] == pytest.approx(6.0)
    assert np.abs(row - [2, 4]).sum() == pytest.approx(0.5, rel=2e-3)
