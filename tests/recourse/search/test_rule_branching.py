"""Searches under rules against lists of all legal records, and closed forms where these have no end."""

import math
import time

import numpy as np
import pytest

from app.errors import DeadlineExceeded
from app.recourse.actions.action_set import action_set
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.linear import LinearModel
from app.recourse.search import rule_branching
from app.recourse.search.cheapest import Search
from app.recourse.search.mixed_integer import ActionProgram
from app.recourse.search.rule_branching import solve_program
from app.registry.rules import RuleParser
from tests.recourse.random_rules import factual, legal_rows, rule_sets

GAP = 1.01 * rule_branching.CURVED_GAP


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("seed", range(100))
def test_the_cheapest_record_under_random_rules_is_found_where_there_is_one(seed: int, missing: bool) -> None:
    for draw, domain, rules, meanings in rule_sets(seed, 5, missing=missing):
        space = domain.space
        actions = action_set(space, factual(draw, domain), rules=rules)
        w = np.array([draw.gauss(0, 1) for _ in range(space.d)])
        scores = np.sort(space.encode(domain.rows()) @ w)
        c = 1e-5 - float(scores[int(draw.choice([0.2, 0.5, 0.8, 0.99]) * len(scores))])
        model = LinearModel(w, c).unit()
        rows = legal_rows(domain, meanings)
        rows = rows[actions.each_is_legal(rows).all(axis=1) & (model.score(space.encode(rows)) >= 0.0)]
        found = Search(model, actions).rows(np.zeros(1))
        assert len(found) == (len(rows) > 0), [rule.text for rule in rules]
        if len(found):
            assert (rows == found[0]).all(axis=1).any(), [rule.text for rule in rules]
            least = float(actions.cost(rows).min())
            assert actions.cost(found)[0] <= least + GAP * (1.0 + least), [rule.text for rule in rules]


NUMBERS = [
    Feature(name=name, type=FeatureType.CONTINUOUS, min=0, max=100, center=0.0, scale=1.0) for name in ("a", "b")
] + [Feature(name="kind", type=FeatureType.CATEGORICAL, categories=("x", "y", "z"))]
SPACE = FeatureSpace(NUMBERS)


def cheapest(fact: list[float], rules: list[str], w: list[float], c: float) -> np.ndarray | None:
    parser = RuleParser(NUMBERS)
    actions = action_set(SPACE, np.array(fact, dtype=float), rules=[parser.parse(rule) for rule in rules])
    rows = Search(LinearModel(np.array(w), c), actions).rows(np.zeros(1))
    assert actions.contains(rows).all()
    return rows[0] if len(rows) else None


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        # a must reach 50; its cost is 40
        (["b / a <= 0.5"], [50, 20, 0]),
        (["b / a <= 0.2"], [50, 10, 0]),
        (["a * b <= 400"], [50, 8, 0]),
        (["a * b = 400"], [50, 8, 0]),
        (["a * b >= 1600"], [50, 32, 0]),
        (["min(a, b) >= 30"], [50, 30, 0]),
        (["max(a, 3 * b) <= 54"], [50, 18, 0]),
        (["a > 40 => b = 0"], [50, 0, 0]),
        (["a > 60 or a < 20 or kind = y"], [50, 20, 1]),
        (["kind = x => a <= 40", "kind = y => b * b <= 100", "kind = z => b >= 35"], [50, 10, 1]),
        (["kind in {x, y} => a <= 49"], [50, 20, 2]),
        (["a * a + b * b <= 2600"], [50, 10, 0]),
        (["a * b * b <= 5000"], [50, 10, 0]),
        (["1 / (a - b) <= 0.025"], [60, 20, 0]),
        (["b / (a - 45) <= 1"], [50, 5, 0]),
    ],
)
def test_curved_rules_between_numbers_without_a_lattice(rules: list[str], expected: list[float]) -> None:
    found = cheapest([10, 20, 0], rules, [1.0, 0.0, 0.0, 0.0, 0.0], -50.0)
    assert found is not None
    cost, least = (abs(row[0] - 10) + abs(row[1] - 20) + (row[2] != 0) for row in (found, np.array(expected)))
    assert cost == pytest.approx(least, rel=2e-3)


@pytest.mark.parametrize(
    "rules",
    [
        ["a * b <= 400", "b >= 9"],
        ["b / a >= 3"],
        ["a < 50"],
        ["a != 50 => a < 40", "b * 2 < b + a and b > 60 or kind = x", "a <= 50 => kind = y"],
        ["a * a <= 2499"],
    ],
)
def test_rules_that_exclude_every_accepted_record_are_proven_to(rules: list[str]) -> None:
    assert cheapest([10, 20, 0], rules, [1.0, 0.0, 0.0, 0.0, 0.0], -50.0) is None


def test_strict_comparisons_leave_a_gap_that_a_person_can_see() -> None:
    found = cheapest([10, 20, 0], ["a > 50"], [1.0, 0.0, 0.0, 0.0, 0.0], -50.0)
    assert found is not None
    assert 50.0 < found[0] < 50.1


def test_time_that_is_over_is_said() -> None:
    parser = RuleParser(NUMBERS)
    actions = action_set(SPACE, np.array([10.0, 20.0, 0.0]), rules=[parser.parse("a * b * a * b <= 400")])
    program = ActionProgram(actions)
    with pytest.raises(DeadlineExceeded):
        solve_program(program, program.cost, np.zeros((0, program.size)), np.zeros(0), deadline=time.monotonic() - 1.0)


def test_rules_that_hold_anyway_cost_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[int] = []
    relaxed = ActionProgram.relaxed
    monkeypatch.setattr(ActionProgram, "relaxed", lambda *args, **more: (solved.append(1), relaxed(*args, **more))[1])
    cheapest([10, 20, 1], ["kind = x => b = 0", "a * b <= 9000", "b / a <= 8"], [1.0, 0.0, 0.0, 0.0, 0.0], -50.0)
    assert not solved


def test_many_rules_are_read_and_kept_quickly() -> None:
    parser = RuleParser(NUMBERS)
    rules = [parser.parse(f"kind = x and a >= {k} => b <= {200 - k} or a + b <= 190") for k in range(100)]
    actions = action_set(SPACE, np.array([10.0, 20.0, 0.0]), rules=rules)
    start = time.process_time()
    found = Search(LinearModel(np.array([1.0, 0.0, 0.0, 0.0, 0.0]), -50.0), actions).rows(np.zeros(1))
    assert len(found) == 1
    assert time.process_time() - start < 5.0
    assert math.isclose(actions.cost(found)[0], 40.0, rel_tol=1e-6)
