"""Invalidation rates against noise itself."""

import math
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
import pytest
from scipy.signal import fftconvolve
from scipy.stats import binomtest, chi2, irwinhall, kstest, laplace, ncx2, norm, uniform

from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.black_box import BlackBox, Input, Predict
from app.recourse.models.meter import Meter
from app.recourse.models.score import Output
from app.recourse.robustness import invalidation
from app.recourse.robustness.invalidation import (
    NOISE_LAWS,
    NoiseLaw,
    clopper_pearson,
    invalidation_bound,
    invalidation_rate,
    invalidation_rate_linear,
    linear_margin,
    lower_tail,
    noise_columns,
    noise_faults,
    standard_noise,
)

SCALED = {"center": 0.0, "scale": 1.0}
SPACE = FeatureSpace(
    [
        Feature(name="age", type=FeatureType.INTEGER, noise=False, **SCALED),
        Feature(name="income", type=FeatureType.CONTINUOUS, center=10.0, scale=4.0),
        Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rented", "owned", "free")),
        Feature(name="savings", type=FeatureType.ORDINAL, categories=("none", "some", "much"), **SCALED),
        Feature(name="guarantor", type=FeatureType.BINARY, **SCALED),
        Feature(name="amount", type=FeatureType.CONTINUOUS, **SCALED),
    ]
)


# --- which columns are noisy -----------------------------------------------------------------------------------------


def test_one_number_is_the_noise_of_numbers_that_are_not_implemented_exactly() -> None:
    std = dict(zip(SPACE.columns, noise_columns(SPACE, 0.3).tolist(), strict=True))
    assert {name for name, value in std.items() if value} == {"income", "amount"}
    assert set(std.values()) == {0.0, 0.3}


def test_numbers_by_feature_are_the_noise_of_these_features_alone() -> None:
    std = dict(zip(SPACE.columns, noise_columns(SPACE, {"age": 0.2, "amount": 0.5}).tolist(), strict=True))
    assert {name: value for name, value in std.items() if value} == {"age": 0.2, "amount": 0.5}


# --- closed form -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.2, 1.0, {"age": 2.0, "amount": 0.4}])
def test_the_closed_form_is_what_noise_does_to_a_linear_decision(noise: float | dict[str, float]) -> None:
    rng = np.random.default_rng(0)
    w, std = rng.standard_normal(SPACE.d), noise_columns(SPACE, noise)
    scores = np.array([-0.4, -0.1, 0.0, 0.05, 0.3, 0.8])
    found = invalidation_rate_linear(scores, np.tile(w, (6, 1)), std)
    count = 200_000
    noisy = rng.standard_normal((count, SPACE.d)) * std
    measured = (noisy @ w + scores[:, None, None] < 0.0).mean(axis=(1, 2))
    np.testing.assert_allclose(found, measured, atol=5.0 * 0.5 / math.sqrt(count))
    assert found[2] == 0.5
    assert (np.diff(found) < 0.0).all()


def test_without_noise_the_decision_stays() -> None:
    scores = np.array([-1.0, 0.0, 1e-12, 3.0])
    quiet = invalidation_rate_linear(scores, np.ones((4, 3)), np.zeros(3))
    assert quiet.tolist() == [1.0, 0.0, 0.0, 0.0]
    elsewhere = invalidation_rate_linear(scores, np.tile([1.0, 0.0, 0.0], (4, 1)), np.array([0.0, 1.0, 1.0]))
    assert elsewhere.tolist() == quiet.tolist()


def test_what_is_not_a_number_promises_nothing() -> None:
    """A noisy copy without a score counts as refused; the record itself must not count as less."""
    nan, gradients, std = np.nan, np.array([[1.0, 1.0], [1.0, 1.0], [1.0, np.nan]]), np.ones(2)
    found = invalidation_rate_linear(np.array([1.0, nan, 1.0]), gradients, std)
    assert found[0] < 0.5
    assert found[1:].tolist() == [1.0, 1.0]
    assert invalidation_rate_linear(np.array([nan]), np.ones((1, 2)), np.zeros(2)).tolist() == [1.0]
    actions = np.ones((3, 2))
    bound = invalidation_bound(0.0, gradients[0], gradients, actions, std)
    assert bound[0] < 0.5
    assert bound[2] == 1.0
    assert invalidation_bound(nan, gradients[0], gradients, actions, std).tolist() == [1.0, 1.0, 1.0]


