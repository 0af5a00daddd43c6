"""Samples around a boundary that the test knows."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.errors import BoundaryNotFound, DegenerateSurrogate
from app.recourse.features import Advice, FeatureSpace
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.surrogate import boundary
from app.recourse.surrogate.boundary import (
    GRID,
    BoundarySample,
    SamplerParams,
    free_columns,
    sample_boundary,
    survey,
    unit_ball,
)
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score, plane

W = np.array([0.6, 0.8])


def linear(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
    return X @ W - 1.0


def circle(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
    """Favourable within a distance of 2 of (2, 0)."""
    return 2.0 - np.hypot(X[:, 0] - 2.0, X[:, 1])


def drawn(problem: RecourseProblem, **params: Any) -> BoundarySample:
    meter = Meter(problem.black_box)
    settings = SamplerParams(**params)
    return sample_boundary(problem, meter, settings, survey(problem, meter, settings))


# --- where the samples are -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("score", [linear, circle])
def test_samples_surround_crossings_that_lie_on_the_boundary(score: Any) -> None:
    problem, spy = ask(plane(2), score, [-4.0, -1.0])
    sample = drawn(problem, neighbours=10, samples=20_000, radius_fraction=0.05)
    centres = np.array([sample.X[k::10].mean(axis=0) for k in range(10)])
    # A crossing is the first favourable point of a grid of 256 on its segment; the rest is noise of the mean.
    segments = np.linalg.norm(spy.asked[0][GRID::GRID] - problem.x0, axis=1)
    precision = segments.max() / GRID**2 + 4 * sample.deviation / math.sqrt(2000)
    assert np.abs(score(centres)).max() <= precision


@pytest.mark.parametrize("fixed", [(), ("f1",), ("f0", "f2")])
def test_the_spread_along_a_column_does_not_depend_on_how_many_are_free(fixed: tuple[str, ...]) -> None:
    # From here one neighbour is within reach whatever is fixed, so there is one centre.
    problem, _ = ask(plane(4), lambda X: X.sum(axis=1) - 1.0, [0.0] * 4, constraints={"immutable": fixed})
    sample = drawn(problem, neighbours=1, samples=20_000, radius_fraction=0.1)
    deviation = 0.1 * problem.reference.largest_distance / math.sqrt(4 + 2)
    assert sample.deviation == pytest.approx(deviation)
    free = [j for j in range(4) if f"f{j}" not in fixed]
    assert sample.free.tolist() == free
    np.testing.assert_allclose(sample.X[:, free].std(axis=0), deviation, rtol=0.03)
    held = [j for j in range(4) if j not in free]
    assert (sample.X[:, held] == problem.x0[held]).all()


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_points_are_uniform_in_the_ball(d: int, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundary, "MOST_KEPT", 800_000 if kept else 0)
    points = unit_ball(6, 20_000, d)
    radii = np.linalg.norm(points, axis=1)
    assert radii.max() <= 1.0 + 1e-12
    # The share of points within r is r^d.
    for share in (0.1, 0.5, 0.9):
        assert (radii <= share ** (1 / d)).mean() == pytest.approx(share, abs=0.015)
    np.testing.assert_allclose(np.cov(points.T) * (d + 2), np.eye(d) if d > 1 else 1.0, atol=0.06)


@pytest.mark.parametrize("n", [20, 5_000])
def test_consecutive_seeds_share_no_point(n: int) -> None:
    drawn = [unit_ball(seed, n, 50) for seed in range(2**53 - 4, 2**53)]
    for one, other in pairwise(drawn):
        assert len(np.unique(np.concatenate([one, other]), axis=0)) == 2 * n
    np.testing.assert_array_equal(unit_ball(2**53 - 1, n, 50), drawn[-1])


def test_the_radius_grows_with_the_number_of_columns_unless_it_is_given() -> None:
    def share(d: int, **params: float) -> float:
        problem, _ = ask(plane(d), lambda X: X[:, 0], [-1.0] * d)
        return SamplerParams(**params).radius(problem.reference) / problem.reference.largest_distance

    shares = [share(d) for d in (1, 8, 20, 40, 100)]
    assert shares[0] == shares[1] < shares[2] < shares[3] == shares[4]
    assert share(3, radius_fraction=0.7) == pytest.approx(0.7)


def test_without_a_gradient_the_radius_is_half_of_the_way_to_the_nearest_record() -> None:
    rng = np.random.default_rng(3)
    rows_raw = np.repeat(rng.uniform(-5, 5, (300, 12)), 2, axis=0)  # every record twice
    problem, _ = ask(plane(12), lambda X: X[:, 0], [-1.0] * 12, rows_raw=rows_raw)
    apart = [np.sort(np.linalg.norm(rows_raw[::2] - row, axis=1))[1] for row in rows_raw[::2]]
    radius = 0.5 * float(np.median(apart))
    assert SamplerParams().radius(problem.reference, smooth=False) == pytest.approx(radius)
    assert SamplerParams(radius_fraction=0.3).radius(problem.reference, smooth=False) == pytest.approx(
        0.3 * problem.reference.largest_distance
    )
    assert drawn(problem).deviation == pytest.approx(radius / math.sqrt(14))
    smooth = replace(problem.black_box, gradient=lambda X: np.eye(12)[np.zeros(len(X), dtype=int)])
    by_dimension = SamplerParams().radius(problem.reference)
    assert by_dimension > 1.5 * radius
    for black_box in (smooth, replace(smooth, linear=True)):
        sample = drawn(replace(problem, black_box=black_box))
        assert sample.deviation == pytest.approx(by_dimension / math.sqrt(14))


def test_where_records_are_dense_the_radius_keeps_a_share_of_their_spread() -> None:
    for count in (400, 1500, 6000):
        rows_raw = np.random.default_rng(0).uniform(-5, 5, (count, 2))
        reference, between = _reference(rows_raw), 10.0 * 0.5118  # median distance of two points of a unit square
        assert SamplerParams().radius(reference, smooth=False) == pytest.approx(0.1 * between, rel=0.05)


def test_one_record_far_away_does_not_widen_the_radius() -> None:
    """Months since the oldest account: most are below 300, one is 4,000."""
    rng = np.random.default_rng(1)
    rows_raw = np.column_stack([rng.gamma(2.0, 60.0, 500) / 100.0, rng.normal(size=(500, 7))])
    heavy = rows_raw.copy()
    heavy[:3, 0] = [40.0, 193.0, 803.0]
    usual, wide = _reference(rows_raw), _reference(heavy)
    assert SamplerParams().radius(wide) > 20.0 * SamplerParams().radius(usual)
    before, after = (SamplerParams().radius(one, smooth=False) for one in (usual, wide))
    assert after == pytest.approx(before, rel=0.02)


def test_records_that_are_all_equal_leave_the_other_radius() -> None:
    reference = replace(_reference(np.ones((5, 3))), largest_distance=2.0)
    assert SamplerParams().radius(reference, smooth=False) == SamplerParams().radius(reference) == pytest.approx(0.4)


def _reference(rows_raw: Float[np.ndarray, "n p"]) -> Reference:
    d = rows_raw.shape[1]
    problem, _ = ask(plane(d, low=None, high=None), lambda X: X[:, 0], [0.0] * d, rows_raw=rows_raw)
    return problem.reference


# --- what decides ----------------------------------------------------------------------------------------------------


def test_both_classes_are_there_and_labelled_as_the_model_decides() -> None:
    problem, _ = ask(plane(2), circle, [-4.0, -1.0])
    sample = drawn(problem)
    assert len(sample.X) == 1000
    assert np.array_equal(sample.favourable, circle(sample.X) >= 0.0)
    assert 0.25 < sample.favourable.mean() < 0.75


def test_the_seed_decides() -> None:
    def points(seed: int) -> bytes:
        problem, _ = ask(plane(2), circle, [-4.0, -1.0], seed=seed)
        return drawn(problem).X.tobytes()

    assert points(1) == points(1)
    assert points(1) != points(2)


def test_the_survey_is_one_call_and_the_sample_two() -> None:
    problem, spy = ask(plane(2), linear, [-4.0, -1.0])
    meter, params = Meter(problem.black_box), SamplerParams(neighbours=7, samples=300)
    seen = survey(problem, meter, params)
    assert seen.factual_score == linear(problem.x0[None])[0]
    assert [len(X) for X in spy.asked] == [1 + 7 * GRID]
    sample_boundary(problem, meter, params, seen)
    assert [len(X) for X in spy.asked[1:]] == [7 * GRID, 300]


def sliver(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
    """Favourable in a strip of width 0.1."""
    return 0.05 - np.abs(X[:, 0] - 2.0)


def with_yes(*yes: list[float]) -> Float[np.ndarray, "n p"]:
    return np.concatenate([np.random.default_rng(1).uniform(-5, 5, (50, 2)), np.array(yes)])


def test_where_the_classes_are_out_of_balance_a_further_call_tries_other_radii() -> None:
    problem, spy = ask(plane(2), sliver, [-4.0, 0.0], rows_raw=with_yes([2.0, 0.1], [2.01, -0.2], [1.99, 0.3]))
    sample = drawn(problem, samples=400, radius_fraction=0.3)
    assert [len(X) for X in spy.asked[2:]] == [400, 400]
    assert sample.deviation == pytest.approx(0.25 * 0.3 * problem.reference.largest_distance / 2)
    assert len(sample.X) == 200
    assert sample.favourable.sum() > 2 * (sliver(spy.asked[2]) >= 0.0).sum() / 2


def test_points_without_a_finite_score_are_not_samples() -> None:
    problem, _ = ask(plane(2), lambda X: np.where(X[:, 1] > 0.0, np.nan, linear(X)), [-4.0, -1.0])
    sample = drawn(problem)
    assert 40 <= len(sample.X) < 1000
    assert (sample.X[:, 1] <= 0.0).all()


# --- what cannot be sampled ------------------------------------------------------------------------------------------


def test_a_model_that_accepts_no_reference_record_has_no_boundary() -> None:
    problem, _ = ask(plane(2), lambda X: np.full(len(X), -1.0), [0.0, 0.0])
    with pytest.raises(BoundaryNotFound):
        drawn(problem)


def test_nothing_to_change_is_no_direction() -> None:
    problem, _ = ask(plane(2), linear, [-4.0, -1.0], constraints={"immutable": ("f0", "f1")})
    with pytest.raises(DegenerateSurrogate, match="Nothing"):
        drawn(problem)


def test_a_single_favourable_point_is_no_direction() -> None:
    yes = [3.0, 3.0]
    problem, spy = ask(
        plane(2), lambda X: np.where((yes == X).all(axis=1), 1.0, -1.0), [-4.0, -1.0], rows_raw=with_yes(yes)
    )
    with pytest.raises(DegenerateSurrogate, match="same decision"):
        drawn(problem)
    assert len(spy.asked) == 4


# --- what the person can reach ---------------------------------------------------------------------------------------


def test_the_way_leads_only_where_the_person_can_go() -> None:
    problem, spy = ask(plane(3), lambda X: X[:, 0] + X[:, 2], [-1.0, -1.0, -1.0], constraints={"immutable": ("f1",)})
    sample = drawn(problem)
    assert all((X[:, 1] == -1.0).all() for X in spy.asked)
    assert sample.free.tolist() == free_columns(problem.action_set).tolist() == [0, 2]


def test_where_nobody_within_reach_is_accepted_the_way_leads_beyond_them() -> None:
    # Accepted only where f1 is positive, which this person cannot change.
    problem, _ = ask(plane(2), lambda X: np.minimum(X[:, 0], X[:, 1]), [-2.0, -2.0], constraints={"immutable": ("f1",)})
    with pytest.raises(DegenerateSurrogate, match="same decision"):
        drawn(problem)
    # Accepted with f1 negative too, but only far beyond the reference records.
    problem, _ = ask(
        plane(2, low=None, high=None),
        lambda X: X[:, 0] + 4.0 * X[:, 1] + 2.0,
        [-3.0, -2.0],
        rows_raw=np.random.default_rng(0).uniform(-1, 1, (200, 2)),
        constraints={"immutable": ("f1",)},
    )
    sample = drawn(problem)
    assert (sample.X[:, 1] == -2.0).all()
    assert 0.1 <= sample.favourable.mean() <= 0.9


def test_a_category_alone_can_be_the_way() -> None:
    """Nobody else's number is within reach; the one point with another category counts, and half of one does not."""
    problem, spy = ask(
        FeatureSpace([*plane(1).features, LOAN.features[LOAN.names.index("housing")]]),
        lambda rows_raw: np.where((rows_raw[:, 1] == 1.0) & (rows_raw[:, 0] > -4.0), 1.0, -1.0),
        [-2.0, 0.0],
        rows_raw=np.array([[3.0, 1.0], [4.0, 1.0], [-2.0, 0.0], [-1.0, 2.0]]),
        constraints={"immutable": ("f0",)},
        raw=True,
    )
    sample = drawn(problem)
    assert all(set(rows[:, 1]) <= {0.0, 1.0, 2.0} for rows in spy.asked)
    assert 0.0 < sample.favourable.mean() < 1.0


