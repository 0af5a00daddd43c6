"""PROBE: what is found is legal, accepted and as robust as was asked, by noise that the test draws itself."""

import math
import pickle
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float
from scipy.stats import norm

from app.errors import BoundaryNotFound, DegenerateSurrogate
from app.recourse.actions.constraints import Bounds, Constraints
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType
from app.recourse.method import MethodContext
from app.recourse.methods.probe import METHOD, ProbeParams, _Probe
from app.recourse.models.linear import LinearModel
from app.recourse.models.meter import Meter
from app.recourse.models.score import Output, sigmoid
from app.recourse.models.tree_boxes import Boxes
from app.recourse.problem import RecourseProblem
from app.recourse.reports import InvalidationReport
from app.recourse.result import RecourseResult, Status
from app.recourse.robustness.invalidation import NOISE_LAWS, NoiseLaw, linear_margin, noise_columns, noise_faults
from app.recourse.robustness.measured_invalidation import MeasuredInvalidation
from app.recourse.search.cheapest import Search
from app.recourse.solve import solve
from app.recourse.surrogate.boundary import sample_boundary, survey
from app.recourse.surrogate.tree import distil
from app.recourse.verdict import Reason
from tests.recourse import certified, oracle
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, questions, rows
from tests.recourse.toys import LOAN, Predict, ask, loan_rows, loan_score, plane

pytestmark = CHECKED_AT_RANDOM

Points = Float[np.ndarray, "n d"]
Scores = Float[np.ndarray, "n"]
DRAWS = 100_000


def answer(problem: RecourseProblem, **params: Any) -> RecourseResult:
    return solve(problem, METHOD, ProbeParams(**params))


def refused_share(
    problem: RecourseProblem, row_raw: Float[np.ndarray, "p"], std: Float[np.ndarray, "d"], law: NoiseLaw = "gaussian"
) -> float:
    """How many of 100,000 noisy copies the model refuses; the test's own draws."""
    columns = np.flatnonzero(std)
    if not len(columns):  # all copies are the same
        return float(not problem.black_box.score(problem.action_set.space.encode(row_raw[None]))[0] >= 0.0)
    X = np.repeat(problem.action_set.space.encode(row_raw[None]), DRAWS, axis=0)
    X[:, columns] += unit_noise(law, len(columns)) * std[columns]
    return float((~(problem.black_box.score(X) >= 0.0)).mean())


@cache
def unit_noise(law: NoiseLaw, count: int) -> Float[np.ndarray, "n k"]:
    """Draws of mean 0 and variance 1, for each of the columns that have noise."""
    rng, size = np.random.default_rng(987), (DRAWS, count)
    draws = {
        "gaussian": rng.standard_normal,
        "laplace": lambda size: rng.laplace(scale=math.sqrt(0.5), size=size),
        "uniform": lambda size: rng.uniform(-math.sqrt(3.0), math.sqrt(3.0), size),
    }[law](size)
    draws.flags.writeable = False
    return draws


def check(problem: RecourseProblem, result: RecourseResult, r: float, noise: Any, law: NoiseLaw = "gaussian") -> None:
    """Everything that every answer promises."""
    actions, space = problem.action_set, problem.action_set.space
    std = noise_columns(space, noise)
    nearest = [result.verdict.nearest] if result.verdict and result.verdict.nearest else []
    for k, found in enumerate([*result.counterfactuals, *nearest]):
        assert np.array_equal(space.read(space.record(found.row_raw)), found.row_raw)
        assert oracle.row_is_legal(space, actions.factual_raw, found.row_raw, actions.constraints, actions.rules)
        assert (found.row_raw != actions.factual_raw).any()
        assert found.cost == pytest.approx(oracle.cost(space, actions.factual_raw, found.row_raw))
        if isinstance(found.report, InvalidationReport):
            report = found.report
            low, high = report.interval
            assert report.target == r
            assert 0.0 <= low <= report.rate <= high <= 1.0
            measured = refused_share(problem, found.row_raw, std, law)
            assert measured == pytest.approx(report.rate, abs=5.5 * math.sqrt(0.25 / report.samples))
            assert k >= len(result.counterfactuals) or measured <= r + 0.01
    for found in result.counterfactuals:
        assert problem.black_box.score_raw(found.row_raw[None])[0] >= 0.0
        assert isinstance(found.report, InvalidationReport)


