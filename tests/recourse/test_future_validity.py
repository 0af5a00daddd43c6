"""Answers that future models must accept: the share that is asked is reached or said to be out of reach."""

import math
from dataclasses import replace

import numpy as np
import pytest
from jaxtyping import Float
from scipy.special import ndtr

from app.errors import InvalidRequest
from app.futures.store import load_futures
from app.recourse.actions.action_set import action_set
from app.recourse.assess import assess
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import FutureCertificate
from app.recourse.frontier import FUTURE_VALIDITY, frontier
from app.recourse.models.calibration import Calibration
from app.recourse.models.committee import FutureModels, Futures
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem
from app.recourse.result import Status
from app.recourse.robustness.invalidation import clopper_pearson
from app.recourse.robustness.share_interval import share_interval
from app.recourse.solve import METHODS, solve
from app.recourse.verdict import Reason
from app.recourse.verification.aim import SURE, aim, bell_deviations, deviations
from app.registry.registry import Registry
from tests.conftest import DEMO_STORE
from tests.recourse.toys import LOAN, ask, loan_rows, loan_score

ROWS = loan_rows(400)
REJECTED = ROWS[loan_score(LOAN.encode(ROWS)) < -0.3][:4]
MODELS = 30
RADIUS_0 = CertificateParams(ambiguity_radius=0.0)


def future_models(seed: int, *, spread: float = 0.35) -> FutureModels:
    """Models that differ from today's by a random linear score."""
    rng = np.random.default_rng(seed)
    weights, shifts = spread * rng.normal(size=(LOAN.d, MODELS)), spread * rng.normal(size=MODELS)
    return FutureModels(
        space=LOAN, count=MODELS, score_all=lambda X: loan_score(X)[:, None] + X @ weights / 2.0 + shifts
    )


FUTURES = Futures(search=future_models(1), held_back=future_models(2), source="retrained")


def question(factual_raw: Float[np.ndarray, "p"], asked: float | None, futures: Futures = FUTURES) -> RecourseProblem:
    problem, _ = ask(LOAN, loan_score, factual_raw.tolist(), rows_raw=ROWS)
    return replace(problem, futures=futures, future_validity=asked)


@pytest.mark.parametrize("share", [0.6, 0.8, 0.9])
def test_the_search_aims_at_the_fewest_models_that_make_the_share_probable(share: float) -> None:
    """With 60 models in each set, by drawing what the search set leaves open of a record's own share."""
    count, rng = aim(share, 60, 60), np.random.default_rng(0)

    def reached(accepted: int) -> float:
        own = rng.beta(accepted - 0.5, 60 - accepted + 1.5, 400_000)
        return float((rng.binomial(60, own) >= share * 60 - 1e-9).mean())

    assert reached(count - 1) < SURE + 0.002
    assert reached(count) >= SURE - 0.002
    assert count < aim(0.95, 60, 60)


@pytest.mark.parametrize("share", [0.6, 0.8, 0.9, 0.95])
def test_bell_shaped_scores_are_aimed_at_by_their_mean(share: float) -> None:
    """Of records that 60 models score alike, and all whose mean is as far above 0: how many hold among 60 others."""
    z, rng, draws = deviations(share, 60, 60), np.random.default_rng(0), 2_000_000
    own = rng.uniform(-1.0, 5.0, draws)
    mean, spread = own + rng.normal(size=draws) / math.sqrt(60), np.sqrt(rng.chisquare(59, draws) / 60)
    alike = own[np.abs(mean / spread - z) < 0.05]
    reached = (rng.binomial(60, ndtr(alike)) >= share * 60 - 1e-9).mean()
    assert reached == pytest.approx(SURE, abs=0.015)
    assert ndtr(z) < aim(share, 60, 60) / 60  # so it asks for less than a count does
    assert z < deviations(min(1.0, share + 0.05), 60, 60)
    assert math.isinf(deviations(share, 5, 5))


@pytest.mark.parametrize("needed", [0.5, 1.5, 2.5])
def test_a_quantile_is_aimed_at_so_that_the_held_back_scores_reach_it(needed: float) -> None:
    """Of bell curves whose quantile 60 scores put at the aim: how often 60 others put it at what is needed."""
    z, rng, draws = bell_deviations(needed, 60, 60), np.random.default_rng(0), 2_000_000

    def estimated() -> Float[np.ndarray, "n"]:
        return (own + rng.normal(size=draws) / math.sqrt(60)) / np.sqrt(rng.chisquare(59, draws) / 59)

    own = rng.uniform(-1.0, 6.0, draws)
    alike = np.abs(estimated() - z) < 0.05
    assert (estimated()[alike] >= needed).mean() == pytest.approx(SURE, abs=0.015)