# --- models of raw records -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_a_model_of_raw_records_is_asked_about_legal_records_only(seed: int) -> None:
    rows_raw = loan_rows(300)
    problem, spy = ask(
        LOAN, lambda X: loan_score(LOAN.encode(X)), applicant(seed).tolist(), rows_raw=rows_raw, raw=True, seed=seed
    )
    sample = drawn(problem)
    assert len(spy.asked) in (3, 4)  # the spy has looked at every record
    assert np.array_equal(LOAN.encode(LOAN.decode(sample.X)), sample.X)
    assert np.array_equal(sample.favourable, loan_score(sample.X) >= 0.0)
    assert sample.favourable.any()
    assert not sample.favourable.all()
    held = [column for column, name in enumerate(LOAN.columns) if name.startswith("origin")]
    assert (sample.X[:, held] == problem.x0[held]).all()


def applicant(seed: int) -> Float[np.ndarray, "p"]:
    """Somebody whom the loan model refuses."""
    rows_raw = loan_rows(200, seed=100 + seed)
    return rows_raw[loan_score(LOAN.encode(rows_raw)) < -0.5][seed]


def test_categories_switch_as_often_as_the_ball_is_wide() -> None:
    rows_raw = loan_rows(300)
    problem, spy = ask(LOAN, lambda X: loan_score(LOAN.encode(X)), applicant(0).tolist(), rows_raw=rows_raw, raw=True)
    sample = drawn(problem, neighbours=1, samples=20_000, radius_fraction=0.2)
    housing = LOAN.names.index("housing")
    levels = spy.asked[2][:, housing]
    centre = np.bincount(levels.astype(int)).argmax()
    # A switch draws any of the three levels, so one in three stays.
    expected = min(0.5, 3 * sample.deviation**2 / 2) * 2 / 3
    assert (levels != centre).mean() == pytest.approx(expected, rel=0.1)
    assert (spy.asked[2][:, LOAN.names.index("origin")] == problem.factual_raw[-1]).all()


