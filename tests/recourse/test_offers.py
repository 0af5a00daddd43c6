"""Counter-offers against brute force: every combination of terms, asked one after another."""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import app.recourse.offers as module
from app.models import tasks
from app.questions.offers import OffersQuestion
from app.questions.use_cases import problem
from app.recourse.actions.constraints import Bounds, Constraints, Direction
from app.recourse.actions.rules import LinearRule
from app.recourse.features import Advice, Better, Change, Feature, FeatureSpace, FeatureType, MaxChange
from app.recourse.offers import NoOffer, best_offer, offers
from app.recourse.result import Status
from app.registry.ref import ModelRef, Store
from app.settings import Settings
from examples.consumer_loan.applicants import applicants
from tests.recourse.toys import ask

NUMBER: dict[str, Any] = {"type": FeatureType.INTEGER, "center": 0.0, "scale": 1.0}
INCOME = Feature(name="income", min=0, max=20, **NUMBER)
AMOUNT = Feature(name="amount", min=1, max=19, step=2, terms=True, better=Better.MORE, change=Change.NONE, **NUMBER)
RATE = Feature(name="rate", min=0, max=6, terms=True, better=Better.LESS, **NUMBER)
TERM = Feature(name="term", min=0, max=4, terms=True, max_change=MaxChange(absolute=1), **NUMBER)
PRODUCT = Feature(name="product", type=FeatureType.CATEGORICAL, categories=("a", "b", "c"), terms=True)
SPACE = FeatureSpace([INCOME, AMOUNT, RATE, TERM, PRODUCT])
OTHER = [0.0, 1.0, 0.0, 0.0, 0.0]
VALUES = (range(1, 20, 2), range(7), range(5), range(3))
"""What the lender can offer of each term."""


def by_hand(fact: list[float], yes: Any, legal: Any = lambda row: True) -> set[tuple[float, ...]]:
    """The terms that no other accepted terms are better than: more of the first, less of the second, others alike."""
    accepted = []
    for amount, *others in itertools.product({*VALUES[0], fact[1]}, *VALUES[1:]):
        row = [fact[0], amount, *others]
        if amount <= fact[1] and row != fact and legal(row) and yes(row):
            accepted.append(tuple(map(float, row)))

    def beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return one != other and one[1] >= other[1] and one[2] <= other[2] and one[3:] == other[3:]

    return {one for one in accepted if not any(beats(other, one) for other in accepted)}


def odd_model(seed: int) -> Any:
    """A model that is monotone in nothing: the score of each record is drawn, and fewer amounts are accepted."""
    weights = np.random.default_rng(seed).normal(size=5) * np.array([0.3, 0.3, 0.5, 0.7, 1.0])

    def predict(rows_raw: Any) -> Any:
        waves = np.sin(np.asarray(rows_raw) @ weights * 2.0) + 0.3 * np.cos(np.asarray(rows_raw) @ weights[::-1] * 5.0)
        return waves - 0.6 - 0.02 * np.asarray(rows_raw)[:, 1]

    return predict


def people() -> Iterator[tuple[int, list[float]]]:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        yield seed, [float(rng.integers(low, high)) for low, high in ((0, 21), (1, 20), (0, 7), (0, 5), (0, 3))]


def test_offers_are_those_of_all_combinations() -> None:
    statuses = []
    for seed, fact in people():
        predict = odd_model(seed)
        asked, spy = ask(SPACE, predict, fact, rows_raw=np.array([fact, OTHER]), raw=True)
        found = offers(asked, {}, most=1_000)
        statuses.append(found.status)
        if predict([fact])[0] >= 0.0:
            assert (found.status, found.offers) == (Status.ALREADY_FAVOURABLE, ())
            continue
        best = by_hand(fact, lambda row, predict=predict: predict([row])[0] >= 0.0)
        assert {tuple(one.row_raw.tolist()) for one in found.offers} == best
        assert found.status is (Status.FOUND if best else Status.NOT_FOUND)
        assert found.verdict is (None if best else NoOffer.ALL_REFUSED)
        assert found.every
        assert all(predict(one.row_raw[None])[0] == pytest.approx(one.score, abs=1e-9) for one in found.offers)
        amounts = [one.row_raw[1] for one in found.offers]
        assert amounts == sorted(amounts, reverse=True)
        assert len(spy.asked) == found.diagnostics.model_calls == 1
        assert sum(map(len, spy.asked)) == found.diagnostics.model_rows == found.asked + 1
    assert statuses.count(Status.FOUND) > 10


def test_the_request_decides_what_is_better_where_it_says_so() -> None:
    for seed, fact in people():
        asked, _ = ask(SPACE, odd_model(seed), fact, rows_raw=np.array([fact, OTHER]), raw=True)
        found = offers(asked, {"amount": Better.LESS, "rate": Better.MORE, "term": Better.MORE}, most=1_000)
        assert list(found.signs.items()) == [(2, 1), (3, 1), (1, -1)]
        for one in found.offers:
            assert one.row_raw[2] <= fact[2]
            assert one.row_raw[3] <= fact[3]
            for other in found.offers:
                at_least = other.row_raw[2] >= one.row_raw[2] and other.row_raw[3] >= one.row_raw[3]
                assert other is one or not (
                    at_least and other.row_raw[1] <= one.row_raw[1] and other.row_raw[4] == one.row_raw[4]
                )


