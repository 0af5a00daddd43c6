"""Prices of rules: the linear program of all optima so far, as a general solver has it."""

import numpy as np
import pytest
from scipy.optimize import linprog

from app.recourse.search.tied_branching import RulePrices

BEYOND = 100.0


@pytest.mark.parametrize("rules", [1, 2, 5])
@pytest.mark.parametrize("seed", range(20))
def test_the_mixture_is_the_best_that_keeps_the_rules(seed: int, rules: int) -> None:
    rng = np.random.default_rng(seed)
    values, excess = rng.uniform(0.0, 10.0, 12), rng.normal(0.3, 1.0, (12, rules))
    program = RulePrices(rules, len(values))
    for n, (value, own) in enumerate(zip(values.tolist(), excess, strict=True), 1):
        program.add(value, own)
        shares, prices = program.best(BEYOND)
        kept = sum(share for _, share in shares)
        mixed = sum((share * excess[i] for i, share in shares), np.zeros(rules))
        reached = sum(share * values[i] for i, share in shares) + (1.0 - kept) * BEYOND
        least = linprog(
            np.append(values[:n], BEYOND), A_ub=np.column_stack([excess[:n].T, np.zeros(rules)]), b_ub=np.zeros(rules),
            A_eq=np.ones((1, n + 1)), b_eq=[1.0],
        )  # fmt: skip
        assert reached == pytest.approx(least.fun, abs=1e-9)
        assert (mixed <= 1e-9).all()
        # No optimum is better at these prices: the tangents meet there.
        assert (prices >= 0.0).all()
        assert min((values[:n] + excess[:n] @ prices).min(), BEYOND) == pytest.approx(least.fun, abs=1e-9)


def test_at_the_prices_for_other_values_the_optima_of_the_mixture_are_equally_good() -> None:
    program = RulePrices(1, 2)
    program.add(1.0, np.array([2.0]))
    program.add(3.0, np.array([-2.0]))
    shares, prices = program.best(BEYOND)
    assert dict(shares) == {0: 0.5, 1: 0.5}
    assert prices.tolist() == [0.5]
    assert program.prices([0.0, 4.0]).tolist() == [1.0]