def test_labels_are_counted() -> None:
    """They have no bell: their mean and deviation would ask for less than a count does."""

    def labels(models: FutureModels) -> FutureModels:
        return replace(models, score_all=lambda X: np.where(models.score_all(X) >= 0.0, 1.0, -1.0))

    futures = replace(FUTURES, search=labels(FUTURES.search), held_back=labels(FUTURES.held_back))
    method = METHODS["growing_spheres"]
    for factual_raw in REJECTED:
        predict = lambda X: (loan_score(X) >= 0.0).astype(float)  # noqa: E731
        problem, _ = ask(LOAN, predict, factual_raw.tolist(), rows_raw=ROWS, output=Output.LABEL, threshold=0.5)
        result = solve(replace(problem, futures=futures, future_validity=0.9), method, method.params())
        (one,) = result.counterfactuals
        assert futures.search.shares(one.row_raw[None])[0] >= aim(0.9, MODELS, MODELS) / MODELS


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_reaches_the_share_that_is_asked_for(name: str) -> None:
    method = METHODS[name]
    for factual_raw in REJECTED[:2]:
        problem = question(factual_raw, 0.9)
        result = solve(problem, method, method.params(), CertificateParams())
        assert result.status is Status.FOUND
        for one in result.counterfactuals:
            row = one.row_raw[None]
            assert problem.action_set.contains(row)[0]
            assert loan_score(LOAN.encode(row))[0] >= 0
            assert FUTURES.search.shares(row)[0] >= 0.9
            told = one.future
            assert told is not None
            accepted = int((FUTURES.held_back.score_all(LOAN.encode(row)) >= 0).sum())
            assert (told.probability, told.models, told.asked) == (accepted / MODELS, MODELS, 0.9)
            assert told.interval == clopper_pearson(accepted, MODELS)
            assert told.records is None


def test_the_interval_is_about_models_of_new_records() -> None:
    futures = replace(FUTURES, records="fresh")
    (told,) = certificates(question(REJECTED[0], 0.8, futures))
    accepted = round(told.probability * MODELS)
    assert told.records == "fresh"
    assert told.interval == share_interval(accepted, MODELS, "fresh")
    assert told.interval[0] < clopper_pearson(accepted, MODELS)[0]


def certificates(problem: RecourseProblem) -> list[FutureCertificate]:
    method = METHODS["robust_mpm"]
    return [one.future for one in solve(problem, method, method.params()).counterfactuals if one.future]


def test_what_is_told_is_from_models_that_no_search_has_asked() -> None:
    asked = []

    def spied(X: np.ndarray) -> np.ndarray:
        asked.append(len(X))
        return FUTURES.held_back.score_all(X)

    futures = replace(FUTURES, held_back=replace(FUTURES.held_back, score_all=spied))
    result = solve(question(REJECTED[0], 0.9, futures), METHODS["robust_mpm"], METHODS["robust_mpm"].params())
    assert sum(asked) == len(result.counterfactuals) == 1


@pytest.mark.parametrize(("refusing", "warned"), [(0, False), (3, False), (4, True), (15, True)])
def test_less_than_was_asked_for_is_always_said(refusing: int, warned: bool) -> None:
    """Of 30 models 3 may refuse where 0.9 are asked for."""
    scores, method = FUTURES.held_back.score_all, METHODS["robust_mpm"]
    stricter = replace(FUTURES.held_back, score_all=lambda X: np.abs(scores(X)) - 1e3 * (np.arange(MODELS) < refusing))
    result = solve(question(REJECTED[0], 0.9, replace(FUTURES, held_back=stricter)), method, method.params())
    sentence = f"{MODELS - refusing} of {MODELS} future models that the search did not ask accept this record"
    assert any(sentence in warning for warning in result.warnings) == warned
    unasked = solve(question(REJECTED[0], None, replace(FUTURES, held_back=stricter)), method, method.params())
    assert not any("were asked" in warning for warning in unasked.warnings)