@pytest.mark.parametrize(
    ("limits", "legal"),
    [
        ({"immutable": ("term", "product")}, lambda row, fact: row[3:] == fact[3:]),
        ({"bounds": {"amount": Bounds(min=5.0)}}, lambda row, fact: row[1] >= 5.0 or row[1] == fact[1]),
        ({"direction": {"term": Direction.DECREASE}}, lambda row, fact: row[3] <= fact[3]),
        ({"max_change": {"rate": MaxChange(absolute=2)}}, lambda row, fact: abs(row[2] - fact[2]) <= 2.0),
        ({"max_changes": 2}, lambda row, fact: sum(a != b for a, b in zip(row, fact, strict=True)) <= 2),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
def test_offers_keep_the_limits_of_the_request_and_the_rules_of_the_lender(limits: Any, legal: Any) -> None:
    rule = LinearRule("amount + rate <= 18", (0.0, 1.0, 1.0, 0.0, 0.0), 18.0)
    for seed, fact in people():
        predict = odd_model(seed)
        asked, _ = ask(SPACE, predict, fact, rows_raw=np.array([fact, OTHER]), raw=True, rules=[rule],
                       constraints=limits)  # fmt: skip
        if predict([fact])[0] < 0.0:
            best = by_hand(
                fact,
                lambda row, predict=predict: predict([row])[0] >= 0.0,
                lambda row, fact=fact: row[1] + row[2] <= 18.0 and legal(row, fact),
            )
            assert {tuple(one.row_raw.tolist()) for one in offers(asked, {}, most=1_000).offers} == best


def wide(**amount: Any) -> FeatureSpace:
    return FeatureSpace(
        [
            Feature(name="amount", terms=True, better=Better.MORE, center=0.0, scale=1.0, **amount),
            Feature(name="months", type=FeatureType.INTEGER, min=1, max=60, terms=True, center=0.0, scale=1.0),
        ]
    )


@pytest.mark.parametrize("limit", [123_456.78, 999_999.0, 7.0])
@pytest.mark.parametrize(("decimals", "step"), [(0, 1.0), (2, 1.0)])
def test_a_wide_range_is_exact_to_its_step_for_a_model_that_falls(limit: float, decimals: int, step: float) -> None:
    """Of far more combinations than are asked about: the largest amount is the limit, rounded down to the step."""
    space = wide(type=FeatureType.CONTINUOUS, min=0, max=999_999, decimals=decimals)

    def predict(rows_raw: Any) -> Any:
        return limit * rows_raw[:, 1] / 60.0 - rows_raw[:, 0] - 0.25

    asked, spy = ask(space, predict, [999_999.0, 12.0], raw=True, rows_raw=np.array([[0.0, 1.0], [9.0, 1.0]]))
    found = offers(asked, {}, most=60)
    assert not found.every
    assert found.asked < 40_000
    assert len(spy.asked) < 8
    assert len(found.offers) > 20
    for one in found.offers:
        largest = np.floor((limit * one.row_raw[1] / 60.0 - 0.25) / step) * step
        assert one.row_raw[0] == largest


def test_terms_without_ends_are_offered_as_far_as_the_reference_shows_them() -> None:
    space = wide(type=FeatureType.CONTINUOUS)
    rows_raw = np.column_stack([np.linspace(40.0, 900.0, 50), np.ones(50)])
    asked, _ = ask(space, lambda X: np.where(X[:, 0] > 300.0, -1.0, 1.0), [500.0, 6.0], rows_raw=rows_raw)
    found = offers(asked, {})
    assert not found.every
    assert found.offers[0].row_raw[0] == pytest.approx(300.0, abs=1.0)
    asked, _ = ask(space, lambda X: np.where(X[:, 0] >= 39.0, -1.0, 1.0), [500.0, 6.0], rows_raw=rows_raw)
    found = offers(asked, {})
    assert (found.verdict, found.offers, found.every) == (NoOffer.REFUSED, (), False)


def test_what_the_lender_does_not_advise_is_not_offered() -> None:
    space = wide(type=FeatureType.INTEGER, min=0, max=100, step=10, advice=Advice(min=40))
    asked, _ = ask(space, lambda X: 35.0 - X[:, 0], [90.0, 6.0], rows_raw=np.ones((9, 2)))
    assert offers(asked, {}).verdict is NoOffer.ALL_REFUSED
    asked, _ = ask(space, lambda X: 45.0 - X[:, 0], [90.0, 6.0], rows_raw=np.ones((9, 2)))
    assert {one.row_raw[0] for one in offers(asked, {}).offers} == {40.0}


def test_without_an_offer_there_is_a_reason() -> None:
    fixed = {"constraints": {"immutable": ("amount", "months")}, "rows_raw": np.ones((9, 2))}
    space = wide(type=FeatureType.INTEGER, min=0, max=100, step=10)
    asked, _ = ask(space, lambda X: -1.0 - X[:, 0], [90.0, 6.0], **fixed)
    assert offers(asked, {}).verdict is NoOffer.NONE_LEGAL
    asked, _ = ask(space, lambda X: X[:, 0], [90.0, 6.0], rows_raw=np.ones((9, 2)), deadline=0.0)
    found = offers(asked, {})
    assert (found.verdict, found.factual_score, found.status) == (NoOffer.DEADLINE, None, Status.NOT_FOUND)
    asked, _ = ask(space, lambda X: np.where(X[:, 0] == 90.0, np.nan, 1.0), [90.0, 6.0], rows_raw=np.ones((9, 2)))
    assert offers(asked, {}).verdict is NoOffer.MODEL_OUTPUT_INVALID
    assert all(module.NO_OFFER[reason] for reason in NoOffer)


def test_the_offer_beside_an_answer_keeps_the_terms_that_were_asked_for() -> None:
    """Of 15 over the term asked for and 17 over another one the first, though the list begins with the second."""
    space = FeatureSpace([AMOUNT, replace(TERM, max_change=None)])
    asked, _ = ask(
        space, lambda X: 16.0 - X[:, 0] + 2.0 * (X[:, 1] == 0.0), [19.0, 4.0], rows_raw=np.ones((9, 2)) * [1.0, 4.0]
    )
    offer, _ = best_offer(asked)
    assert offer is not None
    assert offer.row_raw.tolist() == [15.0, 4.0]
    assert offers(asked, {}).offers[0].row_raw.tolist() == [17.0, 0.0]
    asked, spy = ask(
        space, lambda X: 17.0 - X[:, 0] - 99.0 * (X[:, 1] == 4.0), [19.0, 4.0], rows_raw=np.ones((9, 2)) * [1.0, 4.0]
    )
    offer, spent = best_offer(asked)
    assert offer is not None
    assert spent is not None
    assert offer.row_raw.tolist() == [17.0, 3.0]
    assert (spent.model_calls, spent.model_rows) == (2, sum(map(len, spy.asked)))


@pytest.mark.parametrize("seed", range(10))
def test_the_best_of_many_offers_is_that_of_all_combinations_but_few_are_asked_about(seed: int) -> None:
    amount = replace(AMOUNT, min=0, max=4000, step=1)
    space = FeatureSpace([amount, replace(TERM, min=4, max=72, max_change=None)])
    most = np.random.default_rng(seed).permutation(3000)[:73] * (np.arange(73) != 40)
    asked, spy = ask(
        space, lambda X: most[X[:, 1].astype(int)] - X[:, 0] - 0.5 * (X[:, 1] == 40.0), [4000.0, 40.0],
        rows_raw=np.array([[4000.0, 40.0], [0.0, 4.0]]),
    )  # fmt: skip
    offer, _ = best_offer(asked)
    assert offer is not None
    assert offer.row_raw.tolist() == [most[4:].max(), 4 + most[4:].argmax()]
    assert sum(map(len, spy.asked)) < 3_000


def test_nothing_is_offered_beside_an_answer_where_no_direction_is_known() -> None:
    space = FeatureSpace([INCOME, TERM])
    asked, spy = ask(space, lambda X: -1.0 + X[:, 1], [5.0, 0.0], rows_raw=np.ones((9, 2)))
    assert best_offer(asked) == (None, None)
    assert not spy.asked


def test_a_question_is_the_same_after_it_was_kept_for_a_job() -> None:
    limits = Constraints(bounds={"amount": Bounds(min=3.0)})
    asked = OffersQuestion(better={"term": Better.LESS}, constraints=limits, future_validity=0.8)
    again = OffersQuestion.from_json(json.loads(json.dumps(asked.to_json())))
    assert (again.better, again.constraints, again.future_validity) == (asked.better, limits, 0.8)


@pytest.mark.parametrize("count", [25, pytest.param(200, marks=pytest.mark.release)])
def test_the_largest_amounts_of_the_demo_are_exact_to_their_step(count: int) -> None:
    store = Store.of(Settings())
    ref = ModelRef.of(store, store.open().find("consumer-loan@1"))
    black_box = tasks.load(ref).black_box
    rows_raw, _ = applicants(1_000, 2027)
    refused = rows_raw[black_box.score_raw(rows_raw) < 0.0][:count]
    assert len(refused) == count
    amount, term = (black_box.space.names.index(name) for name in ("amount", "term"))
    yes = 0
    for fact in refused:
        found = offers(problem(ref, OffersQuestion(factual_raw=fact), 60.0), {})
        largest = {}
        for months in range(6, 85, 6):
            amounts = np.unique([*range(500, int(fact[amount]) + 1, 100), fact[amount]])
            every = np.tile(fact, (len(amounts), 1))
            every[:, amount], every[:, term] = amounts, months
            accepted = amounts[black_box.score_raw(every) >= 0.0]
            if len(accepted):
                largest[months] = accepted.max()
        assert {int(one.row_raw[term]): one.row_raw[amount] for one in found.offers} == largest
        assert not largest or found.offers[0].row_raw[amount] == max(largest.values())
        yes += bool(largest)
    assert 0.35 < yes / count < 0.75
