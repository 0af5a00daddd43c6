"""The covering knapsack against HiGHS and against trying everything."""

import math
import time
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from app.recourse.search.knapsack import GAP, QUICK, THOROUGH, Item, Knapsack
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, examples

pytestmark = CHECKED_AT_RANDOM

NEAR = 1.01 * GAP


def cover(items: list[Item], need: float, uses: int, branches: int = THOROUGH) -> tuple[list[float] | None, bool]:
    return Knapsack(items, uses).cover(need, branches)


def most_gain(items: list[Item], uses: int) -> float:
    """The gain of moving as far as they go those `uses` items that gain most."""
    return sum(sorted((item.gain * item.limit for item in items), reverse=True)[:uses])


def total(items: list[Item], moves: list[float], what: str) -> float:
    return sum(getattr(item, what) * amount for item, amount in zip(items, moves, strict=True))


def legal(item: Item, amount: float) -> bool:
    if amount == 0.0:
        return True
    if item.step == 0.0:
        return item.first * (1 - 1e-9) <= amount <= item.limit * (1 + 1e-9)
    ticks = (amount - item.first) / item.step
    return item.first * (1 - 1e-9) <= amount <= item.limit * (1 + 1e-9) and abs(ticks - round(ticks)) < 1e-6


def check(items: list[Item], moves: list[float], need: float, uses: int) -> float:
    """The cost of moves that are legal and reach the need."""
    assert all(legal(item, amount) for item, amount in zip(items, moves, strict=True))
    assert sum(amount > 0.0 for amount in moves) <= uses
    assert total(items, moves, "gain") >= need * (1 - 2e-9)
    return total(items, moves, "cost")


# --- independent solutions -------------------------------------------------------------------------------------------


def by_trying_everything(items: list[Item], need: float, uses: int) -> float:
    """Least cost over all moves of lattice items; infinite where nothing reaches the need."""
    choices = [[0.0, *np.arange(item.first, item.limit + 1e-9, item.step).tolist()] for item in items]
    return min(
        (
            total(items, list(moves), "cost")
            for moves in product(*choices)
            if sum(amount > 0.0 for amount in moves) <= uses and total(items, list(moves), "gain") >= need * (1 - 1e-9)
        ),
        default=math.inf,
    )


def by_highs(items: list[Item], need: float, uses: int) -> float:
    """Least cost by a mixed-integer program: is an item moved, and how many steps beyond the first."""
    n = len(items)
    far = [item.limit if item.limit < math.inf else 1e3 for item in items]
    made = np.array([item.first for item in items])
    per = np.array([item.step or 1.0 for item in items])
    beyond = np.array([(limit - item.first) / (item.step or 1.0) for item, limit in zip(items, far, strict=True)])
    gains, costs = np.array([item.gain for item in items]), np.array([item.cost for item in items])
    whole = np.array([item.step > 0.0 for item in items])
    beyond = np.where(whole, np.floor(beyond + 1e-6), beyond)
    answer = milp(
        np.concatenate([costs * made, costs * per]),
        constraints=[
            LinearConstraint(np.concatenate([gains * made, gains * per]), need, np.inf),
            LinearConstraint(np.hstack([-np.diag(beyond), np.eye(n)]), -np.inf, 0.0),
            LinearConstraint(np.concatenate([np.ones(n), np.zeros(n)]), -np.inf, uses),
        ],
        bounds=Bounds(np.zeros(2 * n), np.concatenate([np.ones(n), beyond])),
        integrality=np.concatenate([np.ones(n), whole]),
        options={"mip_rel_gap": 0.0},
    )
    assert answer.status in (0, 2), answer.message
    return float(answer.fun) if answer.status == 0 else math.inf


# --- random problems -------------------------------------------------------------------------------------------------


@st.composite
def lattice_items(draw: st.DrawFn) -> Item:
    first = draw(st.sampled_from([0.25, 0.5, 1.0, 1.0, 2.0]))
    step = draw(st.sampled_from([0.5, 1.0, 1.0, 2.0]))
    return Item(
        gain=draw(st.integers(1, 12)) / 4, cost=draw(st.integers(1, 12)) / 4, first=first, step=step,
        limit=first + step * draw(st.integers(0, 4)),
    )  # fmt: skip


@settings(PROPERTY, max_examples=examples(300))
@given(
    items=st.lists(lattice_items(), min_size=1, max_size=5),
    need=st.integers(-4, 80).map(lambda k: k / 4),
    uses=st.integers(0, 5),
)
def test_small_lattices_are_searched_as_well_as_by_trying_everything(items: list[Item], need: float, uses: int) -> None:
    best = by_trying_everything(items, need, uses)
    moves, proven = cover(items, need, uses)
    assert proven
    assert (moves is None) == math.isinf(best)
    if moves is not None:
        assert check(items, moves, need, uses) <= best * (1 + NEAR)


