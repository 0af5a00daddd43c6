"""Knapsacks whose items rules, caps and budgets tie, against lists of all moves and a general solver."""

import itertools
import math
import time

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from app.recourse.search.knapsack_amounts import GAP
from app.recourse.search.tied_items import NotCovered, TiedItem
from app.recourse.search.tied_knapsack import TiedKnapsack

PROBLEMS = 100
"""For each seed."""


def lattice_item(rng: np.random.Generator, rules: int, budgets: int) -> TiedItem:
    """A few moves in one direction or both, with a first move of its own, or moves with holes between them."""
    step = float(rng.choice([1.0, 2.0, 0.5]))
    below, above = (step * rng.uniform(0.2, 1.0) for _ in range(2))
    down, up = (int(rng.integers(0, 4)) for _ in range(2))
    low = -(below + (down - 1) * step) if down else 0.0
    high = above + (up - 1) * step if up else 0.0
    points: tuple[float, ...] = ()
    if rng.random() < 0.2:
        points = tuple(sorted({0.0, *(float(one) for one in rng.choice([-2.0, -1.0, 1.0, 3.0], 2))}))
        low, high, below, above, step = min(points), max(points), 1.0, 1.0, 1.0
    uses = tuple(float(one) for one in rng.choice([-1.0, 0.0, 0.0, 1.0, 2.5], rules))
    return TiedItem(
        gain=float(rng.choice([0.0 if any(uses) else 0.5, *rng.uniform(0.1, 2.0, 4)])),
        cost=float(rng.uniform(0.1, 2.0)), low=low, high=high,
        below=below if low else 0.0, above=above if high else 0.0, step=step,
        uses=uses, once=tuple(float(one) for one in rng.choice([0.0, 1.0], budgets)),
        per=tuple(float(one) for one in rng.choice([0.0, 0.3], budgets)), points=points,
    )  # fmt: skip


def moves_of(item: TiedItem) -> list[float]:
    if item.points:
        return list(item.points)
    up = itertools.takewhile(lambda x: x <= item.high + 1e-9, (item.above + k * item.step for k in itertools.count()))
    down = itertools.takewhile(lambda x: x >= item.low - 1e-9, (-item.below - k * item.step for k in itertools.count()))
    return [0.0, *(up if item.high else []), *(down if item.low else [])]


@pytest.mark.parametrize("seed", range(10))
def test_on_lattices_the_moves_are_the_cheapest_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reached = 0
    for _ in range(PROBLEMS):
        rules, budgets = int(rng.integers(0, 3)), int(rng.integers(0, 2))
        items = [lattice_item(rng, rules, budgets) for _ in range(int(rng.integers(1, 5)))]
        slack, left = rng.uniform(-1.0, 3.0, rules).tolist(), rng.uniform(1.0, 3.0, budgets).tolist()
        need = float(rng.uniform(-1.0, 4.0))
        X = np.array(list(itertools.product(*map(moves_of, items))))
        legal = X @ [item.gain for item in items] >= need
        for r in range(rules):
            legal &= X @ [item.uses[r] for item in items] <= slack[r]
        for b in range(budgets):
            used = (X != 0.0) @ [item.once[b] for item in items] + np.abs(X) @ [item.per[b] for item in items]
            legal &= used <= left[b] + 1e-12
        costs = np.abs(X) @ [item.cost for item in items]
        moves, proven = TiedKnapsack(items, slack, left).cover(need)
        assert proven
        assert (moves is None) == (not legal.any())
        if moves is not None:
            reached += 1
            at = np.abs(X - moves).sum(axis=1).argmin()
            np.testing.assert_allclose(X[at], moves, atol=1e-9)
            assert legal[at]
            assert costs[at] == pytest.approx(costs[legal].min(), rel=1.01 * GAP, abs=1e-9)
    assert reached > PROBLEMS // 4


