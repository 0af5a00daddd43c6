"""Groups: against SciPy, all permutations, and worlds in which nothing differs, or a known group has it harder."""

import itertools

import numpy as np
import pytest
from scipy import stats

from app.portfolio import groups


def test_the_chance_of_having_it_harder_is_that_of_all_pairs() -> None:
    rng = np.random.default_rng(0)
    mine, others = np.append(rng.integers(0, 5, 40), [np.inf] * 5).astype(float), rng.integers(0, 5, 90).astype(float)
    value, (low, high) = groups.superiority(mine, others)
    pairs = (mine[:, None] > others).mean() + 0.5 * (mine[:, None] == others).mean()
    assert value == pytest.approx(float(pairs))
    # SciPy's p value of the same statistic says the same as the interval, nearly: that is on the logit scale.
    p = stats.brunnermunzel(np.where(np.isinf(mine), 99.0, mine), others).pvalue
    assert (p < 0.05) == (low > 0.5 or high < 0.5)


def test_the_chance_at_equal_score_is_that_of_all_pairs_of_a_stratum() -> None:
    rng = np.random.default_rng(3)
    burden, strata = np.append(rng.integers(0, 5, 57), [np.inf] * 3).astype(float), rng.integers(0, 3, 60)
    mine = rng.random(60) < 0.4
    total = weights = 0.0
    for stratum in range(3):
        a, b = burden[mine & (strata == stratum)], burden[~mine & (strata == stratum)]
        weight = len(a) * len(b) / (len(a) + len(b) + 1)
        weights += weight
        total += weight * ((a[:, None] > b).mean() + 0.5 * (a[:, None] == b).mean())
    assert groups.at_equal_score(burden, mine, strata) == pytest.approx(total / weights)
    assert groups.at_equal_score(burden, mine, mine.astype(int)) is None


def test_a_rank_test_of_one_measure_is_that_of_all_permutations() -> None:
    burden = {"cost": np.array([1.0, 2.0, 2.0, 5.0, np.inf, 0.5, 3.0])}
    labels = ["a", "a", "b", "a", "a", "b", "b"]
    ranks = stats.rankdata(burden["cost"])
    sums = [abs(ranks[list(chosen)].sum() - 4 * 8 / 2) for chosen in itertools.combinations(range(7), 4)]
    own = abs(ranks[[0, 1, 3, 4]].sum() - 4 * 8 / 2)
    exact = np.mean([other >= own - 1e-9 for other in sums])
    found = groups.rank_tests(burden, labels, ["a"], permutations=9_999, seed=0)
    assert found[0, 0] == pytest.approx(exact, abs=0.02)


def test_strata_are_compared_within() -> None:
    """A group that is refused with lower scores, and pays what everybody with these scores pays, has it no harder."""
    rng = np.random.default_rng(1)
    scores = rng.normal(size=600)
    labels = ["low" if yes else "other" for yes in rng.random(600) < 1.0 / (1.0 + np.exp(3.0 * scores))]
    burden = {"cost": -scores + 0.3 * rng.normal(size=600)}
    plain = groups.rank_tests(burden, labels, ["low"], permutations=199, seed=0)
    equal = groups.rank_tests(
        burden, labels, ["low"], strata=groups.strata_of(scores), permutations=199, seed=0
    )  # fmt: skip
    assert plain[0, 0] == pytest.approx(1 / 200)
    # Strata are tenths, within which scores still differ.
    assert equal[0, 0] > plain[0, 0]


def world(rng: np.random.Generator, times: float = 1.0) -> tuple[dict[str, np.ndarray], list[str]]:
    """1,500 people of five groups, a third without a way; those of `b` pay `times` as much."""
    labels = rng.choice(list("abcde"), 1_500, p=[0.45, 0.25, 0.15, 0.1, 0.05])
    cost = rng.lognormal(0.0, 0.6, 1_500) * np.where(labels == "d", times, 1.0)
    none = rng.random(1_500) < 0.36
    changes = np.where(none, np.inf, rng.integers(1, 4, 1_500))
    burdens = {
        "none": none.astype(float), "cost": np.where(none, np.inf, cost), "changes": changes,
        "months": np.where(none, np.inf, 0.0),
    }  # fmt: skip
    return burdens, labels.tolist()


@pytest.mark.release
def test_where_nothing_differs_a_table_names_somebody_once_in_twenty() -> None:
    """At most 16 of 200, the 97.5 % point of Binomial(200, 0.05)."""
    flagged = 0
    for seed in range(200):
        burdens, labels = world(np.random.default_rng(seed))
        p = groups.rank_tests(burdens, labels, list("abcde"), permutations=499, seed=seed)
        flagged += bool((p <= 0.05).any())
    assert 2 <= flagged <= 16


def test_a_group_that_pays_twice_as_much_is_found() -> None:
    found = 0
    for seed in range(10):
        burdens, labels = world(np.random.default_rng(seed), times=2.0)
        p = groups.rank_tests(burdens, labels, list("abcde"), permutations=199, seed=seed)
        found += p[3, 1] <= 0.05
    assert found >= 9


def test_a_hidden_group_cannot_be_had_by_subtraction() -> None:
    labels = ["big"] * 90 + ["middle"] * 40 + ["small"] * 10
    assert groups.suppressed(labels) == ["small", "middle"]
    assert groups.suppressed([*labels, *["tiny"] * 3]) == ["tiny", "small"]
    assert groups.suppressed(["big"] * 90 + ["middle"] * 40) == []


def test_a_median_has_none_where_half_have_no_way() -> None:
    assert groups.median(np.array([1.0, 2.0, np.inf, np.inf]))[0] is None
    value, (low, high) = groups.median(np.append(np.arange(1.0, 100.0), np.inf))
    assert (value, low, high) == (50.5, 40.0, 61.0)