def random_items(rng: np.random.Generator, n: int) -> list[Item]:
    """Continuous items, some that leap, lattices with an odd first step, single moves, some without limit."""
    items = []
    for _ in range(n):
        gain, cost = rng.lognormal(size=2).tolist()
        kind = rng.choice(["continuous", "leaping", "lattice", "single", "endless"])
        if kind in ("continuous", "leaping"):
            first = float(rng.uniform(0.1, 2)) if kind == "leaping" else 0.0
            items.append(Item(gain, cost, first, 0.0, first + float(rng.uniform(0.1, 5))))
        elif kind == "single":
            items.append(Item(gain, cost, 1.0, 1.0, 1.0))
        else:
            step = float(rng.choice([0.1, 1.0, 3.0]))
            first = float(rng.uniform(0.05, 1)) * step if rng.random() < 0.5 else step
            limit = first + step * int(rng.integers(0, 30)) if kind == "lattice" else math.inf
            items.append(Item(gain, cost, first, step, limit))
    return items


def random_need(rng: np.random.Generator, items: list[Item], uses: int) -> float:
    reach = most_gain(items, uses)
    return float(rng.uniform(0.02, 1.1)) * (reach if math.isfinite(reach) else 30.0)


@pytest.mark.parametrize("seed", range(150))
def test_moves_cost_what_the_mixed_integer_program_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = random_items(rng, int(rng.integers(1, 13)))
    uses = int(rng.integers(0, len(items) + 1))
    need = random_need(rng, items, uses)
    best = by_highs(items, need, uses)
    moves, proven = cover(items, need, uses)
    assert proven
    assert (moves is None) == math.isinf(best)
    if moves is not None:
        assert check(items, moves, need, uses) == pytest.approx(best, rel=NEAR)


@pytest.mark.parametrize("seed", range(60))
def test_a_quick_search_of_many_items_is_as_good_unless_it_says_that_it_may_not_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = random_items(rng, 25)
    uses = int(rng.integers(3, 8))
    need = random_need(rng, items, uses)
    moves, proven = cover(items, need, uses, QUICK)
    best = by_highs(items, need, uses)
    if moves is not None:
        cost = check(items, moves, need, uses)
        assert cost >= best * (1 - 1e-6)
        assert cost <= best * (1 + NEAR) or not proven
    elif proven:
        assert math.isinf(best)


def credit_items(rng: np.random.Generator) -> list[Item]:
    """What a scoring model offers: fine lattices that reach far, coarse ones, categories, all about equally good."""
    items = []
    for _ in range(int(rng.integers(5, 16))):
        per_cost = float(rng.uniform(0.2, 0.45))
        if rng.random() < 0.4:
            cost = float(rng.choice([1.0, 1.0, rng.uniform(0.5, 6.0)]))
            items.append(Item(per_cost * cost, cost, 1.0, 1.0, 1.0))
        else:
            step, cost = float(rng.choice([0.1, 1.0, 100.0])), float(10.0 ** rng.uniform(-3.0, 0.2))
            limit = step * int(rng.integers(1, max(3, round(3.0 / cost))))
            items.append(Item(per_cost * cost / step, cost / step, step, step, limit))
    return items


@pytest.mark.parametrize("seed", range(60))
def test_items_of_all_sizes_and_about_the_same_value_are_settled(seed: int) -> None:
    rng = np.random.default_rng(seed)
    items = credit_items(rng)
    uses = int(rng.integers(1, len(items) + 1)) if rng.random() < 0.5 else len(items)
    need = float(rng.uniform(0.05, 0.95)) * most_gain(items, uses)
    moves, proven = cover(items, need, uses)
    assert proven
    assert moves is not None
    assert check(items, moves, need, uses) == pytest.approx(by_highs(items, need, uses), rel=NEAR)


def test_hundreds_of_items_are_no_matter() -> None:
    rng = np.random.default_rng(1)
    items = [Item(per_cost, 1.0, 0.01, 0.01, 5.0) for per_cost in sorted(rng.uniform(0.2, 0.45, 600).tolist())]
    moves, _ = cover(items, 0.5 * most_gain(items, 600), 600, QUICK)
    assert moves is not None
    # No cheaper than as if they were continuous, and dearer by less than a step.
    continuous = [Item(item.gain, 1.0, 0.0, 0.0, 5.0) for item in items]
    filled, _ = cover(continuous, 0.5 * most_gain(items, 600), 600)
    assert filled is not None
    assert sum(filled) * (1 - 1e-9) <= check(items, moves, 0.5 * most_gain(items, 600), 600) <= sum(filled) + 0.01


def test_a_search_stops_at_its_deadline_and_says_so() -> None:
    rng = np.random.default_rng(1)
    items = [Item(per_cost, 1.0, 1.0, 1.0, 5.0) for per_cost in rng.uniform(0.2, 0.45, 100).tolist()]
    need = 0.5 * most_gain(items, 100)
    knapsack = Knapsack(items, 100)
    assert knapsack.cover(need, 10**9, deadline=time.monotonic() + 0.1)[1] is False
    assert knapsack.cover(need, 10**9, deadline=time.monotonic() - 1.0)[1] is False