# --- proposition 4 ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_proposition_4_bounds_the_closed_form_of_a_linear_model(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 9)), 200
    w, start = rng.standard_normal(d), float(rng.normal())
    std = rng.lognormal(size=d) * (rng.random(d) < 0.8)
    actions = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6) * rng.lognormal(size=(n, 1))
    gradients = np.tile(w, (n, 1))
    bound = invalidation_bound(start, w, gradients, actions, std)
    rate = invalidation_rate_linear(start + actions @ w, gradients, std)
    assert (rate <= bound + 1e-12).all()
    assert (bound <= 1.0).all()
    noisy = std > 0.0
    downhill = actions[:, noisy] @ w[noisy] < 0.0
    assert (bound[downhill] == 1.0).all()


def test_proposition_4_is_tight_where_all_features_move_by_the_same_number_of_deviations() -> None:
    """``|delta|_1 / sqrt(|delta|_0) = |delta|_2`` exactly then."""
    w, std = np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.2, 0.4])
    action = 1.7 * std * np.sign(w)
    bound = invalidation_bound(-0.3, w, w[None], action[None], std)
    rate = invalidation_rate_linear(np.array([-0.3 + action @ w]), w[None], std)
    np.testing.assert_allclose(bound, rate, atol=1e-12)
    assert 0.0 < bound[0] < 0.5


def test_proposition_4_says_nothing_without_noise_or_uphill_action() -> None:
    w = np.array([1.0, 1.0])
    actions = np.array([[-1.0, 0.5], [1.0, 0.0]])
    assert invalidation_bound(5.0, w, np.tile(w, (2, 1)), actions, np.ones(2))[0] == 1.0
    assert invalidation_bound(5.0, w, np.tile(w, (2, 1)), actions, np.zeros(2)).tolist() == [1.0, 1.0]


