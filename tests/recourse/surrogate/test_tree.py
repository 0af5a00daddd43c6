"""Distilled trees against scikit-learn's, on the same points."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from jaxtyping import Bool, Float
from sklearn.tree import DecisionTreeClassifier

from app.recourse.surrogate.tree import DEPTH, SMALLEST_LEAF, distil

Points = Float[np.ndarray, "n d"]
Decisions = Bool[np.ndarray, "n"]
Truth: TypeAlias = Callable[[Points], Decisions]


def ring(X: Points) -> Decisions:
    return np.abs(np.hypot(X[:, 0], X[:, 1]) - 1.5) < 0.6


def stairs(X: Points) -> Decisions:
    return np.where(X[:, 0] > 0.3, X[:, 1] > -0.2, X[:, 2] > 0.8)


def slope(X: Points) -> Decisions:
    return X @ np.linspace(-1.0, 1.0, X.shape[1]) + 0.5 * X[:, 0] > 0.2


TRUTHS = [ring, stairs, slope]


def drawn(n: int, seed: int, d: int = 4) -> Points:
    return np.random.default_rng(seed).normal(size=(n, d))


def theirs(X: Points, favourable: Decisions) -> DecisionTreeClassifier:
    tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=SMALLEST_LEAF, random_state=0)
    return tree.fit(X, favourable)


@pytest.mark.parametrize("truth", TRUTHS)
def test_it_is_as_accurate_as_scikit_learns(truth: Truth) -> None:
    X, unseen = drawn(1500, 0), drawn(20_000, 1)
    ours = (distil(X, truth(X)).boxes.score(unseen) >= 0.0) == truth(unseen)
    other = theirs(X, truth(X)).predict(unseen) == truth(unseen)
    assert ours.mean() == pytest.approx(other.mean(), abs=0.02)
    assert ours.mean() > 0.85


def test_on_separable_points_it_decides_as_scikit_learns_does() -> None:
    """One column tells the classes apart, with a gap: there is one best first split, half-way."""
    X = drawn(400, 2)
    X[:, 2] += np.where(X[:, 2] > 0.0, 0.5, -0.5)
    unseen = drawn(5000, 3) * 2.0
    boxes = distil(X, X[:, 2] > 0.0).boxes
    assert len(boxes.scores) == 2
    np.testing.assert_array_equal(boxes.score(unseen) >= 0.0, theirs(X, X[:, 2] > 0.0).predict(unseen))


def test_where_leaves_may_be_small_it_is_right_about_its_own_points() -> None:
    X = drawn(300, 4)
    found = distil(X, stairs(X)).boxes.score(X) >= 0.0
    assert (found == stairs(X)).mean() >= (theirs(X, stairs(X)).predict(X) == stairs(X)).mean() - 0.01


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_fidelity_is_that_on_unseen_points(truth: Truth) -> None:
    found = []
    for seed in range(5):
        X, unseen = drawn(1000, 10 + seed), drawn(20_000, 50 + seed)
        tree = distil(X, truth(X))
        found.append(tree.fidelity - ((tree.boxes.score(unseen) >= 0.0) == truth(unseen)).mean())
    # A fifth of the points is not seen by the tree that is judged, so it may be a little worse.
    assert -0.04 < np.mean(found) < 0.015


def test_the_fidelity_does_not_depend_on_the_order_of_the_points() -> None:
    """Boundary samples come from ten crossings in turn; two of them must not be all that is held out."""
    rng = np.random.default_rng(5)
    centres = np.arange(10)[:, None] * np.array([4.0, 0.0])
    centres[::5, 1] = 6.0
    X = centres[np.arange(1000) % 10] + rng.normal(size=(1000, 2))
    favourable = X[:, 1] > centres[np.arange(1000) % 10, 1]
    shuffled = rng.permutation(1000)
    in_turn, mixed = (distil(X[order], favourable[order]).fidelity for order in (np.arange(1000), shuffled))
    assert in_turn == pytest.approx(mixed, abs=0.04)


def test_noise_in_the_labels_shows_in_the_fidelity() -> None:
    X = drawn(2000, 6)
    coin = np.random.default_rng(6).random(2000) < 0.5
    assert distil(X, coin).fidelity == pytest.approx(0.5, abs=0.08)


@pytest.mark.parametrize("yes", [True, False])
def test_one_class_is_one_box(yes: bool) -> None:
    X = drawn(50, 7)
    tree = distil(X, np.full(50, yes))
    assert tree.boxes.scores.tolist() == [1.0 if yes else -1.0]
    assert tree.fidelity == 1.0


def test_columns_that_never_differ_are_never_asked_about() -> None:
    X = np.ones((200, 3))
    X[:, 1] = drawn(200, 8)[:, 0]
    boxes = distil(X, X[:, 1] > 0.4).boxes
    assert not np.isfinite(boxes.lower[:, [0, 2]]).any()
    assert not np.isfinite(boxes.upper[:, [0, 2]]).any()
    assert len(distil(np.ones((40, 2)), np.arange(40) % 3 == 0).boxes.scores) == 1


def test_a_point_that_was_drawn_many_times_is_not_divided() -> None:
    X = np.repeat(np.array([[0.0], [1.0], [2.0]]), 40, axis=0)
    favourable = np.concatenate([np.zeros(40), np.arange(40) % 4 == 0, np.ones(40)]).astype(bool)
    boxes = distil(X, favourable).boxes
    assert boxes.score(np.array([[0.0], [1.0], [2.0]])).tolist() == [-1.0, -1.0, 1.0]
    edges = np.unique(boxes.upper[np.isfinite(boxes.upper)])
    assert not np.isin(edges, [2.0]).any()


def test_neighbouring_numbers_are_still_told_apart() -> None:
    low, high = 1.0, float(np.nextafter(1.0, 2.0))
    X = np.array([[low]] * 20 + [[high]] * 20)
    boxes = distil(X, X[:, 0] == high).boxes
    assert boxes.score(np.array([[low], [high]])).tolist() == [-1.0, 1.0]


def test_a_handful_of_points_is_enough_for_an_answer() -> None:
    tree = distil(np.array([[0.0], [1.0], [2.0]]), np.array([True, False, False]))
    assert tree.boxes.scores.tolist() == [-1.0]
    assert 0.0 <= tree.fidelity <= 1.0