def test_a_search_stops_at_its_effort_and_says_so() -> None:
    gains = np.random.default_rng(0).uniform(1, 2, 40).tolist()
    items = [Item(gain, gain + 1e-3 * k, 1.0, 1.0, 3.0) for k, gain in enumerate(gains)]
    moves, proven = cover(items, 60.3, 30, 50)
    assert not proven
    assert moves is None or check(items, moves, 60.3, 30) > 0


def test_the_price_of_a_use_settles_a_cap_in_few_branches() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        items = [Item(gain, cost, 1.0, 1.0, 1.0) for gain, cost in rng.lognormal(size=(40, 2)).tolist()]
        need = float(rng.uniform(0.3, 0.9)) * most_gain(items, 6)
        moves, proven = cover(items, need, 6, 150)
        assert proven
        assert moves is not None
        assert check(items, moves, need, 6) == pytest.approx(by_highs(items, need, 6), rel=NEAR)


# --- cases with a known answer ---------------------------------------------------------------------------------------


def test_continuous_items_are_filled_in_order_of_cost_per_gain() -> None:
    items = [Item(2.0, 1.0, 0.0, 0.0, 3.0), Item(1.0, 1.0, 0.0, 0.0, 10.0), Item(1.0, 2.0, 0.0, 0.0, 10.0)]
    assert cover(items, 10.0, 3)[0] == pytest.approx([3.0, 4.0, 0.0])


def test_a_cap_prefers_one_large_move_to_two_cheap_ones() -> None:
    items = [Item(1.0, 1.0, 0.0, 0.0, 2.0), Item(1.0, 1.1, 0.0, 0.0, 2.0), Item(1.0, 5.0, 0.0, 0.0, 4.0)]
    assert cover(items, 4.0, 2)[0] == pytest.approx([2.0, 2.0, 0.0])
    assert cover(items, 4.0, 1)[0] == pytest.approx([0.0, 0.0, 4.0])
    assert cover(items, 4.0, 0) == (None, True)


def test_a_least_move_is_made_in_full_or_by_another_item() -> None:
    cheap, dear = Item(1.0, 1.0, 2.0, 0.0, 5.0), Item(1.0, 1.5, 0.0, 0.0, 5.0)
    assert cover([cheap, dear], 1.0, 2)[0] == pytest.approx([0.0, 1.0])
    assert cover([cheap, dear], 1.5, 2)[0] == pytest.approx([2.0, 0.0])
    assert cover([cheap, dear], 6.0, 2)[0] == pytest.approx([5.0, 1.0])
    assert cover([cheap], 1.0, 1)[0] == pytest.approx([2.0])


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 500])
def test_hundreds_of_items_that_leap_are_no_matter(count: int) -> None:
    rng = np.random.default_rng(count)
    items = [Item(g, c, 0.5, 0.0, 3.0) for g, c in rng.lognormal(size=(count, 2)).tolist()]
    for need in (0.1, 3.0, 20.0):
        moves, proven = cover(items, need, count)
        assert proven
        assert moves is not None
        assert check(items, moves, need, count) == pytest.approx(by_highs(items, need, count), rel=NEAR)


def test_an_odd_first_step_counts_as_one_move() -> None:
    item = Item(1.0, 1.0, 0.25, 1.0, 3.25)
    assert [cover([item], need, 1)[0] for need in (0.2, 0.25, 0.3, 3.25, 3.3)] == [[0.25], [0.25], [1.25], [3.25], None]


def test_needs_that_are_met_already_cost_nothing() -> None:
    item = Item(1.0, 1.0, 1.0, 1.0, 3.0)
    assert cover([item], 0.0, 0) == ([0.0], True)
    assert cover([item], -5.0, 1) == ([0.0], True)
    assert cover([], -1.0, 0) == ([], True)
    assert cover([], 1.0, 0) == (None, True)


def test_rounding_in_the_need_does_not_cost_a_step() -> None:
    item = Item(0.1, 1.0, 1.0, 1.0, 10.0)
    assert cover([item], 0.1 + 0.2, 1)[0] == [3.0]


def test_continuous_items_reach_the_need_itself() -> None:
    items = [Item(1.0, 1.0, 1.0, 1.0, 2.0), Item(1.0, 2.0, 0.0, 0.0, 5.0)]
    moves, _ = cover(items, 1e6 / 3e5, 2)
    assert moves is not None
    assert total(items, moves, "gain") == pytest.approx(1e6 / 3e5, rel=1e-15)


def test_items_without_limit_reach_any_need() -> None:
    items = [Item(0.5, 1.0, 1.0, 1.0, math.inf), Item(1.0, 2.5, 0.0, 0.0, math.inf)]
    assert cover(items, 1e6, 2)[0] == [2e6, 0.0]
