"""Refits on random halves, against scikit-learn's refits and against the covariance that theory gives."""

import numpy as np
import pytest
from jaxtyping import Bool, Float

from app.errors import DegenerateSurrogate, SolverFailed
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.models.score import sigmoid
from app.recourse.surrogate.refits import RIDGE, fit, refit, refit_moments


def drawn(n: int, w: list[float], c: float, seed: int = 0) -> tuple[Float[np.ndarray, "n d"], Bool[np.ndarray, "n"]]:
    """Records whose outcomes follow a logistic model."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, len(w)))
    return X, rng.random(n) < sigmoid(X @ np.array(w) + c)


def covariance(moments: WeightMoments) -> Float[np.ndarray, "m m"]:
    return moments.root @ moments.root.T


def with_category(n: int, seed: int = 0) -> tuple[Float[np.ndarray, "n d"], Bool[np.ndarray, "n"]]:
    """Two numbers and a category of three: columns 2, 3 and 4, which add up to the intercept's."""
    rng = np.random.default_rng(seed)
    X = np.hstack([rng.standard_normal((n, 2)), np.eye(3)[rng.choice(3, n, p=[0.6, 0.3, 0.1])]])
    return X, rng.random(n) < sigmoid(X @ np.array([1.0, -0.7, 0.5, -0.5, 0.2]) + 0.4)


def test_the_moments_are_those_of_scikit_learns_refits() -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = with_category(200)
    rng = np.random.default_rng(99)
    thetas = []
    for _ in range(300):
        half = rng.choice(200, 100, replace=False)
        fitted = LogisticRegression(C=1.0 / RIDGE, solver="newton-cholesky").fit(X[half], y[half])
        theta = np.append(fitted.coef_[0], fitted.intercept_)
        thetas.append(theta / np.linalg.norm(theta))
    expected, expected_mean = np.cov(np.array(thetas).T), np.mean(thetas, axis=0)
    found = refit_moments(X, y, 2000, 0)
    assert found.kind == "registered"
    assert found.mean @ expected_mean / np.linalg.norm(expected_mean) > 0.999
    expected /= expected_mean @ expected_mean
    assert np.trace(covariance(found)) == pytest.approx(np.trace(expected), rel=0.15)
    np.testing.assert_allclose(covariance(found), expected, atol=0.15 * np.trace(expected))


def test_mean_and_covariance_are_of_the_same_models() -> None:
    """Few records move the refits far, so that their mean is much shorter than they are."""
    X, y = drawn(60, [1.0, *[0.0] * 9], 0.0)
    thetas = refit(X, y, 400, 0)
    thetas /= np.linalg.norm(thetas, axis=1, keepdims=True)
    length = float(np.linalg.norm(thetas.mean(axis=0)))
    assert length < 0.9
    found = refit_moments(X, y, 400, 0)
    np.testing.assert_allclose(found.mean, thetas.mean(axis=0) / length, atol=1e-9)
    np.testing.assert_allclose(covariance(found), np.cov(thetas.T) / length**2, atol=1e-9)


def test_one_refit_is_scikit_learns() -> None:
    from sklearn.linear_model import LogisticRegression

    X, y = with_category(80)
    half = np.arange(80) % 2.0
    fitted = LogisticRegression(C=1.0 / RIDGE, tol=1e-10, solver="newton-cholesky").fit(X[half > 0], y[half > 0])
    (theta,) = fit(homogeneous(X), y, half[None], np.zeros(6))
    np.testing.assert_allclose(theta, np.append(fitted.coef_[0], fitted.intercept_), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.0, 0.8])
def test_the_covariance_is_that_of_training_on_as_many_new_records(threshold: float) -> None:
    """A half varies twice as much, and drawing without replacement takes half of that away."""
    w, c, n = [1.0, -0.5], 0.3, 2000
    truth = np.array([*w, c])
    shifted = truth - [0.0, 0.0, threshold]
    length = np.linalg.norm(shifted)
    draws = np.hstack([np.random.default_rng(5).standard_normal((400_000, 2)), np.ones((400_000, 1))])
    p = sigmoid(draws @ truth)
    information = n * (draws * (p * (1.0 - p))[:, None]).T @ draws / len(draws)
    project = (np.eye(3) - np.outer(shifted, shifted) / length**2) / length
    expected = project @ np.linalg.inv(information) @ project
    found = [refit_moments(*drawn(n, w, c, seed), 1000, 0, threshold=threshold) for seed in range(4)]
    mean = sum(covariance(moments) for moments in found) / 4
    np.testing.assert_allclose(mean, expected, atol=0.1 * np.trace(expected))
    assert np.trace(mean) == pytest.approx(np.trace(expected), rel=0.15)
    for moments in found:
        off = moments.mean - shifted / length
        assert np.linalg.norm(off) < 4.0 * np.sqrt(np.trace(expected))


def test_a_category_has_weights_that_sum_to_zero_in_every_refit() -> None:
    """Adding to each weight of a category what is taken from the intercept changes no decision: it has no variance."""
    X, y = with_category(300)
    found = refit_moments(X, y, 200, 0)
    gauge = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    assert abs(gauge @ found.mean) < 1e-6
    assert np.linalg.norm(gauge @ found.root) < 1e-6


def test_records_that_a_plane_separates_have_a_model_all_the_same() -> None:
    X, _ = drawn(100, [1.0, 1.0], 0.0)
    y = X.sum(axis=1) > 0.0
    found = refit_moments(X, y, 100, 0)
    assert found.mean[:2].min() > 0.6
    assert 0.0 < np.trace(covariance(found)) < 0.1


def test_the_scale_of_a_column_does_not_stop_newton() -> None:
    X, y = drawn(200, [1.0, -1.0], 0.0)
    found = refit_moments(X * [1e5, 1e-3], y, 20, 0)
    assert np.isfinite(found.root).all()


def test_a_rare_outcome_is_in_every_half() -> None:
    X, _ = drawn(50, [1.0], 0.0)
    found = refit_moments(X, np.arange(50) < 2, 50, 0)
    assert np.isfinite(found.root).all()


@pytest.mark.parametrize(("refits", "width"), [(2, 2), (3, 3), (50, 4)])
def test_the_mean_has_length_1_and_the_root_is_as_narrow_as_can_be(refits: int, width: int) -> None:
    found = refit_moments(*drawn(60, [1.0, 0.0, 0.5], 0.1), refits, 0)
    assert np.linalg.norm(found.mean) == pytest.approx(1.0)
    assert found.root.shape == (4, width)


def test_batches_do_not_show_and_the_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    data = drawn(60, [1.0, 0.0, 0.5], 0.1)
    at_once = refit_moments(*data, 50, 3)
    np.testing.assert_array_equal(refit_moments(*data, 50, 3).root, at_once.root)
    assert not np.allclose(covariance(refit_moments(*data, 50, 4)), covariance(at_once), rtol=1e-6)
    monkeypatch.setattr("app.recourse.surrogate.refits.BATCH", 500)
    in_batches = refit_moments(*data, 50, 3)
    np.testing.assert_allclose(in_batches.mean, at_once.mean, rtol=1e-9)
    np.testing.assert_allclose(covariance(in_batches), covariance(at_once), atol=1e-9)


def test_records_that_tell_nothing_determine_no_direction() -> None:
    with pytest.raises(DegenerateSurrogate):
        refit_moments(np.zeros((4, 1)), np.array([True, True, False, False]), 2, 4)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_records_beyond_floating_point_are_refused() -> None:
    X, y = drawn(20, [1.0], 0.0)
    with pytest.raises(SolverFailed):
        refit_moments(X * 1e200, y, 2, 0)
