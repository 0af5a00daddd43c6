"""Common ways: the cover against all sets of rules, and whom a report says they reach, written out by hand."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.futures.store import load_futures
from app.portfolio.chosen_ways import Chosen, Given, chosen_ways, common_ways
from app.portfolio.common_ways import Move, Rules, best_cover, moves_of, rule_text, told_value
from app.portfolio.report_schema import ReportRequest
from app.questions.question import job_payload
from app.recourse.actions.action_set import action_set
from app.recourse.features import Feature, FeatureType
from app.recourse.models.meter import Meter
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from tests.conftest import DEMO_STORE
from tests.portfolio.test_report import Figures, accepted, reported
from tests.registry.loan import loan_records


def test_the_cover_is_the_best_of_all_sets() -> None:
    rng, cheaper = np.random.default_rng(0), 0
    for _ in range(300):
        n, m, most = int(rng.integers(1, 13)), int(rng.integers(1, 9)), int(rng.integers(1, 4))
        reach = rng.random((n, m)) < rng.uniform(0.1, 0.6)
        costs = np.where(reach, rng.uniform(1.0, 5.0, (n, m)), np.inf)
        rules, reached, at_most = best_cover(costs, most)
        sets = {k: list(itertools.combinations(range(m), min(k, m))) for k in range(1, most + 1)}
        best = {k: max(int(reach[:, one].any(axis=1).sum()) for one in found) for k, found in sets.items()}
        assert len(rules) == len(set(rules)) <= most
        assert reached == [int(reach[:, rules[: k + 1]].any(axis=1).sum()) for k in range(len(rules))]
        assert (reached or [0])[-1] == best[most]
        assert at_most[-1:] in ([], [best[most]])
        assert all(bound >= best[k] for k, bound in enumerate(at_most, start=1))
        if rules:
            paid = costs[:, rules].min(axis=1)
            as_good = [one for one in sets[most] if reach[:, one].any(axis=1).sum() == best[most]]
            means = [np.mean(one[np.isfinite(one)]) for one in (costs[:, found].min(axis=1) for found in as_good)]
            cheaper += np.mean(paid[np.isfinite(paid)]) <= min(means) + 1e-9
    assert cheaper >= 280, "an exchange of single rules nearly always finds the cheapest set"


@pytest.mark.parametrize(("people", "all_of_them"), [(20, True), (60, False)])
def test_the_last_person_is_reached_unless_all_others_pay_more_than_a_hundred_for_it(
    people: int, all_of_them: bool
) -> None:
    costs = np.column_stack([np.full(people, 5.0), np.ones(people)])
    costs[0, 1] = np.inf
    rules, reached, at_most = best_cover(costs, 1)
    assert (rules, reached, at_most) == (([0], [people], [people]) if all_of_them else ([1], [people - 1], [people]))


def test_rules_are_words() -> None:
    income = Feature(name="income", label="Income", unit="EUR", type=FeatureType.CONTINUOUS, decimals=0)
    used = Feature(name="used", unit="%", type=FeatureType.CONTINUOUS, decimals=0)
    assert rule_text((Move(0, "by", -20.0, up=False),), (used,)) == "Used: 20 percentage points less"
    savings = Feature(name="savings", type=FeatureType.ORDINAL, categories=("none", "some", "much"))
    owned = Feature(name="home", type=FeatureType.CATEGORICAL, categories=("rented", "owned"))
    surety = Feature(name="surety", type=FeatureType.BINARY)
    rule = (
        Move(0, "to", 2_500.0, up=True), Move(0, "by", -300.0, up=False), Move(0, "times", 0.8, up=False),
        Move(1, "to", 1.0, up=True), Move(1, "by", 1.0, up=True), Move(2, "level", 1.0, up=True),
        Move(3, "to", 1.0, up=True),
    )  # fmt: skip
    assert rule_text(rule, (income, savings, owned, surety)) == (
        "Income: at least 2,500 EUR; Income: 300 EUR less; Income: 20% less; Savings: at least some; "
        "Savings: 1 level higher; Home: owned; Surety: yes"
    )


@pytest.mark.parametrize(
    ("more", "value", "up", "told"),
    [
        ({"type": FeatureType.CONTINUOUS}, 1_347.0, True, 1_400.0),
        ({"type": FeatureType.CONTINUOUS}, -1_347.0, False, -1_400.0),
        ({"type": FeatureType.CONTINUOUS}, 0.0437, False, 0.043),
        ({"type": FeatureType.CONTINUOUS}, 1_400.0, True, 1_400.0),
        ({"type": FeatureType.INTEGER}, 47.0, True, 47.0),
        ({"type": FeatureType.INTEGER, "step": 100.0, "min": 0}, 2_310.0, True, 2_400.0),
        ({"type": FeatureType.INTEGER, "step": 6.0, "min": 6}, 126.0, True, 126.0),
        ({"type": FeatureType.ORDINAL, "categories": ("none", "some")}, 1.0, True, 1.0),
    ],
)
def test_what_people_are_told_is_a_round_number(more: dict[str, Any], value: float, up: bool, told: float) -> None:
    assert told_value(Feature(name="x", **more), value, up) == told


def test_no_factor_is_told_that_nobody_can_follow() -> None:
    income = Feature(name="income", type=FeatureType.CONTINUOUS)
    moves = moves_of(0, income, np.array([[1_000.0, 2_650.0], [1_000.0, 1_210.0], [1_000.0, 1_210.0]]))
    assert {move.value for move in moves if move.kind == "times"} == {1.25}
    assert {move.value for move in moves if move.kind == "to"} == {1_300.0, 2_700.0}


@pytest.fixture(scope="module")
def figures(loans: Path) -> Figures:
    return reported(loans, loan_records(160, seed=5), ways={"count": 3, "changes": 2})


SAVINGS = ("none", "some", "much")


def followed(record: dict[str, Any], rule: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The record that a rule makes of an applicant, who may change savings, guarantor and housing; None for none."""
    made = dict(record)
    for one in rule:
        name, kind, value = one["feature"], one["kind"], one["value"]
        if name not in ("savings", "guarantor", "housing"):
            return None
        if name == "savings":
            level = SAVINGS.index(record["savings"])
            to = {
                "at_least": lambda now, to: max(now, SAVINGS.index(to)),
                "at_most": lambda now, to: min(now, SAVINGS.index(to)),
                "by": lambda now, to: now + int(to),
            }[kind](level, value)
            if not 0 <= to < len(SAVINGS):
                return None
            made[name] = SAVINGS[to]
        else:
            # Of two values, at least the larger and at most the smaller are these.
            assert kind == "level" or value is (kind == "at_least")
            made[name] = value
    return None if made == record else made