def test_a_larger_share_costs_no_less_and_a_smaller_one_no_more() -> None:
    method = METHODS["robust_mpm"]
    shares = [0.5, 0.8, 0.95, 1.0]
    curve = frontier(question(REJECTED[1], None), method, method.params(), FUTURE_VALIDITY, shares)
    costs = [point.result.counterfactuals[0].cost for point in curve.points]
    assert costs == sorted(costs)
    for share, point in zip(shares, curve.points, strict=True):
        assert FUTURES.search.shares(point.result.counterfactuals[0].row_raw[None])[0] >= share


def test_a_plan_in_a_frontier_says_which_share_was_asked_for() -> None:
    copa = METHODS["copa"]
    params = copa.params(count=2)  # type: ignore[call-arg]
    curve = frontier(question(REJECTED[0], None), copa, params, FUTURE_VALIDITY, [0.6, 0.8], CertificateParams())
    for point in curve.points:
        assert point.result.plan is not None
        assert point.result.plan.future is not None
        assert point.result.plan.future.asked == point.value


def test_a_share_out_of_reach_is_a_verdict_with_how_far_it_got() -> None:
    scores = FUTURES.search.score_all
    stubborn = replace(FUTURES.search, score_all=lambda X: scores(X) - 100.0 * (np.arange(MODELS) % 3 == 0))
    problem = question(REJECTED[0], 0.9, replace(FUTURES, search=stubborn))
    result = solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params())
    assert result.status is Status.NOT_FOUND
    assert result.verdict is not None
    assert result.verdict.reason is Reason.TARGET_NOT_REACHED
    nearest = result.verdict.nearest
    assert nearest is not None
    assert nearest.score >= 0
    share = stubborn.shares(nearest.row_raw[None])[0]
    assert share >= 0.6
    assert f"accepted by {math.floor(1e3 * share) / 10:g}% of them" in result.verdict.sentence
    assert nearest.future is not None


@pytest.mark.parametrize("calibration", [None, Calibration(told=(0.5,), by=(0.3,), promises=60, retrainings=2)])
def test_held_back_models_and_later_versions_have_no_say_in_which_ways_are_listed(
    calibration: Calibration | None,
) -> None:
    """Chosen by what the held-back models say of them, ways would be told more than holds."""
    method, futures = METHODS["robust_mpm"], replace(FUTURES, calibration=calibration)
    refusing = replace(FUTURES.held_back, score_all=lambda X: np.full((len(X), MODELS), -1.0))
    ways, refused = (
        solve(replace(question(REJECTED[0], 0.8, one), count=3), method, method.params()).counterfactuals
        for one in (futures, replace(futures, held_back=refusing))
    )
    assert len(ways) == 3
    np.testing.assert_array_equal([way.row_raw for way in ways], [way.row_raw for way in refused])
    assert (FUTURES.search.shares(np.array([way.row_raw for way in ways])) >= 0.8).all()


def test_a_promise_about_noise_is_kept_as_well() -> None:
    method = METHODS["probe"]
    params = method.params(target_invalidation_rate=0.1, noise_std=0.3)
    result = solve(question(REJECTED[0], 0.9), method, params)
    assert result.status is Status.FOUND
    (one,) = result.counterfactuals
    assert one.report is not None
    assert one.report.rate <= 0.1
    assert FUTURES.search.shares(one.row_raw[None])[0] >= 0.9


def test_the_demo_keeps_noise_and_retraining_apart_and_both() -> None:
    """The rate by noise on raw records, drawn here; the share by models that no search has asked."""
    model = Registry(DEMO_STORE).find("consumer-loan@1")
    loaded, futures = model.load(), load_futures(model)
    assert futures is not None
    space, method = loaded.black_box.space, METHODS["probe"]
    inexact = np.array([space.features[j].noise for j in space.numeric.tolist()])
    noisy, scale = space.numeric[inexact], space.scale_raw[inexact]
    rng, told = np.random.default_rng(5), []
    for row_raw in loaded.reference.rows_raw[loaded.reference.scores < 0.0][:5]:
        problem = RecourseProblem(
            black_box=loaded.black_box, reference=loaded.reference, futures=futures, future_validity=0.9,
            action_set=action_set(space, row_raw, rules=loaded.rules),
        )  # fmt: skip
        (one,) = solve(problem, method, method.params(target_invalidation_rate=0.02)).counterfactuals
        assert futures.search.shares(one.row_raw[None])[0] >= 0.9
        assert one.future is not None
        told.append(one.future.probability)
        copies = np.tile(one.row_raw, (10_000, 1))
        copies[:, noisy] += 0.1 * scale * rng.standard_normal((len(copies), len(noisy)))
        refused = int((loaded.black_box.score_raw(copies) < 0.0).sum())
        assert clopper_pearson(refused, len(copies))[0] <= 0.02
    assert np.mean(told) >= 0.85


