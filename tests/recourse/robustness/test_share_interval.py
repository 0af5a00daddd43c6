"""The interval of a share of future models: against simulated lenders, and integrals by another quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, norm

from app.recourse.robustness.invalidation import clopper_pearson
from app.recourse.robustness.share_interval import share_interval

MODELS = 60


@pytest.mark.parametrize("true", [0.05, 0.5, 0.8, 0.9, 0.97])
def test_it_holds_the_share_of_models_of_other_records_for_19_of_20_lenders(true: float) -> None:
    """Each lender has a mean of n records; the models are means of bootstraps of half of them."""
    rng = np.random.default_rng(7)
    n, lenders, margin = 100, 1000, norm.ppf(true)
    inside = below = narrow = 0
    for _ in range(lenders):
        records = rng.normal(margin / np.sqrt(n), 1.0, size=n)
        bootstraps = records[rng.integers(n, size=(MODELS, n // 2))].mean(axis=1)
        hits = int((bootstraps >= 0.0).sum())
        low, high = share_interval(hits, MODELS, "fresh")
        inside += low <= true <= high
        below += true < low
        narrow += true < clopper_pearson(hits, MODELS)[0]
    assert inside >= 0.93 * lenders
    assert below <= 0.04 * lenders
    if true < 0.97:
        assert narrow >= 0.1 * lenders  # what the binomial interval would miss


@pytest.mark.parametrize("hits", [1, 30, 54, 60])
def test_its_ends_are_where_the_count_is_as_rare_as_a_tail(hits: int) -> None:
    def rarity(true: float, event: str) -> float:
        def weighed(error: float) -> float:
            told = norm.cdf((norm.ppf(true) + error) / np.sqrt(2.0))
            counted = binom.sf(hits - 1, MODELS, told) if event == "so many" else binom.cdf(hits, MODELS, told)
            return float(norm.pdf(error) * counted)

        return quad(weighed, -9.0, 9.0, limit=400)[0]

    low, high = share_interval(hits, MODELS, "fresh")
    assert rarity(low, "so many") == pytest.approx(0.025, abs=1e-6)
    if hits < MODELS:
        assert rarity(high, "so few") == pytest.approx(0.025, abs=1e-6)
    else:
        assert high == 1.0


def test_it_grows_with_the_count_and_is_wider_than_that_of_the_same_records() -> None:
    ends = np.array([share_interval(hits, MODELS, "fresh") for hits in range(MODELS + 1)])
    same = np.array([share_interval(hits, MODELS, "same") for hits in range(MODELS + 1)])
    assert (np.diff(ends, axis=0) >= 0.0).all()
    assert (ends[:, 0] <= same[:, 0]).all()
    assert (ends[:, 1] >= same[:, 1]).all()
    assert same.tolist() == [list(clopper_pearson(hits, MODELS)) for hits in range(MODELS + 1)]
    assert ends[0, 0] == 0.0
    assert ends[-1, 1] == 1.0


def test_more_models_do_not_remove_the_error_of_the_sample() -> None:
    low = share_interval(900, 1000, "fresh")[0]
    # The share at which nine tenths of the bootstraps accept only if the error is in the upper tail.
    assert low == pytest.approx(norm.cdf(np.sqrt(2.0) * norm.ppf(0.9) - norm.ppf(0.975)), abs=0.02)
