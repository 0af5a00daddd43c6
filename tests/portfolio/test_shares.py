"""Intervals and tests of a comparison, against simulation and enumeration."""

import itertools
import math

import numpy as np
import pytest

from app.portfolio.shares import beyond_retraining, exact, inside, mcnemar, most_accepted, paired_costs, wilson


@pytest.mark.parametrize("truth", [0.02, 0.17, 0.5])
@pytest.mark.parametrize("interval", [wilson, exact])
def test_intervals_of_shares_cover_the_truth(interval: object, truth: float) -> None:
    assert callable(interval)
    hits = np.random.default_rng(0).binomial(400, truth, size=1500)
    found = [interval(int(k), 400).interval for k in hits]
    covered = np.mean([low <= truth <= high for low, high in found])
    assert covered >= (0.945 if interval is exact else 0.93)
    assert covered <= 0.99


def test_no_trials_have_no_share() -> None:
    assert wilson(0, 0) is None
    assert exact(0, 0) is None


@pytest.mark.parametrize(("gained", "lost"), [(0, 7), (3, 9), (5, 5), (1, 0), (0, 0)])
def test_mcnemar_counts_all_outcomes_that_are_no_more_likely(gained: int, lost: int) -> None:
    n = gained + lost
    outcomes = [sum(coins) for coins in itertools.product((0, 1), repeat=n)]
    chance = [math.comb(n, k) for k in outcomes]
    p = np.mean([one <= math.comb(n, gained) for one in chance])
    assert mcnemar(gained, lost) == pytest.approx(p)


def test_a_seven_to_none_loss_has_the_p_of_the_binomial() -> None:
    assert mcnemar(0, 7) == pytest.approx(2 * 0.5**7)


def test_a_mere_retraining_is_seldom_beyond_retraining() -> None:
    rng = np.random.default_rng(1)
    pairs = zip(rng.poisson(40, 2000), rng.poisson(40, (2000, 60)), strict=True)
    found = [beyond_retraining(int(broken), retrainings) for broken, retrainings in pairs]
    flagged = np.mean([p is not None and p < 0.05 for p in found])
    assert 0.01 <= flagged <= 0.055


def test_beyond_retraining_counts_ties_against_the_candidate_kindly() -> None:
    assert beyond_retraining(5, np.array([5, 4, 6, 1])) == pytest.approx(3 / 5)
    assert beyond_retraining(9, np.array([5, 4, 6, 1])) == pytest.approx(1 / 5)
    assert beyond_retraining(9, np.array([], dtype=int)) is None


def test_intervals_of_paired_medians_cover_the_truth() -> None:
    rng, covered, ratio_covered = np.random.default_rng(2), 0, 0
    many = rng.lognormal(0.0, 0.4, 2_000_000)
    ratio = float(np.median(many + rng.normal(0.3, 0.2, 2_000_000)) / np.median(many))
    for seed in range(300):
        before = rng.lognormal(0.0, 0.4, 120)
        after = before + rng.normal(0.3, 0.2, 120)
        found = paired_costs(before, after, seed)
        assert found is not None
        covered += found.interval[0] <= 0.3 <= found.interval[1]
        ratio_covered += found.ratio_interval[0] <= ratio <= found.ratio_interval[1]
    assert covered >= 276
    assert ratio_covered >= 276


def test_costs_are_paired_and_the_same_seed_gives_the_same_interval() -> None:
    before, after = np.array([1.0, 2.0, 4.0, 3.0]), np.array([2.0, 2.0, 6.0, 3.5])
    found = paired_costs(before, after, 7)
    assert found is not None
    assert (found.median_change, found.dearer, found.ratio) == (0.75, 0.75, 2.75 / 2.5)
    assert paired_costs(before, after, 7) == found
    assert paired_costs(before[:0], after[:0], 7) is None


def test_the_bound_on_the_accepted_share_holds_in_19_of_20_cases() -> None:
    share = most_accepted(2000)
    assert (1.0 - share) ** 2000 == pytest.approx(0.05)
    assert most_accepted(0) == 1.0


def test_a_limit_at_the_end_of_an_interval_is_open() -> None:
    assert inside(0.05, (0.05, 0.2))
    assert not inside(0.04, (0.05, 0.2))