# --- Clopper and Pearson ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 7, 100, 10_000])
@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.999])
def test_the_interval_is_the_exact_one(trials: int, confidence: float) -> None:
    for hits in sorted({0, 1, trials // 3, trials // 2, trials - 1, trials}):
        exact = binomtest(hits, trials).proportion_ci(confidence, method="exact")
        assert clopper_pearson(hits, trials, confidence) == pytest.approx((exact.low, exact.high), abs=1e-10)


@pytest.mark.parametrize("rate", [0.001, 0.03, 0.5, 0.9])
def test_the_interval_holds_the_true_rate_as_often_as_it_says(rate: float) -> None:
    trials = 120
    intervals = np.array([clopper_pearson(hits, trials) for hits in range(trials + 1)])
    drawn = np.random.default_rng(0).binomial(trials, rate, size=20_000)
    held = (intervals[drawn, 0] <= rate) & (rate <= intervals[drawn, 1])
    assert held.mean() >= 0.95 - 0.005


# --- measured rates --------------------------------------------------------------------------------------------------


def ball(space: FeatureSpace, *, input_: Input = Input.ENCODED) -> BlackBox:
    """Accepts what lies within 1.5 of the origin."""
    return BlackBox(
        space=space,
        predict=lambda X: 2.25 - (np.asarray(X) ** 2).sum(axis=1),
        input=input_,
        output=Output.LOGIT,
        threshold=0.0,
    )


def numbers(d: int, **changes: object) -> FeatureSpace:
    feature = Feature(name="", type=FeatureType.CONTINUOUS, **SCALED)
    return FeatureSpace([replace(feature, name=f"f{j}", **changes) for j in range(d)])


def test_the_measured_rate_is_that_of_the_black_box_itself() -> None:
    """A ball is curved: the exact rate is a non-central chi-squared tail."""
    std, samples = 0.4, 20_000
    X = np.array([[0.2, 0.0, 0.1], [1.0, 0.5, 0.0], [0.0, 0.0, 1.5]])
    meter = Meter(ball(numbers(3)))
    rates, intervals = invalidation_rate(meter, X, np.full(3, std), samples, seed=3)
    exact = ncx2.sf(2.25 / std**2, 3, (X**2).sum(axis=1) / std**2)
    np.testing.assert_allclose(rates, exact, atol=5.0 * 0.5 / math.sqrt(samples))
    assert ((intervals[:, 0] <= rates) & (rates <= intervals[:, 1])).all()
    assert (meter.calls, meter.rows) == (1, 3 * samples)


def test_its_interval_holds_the_exact_rate_as_often_as_it_says() -> None:
    std, samples, d = 0.5, 150, 4
    exact = float(chi2.sf(2.25 / std**2, d))
    meter = Meter(ball(numbers(d)))
    found = [invalidation_rate(meter, np.zeros((1, d)), np.full(d, std), samples, seed)[1][0] for seed in range(400)]
    assert np.mean([low <= exact <= high for low, high in found]) >= 0.92


def test_the_same_seed_measures_the_same_and_another_seed_something_else() -> None:
    meter, X, std = Meter(ball(numbers(2))), np.array([[1.0, 0.9]]), np.full(2, 0.3)
    one, again, other = (invalidation_rate(meter, X, std, 500, seed)[0] for seed in (1, 1, 2))
    assert one.tobytes() == again.tobytes()
    assert one.tobytes() != other.tobytes()


def test_all_points_get_the_same_noise() -> None:
    X, std = np.array([[1.0, 0.9], [0.1, 0.2], [1.0, 0.9]]), np.full(2, 0.3)
    rates, _ = invalidation_rate(Meter(ball(numbers(2))), X, std, 500, 1)
    assert rates[0] == rates[2]
    np.testing.assert_array_equal(rates[:1], invalidation_rate(Meter(ball(numbers(2))), X[:1], std, 500, 1)[0])


@pytest.mark.parametrize("law", NOISE_LAWS)
def test_copies_in_parts_are_the_same_copies_in_one_call_of_the_budget(
    monkeypatch: pytest.MonkeyPatch, law: NoiseLaw
) -> None:
    X, std = np.array([[1.0, 0.9, 0.3], [0.1, 0.2, 1.3]]), np.array([0.3, 0.0, 0.5])
    together = seen_copies(X, std, law)
    monkeypatch.setattr(invalidation, "MOST_TOGETHER", 200)
    monkeypatch.setattr(invalidation, "MOST_KEPT", 100)
    in_parts = seen_copies(X, std, law)
    assert len(together.seen) == 1
    assert max(len(part) for part in in_parts.seen) <= 200
    assert in_parts.rates.tobytes() == together.rates.tobytes()
    assert in_parts.meter.calls == together.meter.calls == 1
    assert in_parts.meter.rows == together.meter.rows == 1000
    for i in range(2):
        parts = [part.reshape(2, -1, 3)[i] for part in in_parts.seen]
        np.testing.assert_array_equal(np.concatenate(parts), together.seen[0].reshape(2, -1, 3)[i])


def test_a_model_that_is_paid_by_call_is_sent_all_copies_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invalidation, "MOST_TOGETHER", 200)
    assert len(seen_copies(np.zeros((2, 3)), np.ones(3), "gaussian", paid=True).seen) == 1


def test_few_draws_are_kept_and_many_are_not() -> None:
    assert standard_noise("gaussian", 1, 10, 3) is standard_noise("gaussian", 1, 10, 3)
    one, again = (standard_noise("gaussian", 1, invalidation.MOST_KEPT, 2) for _ in range(2))
    assert one is not again
    np.testing.assert_array_equal(one, again)
    np.testing.assert_array_equal(one[:10], np.random.default_rng(1).standard_normal((10, 2)))


@dataclass
class Copies:
    """What a model was shown, and what came of it."""

    seen: list[np.ndarray]
    rates: np.ndarray
    meter: Meter


class Paid:
    """A model elsewhere, for one call."""

    max_calls, max_rows = 1, 10_000

    def price(self, rows: int) -> tuple[int, int]:
        return 1, rows

    def __init__(self, predict: Predict) -> None:
        self._predict = predict

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:
        return self._predict(rows)


def seen_copies(X: np.ndarray, std: np.ndarray, law: NoiseLaw, *, paid: bool = False) -> Copies:
    seen: list[np.ndarray] = []

    def predict(X: np.ndarray) -> np.ndarray:
        seen.append(np.array(X))
        return 1.0 - X[:, 0] * X[:, 2]

    remote = Paid(predict) if paid else None
    box = BlackBox(space=numbers(3), predict=predict, output=Output.LOGIT, threshold=0.0, remote=remote)
    meter = Meter(box)
    rates, _ = invalidation_rate(meter, X, std, 500, 1, law)
    return Copies(seen, rates, meter)


def test_columns_without_noise_stay_as_they_are() -> None:
    seen: list[np.ndarray] = []
    box = BlackBox(
        space=numbers(3), predict=lambda X: seen.append(np.array(X)) or X[:, 0], output=Output.LOGIT, threshold=0.0
    )
    invalidation_rate(Meter(box), np.array([[0.0, 7.0, -3.0]]), np.array([1.0, 0.0, 2.0]), 4000, 0)
    np.testing.assert_array_equal(seen[0][:, 1], 7.0)
    np.testing.assert_allclose(seen[0].std(axis=0), [1.0, 0.0, 2.0], rtol=0.05)
    np.testing.assert_allclose(seen[0].mean(axis=0), [0.0, 7.0, -3.0], atol=0.15)


def test_a_model_of_raw_records_is_asked_about_legal_ones() -> None:
    space = FeatureSpace([Feature(name="age", type=FeatureType.INTEGER, min=0.0, max=2.0, center=0.0, scale=0.5)])
    seen: list[np.ndarray] = []
    box = BlackBox(
        space=space,
        predict=lambda rows: seen.append(np.array(rows)) or rows[:, 0] - 1.0,
        input=Input.RAW,
        output=Output.LOGIT,
        threshold=0.0,
    )
    rates, _ = invalidation_rate(Meter(box), np.array([[2.0]]), np.ones(1), 5000, 0)
    assert set(np.unique(seen[0])) == {0.0, 1.0, 2.0}
    assert rates[0] == pytest.approx(0.1587, abs=0.03)  # a year is two deviations, and half a year rounds down


def test_a_copy_without_a_score_counts_as_refused() -> None:
    box = BlackBox(
        space=numbers(1),
        predict=lambda X: np.where(X[:, 0] > 0.0, 1.0, np.nan),
        output=Output.LOGIT,
        threshold=0.0,
    )
    rates, _ = invalidation_rate(Meter(box), np.zeros((1, 1)), np.ones(1), 4000, 0)
    assert rates[0] == pytest.approx(0.5, abs=0.05)


# --- other laws than the normal one ----------------------------------------------------------------------------------

LAWS = {"gaussian": norm(), "laplace": laplace(scale=math.sqrt(0.5)), "uniform": uniform(-math.sqrt(3), math.sqrt(12))}
"""Each with standard deviation 1, as scipy has them."""
OTHERS = sorted(LAWS.keys() - {"gaussian"})
GRID = np.linspace(-40.0, 40.0, 80_001)


def convolved(law: NoiseLaw, shares: list[float]) -> np.ndarray:
    """Distribution function on `GRID` of a weighted sum, by convolving what falls in each cell."""
    half = 0.5 * (GRID[1] - GRID[0])
    total = np.ones(1)
    for share in shares:
        cells = np.diff(LAWS[law].cdf(np.append(GRID - half, GRID[-1] + half) / share))
        total = cells if len(total) == 1 else fftconvolve(total, cells, mode="same")
    return np.cumsum(total) - 0.5 * total


def test_every_law_that_a_request_may_name_is_tried_here() -> None:
    assert set(NOISE_LAWS) == set(get_args(NoiseLaw)) == set(LAWS)


@pytest.mark.parametrize("law", LAWS)
def test_characteristic_functions_are_those_of_the_densities(law: NoiseLaw) -> None:
    density = LAWS[law].pdf(GRID)
    for t in (0.0, 0.3, 1.0, 2.5, 6.0):
        expected = (density * np.cos(t * GRID)).sum() * (GRID[1] - GRID[0])
        assert NOISE_LAWS[law].characteristic(np.array([t]))[0] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("law", LAWS)
def test_one_column_alone_has_its_own_law(law: NoiseLaw) -> None:
    z = np.linspace(-6.0, 6.0, 241)
    for shares in ([1.0], [0.0, -1.0, 0.0]):
        found = lower_tail(z, np.tile(shares, (len(z), 1)), law)
        np.testing.assert_allclose(found, LAWS[law].cdf(z), atol=1e-12)
    np.testing.assert_allclose(NOISE_LAWS[law].cdf(z), LAWS[law].cdf(z), atol=1e-12)
    assert NOISE_LAWS[law].cdf(np.array([-math.inf, math.inf])).tolist() == [0.0, 1.0]
    assert LAWS[law].std() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "shares", [[0.6, 0.8], [0.999, math.sqrt(1 - 0.999**2)], [0.5, -0.5, 0.5, 0.5], [0.36, 0.48, 0.8]]
)
@pytest.mark.parametrize("law", OTHERS)
def test_sums_have_the_law_that_convolution_gives(law: NoiseLaw, shares: list[float]) -> None:
    exact = convolved(law, [abs(share) for share in shares])
    picked = np.arange(0, len(GRID), 97)
    found = lower_tail(GRID[picked], np.tile(shares, (len(picked), 1)), law)
    np.testing.assert_allclose(found, exact[picked], atol=1e-4)


