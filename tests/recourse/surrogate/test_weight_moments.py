"""The uncertainty of a local model against refitting it to resampled samples."""

from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Bool, Float

from app.recourse.models.linear import LinearModel
from app.recourse.surrogate.boundary import BoundarySample
from app.recourse.surrogate.mpm import fit_sample
from app.recourse.surrogate.weight_moments import fitted, isotropic, nominal, surrogate

REFITS = 400


def sample(d: int, *, n: int = 1000, seed: int = 0, frozen: tuple[int, ...] = ()) -> BoundarySample:
    """Points around a curved boundary with a few odd labels; frozen columns are constant."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * rng.uniform(0.3, 1.0, d) + rng.standard_normal(d)
    free = np.setdiff1d(np.arange(d), frozen)
    X[:, list(frozen)] = 2.0
    centred = (X - X.mean(axis=0))[:, free]
    score = centred @ rng.standard_normal(len(free)) + 0.3 * centred[:, 0] ** 2 - 0.1
    favourable = (score >= 0.0) ^ (rng.random(n) < 0.03)
    return BoundarySample(X=X, scores=np.where(favourable, 1.0, -1.0), favourable=favourable, free=free, deviation=0.5)


def theta(taken: BoundarySample) -> Float[np.ndarray, "m"]:
    """Weights and intercept of the nominal machine, of length 1."""
    model = fit_sample(taken, "none", radius_favourable=0.0, radius_unfavourable=0.0).model
    weights = np.append(model.w, model.c)
    return weights / np.linalg.norm(weights)


def chosen(taken: BoundarySample, X: Float[np.ndarray, "n d"], favourable: Bool[np.ndarray, "n"]) -> BoundarySample:
    """The same sample with other points."""
    return replace(taken, X=X, scores=np.where(favourable, 1.0, -1.0), favourable=favourable)


def refits(taken: BoundarySample, seed: int) -> Float[np.ndarray, "k m"]:
    rng = np.random.default_rng(seed)
    n = len(taken.X)
    picks = rng.integers(n, size=(REFITS, n))
    return np.array([theta(chosen(taken, taken.X[pick], taken.favourable[pick])) for pick in picks])


@pytest.mark.parametrize(("d", "frozen"), [(3, ()), (8, ()), (8, (1, 6))])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_covariance_is_that_of_real_refits(d: int, frozen: tuple[int, ...], seed: int) -> None:
    taken = sample(d, seed=seed, frozen=frozen)
    moments = surrogate(taken, nominal(taken))
    found = moments.root @ moments.root.T
    real = np.cov(refits(taken, seed), rowvar=False)
    assert np.trace(found) == pytest.approx(np.trace(real), rel=0.15)
    assert np.linalg.norm(found - real) < 0.3 * np.linalg.norm(real)


def test_every_column_of_the_root_is_what_one_sample_does() -> None:
    """Everything twenty times over, and one sample once more: its weight has grown by a twentieth."""
    times = 20
    taken = sample(3, n=150)
    moments = surrogate(taken, nominal(taken))
    X, favourable = np.tile(taken.X, (times, 1)), np.tile(taken.favourable, times)
    before = theta(chosen(taken, X, favourable))
    for i in range(0, 150, 3):
        more = chosen(taken, np.vstack([X, X[i]]), np.append(favourable, favourable[i]))
        change = times * (theta(more) - before)
        assert np.linalg.norm(change - moments.root[:, i]) < 0.06 * np.linalg.norm(change) + 1e-4


def test_samples_that_say_the_same_four_times_leave_half_the_deviation() -> None:
    taken = sample(4)
    four = chosen(taken, np.tile(taken.X, (4, 1)), np.tile(taken.favourable, 4))
    once, often = surrogate(taken, nominal(taken)), surrogate(four, nominal(four))
    np.testing.assert_allclose(4.0 * often.root @ often.root.T, once.root @ once.root.T, rtol=0.02, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_the_mean_is_the_nominal_machine_of_length_one(seed: int) -> None:
    taken = sample(5, seed=seed, frozen=(2,))
    model = nominal(taken)
    moments = surrogate(taken, model)
    assert moments.kind == "surrogate"
    assert np.linalg.norm(moments.mean) == pytest.approx(1.0)
    np.testing.assert_allclose(moments.mean, theta(taken), atol=1e-12)
    np.testing.assert_allclose(moments.mean * np.linalg.norm(np.append(model.w, model.c)), np.append(model.w, model.c))
    assert np.linalg.norm(model.w) == pytest.approx(1.0)


def test_a_length_of_one_leaves_no_variance_along_the_mean() -> None:
    taken = sample(6)
    moments = surrogate(taken, nominal(taken))
    np.testing.assert_allclose(moments.mean @ moments.root, 0.0, atol=1e-12)


def test_what_the_person_cannot_change_has_neither_weight_nor_variance() -> None:
    taken = sample(6, frozen=(0, 4))
    model = nominal(taken)
    moments = surrogate(taken, model)
    for values in (model.w, moments.mean, moments.root):
        np.testing.assert_array_equal(values[[0, 4]], 0.0)
    assert (np.abs(moments.mean[[1, 2, 3, 5, 6]]) > 0.0).all()
    assert (np.linalg.norm(moments.root, axis=1)[[1, 2, 3, 5, 6]] > 0.0).all()


def test_more_samples_say_more() -> None:
    samples = [sample(4, n=n) for n in (200, 2000, 20_000)]
    traces = [float((surrogate(one, nominal(one)).root ** 2).sum()) for one in samples]
    assert traces[0] > 4.0 * traces[1] > 16.0 * traces[2]


def test_categories_whose_columns_add_up_to_one_are_no_obstacle() -> None:
    taken = sample(3)
    level = np.random.default_rng(0).integers(3, size=len(taken.X))
    wide = replace(taken, X=np.column_stack([taken.X, np.eye(3)[level]]), free=np.arange(6))
    moments = surrogate(wide, nominal(wide))
    assert np.isfinite(moments.root).all()
    # Nothing is known of the direction in which all columns of the group move together, and nothing depends on it.
    together = np.array([0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    assert abs(moments.mean @ together) < 1e-6


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_classes_that_are_single_points_move_nothing(columns: int) -> None:
    """A decision that depends on one category alone: however often one asks, the answer is the same."""
    level = np.random.default_rng(0).integers(2, size=300)
    X = level[:, None].astype(float) if columns == 1 else np.eye(columns)[level]
    taken = BoundarySample(
        X=X,
        scores=np.where(level == 1, 1.0, -1.0),
        favourable=level == 1,
        free=np.arange(columns),
        deviation=0.1,
    )
    moments = surrogate(taken, nominal(taken))
    np.testing.assert_array_equal(moments.root, 0.0)
    assert np.linalg.norm(moments.mean) == pytest.approx(1.0)


def test_one_point_against_many_is_finite() -> None:
    taken = sample(3)
    X = taken.X.copy()
    X[taken.favourable] = X[taken.favourable].mean(axis=0) + 1.0
    taken = replace(taken, X=X)
    moments = surrogate(taken, nominal(taken))
    assert np.isfinite(moments.root).all()


def test_isotropic_is_the_same_in_every_direction() -> None:
    model = LinearModel(np.array([3.0, 0.0, 4.0]), -12.0)
    moments = isotropic(model, 0.05)
    np.testing.assert_allclose(moments.mean, np.array([3.0, 0.0, 4.0, -12.0]) / 13.0)
    np.testing.assert_allclose(moments.root @ moments.root.T, 0.05 * np.eye(4), atol=1e-15)
    points = np.random.default_rng(0).standard_normal((5, 4))
    mean, deviation = moments.project(points)
    np.testing.assert_allclose(mean, points @ moments.mean)
    np.testing.assert_allclose(deviation, np.sqrt(0.05) * np.linalg.norm(points, axis=1))


@pytest.mark.parametrize(("d", "frozen"), [(1, ()), (4, ()), (8, (1, 6))])
def test_the_linear_fit_of_scores_is_that_of_least_squares(d: int, frozen: tuple[int, ...]) -> None:
    taken = sample(d, frozen=frozen)
    rng = np.random.default_rng(1)
    shifted = replace(taken, X=taken.X + 20.0, scores=np.where(taken.favourable, 1.0, -1.0) * rng.random(len(taken.X)))
    model = fitted(shifted)
    A = np.column_stack([shifted.X[:, taken.free], np.ones(len(taken.X))])
    expected = np.linalg.lstsq(A, shifted.scores, rcond=None)[0]
    np.testing.assert_allclose(np.append(model.w[taken.free], model.c), expected, rtol=1e-4, atol=1e-5)
    assert not model.w[list(frozen)].any()