@pytest.mark.parametrize("seed", range(10))
def test_items_that_leap_or_move_by_any_amount_cost_no_more_than_a_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reached = 0
    for _ in range(PROBLEMS // 2):
        n, capped = int(rng.integers(1, 6)), bool(rng.integers(0, 2))
        items = [
            TiedItem(
                gain=float(rng.uniform(0.0, 2.0)), cost=float(rng.uniform(0.1, 2.0)),
                low=-float(rng.choice([0.0, 2.0])), high=2.5, below=first, above=first, step=step,
                uses=(float(rng.choice([-1.0, 0.0, 1.0, 0.3])),), once=(1.0,) * capped, per=(0.0,) * capped,
            )
            for first, step in (((0.0, 0.0), (0.5, 0.0), (0.5, 0.5))[rng.integers(0, 3)] for _ in range(n))
        ]  # fmt: skip
        slack, cap, need = float(rng.uniform(-0.5, 2.0)), int(rng.integers(1, 4)), float(rng.uniform(0.0, 4.0))
        moves, proven = TiedKnapsack(items, [slack], [float(cap)] * capped).cover(need)
        best = by_program(items, slack, cap if capped else n, need)
        assert proven
        assert (moves is None) == (best is None)
        if moves is not None and best is not None:
            reached += 1
            x = np.array(moves)
            assert x @ [item.gain for item in items] >= need - 1e-7
            assert x @ [item.uses[0] for item in items] <= slack + 1e-9
            assert np.count_nonzero(x) <= (cap if capped else n)
            for item, move in zip(items, moves, strict=True):
                assert move == 0.0 or item.low <= move <= -item.below or item.above <= move <= item.high + 1e-12
            assert np.abs(x) @ [item.cost for item in items] == pytest.approx(best, rel=3e-6, abs=1e-6)
    assert reached > PROBLEMS // 8


def by_program(items: list[TiedItem], slack: float, cap: int, need: float) -> float | None:
    """Least cost by HiGHS: of each item, whether it goes up or down, how far, and how many steps."""
    n = len(items)
    cost, rows, low, high = np.zeros(6 * n), list[np.ndarray](), list[float](), list[float]()
    limit, whole = np.full(6 * n, 1.0), np.zeros(6 * n)

    def row(terms: dict[int, float], least: float, most: float) -> None:
        own = np.zeros(6 * n)
        own[list(terms)] = list(terms.values())
        rows.append(own)
        low.append(least)
        high.append(most)

    for k, item in enumerate(items):
        for way, (first, far) in enumerate(((item.above, item.high), (item.below, -item.low))):
            made, amount, steps = (6 * k + 3 * way + part for part in range(3))
            limit[[made, amount, steps]] = float(far > 0.0), max(far, 0.0), 100.0
            whole[[made, steps]] = 1.0
            cost[amount] = item.cost
            row({amount: 1.0, made: -first}, 0.0, math.inf)
            row({amount: 1.0, made: -far}, -math.inf, 0.0)
            if item.step:
                row({amount: 1.0, made: -first, steps: -item.step}, 0.0, 0.0)
        row({6 * k: 1.0, 6 * k + 3: 1.0}, 0.0, 1.0)
    signed = [{6 * k + 1: 1.0, 6 * k + 4: -1.0} for k in range(n)]
    row({at: item.gain * w for one, item in zip(signed, items, strict=True) for at, w in one.items()}, need, math.inf)
    row({at: item.uses[0] * w for one, item in zip(signed, items, strict=True) for at, w in one.items()}, -9e9, slack)
    row({3 * at: 1.0 for at in range(2 * n)}, 0.0, cap)
    answer = milp(
        cost, constraints=LinearConstraint(np.array(rows), low, high), bounds=Bounds(0.0, limit), integrality=whole,
        options={"presolve": False, "mip_rel_gap": 0.0},
    )  # fmt: skip
    return None if answer.x is None else float(answer.fun)


def test_several_rules_between_the_same_continuous_items_are_left_to_the_general_solver() -> None:
    item = TiedItem(gain=1.0, cost=1.0, low=-1.0, high=1.0, below=0.0, above=0.0, step=0.0, uses=(1.0, -1.0))
    with pytest.raises(NotCovered):
        TiedKnapsack([item, item], [1.0, 1.0], [])


def test_a_search_that_is_given_few_branches_says_that_it_is_not_settled() -> None:
    rng = np.random.default_rng(0)
    items = [
        TiedItem(
            gain=float(rng.uniform(1, 2)), cost=float(rng.uniform(1, 2)), low=-10.0, high=10.0, below=1.0, above=1.0,
            step=1.0, uses=(float(rng.uniform(0.5, 1.0)),),
        )
        for _ in range(12)
    ]  # fmt: skip
    knapsack = TiedKnapsack(items, [9.0], [])
    assert not knapsack.cover(13.37, 5)[1]


def test_a_search_that_begins_after_its_deadline_ends_at_once() -> None:
    """However few branches it takes: an answer asks for many searches, one after the other."""
    item = TiedItem(
        gain=1.0, cost=1.0, low=0.0, high=9.0, below=0.0, above=1.0, step=1.0, uses=(), once=(1.0,), per=(0.0,)
    )
    knapsack = TiedKnapsack([item] * 3, [], [2.0])
    moves, proven = knapsack.cover(12.0)
    assert proven
    assert moves is not None
    assert sum(moves) == 12.0
    assert knapsack.cover(12.0, deadline=time.monotonic() - 1.0) == (None, False)