def test_ways_reach_whom_they_reach_by_hand(loans: Path, figures: Figures) -> None:
    lines, result = figures
    ways, refused = result["common_ways"], []
    for line, record in zip(lines, loan_records(160, seed=5), strict=True):
        if line["decision"] == "refused":
            refused.append((line, record))
        else:
            assert line["ways"] is None
    assert 1 <= len(ways) <= 3
    reached = np.zeros((len(refused), len(ways)), dtype=bool)
    for i, (line, record) in enumerate(refused):
        for k, way in enumerate(ways):
            made = followed(record, way["rule"])
            reached[i, k] = made is not None and accepted(loans, [made])[0]
        assert [one is not None for one in line["ways"]] == reached[i].tolist()
        assert not reached[i].any() or line["answer"]["status"] == "found"
    for k, way in enumerate(ways):
        assert way["people"] == len(refused)
        assert way["alone"] == pytest.approx(reached[:, k].mean(), rel=1e-5)
        assert way["reach"] == pytest.approx(reached[:, : k + 1].any(axis=1).mean(), rel=1e-5)
        assert len(way["rule"]) <= 2
    assert sum(way["added"] for way in ways) == pytest.approx(ways[-1]["reach"], rel=1e-5)
    assert ways[-1]["optimal"]
    assert 0.0 < ways[0]["reach"] < 1.0


