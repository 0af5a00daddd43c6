"""Kinds of surrogates, against scikit-learn where it has them, and their scale against the model's own."""

import math
import time
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from app.recourse.models.meter import Meter
from app.recourse.models.score import Output
from app.recourse.surrogate.boundary import SamplerParams, sample_boundary, survey
from app.recourse.surrogate.linear_fits import SurrogateKind, ridge, svm
from app.recourse.surrogate.local import in_space, local_linear, logit_model, other_logit_model
from tests.recourse.test_solve_many import Far
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score, plane

W = np.array([0.8, -0.5, 0.3])


def test_ridge_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    X, y, weights = rng.normal(size=(80, 4)), rng.random(80), rng.random(80)
    ours = ridge(X, y, 0.4, weights)
    theirs = Ridge(alpha=1.0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.w, theirs.coef_, atol=1e-10)
    assert ours.c == pytest.approx(theirs.intercept_ - 0.4, abs=1e-10)


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_the_widest_margin_is_scikit_learns(noise: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 4))
    accepted = X @ np.array([1.0, -2.0, 0.5, 0.0]) + noise * rng.normal(size=200) > 0.3
    ours = svm(X, accepted)
    # It penalises the intercept as well, the less the larger this scale is.
    theirs = LinearSVC(C=1.0, intercept_scaling=1e3, tol=1e-10, max_iter=200_000, dual=False).fit(X, accepted)
    np.testing.assert_allclose(ours.w, theirs.coef_[0], rtol=1e-3, atol=1e-3)
    assert ours.c == pytest.approx(float(theirs.intercept_[0]), rel=1e-2, abs=1e-3)


def prepared(output: Output = Output.LOGIT):  # type: ignore[no-untyped-def]
    def predict(X: np.ndarray) -> np.ndarray:
        score = 3.0 * (X @ W - 1.0)
        return score if output is Output.LOGIT else (score >= 0.0).astype(float)

    problem, _ = ask(plane(3), predict, [-2.0, 1.0, 0.5], output=output)
    meter = Meter(problem.black_box)
    sampler = SamplerParams(radius_fraction=0.2)
    sample = sample_boundary(problem, meter, sampler, survey(problem, meter, sampler))
    return problem, sample, meter


@pytest.mark.parametrize("kind", get_args(SurrogateKind))
def test_every_kind_finds_a_plane_and_its_scale(kind: SurrogateKind) -> None:
    problem, sample, meter = prepared()
    found = logit_model(problem, sample, meter, kind)
    assert found.report.kind == kind
    cosine = found.model.w @ W / np.linalg.norm(found.model.w) / np.linalg.norm(W)
    assert cosine > 0.99
    if kind not in ("lime", "clime"):  # which see probabilities far from the boundary, and miss it
        assert found.report.fidelity > 0.95
        assert np.linalg.norm(found.model.w) == pytest.approx(3.0 * np.linalg.norm(W), rel=0.15)


def test_labels_have_a_scale_too() -> None:
    problem, sample, meter = prepared(Output.LABEL)
    model = logit_model(problem, sample, meter, "mpm").model
    assert 1.0 < np.linalg.norm(model.w) < 50.0


def test_a_linear_model_keeps_its_own_weights() -> None:
    problem, sample, meter = prepared()
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.broadcast_to(3.0 * W, X.shape))
    problem = replace(problem, black_box=black_box)
    found = logit_model(problem, sample, meter, "mpm")
    np.testing.assert_allclose(found.model.w, 3.0 * W)
    assert found.model.c == pytest.approx(-3.0)
    np.testing.assert_allclose(local_linear(problem, sample).w, W / np.linalg.norm(W))


def test_another_model_is_seen_in_this_space() -> None:
    rows = loan_rows(300)
    problem, _ = ask(LOAN, loan_score, rows[0].tolist(), rows_raw=rows)
    other_space = type(LOAN)(
        [
            f if f.is_group else replace(f, center=(f.center or 0.0) + 1.0, scale=2.0 * (f.scale or 1.0))
            for f in LOAN.features
        ]
    )
    w = np.random.default_rng(0).normal(size=LOAN.d)
    other = replace(
        problem.black_box,
        space=other_space,
        predict=lambda X: X @ w - 0.5,
        gradient=lambda X: np.broadcast_to(w, X.shape),
        linear=True,
    )
    seen = in_space(other, problem)
    np.testing.assert_allclose(seen.score_raw(rows), other.score_raw(rows), atol=1e-9)
    far = replace(other, remote=Far(other.predict))
    asked = Meter(in_space(far, problem), time.monotonic() + 60.0)
    np.testing.assert_allclose(asked.score_raw(rows), other.score_raw(rows), atol=1e-9)
    meter = Meter(problem.black_box)
    sampler = SamplerParams(radius_fraction=0.25)
    sample = sample_boundary(problem, meter, sampler, survey(problem, meter, sampler))
    model = other_logit_model(problem, sample, other, math.inf, "mpm")
    np.testing.assert_allclose(model.score(LOAN.encode(rows)), other.score_raw(rows), atol=1e-8)
