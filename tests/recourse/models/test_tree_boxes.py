"""Trees as boxes: against walking the tree, integration by brute force, and simulation."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.special import log_ndtr, ndtr
from scipy.stats import laplace, uniform

from app.recourse.models.tree_boxes import Boxes, single_precision_edge

D = 4
SAMPLES = 200_000


class Tree:
    """A random tree, walked node by node."""

    def __init__(self, seed: int, depth: int = 5, thresholds: tuple[float, ...] = ()) -> None:
        rng = np.random.default_rng(seed)
        inner, total = 2**depth - 1, 2 ** (depth + 1) - 1
        self.feature = rng.integers(0, D, total)
        self.threshold = rng.choice(thresholds, total) if thresholds else rng.normal(size=total)
        self.left = np.where(np.arange(total) < inner, 2 * np.arange(total) + 1, -1)
        self.right = np.where(self.left < 0, -1, self.left + 1)
        self.value = rng.normal(size=total)

    def score(self, X: np.ndarray) -> np.ndarray:
        scores = np.zeros(len(X))
        for i, x in enumerate(X):
            node = 0
            while self.left[node] >= 0:
                goes_left = x[self.feature[node]] <= self.threshold[node]
                node = self.left[node] if goes_left else self.right[node]
            scores[i] = self.value[node]
        return scores

    def boxes(self) -> Boxes:
        return Boxes.of_tree(self.feature, self.threshold, self.left, self.right, columns=D, score=self.score)


@pytest.mark.parametrize("thresholds", [(), (-1.0, 0.0, 0.5, 1.0)], ids=["any", "repeated"])
@pytest.mark.parametrize("seed", range(4))
def test_boxes_have_the_scores_of_the_tree(seed: int, thresholds: tuple[float, ...]) -> None:
    tree = Tree(seed, thresholds=thresholds)
    boxes = tree.boxes()
    rng = np.random.default_rng(seed)
    X = 1.5 * rng.normal(size=(2_000, D))
    on_edges = rng.choice(tree.threshold, size=(2_000, D))
    extreme = rng.choice([-1e300, 0.0, -0.0, 1e300], size=(100, D))
    for points in (X, on_edges, np.nextafter(on_edges, np.inf), extreme):
        assert np.array_equal(boxes.score(points), tree.score(points))


@pytest.mark.parametrize("seed", range(4))
def test_every_point_is_in_one_box(seed: int) -> None:
    boxes = Tree(seed, depth=7, thresholds=(-1.0, 0.0, 0.5, 1.0)).boxes()
    assert (boxes.lower < boxes.upper).all()
    X = np.random.default_rng(seed).choice([-3.0, -1.0, -0.5, 0.0, 0.2, 0.5, 0.7, 1.0, 2.0], size=(500, D))
    inside = (X[:, None] > boxes.lower) & (X[:, None] <= boxes.upper)
    assert (inside.all(axis=2).sum(axis=1) == 1).all()


def test_a_tree_without_splits_is_one_box() -> None:
    none = np.array([-1])
    for value, rate in [(2.0, 0.0), (-2.0, 1.0)]:
        boxes = Boxes.of_tree(none, np.zeros(1), none, none, columns=D, score=lambda X, v=value: np.full(len(X), v))
        assert boxes.score(np.ones((3, D))).tolist() == [value] * 3
        assert boxes.rate(np.ones((3, D)), np.ones(D)).tolist() == [rate] * 3


def test_no_points_have_no_rates() -> None:
    boxes = Tree(0).boxes()
    assert boxes.rate(np.zeros((0, D)), np.ones(D)).shape == (0,)
    assert boxes.score(np.zeros((0, D))).shape == (0,)


def test_many_points_are_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    boxes, X, std = Tree(0).boxes(), np.random.default_rng(0).normal(size=(50, D)), np.full(D, 0.3)
    scores, rates = boxes.score(X), boxes.rate(X, std)
    monkeypatch.setattr("app.recourse.models.tree_boxes.CELLS", 100)
    assert np.array_equal(boxes.score(X), scores)
    assert np.array_equal(boxes.rate(X, std), rates)


# --- the rate --------------------------------------------------------------------------------------------------------

LAWS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.random.Generator], np.ndarray]]] = {
    "gaussian": (ndtr, lambda rng: rng.standard_normal((SAMPLES, D))),
    "laplace": (laplace(scale=0.5**0.5).cdf, lambda rng: rng.laplace(scale=0.5**0.5, size=(SAMPLES, D))),
    "uniform": (uniform(-(3**0.5), 12**0.5).cdf, lambda rng: rng.uniform(-(3**0.5), 3**0.5, size=(SAMPLES, D))),
}


@pytest.mark.parametrize("law", LAWS)
def test_the_rate_is_what_simulation_finds(law: str) -> None:
    cdf, draw = LAWS[law]
    rng = np.random.default_rng(1)
    X, std = rng.normal(size=(6, D)), np.array([0.5, 0.0, 0.2, 0.0])
    boxes = Tree(3).boxes()
    rates = boxes.rate(X, std, cdf)
    assert ((rates > 0.01) & (rates < 0.99)).any()
    for x, rate in zip(X, rates, strict=True):
        refused = (boxes.score(x + std * draw(rng)) < 0.0).mean()
        assert abs(refused - rate) <= 4.0 * np.sqrt(rate * (1.0 - rate) / SAMPLES) + 1e-12


def test_the_rate_is_what_integration_finds() -> None:
    """Midpoints of a fine grid, weighted by the density: another road than products of distribution functions."""
    tree = Tree(5, depth=3, thresholds=(-1.0, 0.0, 0.5, 1.0))
    tree.feature %= 2  # two columns, so that a grid is enough
    boxes, x, std = tree.boxes(), np.array([[0.3, -0.2, 7.0, -7.0]]), np.array([0.4, 0.7, 0.1, 0.0])
    step = 0.01
    grid = np.arange(-6.0, 6.0, step) + step / 2
    X = np.repeat(x, len(grid) ** 2, axis=0)
    X[:, :2] = np.array(list(product(grid, grid)))
    density = np.exp(-0.5 * (((X - x)[:, :2] / std[:2]) ** 2).sum(axis=1)) / (2.0 * np.pi * std[0] * std[1])
    expected = density[boxes.score(X) < 0.0].sum() * step**2
    assert boxes.rate(x, std)[0] == pytest.approx(expected, abs=1e-4)


def stump(edge: float, below: float, above: float) -> Boxes:
    lower, upper = np.full((2, 1), -np.inf), np.full((2, 1), np.inf)
    lower[1, 0] = upper[0, 0] = edge
    return Boxes(lower, upper, np.array([below, above]))


@pytest.mark.parametrize("distance", [1.0, 5.0, 10.0, 37.0])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_tiny_rates_keep_their_digits(distance: float, side: float) -> None:
    """One split at `distance` standard deviations: the rate is a tail of the normal law, far below rounding of 1."""
    boxes = stump(0.0, below=-side, above=side)
    rate = boxes.rate(np.array([[side * distance * 0.2]]), np.array([0.2]))[0]
    assert np.log(rate) == pytest.approx(log_ndtr(-distance), rel=1e-12)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_a_thin_refused_slice_far_away_keeps_its_digits(side: float) -> None:
    lower, upper = np.array([[-np.inf], [10.0], [11.0]]), np.array([[10.0], [11.0], [np.inf]])
    if side < 0:
        lower, upper = -upper, -lower
    boxes = Boxes(lower, upper, np.array([1.0, -1.0, 1.0]))
    assert boxes.rate(np.zeros((1, 1)), np.ones(1))[0] == pytest.approx(ndtr(-10.0) - ndtr(-11.0), rel=1e-12)


def test_without_noise_the_rate_is_the_decision() -> None:
    tree = Tree(2, thresholds=(-1.0, 0.0, 0.5, 1.0))
    X = np.random.default_rng(0).choice(tree.threshold, size=(300, D))
    assert np.array_equal(tree.boxes().rate(X, np.zeros(D)), (tree.score(X) < 0.0).astype(float))


def test_ever_smaller_noise_ends_at_the_decision() -> None:
    boxes = stump(0.0, below=-1.0, above=1.0)
    for std in (1e-300, 5e-324):
        assert boxes.rate(np.array([[-1.0], [0.0], [1.0]]), np.array([std])).tolist() == [1.0, 0.5, 0.0]


def test_a_leaf_without_an_answer_is_not_favourable() -> None:
    boxes = stump(0.0, below=1.0, above=np.nan)
    assert boxes.favourable.tolist() == [True, False]
    assert boxes.rate(np.zeros((1, 1)), np.ones(1))[0] == 0.5


# --- single precision ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strict", [False, True])
def test_edges_decide_as_single_precision_does(strict: bool) -> None:
    largest, smallest = float(np.finfo(np.float32).max), float(np.finfo(np.float32).smallest_subnormal)
    rng = np.random.default_rng(0)
    singles = [0.0, -0.0, smallest, -smallest, largest, -largest, 1.0, 16777216.0, *rng.normal(size=200).astype("f4")]
    thresholds = np.array([*singles, *rng.normal(size=200), 2.0 * largest, -2.0 * largest], dtype=float)
    edges = single_precision_edge(thresholds, strict=strict)
    around = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf), thresholds, edges * 1.1, edges * 0.9]
    with np.errstate(over="ignore"):
        for x in around:
            single = x.astype(np.float32).astype(float)
            expected = single < thresholds if strict else single <= thresholds
            assert np.array_equal(x <= edges, expected)