# --- linear models: the optimum, by another road ---------------------------------------------------------------------


def linear_problem(question: Question, rows_raw: Points, *, output: Output = Output.LOGIT) -> RecourseProblem:
    """The question's model, which says that it is linear."""
    model = question.model

    def predict(X: Points) -> Scores:
        return sigmoid(model.score(X)) if output is Output.PROBABILITY else model.score(X)

    problem, _ = ask(
        question.space, predict, question.factual_raw.tolist(), rows_raw=rows_raw, output=output,
        threshold=0.5 if output is Output.PROBABILITY else 0.0, rules=question.rules,
        constraints=question.constraints, timing=question.timing,
    )  # fmt: skip
    gradient = lambda X: np.tile(model.w, (len(X), 1))  # noqa: E731
    return replace(problem, black_box=replace(problem.black_box, linear=True, gradient=gradient))


@st.composite
def linear_cases(draw: st.DrawFn) -> tuple[Question, Points, float, float]:
    question = draw(questions(with_rules=True))
    rows_raw = np.array(draw(st.lists(rows(question.space), min_size=4, max_size=12)))
    # The model's own intercept, moved so that it refuses the person and, where it can, accepts others.
    heights = question.model.score(question.space.encode(rows_raw))
    height = float(question.model.score(question.space.encode(question.factual_raw[None]))[0])
    rise = draw(st.sampled_from([0.1, 0.4, 0.8])) * max(float(heights.max()) - height, 0.125)
    question = replace(question, model=LinearModel(question.model.w, question.model.c - height - rise))
    return question, rows_raw, draw(st.sampled_from([0.35, 0.2, 0.05, 0.6])), draw(st.sampled_from([0.0, 0.1, 0.5]))


@settings(PROPERTY, max_examples=examples(60))
@given(linear_cases())
def test_on_a_linear_model_nothing_legal_is_cheaper(case: tuple[Question, Points, float, float]) -> None:
    """The cheapest legal record with ``w.x + c >= std |w| ndtri(1 - r)``, by a second program."""
    question, rows_raw, r, noise = case
    problem = linear_problem(question, rows_raw)
    result = answer(problem, target_invalidation_rate=r, noise_std=noise, samples=100)
    check(problem, result, r, noise)
    if result.status is Status.ALREADY_FAVOURABLE:
        return
    reason = result.verdict.reason if result.verdict else None
    try:
        probe_of(problem, samples=100)
    except (BoundaryNotFound, DegenerateSurrogate):
        return  # no record is accepted, or the samples decide alike: then only what others propose is measured
    std = noise_columns(question.space, noise)
    margin = max(float(np.linalg.norm(question.model.w * std) * norm.ppf(1.0 - r)), 0.0)
    program = oracle.Program(
        question.space, question.factual_raw, question.constraints, question.rules, question.model, question.timing
    )
    cheapest = program.cheapest(margin - 1e-9)
    if cheapest is None:
        assert result.status is Status.NOT_FOUND
        assert reason in (Reason.TARGET_NOT_REACHED, Reason.INFEASIBLE_CONSTRAINTS)
        return
    if (strictly := program.cheapest(margin + 1e-5)) is None:  # well beyond the solver's own tolerance
        return  # out of reach but for rounding
    assert result.status is Status.FOUND
    (found,) = result.counterfactuals
    assert cheapest - 1e-6 <= found.cost
    assert oracle.counts_as(found.cost, len(found.changed)) <= oracle.counts_as(strictly, question.space.p) + 1e-6