def test_a_category_that_this_person_cannot_take_is_in_no_sample() -> None:
    advised = tuple(
        replace(feature, advice=Advice(categories=("rents", "owns"))) if feature.name == "housing" else feature
        for feature in LOAN.features
    )
    space, rows_raw = FeatureSpace(advised), loan_rows(300)
    rents = rows_raw[(rows_raw[:, LOAN.names.index("housing")] == 0.0) & (loan_score(LOAN.encode(rows_raw)) < 0.0)]
    problem, _ = ask(
        space, lambda X: loan_score(LOAN.encode(X)), rents[0].tolist(), rows_raw=rows_raw, raw=True
    )  # fmt: skip
    shares = drawn(problem, radius_fraction=0.5).X.mean(axis=0)
    assert shares[LOAN.columns.index("housing=owns")] > 0.1
    assert shares[LOAN.columns.index("housing=free")] == 0.0


def test_categories_are_enough_to_sample() -> None:
    numbers = tuple(feature.name for feature in LOAN.features if not feature.is_group)
    problem, _ = ask(
        LOAN,
        lambda X: np.where(X[:, LOAN.names.index("housing")] == 1, 1.0, -1.0),
        loan_rows(1, seed=5)[0].tolist(),
        rows_raw=loan_rows(100),
        constraints={"immutable": numbers},
        raw=True,
    )
    sample = drawn(problem)
    housing = [column for column, name in enumerate(LOAN.columns) if name.startswith("housing")]
    assert sample.free.tolist() == housing
    assert np.array_equal(sample.favourable, sample.X[:, housing[1]] == 1.0)


def test_an_encoded_model_sees_half_categories_and_a_raw_one_whole_ones() -> None:
    rows_raw = loan_rows(300)
    whole = {}
    for raw in (False, True):
        problem, spy = ask(
            LOAN,
            (lambda X: loan_score(LOAN.encode(X))) if raw else loan_score,
            applicant(0).tolist(),
            rows_raw=rows_raw,
            raw=raw,
        )
        drawn(problem)
        housing = spy.asked[-1][:, LOAN.names.index("housing") if raw else LOAN.columns.index("housing=owns")]
        whole[raw] = bool((housing == np.rint(housing)).all())
    assert whole == {False: False, True: True}
