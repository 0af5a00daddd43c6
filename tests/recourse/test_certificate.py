"""The certificate of an answer against its parts, computed by hand."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.errors import InvalidRequest
from app.recourse.certificate import certify
from app.recourse.certificate_params import CertificateParams, check_noise
from app.recourse.counterfactual import Certificate, Counterfactual
from app.recourse.features import FeatureSpace
from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.models.meter import Meter
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.shift import shift_of
from app.recourse.solve import MAX_CALLS, METHODS, solve
from app.recourse.surrogate.weight_moments import nominal, surrogate
from tests.recourse.certified import (
    FACTUAL,
    C,
    Clock,
    Points,
    W,
    curved,
    curved_gradient,
    curved_score,
    gelbrich,
    labels,
    linear,
    linear_score,
    normal_tail,
    rows,
    sample_of,
    silent_about_gradients,
    space,
)
from tests.recourse.toys import LOAN, Spy, ask, loan_rows, loan_score, plane

THETA = np.append(W, C) / math.sqrt(float(W @ W) + C * C)
"""The weights of the linear model with its intercept, of length 1."""

Ask = Callable[..., tuple[RecourseProblem, Spy]]


def answer(problem: RecourseProblem, **params: Any) -> RecourseResult:
    return solve(problem, METHODS["robust_mpm"], RobustMpmParams(), CertificateParams(**params))


def certified(problem: RecourseProblem, **params: Any) -> tuple[Counterfactual, Certificate]:
    result = answer(problem, **params)
    (found,) = result.counterfactuals
    assert found.certificate is not None
    assert result.warnings == ()
    return found, found.certificate


def point_of(found: Counterfactual) -> Float[np.ndarray, "m"]:
    return np.append(found.row_raw, 1.0)  # encoded as they are


# --- noise -----------------------------------------------------------------------------------------------------------


def noise(std: float) -> Float[np.ndarray, "d"]:
    """The last number and the switch are implemented exactly."""
    return np.array([std, std, 0.0, 0.0])


def test_noise_of_a_linear_model_is_what_its_weights_say() -> None:
    found, certificate = certified(linear()[0], noise_std=0.4)
    spread = float(np.linalg.norm(W * noise(0.4)))
    assert certificate.noise.std == 0.4
    assert certificate.noise.closed_form == pytest.approx(
        normal_tail(float(linear_score(found.row_raw[None])[0]) / spread)
    )
    assert certificate.noise.exact
    assert (certificate.noise.monte_carlo, certificate.noise.interval) == (None, None)


def test_noise_of_a_curved_model_is_what_its_gradient_says_at_the_counterfactual() -> None:
    found, certificate = certified(curved()[0], noise_std=0.4)
    spread = float(np.linalg.norm(curved_gradient(found.row_raw[None])[0] * noise(0.4)))
    assert certificate.noise.closed_form == pytest.approx(
        normal_tail(float(curved_score(found.row_raw[None])[0]) / spread)
    )
    assert (certificate.noise.exact, certificate.noise.upper_bound) == (False, None)


@pytest.mark.parametrize("toy", [silent_about_gradients, labels])
def test_noise_of_a_model_without_gradient_is_measured_or_not_told(toy: Ask) -> None:
    _, silent = certified(toy()[0], noise_std=0.4)
    assert (silent.noise.closed_form, silent.noise.upper_bound, silent.noise.exact) == (None, None, False)
    assert (silent.noise.monte_carlo, silent.joint) == (None, None)
    _, measured = certified(toy()[0], noise_std=0.4, noise_samples=2000)
    assert (measured.noise.closed_form, measured.joint) == (None, None)
    assert measured.noise.monte_carlo is not None
    assert 0.0 < measured.noise.monte_carlo < 1.0


def test_what_says_that_it_is_linear_but_not_how_is_not_exact() -> None:
    problem, _ = linear()
    problem = replace(problem, black_box=replace(problem.black_box, gradient=None))
    _, certificate = certified(problem)
    assert (certificate.noise.exact, certificate.noise.closed_form, certificate.joint) == (False, None, None)
    assert certificate.shift.estimated


def test_the_upper_bound_is_proposition_4() -> None:
    problem, _ = linear(constraints={"immutable": ("age", "guarantor")})
    found, certificate = certified(problem, noise_std=0.4)
    delta = found.row_raw - problem.factual_raw
    w, moved = W[:2], delta[:2]
    cosine = float(w @ moved / (np.linalg.norm(w) * np.linalg.norm(moved)))
    start = float(linear_score(np.array([FACTUAL]))[0]) / (0.4 * np.linalg.norm(w))
    gain = cosine / 0.4 * np.abs(moved).sum() / math.sqrt(np.count_nonzero(moved))
    assert certificate.noise.upper_bound == pytest.approx(normal_tail(start + gain))
    assert certificate.noise.closed_form is not None
    assert certificate.noise.upper_bound is not None
    assert certificate.noise.closed_form <= certificate.noise.upper_bound + 1e-12


def test_noise_by_name_reaches_what_is_named_and_nothing_else() -> None:
    found, certificate = certified(linear()[0], noise_std={"age": 0.5})
    score = float(linear_score(found.row_raw[None])[0])
    assert certificate.noise.std == {"age": 0.5}
    assert certificate.noise.closed_form == pytest.approx(normal_tail(score / (0.5 * abs(W[2]))))


def test_noisy_copies_take_exactly_one_more_call() -> None:
    (quiet, _), (noisy, spy) = linear(), linear()
    without, with_ = answer(quiet), answer(noisy, noise_samples=4000, noise_std=0.4)
    assert with_.diagnostics.model_calls == without.diagnostics.model_calls + 1 <= MAX_CALLS + 1
    assert with_.diagnostics.model_rows == without.diagnostics.model_rows + 4000
    assert len(spy.asked) == with_.diagnostics.model_calls
    (found,) = with_.counterfactuals
    assert found.certificate is not None
    told = found.certificate.noise
    (copies,) = (X for X in spy.asked if len(X) == 4000)
    assert told.monte_carlo == (linear_score(copies) < 0.0).mean()
    assert told.closed_form is not None
    assert told.monte_carlo == pytest.approx(told.closed_form, abs=5 * 0.5 / math.sqrt(4000))
    assert told.interval is not None
    assert told.interval[0] <= told.monte_carlo <= told.interval[1]
    np.testing.assert_array_equal(copies[:, 2:], np.tile(found.row_raw[2:], (4000, 1)))


def test_noise_is_for_numbers() -> None:
    people = loan_rows(200)
    refused = people[loan_score(LOAN.encode(people)) < 0.0][0]
    problem, _ = ask(LOAN, loan_score, refused.tolist(), rows_raw=people)
    params = CertificateParams(noise_std={"income": 0.1, "housing": 0.1, "a/b": 0.2})
    pointers = [fault.pointer for fault in check_noise(LOAN, params)]
    assert pointers == ["/noise_std/housing", "/noise_std/a~1b"]
    assert check_noise(LOAN, CertificateParams(noise_std=3.0)) == []
    with pytest.raises(InvalidRequest):
        answer(problem, noise_std={"housing": 0.1})


# --- shift -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("toy", [linear, curved, silent_about_gradients, labels])
@pytest.mark.parametrize("radius", [0.0, 0.01, 0.1])
def test_the_bounds_on_shift_are_those_of_the_local_model(toy: Ask, radius: float) -> None:
    problem, _ = toy()
    found, certificate = certified(problem, ambiguity_radius=radius)
    taken = sample_of(problem)
    moments = surrogate(taken, nominal(taken))
    centre = THETA if toy is linear else moments.mean
    assert certificate.shift.estimated == (toy is not linear)
    point = point_of(found)
    length = float(np.linalg.norm(point))
    covariance = moments.root @ moments.root.T
    mean, deviation = float(point @ centre), math.sqrt(point @ covariance @ point)
    expected = gelbrich(mean / length, deviation / length, radius)
    assert (certificate.shift.gelbrich.lower, certificate.shift.gelbrich.upper) == pytest.approx(expected, abs=1e-8)
    assert certificate.shift.gelbrich.radius == radius
    assert certificate.shift.gelbrich.moments == "surrogate"
    assert certificate.shift.gelbrich.exact
    assert certificate.shift.linf_radius == pytest.approx(mean / np.abs(point).sum())


def test_isotropic_moments_have_one_variance_in_every_direction() -> None:
    problem, _ = linear()
    found, certificate = certified(problem, moments="isotropic", isotropic_variance=0.02, ambiguity_radius=0.05)
    point = point_of(found)
    mean = float(point @ THETA) / float(np.linalg.norm(point))
    expected = gelbrich(mean, math.sqrt(0.02), 0.05)
    assert (certificate.shift.gelbrich.lower, certificate.shift.gelbrich.upper) == pytest.approx(expected, abs=1e-8)
    assert certificate.shift.gelbrich.moments == "isotropic"


# --- both together ---------------------------------------------------------------------------------------------------


def test_the_joint_bound_is_the_average_bound_of_noisy_copies() -> None:
    found, certificate = certified(linear()[0], moments="isotropic", isotropic_variance=0.01, noise_std=0.8)
    copies = point_of(found) + np.random.default_rng(5).standard_normal((400, 5)) * np.append(noise(0.8), 0.0)
    copies /= np.linalg.norm(copies, axis=1)[:, None]
    bounds = []
    for mean in copies @ THETA:
        angle = math.atan2(0.1, mean) + math.asin(min(0.01 / math.hypot(mean, 0.1), 1.0))
        bounds.append(math.cos(angle) ** 2 if angle < math.pi / 2 else 0.0)
    joint = certificate.joint
    assert joint is not None
    assert joint.lower == pytest.approx(np.mean(bounds), abs=5.0 * np.std(bounds) / math.sqrt(400))
    assert joint.interval[0] <= np.mean(bounds) <= joint.interval[1]
    assert 0.0 <= joint.interval[0] <= joint.lower <= joint.interval[1] <= 1.0


def test_without_noise_the_joint_bound_is_the_bound_on_shift() -> None:
    _, certificate = certified(linear()[0], noise_std=0.0)
    assert certificate.joint is not None
    assert certificate.joint.lower == pytest.approx(certificate.shift.gelbrich.lower, abs=1e-9)
    assert certificate.noise.closed_form == 0.0


# --- where there is none ---------------------------------------------------------------------------------------------


def test_who_does_not_ask_for_a_certificate_gets_none() -> None:
    (found,) = solve(linear()[0], METHODS["robust_mpm"], RobustMpmParams()).counterfactuals
    assert found.certificate is None


def test_who_is_accepted_already_needs_none() -> None:
    problem, _ = linear()
    problem = replace(problem, action_set=replace(problem.action_set, factual_raw=np.array([5.0, 0.0, 0.0, 0.0])))
    result = answer(problem)
    assert result.status is Status.ALREADY_FAVOURABLE
    assert result.counterfactuals == ()


def test_where_all_samples_decide_alike_there_is_none_and_a_warning() -> None:
    """One record in the whole space is accepted: it is found, but nothing can be said about its surroundings."""
    rows_raw = np.random.default_rng(0).uniform(-5, 5, (50, 2))

    def spike(X: Points) -> Float[np.ndarray, "n"]:
        return np.where((np.abs(X - rows_raw[7]) < 1e-9).all(axis=1), 1.0, -1.0)

    problem, _ = ask(plane(2), spike, (0.0, 0.0), rows_raw=rows_raw)
    result = answer(problem)
    (found,) = result.counterfactuals
    assert found.certificate is None
    assert result.warnings


def test_a_deadline_before_the_noisy_copies_costs_their_rate_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def two_changes() -> tuple[RecourseProblem, Spy]:
        problem, spy = linear()
        upper_raw = problem.action_set.upper_raw.copy()
        upper_raw[0] = 3.0  # the first feature alone does not go far enough
        return replace(problem, action_set=replace(problem.action_set, upper_raw=upper_raw)), spy

    (quiet,) = answer(two_changes()[0]).counterfactuals
    calls = answer(two_changes()[0]).diagnostics.model_calls
    assert calls is not None
    assert quiet.steps is not None, "the last call"
    calls -= 1
    problem, spy = Clock.installed(monkeypatch).limit(two_changes(), calls=calls)
    result = answer(problem, noise_samples=100)
    (found,) = result.counterfactuals
    assert len(spy.asked) == calls
    assert found.certificate == quiet.certificate
    assert found.steps is None
    (warning,) = result.warnings
    assert warning.startswith("Noisy copies were not measured on the model.")


def test_a_model_that_decides_in_steps_is_measured_and_not_estimated() -> None:
    """The local linear model's rate does not hold there."""

    def stairs(X: Points) -> Float[np.ndarray, "n"]:
        return np.where((X[:, 0] >= 1.0) & (X[:, 0] < 1.5), 1.0, -1.0)

    def asked() -> RecourseProblem:
        return ask(space(), stairs, FACTUAL, rows_raw=rows())[0]

    told, measured = answer(asked(), noise_std=0.5), answer(asked(), noise_std=0.5, noise_samples=4000)
    assert told.warnings == measured.warnings == ()
    (one,) = measured.counterfactuals
    assert one.certificate is not None
    low = (1.5 - one.row_raw[0]) / 0.5, (one.row_raw[0] - 1.0) / 0.5
    assert one.certificate.noise.monte_carlo == pytest.approx(normal_tail(low[0]) + normal_tail(low[1]), abs=0.03)
    assert one.certificate.noise.upper_bound is None