@pytest.mark.parametrize("seed", range(12))
def test_an_answer_at_the_boundary_is_accepted_when_it_is_asked_about_alone(seed: int) -> None:
    """A product of matrices sums in another order for one row than for many; at rate 1/2 the optimum has score 0."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 34))
    rows_raw, model = rng.normal(size=(200, d)), LinearModel(rng.normal(size=d), 0.1)
    fact = rows_raw[np.argmin(rows_raw @ model.w)]
    problem = linear_problem(Question(plane(d), fact, Constraints(), (), model), rows_raw)
    (found,) = answer(problem, target_invalidation_rate=0.5).counterfactuals
    assert problem.black_box.score_raw(found.row_raw[None])[0] > 0.0
    assert found.score == pytest.approx(0.0, abs=1e-4)


@pytest.mark.parametrize("r", [0.35, 0.2, 0.1, 0.05, 0.001])
def test_on_a_box_the_answer_is_the_projection_with_margin(r: float) -> None:
    """A conic program, with the noise as a second-order cone: ``w.x + c >= ndtri(1 - r) |diag(std) w|``."""
    space = plane(5)
    w, c, fact = np.array([1.0, -2.0, 0.5, 0.0, 1.5]), -3.0, np.array([0.5, 1.0, -0.5, 2.0, -1.0])
    problem = linear_problem(
        Question(space, fact, Constraints(), (), LinearModel(w, c)),
        np.random.default_rng(7).uniform(-5, 5, (300, 5)),
    )
    noise = {"f0": 0.3, "f1": 0.1, "f4": 0.6}
    result = answer(problem, target_invalidation_rate=r, noise_std=noise)
    check(problem, result, r, noise)
    x = cp.Variable(5)
    spread = cp.norm(np.array([0.3, 0.1, 0.0, 0.0, 0.6]) * w, 2)
    conic = cp.Problem(
        cp.Minimize(cp.norm1(x - fact)), [w @ x + c >= float(norm.ppf(1.0 - r)) * spread, x >= -5.0, x <= 5.0]
    )
    conic.solve(solver=cp.CLARABEL)
    assert result.counterfactuals[0].cost == pytest.approx(conic.value, abs=1e-6)
    found = result.counterfactuals[0]
    exact = norm.sf((w @ found.row_raw + c) / np.linalg.norm(noise_columns(space, noise) * w))
    assert exact == pytest.approx(r, abs=1e-7)
    assert result.diagnostics.model_calls <= 6


def test_where_the_samples_decide_alike_an_answer_is_measured_all_the_same() -> None:
    """All that the person can do is to switch, and boundary samples in between say nothing of the switch."""
    switch = Feature(name="switch", type=FeatureType.CATEGORICAL, categories=("a", "b", "c"))
    fixed = Feature(name="fixed", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0, change=Change.NONE)
    space = FeatureSpace([switch, fixed])
    rows_raw = np.column_stack([np.arange(60) % 3, np.linspace(-3, 3, 60)]).astype(float)
    problem, _ = ask(space, lambda X: np.where(X[:, 1] == 1.0, X[:, 3], -1.0), [0.0, 0.5], rows_raw=rows_raw, raw=False)
    with pytest.raises(DegenerateSurrogate):
        probe_of(problem)
    kept, missed = (
        answer(problem, noise_std={"fixed": 0.3}, target_invalidation_rate=0.2),
        answer(problem, noise_std={"fixed": 3.0}, target_invalidation_rate=0.2),
    )
    check(problem, kept, 0.2, {"fixed": 0.3})
    assert kept.status is Status.FOUND
    check(problem, missed, 0.2, {"fixed": 3.0})
    assert missed.status is Status.NOT_FOUND
    assert not kept.warnings


@pytest.mark.parametrize("law", NOISE_LAWS)
@pytest.mark.parametrize("r", [0.35, 0.05])
def test_every_law_has_its_own_margin(law: NoiseLaw, r: float) -> None:
    problem, _ = certified.linear()
    result = answer(problem, target_invalidation_rate=r, noise_law=law, noise_std=0.4)
    check(problem, result, r, 0.4, law)
    std = noise_columns(problem.action_set.space, 0.4)
    margin = linear_margin(certified.W, std, law, r)
    assert result.counterfactuals[0].score == pytest.approx(margin, abs=1e-6)


def test_out_of_reach_it_tells_the_nearest_with_its_measured_rate() -> None:
    """The person can go to 1.05 and no further, where noise turns the decision back in three cases out of ten."""
    problem, _ = ask(
        plane(1, low=-5.0, high=1.05), lambda X: X[:, 0] - 1.0, [-1.0], rows_raw=np.linspace(-5, 1.05, 200)[:, None]
    )
    problem = replace(problem, black_box=replace(problem.black_box, linear=True, gradient=lambda X: np.ones_like(X)))
    assert answer(problem, target_invalidation_rate=0.35).status is Status.FOUND
    result = answer(problem, target_invalidation_rate=0.1)
    check(problem, result, 0.1, 0.1)
    assert result.verdict is not None
    assert result.verdict.reason is Reason.TARGET_NOT_REACHED
    assert result.verdict.nearest is not None
    assert isinstance(result.verdict.nearest.report, InvalidationReport)
    assert result.verdict.nearest.report.rate == pytest.approx(norm.sf(0.5), abs=0.03)


def test_where_even_a_yes_is_out_of_reach_the_constraints_are_to_blame() -> None:
    problem, _ = ask(
        plane(2),
        lambda X: X.sum(axis=1) - 3.0,
        [-2.0, 0.0],
        constraints={"bounds": {"f1": Bounds(max=2.0)}, "immutable": ("f0",)},
    )
    problem = replace(problem, black_box=replace(problem.black_box, linear=True, gradient=lambda X: np.ones_like(X)))
    result = answer(problem)
    assert result.verdict is not None
    assert result.verdict.reason is Reason.INFEASIBLE_CONSTRAINTS
    assert result.verdict.relax is not None


# --- gradients -------------------------------------------------------------------------------------------------------


def tanh_network(d: int, seed: int = 3) -> tuple[Predict, Predict]:
    """A steep smooth network and its gradient."""
    rng = np.random.default_rng(seed)
    A, b, v = rng.normal(0, 0.9, (d, 12)), rng.normal(0, 0.5, 12), rng.normal(0, 1.2, 12)

    def score(X: Points) -> Scores:
        return np.tanh(X @ A + b) @ v - 1.0

    def gradient(X: Points) -> Points:
        return ((1.0 - np.tanh(X @ A + b) ** 2) * v) @ A.T

    return score, gradient


def smooth_problem(person: int, *, d: int = 5, **options: Any) -> RecourseProblem:
    score, gradient = tanh_network(d)
    candidates = np.random.default_rng(11).uniform(-3, 3, (300, d))
    fact = candidates[score(candidates) < -0.3][person]
    problem, _ = ask(plane(d), score, fact.tolist(), **options)
    return replace(problem, black_box=replace(problem.black_box, gradient=gradient))


def probe_of(problem: RecourseProblem, **params: Any) -> _Probe:
    stated, meter = ProbeParams(**params), Meter(problem.black_box)
    seen = survey(problem, meter, stated)
    context = MethodContext(
        sample=sample_boundary(problem, meter, stated, seen), factual_score=seen.factual_score,
        neighbours=seen.ends, certificate=CertificateParams(), meter=meter,
    )  # fmt: skip
    return _Probe(problem, stated, context)


def test_records_with_the_same_linearisation_are_searched_from_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, _ = ask(plane(3), lambda X: X.sum(axis=1) - 1.5, [-2.0, 0.5, 0.0])
    problem = replace(problem, black_box=replace(problem.black_box, gradient=lambda X: np.ones_like(X)))
    probe, searched = probe_of(problem), list[LinearModel]()

    class Recorded(Search):
        def __init__(self, model: LinearModel, *args: Any, **options: Any) -> None:
            searched.append(model)
            super().__init__(model, *args, **options)

    monkeypatch.setattr("app.recourse.methods.probe.Search", Recorded)
    beginnings = np.array([[1.0, 1.0, 1.0], [3.0, 0.5, 0.0], [-2.0, 4.0, 0.0]])
    rows_raw, _ = probe._linearised(beginnings)
    assert len(searched) == 1
    found = {tuple(row) for row in rows_raw.tolist()}
    assert {tuple(row) for row in beginnings.tolist()} < found


@pytest.mark.parametrize("person", range(5))
@pytest.mark.parametrize("r", [0.35, 0.05])
def test_a_curved_network_keeps_the_promise(person: int, r: float) -> None:
    problem = smooth_problem(person)
    result = answer(problem, target_invalidation_rate=r, noise_std=0.3)
    check(problem, result, r, 0.3)
    assert result.status is Status.FOUND
    assert report(result).estimator == "closed_form"


def report(result: RecourseResult) -> InvalidationReport:
    found = result.counterfactuals[0].report
    assert isinstance(found, InvalidationReport)
    return found


@pytest.mark.parametrize("person", range(8))
def test_on_a_curved_network_little_is_cheaper_that_keeps_it_too(person: int) -> None:
    """Against measuring the points of a grid, cheapest first, until one keeps the promise."""
    r, noise = 0.1, 0.1
    problem = smooth_problem(person, d=2)
    result = answer(problem, target_invalidation_rate=r, noise_std=noise)
    check(problem, result, r, noise)
    axis = np.linspace(-5.0, 5.0, 161)
    X = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    cost = np.abs(X - problem.factual_raw).sum(axis=1)
    draws = np.random.default_rng(1).standard_normal((2000, 2)) * noise
    kept = (
        cost[k]
        for k in cost.argsort()
        if problem.black_box.score(X[k : k + 1])[0] >= 0.0 and (problem.black_box.score(X[k] + draws) < 0.0).mean() <= r
    )
    assert result.counterfactuals[0].cost <= 1.1 * next(kept)


# --- any black box ---------------------------------------------------------------------------------------------------


def circle(X: Points) -> Scores:
    return 2.0 - np.hypot(X[:, 0] - 2.0, X[:, 1])


def stumps(X: Points) -> Scores:
    rng = np.random.default_rng(5)
    columns, cuts = rng.integers(X.shape[1], size=60), rng.normal(0.5, 2.0, 60)
    return (X[:, columns] > cuts).mean(axis=1) - 0.6


def stairs(X: Points) -> Scores:
    rich = np.where(X[:, 1] > -2.0, 0.9, 0.4)
    poor = np.where((X[:, 2] > 3.0) & (X[:, 0] > -3.0), 0.7, 0.1)
    return np.where(X[:, 0] > 1.0, rich, poor)


def certain(X: Points) -> Scores:
    return (X @ np.array([0.8, -0.5, 0.3]) >= 1.0).astype(float)


def sometimes_silent(X: Points) -> Scores:
    return np.where((np.abs(X[:, 0] * 7.0) % 1.0 < 0.05) & (X[:, 0] > -4.0), np.nan, X.sum(axis=1) - 1.0)


def raw_loans(rows_raw: Points) -> Scores:
    return loan_score(LOAN.encode(rows_raw))


PROBABILITY = {"output": Output.PROBABILITY, "threshold": 0.5}
MODELS: dict[str, tuple[FeatureSpace, Predict, dict[str, Any]]] = {
    "circle": (plane(2), circle, {}),
    "labels": (plane(2), lambda X: (circle(X) >= 0.0).astype(float), {"output": Output.LABEL}),
    "forest": (plane(5), stumps, {}),
    "tree": (plane(3), stairs, PROBABILITY),
    "certain": (plane(3), certain, PROBABILITY),
    "silent": (plane(2), sometimes_silent, {}),
    "loans": (LOAN, loan_score, {}),
    "raw loans": (LOAN, raw_loans, {"raw": True}),
}


def model_problem(name: str, person: int, **more: Any) -> RecourseProblem:
    space, predict, options = MODELS[name]
    rng = np.random.default_rng(11)
    people = loan_rows(200, seed=9) if space is LOAN else rng.uniform(-4, 4, (200, space.p)).round(2)
    outputs = np.asarray(predict(people if options.get("raw") or space is not LOAN else space.encode(people)))
    refused = people[outputs < (0.5 if "output" in options else -0.05)]
    rows_raw = loan_rows(300) if space is LOAN else None
    return ask(space, predict, refused[person].tolist(), rows_raw=rows_raw, **options, **more)[0]


@pytest.mark.parametrize("estimator", ["auto", "closed_form", "monte_carlo", "tree"])
@pytest.mark.parametrize("name", MODELS)
def test_any_model_and_estimator_keep_the_promise(name: str, estimator: Any) -> None:
    found = 0
    for person in range(3):
        problem = model_problem(name, person)
        for r in (0.35, 0.05):
            result = answer(problem, target_invalidation_rate=r, estimator=estimator)
            check(problem, result, r, 0.1)
            found += result.status is Status.FOUND
            if result.counterfactuals:
                assert report(result).estimator == ("monte_carlo" if estimator == "auto" else estimator)
                assert (report(result).fidelity is not None) == (estimator == "tree")
    assert found >= 4


@pytest.mark.parametrize("law", ["laplace", "uniform"])
@pytest.mark.parametrize("name", ["circle", "loans", "tree"])
def test_any_model_under_other_laws(name: str, law: NoiseLaw) -> None:
    problem = model_problem(name, 0)
    result = answer(problem, target_invalidation_rate=0.1, noise_law=law)
    check(problem, result, 0.1, 0.1, law)
    assert result.status is Status.FOUND


# --- a tree whose leaves are known -----------------------------------------------------------------------------------


PEOPLE = [0, 1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)]
"""Applicants whom the tree below refuses."""


@cache
def grown() -> Boxes:
    """A tree of loans, grown on records."""
    rows_raw = loan_rows(800, seed=1)
    return distil(LOAN.encode(rows_raw), loan_score(LOAN.encode(rows_raw)) >= 0.0).boxes


def leafy(person: int, **options: Any) -> RecourseProblem:
    """An applicant whom that tree refuses; its own leaves are its answers."""
    boxes = grown()
    people = loan_rows(200, seed=9)
    refused = people[boxes.score(LOAN.encode(people)) < 0.0]
    problem, _ = ask(LOAN, boxes.score, refused[person].tolist(), rows_raw=loan_rows(300), **options)
    return replace(problem, black_box=replace(problem.black_box, boxes=boxes))


@pytest.mark.parametrize("person", PEOPLE)
@pytest.mark.parametrize(
    "r", [pytest.param(0.35, marks=pytest.mark.slow), 0.1, pytest.param(0.02, marks=pytest.mark.slow)]
)
def test_a_tree_is_answered_with_its_exact_rate(person: int, r: float) -> None:
    problem = leafy(person)
    result = answer(problem, target_invalidation_rate=r, noise_std=0.2)
    check(problem, result, r, 0.2)
    assert result.status is Status.FOUND
    assert (report(result).estimator, report(result).fidelity) == ("tree", None)
    boxes, row_raw = problem.black_box.boxes, result.counterfactuals[0].row_raw
    assert isinstance(boxes, Boxes)
    assert boxes.rate(LOAN.encode(row_raw[None]), noise_columns(LOAN, 0.2))[0] <= r + 1e-9


@pytest.mark.parametrize("person", PEOPLE)
def test_a_tree_without_noise_is_answered_with_the_cheapest_legal_record(person: int) -> None:
    """Every record with one or two changes to the sides of leaves is tried."""
    problem = leafy(person)
    result = answer(problem, noise_std=0.0)
    check(problem, result, 0.35, 0.0)
    boxes, A = problem.black_box.boxes, problem.action_set
    assert isinstance(boxes, Boxes)
    singles: list[tuple[int, float]] = []
    for j, (feature, span) in enumerate(zip(LOAN.features, LOAN.spans, strict=True)):
        if feature.is_number:
            sides = np.unique(np.concatenate([boxes.lower[:, span.start], boxes.upper[:, span.start]]))
            raw = sides[np.isfinite(sides)] * (feature.scale or 1.0) + (feature.center or 0.0)
            step = A.step_raw[j] or 1e-9
            singles += [
                (j, value)
                for edge in raw
                for value in (edge, np.floor(edge / step) * step, np.ceil(edge / step) * step)
            ]
        else:
            singles += [(j, float(level)) for level in range(len(feature.levels))]
    pairs = [(one, other) for k, one in enumerate(singles) for other in singles[k:]]
    tried = np.tile(problem.factual_raw, (len(pairs), 1))
    for row_raw, moves in zip(tried, pairs, strict=True):
        for j, value in moves:
            row_raw[j] = value
    tried = tried[A.contains(tried)]
    tried = tried[boxes.score(LOAN.encode(tried)) >= 0.0]
    if len(tried):
        assert result.counterfactuals[0].cost <= A.cost(tried).min() + 1e-6


# --- no noise, all of it, odd requests -------------------------------------------------------------------------------


WORDS = FeatureSpace(
    [Feature(name=f"c{j}", type=FeatureType.CATEGORICAL, categories=("a", "b", "c")) for j in range(4)]
)


def words_problem(**black_box: Any) -> RecourseProblem:
    weights = np.random.default_rng(2).normal(size=WORDS.d)
    rows_raw = np.random.default_rng(3).integers(3, size=(200, 4)).astype(float)
    bias = float(np.quantile(WORDS.encode(rows_raw) @ weights, 0.6))
    scores = WORDS.encode(rows_raw) @ weights - bias
    problem, _ = ask(WORDS, lambda X: X @ weights - bias, rows_raw[scores.argmin()].tolist(), rows_raw=rows_raw)
    if black_box.pop("linear", False):
        black_box |= {"linear": True, "gradient": lambda X: np.tile(weights, (len(X), 1))}
    elif black_box.pop("slope", False):
        black_box |= {"gradient": lambda X: np.tile(weights, (len(X), 1))}
    return replace(problem, black_box=replace(problem.black_box, **black_box))


@pytest.mark.parametrize("black_box", [{}, {"linear": True}, {"slope": True}])
@pytest.mark.parametrize("estimator", ["auto", "closed_form", "monte_carlo", "tree"])
def test_categories_alone_have_no_noise(black_box: dict[str, Any], estimator: Any) -> None:
    problem = words_problem(**black_box)
    result = answer(problem, estimator=estimator, target_invalidation_rate=0.01)
    check(problem, result, 0.01, 0.1)
    assert result.status is Status.FOUND
    assert report(result).rate == 0.0


@pytest.mark.parametrize("name", MODELS)
def test_without_noise_any_yes_will_do(name: str) -> None:
    problem = model_problem(name, 1)
    result = answer(problem, noise_std=0.0, target_invalidation_rate=0.001)
    check(problem, result, 0.001, 0.0)
    assert result.status is Status.FOUND
    assert report(result).rate == 0.0


def test_a_rate_above_a_half_asks_for_no_more_than_a_yes() -> None:
    problem, _ = certified.linear()
    half, most = (answer(problem, target_invalidation_rate=r, noise_std=0.5) for r in (0.5, 0.999))
    check(problem, most, 0.999, 0.5)
    assert most.counterfactuals[0].cost == pytest.approx(half.counterfactuals[0].cost, abs=1e-6)


@pytest.mark.parametrize("make", [certified.linear, certified.curved, certified.silent_about_gradients])
def test_cost_grows_as_the_rate_falls(make: Callable[[], Any]) -> None:
    costs = []
    for r in (0.45, 0.35, 0.2, 0.1, 0.05, 0.01):
        result = answer(make()[0], target_invalidation_rate=r, noise_std=0.4)
        check(make()[0], result, r, 0.4)
        costs.append(result.counterfactuals[0].cost)
    assert (np.diff(costs) >= -1e-3).all()
    assert costs[-1] > costs[0] + 0.2


def test_a_gaussian_linear_rate_is_in_the_report() -> None:
    problem, _ = certified.linear()
    found = report(answer(problem, target_invalidation_rate=0.2, noise_samples=20_000))
    assert found.rate == pytest.approx(0.2, abs=0.015)
    assert (found.samples, found.estimator, found.fidelity) == (20_000, "closed_form", None)


def test_a_record_proposed_again_is_measured_once() -> None:
    """Records whose rate is too high end the measurements, but a record that is proposed ten times is one."""
    problem, _ = ask(plane(1), lambda X: X[:, 0], [-1.0])
    measured = MeasuredInvalidation(
        problem,
        Meter(problem.black_box, math.inf),
        LinearModel(np.array([1.0]), 0.0),
        target=0.3,
        noise_std=1.0,
        law="gaussian",
        estimator="closed_form",
        samples=1000,
    )
    rows_raw = np.array([*[[0.1]] * 10, [2.0]])
    misses = measured.shortfall(rows_raw, lambda rows_raw: np.full(len(rows_raw), 0.3), None)
    assert (misses[:10] > 0.0).all()
    assert misses[10] < 0.0


def test_a_rate_close_to_the_target_rests_on_twice_the_draws() -> None:
    """One measurement that happens to be low enough must not decide alone."""
    problem, _ = certified.silent_about_gradients()
    reports = [
        report(answer(replace(problem, seed=seed), target_invalidation_rate=0.35, noise_samples=2000, noise_std=0.5))
        for seed in range(24)
    ]
    close = 0.35 - 2.0 * math.sqrt(0.35 * 0.65 / 2000)
    assert {one.samples for one in reports} <= {2000, 4000}
    assert all(one.samples == 4000 or one.rate <= close for one in reports)
    assert any(one.samples == 4000 for one in reports)


@pytest.mark.parametrize("name", ["circle", "loans", "raw loans", "tree"])
def test_the_same_question_has_the_same_answer_to_the_last_bit(name: str) -> None:
    def once(seed: int) -> bytes:
        content = asdict(answer(model_problem(name, 0, seed=seed)))
        del content["diagnostics"]["elapsed_ms"]
        return pickle.dumps(content)

    assert once(4) == once(4)


def test_gradients_too_have_the_same_answer_to_the_last_bit() -> None:
    one, again = (asdict(answer(smooth_problem(1))) for _ in range(2))
    for content in (one, again):
        del content["diagnostics"]["elapsed_ms"]
    assert pickle.dumps(one) == pickle.dumps(again)


@pytest.mark.parametrize("calls_in_time", range(12))
@pytest.mark.parametrize("make", [certified.linear, certified.curved, certified.silent_about_gradients])
def test_no_call_is_begun_after_the_deadline(
    make: Callable[[], Any], calls_in_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = certified.Clock.installed(monkeypatch)
    problem, spy = clock.limit(make(), calls=calls_in_time)
    result = answer(problem)
    assert len(spy.asked) <= calls_in_time
    assert clock.now - problem.deadline <= 1.0
    check(replace(problem, deadline=math.inf), result, 0.35, 0.1)
    if not result.counterfactuals:
        assert result.verdict is not None
        assert result.verdict.reason is Reason.DEADLINE


def test_noise_of_features_that_are_none_is_a_fault() -> None:
    params = ProbeParams(noise_std={"age": 0.1, "shoe size": 0.2, "housing": 0.3})
    faults = METHOD.faults(LOAN, params)
    assert [fault.pointer for fault in faults] == ["/noise_std/shoe size", "/noise_std/housing"]
    assert list(faults) == [fault.under("/noise_std") for fault in noise_faults(LOAN, params.noise_std)]