def test_a_knob_that_is_set_is_kept_as_well() -> None:
    method = METHODS["robust_mpm"]
    free = solve(question(REJECTED[1], 0.7), method, method.params()).counterfactuals[0]
    bound = solve(question(REJECTED[1], 0.7), method, method.params(margin=1.5)).counterfactuals[0]
    assert bound.cost > free.cost
    assert bound.score > free.score


def test_without_future_models_nothing_can_be_asked_of_them() -> None:
    problem = replace(question(REJECTED[0], 0.9), futures=None)
    with pytest.raises(InvalidRequest) as caught:
        solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params())
    assert caught.value.faults[0].pointer == "/future_validity"


def test_records_that_were_brought_are_told_their_share_too() -> None:
    rows = ROWS[loan_score(LOAN.encode(ROWS)) >= 0][:3]
    found = assess(question(REJECTED[0], None), rows, CertificateParams())
    accepted = FUTURES.held_back.score_all(LOAN.encode(rows)) >= 0
    assert [one.future.probability for one in found.judged if one.future] == accepted.mean(axis=1).tolist()
    assert found.plan is not None
    assert found.plan.future is not None
    assert found.plan.future.all == accepted.all(axis=0).mean()
    assert found.plan.future.any == accepted.any(axis=0).mean()
    assert found.plan.future.any_interval == clopper_pearson(int(accepted.any(axis=0).sum()), accepted.shape[1])
    assert found.plan.future.models == accepted.shape[1]


def test_several_ways_are_judged_together_by_future_models() -> None:
    problem = replace(question(REJECTED[0], None), count=3)
    method = METHODS["robust_mpm"]
    found = solve(problem, method, method.params(), CertificateParams())
    assert len(found.counterfactuals) > 1
    rows = np.array([one.row_raw for one in found.counterfactuals])
    accepted = FUTURES.held_back.score_all(LOAN.encode(rows)) >= 0
    plan = found.plan
    assert plan is not None
    assert plan.future is not None
    assert (plan.future.all, plan.future.any) == (accepted.all(axis=0).mean(), accepted.any(axis=0).mean())
    assert 0.0 <= plan.lower <= plan.upper <= 1.0
    assert solve(replace(problem, count=1), method, method.params(), CertificateParams()).plan is None


def test_the_bound_of_a_record_is_half_of_gausss_inequality_for_the_models_scores() -> None:
    """At radius 0, for scores that no line describes: all models accept what is past a step, with different scores."""
    rng = np.random.default_rng(5)
    slopes, heights = rng.normal(size=(LOAN.d, MODELS)), np.exp(rng.normal(size=MODELS))

    def stepped(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        return np.where(loan_score(X)[:, None] >= 0.2, heights, X @ slopes - 1.0)

    models = replace(FUTURES.held_back, score_all=stepped)
    problem = question(REJECTED[0], 1.0, replace(FUTURES, search=models, held_back=models))
    (one,) = solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), RADIUS_0).counterfactuals
    deviations = heights.mean() / heights.std(ddof=1)
    assert deviations < 2.0 / math.sqrt(3.0)
    gauss = 0.5 + deviations / (2.0 * math.sqrt(3.0))
    assert gauss < clopper_pearson(MODELS, MODELS)[0]
    assert one.certificate is not None
    assert one.certificate.shift.gelbrich.moments == "future"
    assert one.certificate.shift.gelbrich.lower == pytest.approx(gauss, rel=1e-6)
    assert one.certificate.shift.gelbrich.exact


@pytest.mark.parametrize("smooth", [True, False])
def test_a_record_on_its_own_asks_each_future_model_few_times(smooth: bool) -> None:
    """Once for the record, and once for each noisy column where the certificate has a joint bound."""
    rows: list[int] = []

    def counted(X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        rows.append(len(X))
        return FUTURES.held_back.score_all(X)

    problem = question(REJECTED[0], None, replace(FUTURES, held_back=replace(FUTURES.held_back, score_all=counted)))
    if smooth:
        problem = replace(problem, black_box=replace(problem.black_box, gradient=np.ones_like))
    (one,) = solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), CertificateParams()).counterfactuals
    assert one.certificate is not None
    assert (one.certificate.joint is not None) == smooth
    assert sum(rows) <= 1 + (LOAN.d if smooth else 0)


