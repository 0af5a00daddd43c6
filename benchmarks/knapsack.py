"""The search for the cheapest moves beside a mixed-integer program for the same."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from benchmarks.tables import show
from tests.recourse.search.test_knapsack import by_highs, check, cover, credit_items, most_gain

T = TypeVar("T")

PROBLEMS = 200


def table() -> None:
    """Random problems of 5 to 15 items that are all about as good, of steps from a thousandth to a whole move."""
    head = (
        "cap",
        "search ms: median",
        "99 %",
        "longest",
        "settled",
        "HiGHS ms: median",
        "ratio",
        "cost over HiGHS' cost",
    )
    show(f"Covering knapsacks: {PROBLEMS} of 5 to 15 items", head, _rows())


def _rows() -> Iterable[Sequence[str]]:
    for cap in (None, 4, 2):
        rng = np.random.default_rng(0)
        ours, theirs, over, done = [], [], [], 0
        for _ in range(PROBLEMS):
            items = credit_items(rng)
            uses = len(items) if cap is None else cap
            need = float(rng.uniform(0.05, 0.95)) * most_gain(items, uses)
            seconds, (moves, proven) = _timed(partial(cover, items, need, uses))
            highs_s, best = _timed(partial(by_highs, items, need, uses))
            assert moves is not None
            ours.append(1e3 * seconds)
            theirs.append(1e3 * highs_s)
            over.append(check(items, moves, need, uses) / best - 1.0)
            done += proven
        quantiles = (f"{np.quantile(ours, q):.2f}" for q in (0.5, 0.99, 1.0))
        ratio = np.median(theirs) / np.median(ours)
        yield (
            "none" if cap is None else str(cap),
            *quantiles,
            f"{done / PROBLEMS:.0%}",
            f"{np.median(theirs):.1f}",
            f"{ratio:.0f}",
            f"{min(over):.0e} to {max(over):.0e}",
        )


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result