def test_who_chose_is_not_measured(loans: Path) -> None:
    lines, result = reported(loans, loan_records(200))
    refused = [line for line in lines if line["decision"] == "refused"]
    measured = [line for line in refused if line["ways"] is not None]
    assert len(measured) == len(refused) - len(refused) // 2
    assert {way["people"] for way in result["common_ways"]} == {len(measured)}


def test_people_with_equal_records_each_count(loans: Path) -> None:
    """The share that any ways can reach is of people, so it is a share also where some of them are alike."""
    given = Given()
    given.add([{"cost": 1.0, "burden": 1.0, "future_validity": None}])
    rules = Rules([(Move(1, "to", 1.0, up=True),)])
    chosen = Chosen(
        rules=rules, reached=(3,), at_most=(3,), choosers=frozenset({b"a", b"b"}), people=3, least=0.0, calls=0, rows=0
    )
    features = Registry(loans).find("loan@1").space.schema
    (way,) = common_ways(chosen, features, given)
    assert (way.at_most, way.optimal) == (1.0, True)


def test_too_few_refused_choose_nothing(loans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.portfolio.chosen_ways.LEAST", 1_000)
    _, result = reported(loans, loan_records(12, seed=3), ways={"count": 1})
    assert result["common_ways"] is None


def test_of_ways_that_reach_somebody_the_one_counts_that_costs_least_for_each_model_that_accepts(loans: Path) -> None:
    """A cheap way that few retrainings accept is no better than a dearer one that all of them do."""
    given = Given()
    given.add(
        [{"cost": 1.0, "burden": 4.0, "future_validity": 0.2}, {"cost": 2.0, "burden": 2.0, "future_validity": 0.9}]
    )
    given.add([{"cost": 3.0, "burden": 3.0, "future_validity": 1.0}, None])
    given.add([None, None])
    rules = Rules([(Move(1, "to", 1.0, up=True),), (Move(1, "to", 2.0, up=True),)])
    chosen = Chosen(
        rules=rules, reached=(2, 2), at_most=(2, 2), choosers=frozenset(), people=3, least=0.0, calls=0, rows=0
    )
    one, both = common_ways(chosen, Registry(loans).find("loan@1").space.schema, given)
    assert (one.reach, one.cost, one.future_validity) == pytest.approx((2 / 3, 2.0, 0.6))
    assert (both.reach, both.cost, both.future_validity) == pytest.approx((2 / 3, 2.5, 0.95))


def test_ways_withstand_the_share_of_future_models_that_is_asked_of_them() -> None:
    """Whatever share the answers of the people must withstand."""
    store = Store(root=str(DEMO_STORE))
    model = store.open().find("consumer-loan")
    payload = {
        **job_payload(ModelRef.of(store, model), ReportRequest().question(), {}), "deadline_s": 60.0, "plan_s": 1.0,
        "ways": {"count": 2, "changes": 2, "future_validity": 0.95},
    }  # fmt: skip
    loaded, futures = model.load(), load_futures(model)
    assert futures is not None
    chosen = chosen_ways(ModelRef.of(store, model), payload)
    assert chosen is not None
    refused = loaded.reference.rows_raw[loaded.reference.scores < 0.0][:60]
    sets = [action_set(loaded.black_box.space, row_raw) for row_raw in refused]
    strict, plain = (
        [chosen.rules.reached(one, Meter(loaded.black_box), futures.search, least)[1] for one in sets]
        for least in (chosen.least, 0.0)
    )
    assert len(np.concatenate(strict)) > 30
    assert futures.search.shares(np.concatenate(strict)).min() >= 0.95
    assert futures.search.shares(np.concatenate(plain)).min() < 0.95