def test_the_sum_of_equal_uniform_columns_is_that_of_irwin_and_hall() -> None:
    count = 5
    z = np.linspace(-4.0, 4.0, 101)
    exact = irwinhall.cdf(z * math.sqrt(count / 12.0) + count / 2.0, count)
    np.testing.assert_allclose(lower_tail(z, np.full((101, count), count**-0.5), "uniform"), exact, atol=1e-4)


@pytest.mark.parametrize("law", LAWS)
def test_the_rate_under_a_law_is_what_its_noise_does_to_a_linear_decision(law: NoiseLaw) -> None:
    count, std = 200_000, np.array([0.3, 0.0, 0.1, 0.7])
    w = np.array([1.0, 5.0, -2.0, 0.4])
    scores = np.array([-0.5, 0.0, 0.2, 0.6, 1.2])
    found = invalidation_rate_linear(scores, np.tile(w, (5, 1)), std, law)
    noise = LAWS[law].rvs((count, 4), random_state=np.random.default_rng(4)) * std
    measured = (noise @ w + scores[:, None, None] < 0.0).mean(axis=(1, 2))
    np.testing.assert_allclose(found, measured, atol=5.0 * 0.5 / math.sqrt(count))
    assert (np.diff(found) < 0.0).all()
    assert found[1] == pytest.approx(0.5)