# --- several at once -------------------------------------------------------------------------------------------------


def test_rows_are_certified_independently_of_each_other() -> None:
    problem, _ = curved()
    params = CertificateParams(noise_samples=200, noise_std=0.3)
    shift = shift_of(problem, sample_of(problem), params)
    rows_raw = np.array([[4.0, 0.0, 0.0, 1.0], [-3.0, 1.0, 0.0, 0.0], [1.0, -2.0, 1.5, 0.0]])
    scores = problem.black_box.score_raw(rows_raw)
    start = float(problem.black_box.score_raw(problem.factual_raw[None])[0])
    meter = Meter(problem.black_box)
    together, _ = certify(problem, meter, shift, start, rows_raw, scores)
    assert (meter.calls, meter.rows) == (1, 600)
    for i, one in enumerate(together):
        (alone,), _ = certify(problem, meter, shift, start, rows_raw[i : i + 1], scores[i : i + 1])
        assert alone.noise == one.noise
        assert alone.shift.gelbrich.lower == pytest.approx(one.shift.gelbrich.lower, abs=1e-12)
        assert alone.joint == one.joint
    refused = together[1]
    assert refused.joint is not None
    assert refused.noise.closed_form is not None
    assert refused.shift.gelbrich.lower == refused.joint.lower == 0.0
    assert refused.shift.linf_radius < 0.0
    assert refused.noise.closed_form > 0.5


def test_a_model_that_depends_on_one_switch_gets_finite_numbers() -> None:
    """Each class of samples is one point then."""
    problem, _ = ask(
        FeatureSpace([*plane(1).features, LOAN.features[LOAN.names.index("guarantor")]]),
        lambda rows_raw: rows_raw[:, 1],
        (0.0, 0.0),
        rows_raw=np.random.default_rng(0).integers(2, size=(60, 2)).astype(float),
        constraints={"immutable": ("f0",)},
        raw=True,
        threshold=0.5,
    )
    found, certificate = certified(problem)
    assert found.row_raw.tolist() == [0.0, 1.0]
    assert np.isfinite([certificate.shift.gelbrich.lower, certificate.shift.linf_radius]).all()
    assert (certificate.noise.closed_form, certificate.joint) == (None, None)
    assert certificate.shift.linf_radius > 0.0