def test_noise_and_retraining_together_promise_no_more_than_retraining_alone() -> None:
    """All models agree far from their boundary, so that the interval of the share is what limits the bound."""
    agreeing = replace(FUTURES.held_back, score_all=lambda X: np.repeat(10.0 * loan_score(X)[:, None] + 5.0, MODELS, 1))
    problem = question(REJECTED[0], None, replace(FUTURES, held_back=agreeing))
    problem = replace(problem, black_box=replace(problem.black_box, gradient=np.ones_like))
    (one,) = solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), CertificateParams()).counterfactuals
    assert one.certificate is not None
    assert one.certificate.joint is not None
    lower = one.certificate.shift.gelbrich.lower
    assert lower == pytest.approx(clopper_pearson(MODELS, MODELS)[0])
    assert not one.certificate.shift.gelbrich.exact, "what the interval of the share limits is no tight bound"
    assert one.certificate.joint.lower <= lower
    assert max(one.certificate.joint.interval) <= lower


def test_without_noise_the_joint_bound_is_that_of_retraining() -> None:
    problem = question(REJECTED[0], 0.8)
    problem = replace(problem, black_box=replace(problem.black_box, gradient=np.ones_like))
    exactly = CertificateParams(noise_std=0.0)
    (one,) = solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), exactly).counterfactuals
    assert one.certificate is not None
    assert one.certificate.joint is not None
    lower = one.certificate.shift.gelbrich.lower
    assert lower > 0.0
    assert one.certificate.joint.lower == pytest.approx(lower)
    assert one.certificate.joint.interval == pytest.approx((lower, lower))


def test_a_plan_promises_no_more_than_each_of_its_members() -> None:
    futures = replace(FUTURES, records="fresh")
    problem, method = replace(question(REJECTED[1], None, futures), count=2), METHODS["robust_mpm"]
    ways = solve(problem, method, method.params(), RADIUS_0).counterfactuals
    assert len(ways) == 2
    rows_raw = np.array([one.row_raw for one in ways])
    for members in (rows_raw, rows_raw[:1]):
        found = assess(problem, members, RADIUS_0)
        assert found.plan is not None
        assert found.plan.future is not None
        for one in found.judged:
            assert one.future is not None
            assert one.certificate is not None
            assert found.plan.future.all_interval[0] <= one.future.interval[0]
            assert found.plan.lower <= one.certificate.shift.gelbrich.lower
    assert found.plan.lower == one.certificate.shift.gelbrich.lower > 0.0, "the plan is this record"


@pytest.mark.parametrize("seed", range(4))
def test_the_joint_bound_of_a_plan_is_below_the_share_that_accepts_all(seed: int) -> None:
    """At radius 0, for models that no line describes: the least of any distribution with these scores' moments."""
    rng = np.random.default_rng(seed)
    slopes, shifts = rng.normal(size=(LOAN.d, MODELS)), rng.normal(2.5, 1.0, MODELS)
    wild = replace(FUTURES.held_back, score_all=lambda X: np.sin(3.0 * X @ slopes) + shifts)
    problem = question(REJECTED[0], None, replace(FUTURES, held_back=wild))
    plan = assess(problem, REJECTED[1:4], RADIUS_0).plan
    assert plan is not None
    assert plan.future is not None
    assert plan.status == "complete"
    assert 0.0 < plan.lower < plan.future.all_interval[0]


def test_a_record_that_only_future_models_accept_is_no_mistake_of_theirs() -> None:
    accepting = replace(FUTURES.held_back, score_all=lambda X: np.repeat(loan_score(X)[:, None] + 5.0, MODELS, 1))
    problem = question(REJECTED[0], None, replace(FUTURES, held_back=accepting))
    found = assess(problem, REJECTED[1:2], CertificateParams())
    (one,) = found.judged
    assert one.score is not None
    assert one.score < 0.0
    assert one.certificate is not None
    assert one.certificate.shift.gelbrich.lower > 0.5
    assert not [warning for warning in found.warnings if "refuses" in warning]