@pytest.mark.parametrize("law", LAWS)
def test_far_from_the_boundary_noise_turns_nothing(law: NoiseLaw) -> None:
    """Scores may lie thousands of deviations away where the noise is small."""
    scores = np.array([1.0, 4.0, 7.5, 40.0, 1e6])
    gradients = np.ones((5, 2))
    for std in (0.05, 1e-3, 1e-9):
        assert invalidation_rate_linear(scores, gradients, np.full(2, std), law).max() <= 1e-4
        assert invalidation_rate_linear(-scores, gradients, np.full(2, std), law).min() >= 1.0 - 1e-4


@pytest.mark.parametrize("law", LAWS)
def test_under_any_law_the_decision_stays_without_noise(law: NoiseLaw) -> None:
    scores = np.array([-1.0, 0.0, 1e-12, 3.0, np.nan])
    assert invalidation_rate_linear(scores, np.ones((5, 2)), np.zeros(2), law).tolist() == [1.0, 0.0, 0.0, 0.0, 1.0]
    assert linear_margin(np.ones(2), np.zeros(2), law, 0.05) == 0.0
    assert linear_margin(np.array([0.0, 1.0]), np.array([1.0, 0.0]), law, 0.05) == 0.0


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("std", [[0.4, 0.0, 0.0], [0.4, 0.2, 0.0], [0.1, 0.1, 0.1]])
def test_the_margin_is_where_the_rate_is_the_one_asked_for(law: NoiseLaw, std: list[float]) -> None:
    w, asked = np.array([1.0, -2.0, 0.5]), [0.001, 0.01, 0.05, 0.2, 0.35, 0.5, 0.8, 0.999]
    margins = np.array([linear_margin(w, np.array(std), law, rate) for rate in asked])
    assert (np.diff(margins) < 0.0).all()
    rates = invalidation_rate_linear(margins, np.tile(w, (len(asked), 1)), np.array(std), law)
    np.testing.assert_allclose(rates, asked, atol=1e-6)
    spread = np.linalg.norm(w * std)
    if np.count_nonzero(std) == 1:
        np.testing.assert_allclose(margins, [-spread * LAWS[law].ppf(rate) for rate in asked], atol=1e-6)


@pytest.mark.parametrize("law", LAWS)
def test_draws_have_the_law_they_are_named_after(law: NoiseLaw) -> None:
    draws = standard_noise(law, 5, 20_000, 3)
    assert kstest(draws.ravel(), LAWS[law].cdf).pvalue > 0.001
    assert np.abs(np.corrcoef(draws, rowvar=False) - np.eye(3)).max() < 0.03
    assert not draws.flags.writeable
    assert standard_noise(law, 5, 20_000, 3).tobytes() == draws.tobytes()


@pytest.mark.parametrize("law", LAWS)
def test_the_measured_rate_of_a_linear_model_is_its_closed_form(law: NoiseLaw) -> None:
    w, samples, std = np.array([1.0, -0.5]), 40_000, np.array([0.3, 0.8])
    box = BlackBox(space=numbers(2), predict=lambda X: np.asarray(X) @ w - 1.0, output=Output.LOGIT, threshold=0.0)
    X = np.array([[1.2, 0.0], [2.0, 1.0], [1.0, -1.0]])
    measured, intervals = invalidation_rate(Meter(box), X, std, samples, 3, law)
    exact = invalidation_rate_linear(X @ w - 1.0, np.tile(w, (3, 1)), std, law)
    np.testing.assert_allclose(measured, exact, atol=5.0 * 0.5 / math.sqrt(samples))
    assert ((intervals[:, 0] <= measured) & (measured <= intervals[:, 1])).all()


def test_names_that_are_no_numeric_feature_are_faults_of_their_own() -> None:
    faults = noise_faults(SPACE, {"age": 0.1, "housing": 0.1, "a/b~c": 0.1})
    assert [fault.pointer for fault in faults] == ["/housing", "/a~1b~0c"]
    assert noise_faults(SPACE, 0.1) == []


def test_noise_of_a_derived_feature_is_that_of_what_it_is_derived_from() -> None:
    share = Feature(name="share", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0, derived="f0 / (f1 + 1)")
    (fault,) = noise_faults(FeatureSpace([*numbers(2).features, share]), {"f0": 0.1, "share": 0.1})
    assert (fault.pointer, fault.detail) == ("/share", "is derived, from f0 and f1: name these instead")
