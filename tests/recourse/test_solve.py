"""Answers: what is returned is true, whatever the model, the person and the constraints are."""

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from app.errors import ModelOutputInvalid, SolverFailed
from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Bounds, Direction
from app.recourse.actions.rules import LinearRule
from app.recourse.actions.timing import Timing
from app.recourse.actions.wishes import ChangeTo, Wishes
from app.recourse.candidates import Candidates
from app.recourse.counterfactual import Counterfactual
from app.recourse.fallback import FALLBACK_WARNING, fallback_rows
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType, MovesWithTime
from app.recourse.methods.robust_mpm import METHOD, RobustMpmParams
from app.recourse.models.score import Output
from app.recourse.models.tree_boxes import Boxes
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import MAX_CALLS, METHODS, solve
from app.recourse.verdict import Reason
from tests.recourse import oracle
from tests.recourse.certified import Clock
from tests.recourse.methods.test_robust_mpm import proposed
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, Question, examples, questions, rows
from tests.recourse.toys import LOAN, Predict, Spy, ask, loan_rows, loan_score, plane

pytestmark = CHECKED_AT_RANDOM

Points = Float[np.ndarray, "n d"]
Scores = Float[np.ndarray, "n"]


def answer(problem: RecourseProblem, **params: Any) -> RecourseResult:
    return solve(problem, METHOD, RobustMpmParams(**params))


def check(problem: RecourseProblem, spy: Spy, result: RecourseResult) -> None:
    """Everything that every answer promises."""
    calls = result.diagnostics.model_calls
    assert calls is not None
    assert calls <= len(spy.asked) <= calls + 3, (
        "the rest of a ladder, adapted records and needless changes continue it"
    )
    assert calls <= MAX_CALLS
    assert result.diagnostics.model_rows == sum(len(X) for X in spy.asked)
    assert (result.status is Status.FOUND) == bool(result.counterfactuals)
    assert (result.status is Status.NOT_FOUND) == (result.verdict is not None)
    if result.status is Status.ALREADY_FAVOURABLE:
        assert decision(problem, spy, problem.factual_raw)
    elif result.factual_score is not None:
        assert not decision(problem, spy, problem.factual_raw)
    for found in result.counterfactuals:
        check_record(problem, spy, found)
        assert decision(problem, spy, found.row_raw)
        assert found.score >= 0.0
    nearest = result.verdict.nearest if result.verdict else None
    if nearest is not None:
        check_record(problem, spy, nearest)
        assert not decision(problem, spy, nearest.row_raw)


def check_record(problem: RecourseProblem, spy: Spy, found: Counterfactual) -> None:
    """It survives JSON, is legal by the definitions, and its numbers are its own."""
    actions, space = problem.action_set, problem.action_set.space
    record = json.loads(json.dumps(space.record(found.row_raw)))
    assert np.array_equal(space.read(record), found.row_raw)
    assert oracle.row_is_legal(
        space, actions.factual_raw, found.row_raw, actions.constraints, actions.rules, actions.timing
    )
    differ = found.row_raw != actions.factual_raw
    assert differ.any()
    assert found.changed == tuple(np.flatnonzero(differ))
    assert found.cost == pytest.approx(oracle.cost(space, actions.factual_raw, found.row_raw))
    # A batch may be summed in another order than a single record.
    assert found.score == pytest.approx(problem.black_box.score_raw(found.row_raw[None])[0], rel=1e-9, abs=1e-9)
    spy.asked.pop()


def decision(problem: RecourseProblem, spy: Spy, row_raw: Float[np.ndarray, "p"]) -> bool:
    """What the model itself says about a record that went through JSON, compared by the test."""
    space, black_box = problem.action_set.space, problem.black_box
    row_raw = space.read(json.loads(json.dumps(space.record(row_raw))))
    output = spy.predict(row_raw[None] if spy.raw else space.encode(row_raw[None]))[0]
    return bool(output > 0.5 if black_box.output is Output.LABEL else output >= black_box.threshold)


# --- toy black boxes -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Toy:
    """A model with people whom it refuses."""

    space: FeatureSpace
    predict: Predict
    people: Callable[[], Points]
    rows_raw: Points | None = None
    options: dict[str, Any] = field(default_factory=dict)


def refused_on_the_plane(d: int, predict: Predict, threshold: float = 0.0) -> Callable[[], Points]:
    def people() -> Points:
        candidates = np.random.default_rng(11).uniform(-4, 4, (200, d)).round(2)
        return candidates[np.asarray(predict(candidates)) < threshold][:4]

    return people


def linear(X: Points) -> Scores:
    return X @ np.array([0.8, -0.5, 0.3]) - 1.0


def circle(X: Points) -> Scores:
    return 2.0 - np.hypot(X[:, 0] - 2.0, X[:, 1])


def xor(X: Points) -> Scores:
    return np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)


def tree(X: Points) -> Scores:
    """Leaves of a decision tree, as a probability."""
    rich = np.where(X[:, 1] > -2.0, 0.9, 0.4)
    poor = np.where((X[:, 2] > 3.0) & (X[:, 0] > -3.0), 0.7, 0.1)
    return np.where(X[:, 0] > 1.0, rich, poor)


def forest(X: Points) -> Scores:
    """The mean of sixty random stumps that lean towards high values."""
    rng = np.random.default_rng(5)
    columns, cuts = rng.integers(X.shape[1], size=60), rng.normal(0.5, 2.0, 60)
    return (X[:, columns] > cuts).mean(axis=1)


def smooth(X: Points) -> Scores:
    """A small random network, favourable for about a third of the plane."""
    rng = np.random.default_rng(3)
    hidden = np.tanh(X @ rng.normal(0, 0.4, (X.shape[1], 12)) + rng.normal(0, 0.5, 12))
    return hidden @ np.abs(rng.normal(0, 1.0, 12)) - 1.5


def loan_tree(rows_raw: Points) -> Scores:
    """Rules over raw loan records."""
    age, months, income, rate, savings, guarantor, housing, _ = rows_raw.T
    safe = (income > 3500) | (guarantor == 1) & (income > 1800) | (savings == 2) & (rate < 0.5)
    return np.where(safe & (months <= 48) & ((housing == 1) | (age > 25)), 0.8, 0.2)


def refused_loans(predict: Predict, threshold: float, *, raw: bool) -> Callable[[], Points]:
    def people() -> Points:
        rows_raw = loan_rows(200, seed=9)
        return rows_raw[np.asarray(predict(rows_raw if raw else LOAN.encode(rows_raw))) < threshold][:4]

    return people


def probability(X: Points) -> Scores:
    return 1.0 / (1.0 + np.exp(-loan_score(X)))


def raw_score(rows_raw: Points) -> Scores:
    return loan_score(LOAN.encode(rows_raw))


TOYS = {
    "linear": Toy(plane(3), linear, refused_on_the_plane(3, linear)),
    "circle": Toy(plane(2), circle, refused_on_the_plane(2, circle)),
    "circle of labels": Toy(
        plane(2),
        lambda X: (circle(X) >= 0.0).astype(int),
        refused_on_the_plane(2, circle),
        options={"output": Output.LABEL},
    ),
    "xor": Toy(plane(2), xor, refused_on_the_plane(2, xor)),
    "tree": Toy(
        plane(3),
        tree,
        refused_on_the_plane(3, tree, 0.5),
        options={"output": Output.PROBABILITY, "threshold": 0.5},
    ),
    "forest": Toy(
        plane(5),
        forest,
        refused_on_the_plane(5, forest, 0.6),
        options={"output": Output.PROBABILITY, "threshold": 0.6},
    ),
    "one feature": Toy(plane(1), lambda X: X[:, 0] - 2.0, refused_on_the_plane(1, lambda X: X[:, 0] - 2.0)),
    "smooth": Toy(plane(6), smooth, refused_on_the_plane(6, smooth)),
    "certain": Toy(
        plane(3),
        lambda X: (linear(X) >= 0.0).astype(float),
        refused_on_the_plane(3, linear),
        options={"output": Output.PROBABILITY, "threshold": 0.5},
    ),
    "loans, encoded": Toy(
        LOAN,
        probability,
        refused_loans(probability, 0.6, raw=False),
        loan_rows(300),
        {"output": Output.PROBABILITY, "threshold": 0.6},
    ),
    "loans, raw": Toy(LOAN, raw_score, refused_loans(raw_score, 0.0, raw=True), loan_rows(300), {"raw": True}),
    "loans, rules over raw records": Toy(
        LOAN,
        loan_tree,
        refused_loans(loan_tree, 0.5, raw=True),
        loan_rows(300),
        {"raw": True, "output": Output.PROBABILITY, "threshold": 0.5},
    ),
}


@pytest.mark.parametrize("person", range(4))
@pytest.mark.parametrize("name", TOYS)
def test_everybody_whom_a_toy_model_refuses_is_shown_a_way(name: str, person: int) -> None:
    toy = TOYS[name]
    problem, spy = ask(
        toy.space, toy.predict, toy.people()[person].tolist(), rows_raw=toy.rows_raw, seed=person, **toy.options
    )
    result = answer(problem)
    check(problem, spy, result)
    assert result.status is Status.FOUND
    unmoved = [feature.change is Change.NONE for feature in toy.space.features]
    assert np.array_equal(result.counterfactuals[0].row_raw[unmoved], problem.factual_raw[unmoved])
    assert (result.counterfactuals[0].probability is None) == (problem.black_box.output is Output.LABEL)


@pytest.mark.parametrize("divergence", ["none", "quadratic", "bures", "fisher_rao", "logdet"])
@pytest.mark.parametrize("search", ["auto", "projection", "actionable"])
def test_every_divergence_and_search_keeps_the_promises(divergence: str, search: str) -> None:
    toy = TOYS["loans, encoded"]
    for person in range(2):
        problem, spy = ask(LOAN, toy.predict, toy.people()[person].tolist(), rows_raw=toy.rows_raw, **toy.options)
        result = answer(problem, divergence=divergence, search=search)
        check(problem, spy, result)
        assert result.status is Status.FOUND
        assert result.surrogate is not None
        assert result.surrogate.kind == f"{divergence}_mpm"
        assert result.surrogate.fidelity > 0.6


@pytest.mark.parametrize("radius", [0.0, 709.0, 1000.0])
@pytest.mark.parametrize("divergence", ["quadratic", "bures", "fisher_rao", "logdet"])
def test_every_radius_that_the_parameters_allow_gives_an_answer(divergence: str, radius: float) -> None:
    problem, spy = ask(plane(3), linear, [-1.0, 1.0, 0.0])
    result = answer(problem, divergence=divergence, radius_unfavourable=radius)
    check(problem, spy, result)
    assert result.status is Status.FOUND


# --- whatever the question -------------------------------------------------------------------------------------------


@st.composite
def cases(draw: st.DrawFn) -> tuple[Question, Points, bool, bool]:
    """A question about a linear model or a step of it, with reference records, for encoded or raw input."""
    question = draw(questions(with_rules=True))
    rows_raw = np.array(draw(st.lists(rows(question.space), min_size=2, max_size=12)))
    return question, rows_raw, draw(st.booleans()), draw(st.booleans())


@settings(PROPERTY, max_examples=examples(150))
@given(cases())
def test_the_promises_hold_whatever_the_question(case: tuple[Question, Points, bool, bool]) -> None:
    question, rows_raw, raw, steps = case

    def predict(X: Points) -> Scores:
        score = question.model.score(question.space.encode(X) if raw else X)
        return np.where(score >= 0.0, 1.0, -1.0) if steps else score

    problem, spy = ask(
        question.space,
        predict,
        question.factual_raw.tolist(),
        rows_raw=rows_raw,
        constraints=question.constraints,
        timing=question.timing,
        rules=question.rules,
        raw=raw,
    )
    result = answer(problem, samples=100)
    check(problem, spy, result)
    if result.status is not Status.FOUND:
        return
    # Nothing can be cheaper than the optimum of the model itself, which is linear.
    best = oracle.Program(
        question.space, question.factual_raw, question.constraints, question.rules, question.model, question.timing
    ).cheapest(-1e-9)
    assert best is not None
    assert result.counterfactuals[0].cost >= best - 1e-5


# --- few changes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gain", "changed"), [(0.99, (1,)), (0.9, (0, 1))])
def test_a_small_second_change_goes_where_one_feature_is_enough_at_a_little_more(
    gain: float, changed: tuple[int, ...]
) -> None:
    """``f0`` ends just short of the decision: ``f1`` adds the rest, or replaces it for 1 % or 11 % more."""
    w = np.array([1.0, gain])
    problem, _ = ask(plane(2), lambda X: X @ w - 2.0, [0.0, 0.0], constraints={"bounds": {"f0": Bounds(max=1.9)}})
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.tile(w, (len(X), 1)))
    exact = METHODS["probe"].params(noise_std=0.0)  # type: ignore[call-arg]
    (found,) = solve(replace(problem, black_box=black_box), METHODS["probe"], exact).counterfactuals
    assert found.changed == changed
    assert found.cost == pytest.approx(2.0 / gain if len(changed) == 1 else 1.9 + 0.1 / gain, rel=0.01)


@pytest.mark.parametrize("person", range(8))
def test_projection_gives_the_least_cost_however_many_changes_that_takes(person: int) -> None:
    rows_raw = loan_rows(200, seed=9)
    factual_raw = rows_raw[loan_score(LOAN.encode(rows_raw)) < -0.5][person]
    problem, _ = ask(LOAN, loan_score, factual_raw.tolist(), rows_raw=loan_rows(300))
    (found,) = answer(problem, search="projection").counterfactuals
    cheapest = proposed(problem, search="projection").propose(np.zeros(1))
    accepted = loan_score(LOAN.encode(cheapest)) >= 0.0
    assert not accepted.any() or found.cost <= problem.action_set.cost(cheapest)[0]


@pytest.mark.parametrize("person", range(8))
def test_taking_one_change_back_for_more_of_another_saves_nothing(person: int) -> None:
    """Dense values of every other number, under the method's own constraint."""
    rows_raw = loan_rows(200, seed=9)
    factual_raw = rows_raw[loan_score(LOAN.encode(rows_raw)) < -0.5][person]
    problem, spy = ask(LOAN, loan_score, factual_raw.tolist(), rows_raw=loan_rows(300))
    result = answer(problem)
    check(problem, spy, result)
    (found,), A = result.counterfactuals, problem.action_set
    meets = proposed(problem).meets
    for j in found.changed:
        for i in set(found.changed) - {j}:
            others = np.tile(found.row_raw, (400, 1))
            others[:, j] = factual_raw[j]
            if LOAN.features[i].is_number:
                towards = A.upper_raw[i] if found.row_raw[i] > factual_raw[i] else A.lower_raw[i]
                towards = np.clip(towards, *(factual_raw[i] + 4.0 * LOAN.features[i].scale * np.array([-1.0, 1.0])))
                others[:, i] = np.linspace(found.row_raw[i], towards, 400)
            others = A.snap(others)
            good = A.contains(others) & meets(others) & (loan_score(LOAN.encode(others)) >= 0.0)
            costs = [oracle.cost(LOAN, factual_raw, row_raw) for row_raw in others[good]]
            counted = oracle.counts_as(min(costs, default=math.inf), len(found.changed) - 1)
            assert counted >= 0.99 * oracle.counts_as(found.cost, len(found.changed))


# --- few features that can change ------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, 20.0])
@pytest.mark.parametrize("fixed", [-1.0, -1.5, -2.5])
def test_one_feature_is_changed_about_as_far_as_it_must(limit: float | None, fixed: float) -> None:
    """What nobody near can show: the person's other features are worse than those of all who are accepted."""
    space = FeatureSpace([plane(1, low=limit and -limit, high=limit).features[0], *plane(4).features[1:]])
    problem, spy = ask(
        space,
        lambda X: X.sum(axis=1),
        [-2.0, fixed, fixed, fixed],
        rows_raw=np.random.default_rng(1).normal(size=(500, 4)),
        constraints={"immutable": ("f1", "f2", "f3")},
    )
    result = answer(problem)
    check(problem, spy, result)
    (found,) = result.counterfactuals
    needed = 2.0 - 3.0 * fixed
    assert needed <= found.cost <= 1.25 * needed
    assert FALLBACK_WARNING not in result.warnings


# --- a solver that fails ---------------------------------------------------------------------------------------------


def without_solver(problem: RecourseProblem) -> RecourseResult:
    def fail(*_: object) -> Candidates:
        raise SolverFailed("No answer.")

    return solve(problem, replace(METHOD, generate=fail), RobustMpmParams())


def test_a_failed_solver_leaves_what_the_model_accepts_of_others() -> None:
    problem, spy = ask(plane(3), linear, [-1.0, 1.0, 0.0])
    result = without_solver(problem)
    check(problem, spy, result)
    assert result.status is Status.FOUND
    assert result.warnings == (FALLBACK_WARNING,)


def test_a_failed_solver_without_a_fallback_is_no_verdict() -> None:
    """Least of all that the time ran out, which it did not."""
    problem, _ = refuses_every_try()
    with pytest.raises(SolverFailed):
        without_solver(problem)


# --- verdicts --------------------------------------------------------------------------------------------------------


def reason(result: RecourseResult) -> Reason | None:
    return result.verdict.reason if result.verdict else None


def test_who_is_accepted_already_is_told_so() -> None:
    problem, spy = ask(plane(3), linear, [4.0, 0.0, 0.0])
    result = answer(problem)
    check(problem, spy, result)
    assert result.status is Status.ALREADY_FAVOURABLE
    assert result.factual_score == pytest.approx(2.2)
    assert len(spy.asked) == 1


def test_a_model_that_always_says_yes_leaves_nothing_to_do() -> None:
    problem, spy = ask(plane(2), lambda X: np.ones(len(X)), [0.0, 0.0])
    result = answer(problem)
    check(problem, spy, result)
    assert result.status is Status.ALREADY_FAVOURABLE


def test_a_model_that_never_says_yes_has_no_boundary() -> None:
    problem, spy = ask(plane(2), lambda X: np.full(len(X), -1.0), [0.0, 0.0])
    result = answer(problem)
    check(problem, spy, result)
    assert reason(result) is Reason.BOUNDARY_NOT_FOUND


def test_a_model_that_says_nothing_is_not_understood() -> None:
    problem, spy = ask(plane(2), lambda X: np.full(len(X), np.nan), [0.0, 0.0])
    result = answer(problem)
    check(problem, spy, result)
    assert reason(result) is Reason.MODEL_OUTPUT_INVALID
    assert result.factual_score is None
    assert result.factual_probability is None
    assert any("no finite score" in warning for warning in result.warnings)


def test_where_the_model_says_nothing_nobody_is_sent() -> None:
    def half(X: Points) -> Scores:
        return np.where(X[:, 1] > -0.5, np.nan, X[:, 0] + X[:, 1] - 1.0)

    problem, spy = ask(plane(2), half, [-3.0, -2.0])
    result = answer(problem)
    check(problem, spy, result)
    assert result.status is Status.FOUND
    assert result.counterfactuals[0].row_raw[1] <= -0.5
    assert any("no finite score" in warning for warning in result.warnings)


@pytest.mark.parametrize("predict", [linear, xor, lambda X: np.full(len(X), -1.0)])
def test_who_cannot_change_anything_gets_a_verdict(predict: Predict) -> None:
    problem, spy = ask(plane(3), predict, [-1.0, 1.0, 0.0], constraints={"immutable": ("f0", "f1", "f2")})
    result = answer(problem)
    check(problem, spy, result)
    assert reason(result) in (
        Reason.DEGENERATE_SURROGATE,
        Reason.INFEASIBLE_CONSTRAINTS,
        Reason.BOUNDARY_NOT_FOUND,
    )


@pytest.mark.parametrize(
    ("constraints", "expected"),
    [
        ({"bounds": {"f0": Bounds(max=0.5)}, "immutable": ("f2",)}, ("bounds", "f0")),
        ({"immutable": ("f2", "f0")}, ("immutable", "f0")),
        ({"direction": {"f0": Direction.DECREASE}, "immutable": ("f2",)}, ("direction", "f0")),
    ],
)
def test_a_verdict_names_the_constraint_that_stands_in_the_way(
    constraints: dict[str, Any], expected: tuple[str, str]
) -> None:
    problem, spy = ask(plane(3), lambda X: X[:, 0] + 0.4 * X[:, 1] - 3.0, [0.0, 1.0, 0.0], constraints=constraints)
    result = answer(problem)
    check(problem, spy, result)
    assert reason(result) is Reason.INFEASIBLE_CONSTRAINTS
    assert result.verdict is not None
    assert result.verdict.relax is not None
    assert (result.verdict.relax.constraint, result.verdict.relax.feature) == expected
    assert result.verdict.relax.sufficient


def test_a_verdict_names_the_cap_where_single_changes_are_not_enough() -> None:
    problem, spy = ask(plane(3), lambda X: X.sum(axis=1) - 9.0, [0.0, 0.0, 0.0], constraints={"max_changes": 1})
    result = answer(problem)
    check(problem, spy, result)
    assert reason(result) is Reason.INFEASIBLE_CONSTRAINTS
    assert result.verdict is not None
    assert result.verdict.relax is not None
    assert result.verdict.relax.constraint == "max_changes"


def ruled(name: str, *, accepts: Callable[[np.ndarray], np.ndarray]) -> RecourseResult:
    """The answer to a person for whom two numbers have a constant sum."""
    rule = LinearRule("f0 + f1 == 0.75", (1.0, 1.0, 0.0), 0.75, equality=True)
    problem, spy = ask(plane(3), lambda X: np.where(accepts(X), 1.0, -1.0), [0.0, 0.75, 0.0], rules=[rule])
    if name == "probe":
        boxes = Boxes.of_tree(
            np.array([0, -2, -2]), np.array([1.0, -2.0, -2.0]), np.array([1, -1, -1]), np.array([2, -1, -1]),
            columns=3, score=problem.black_box.score,
        )  # fmt: skip
        problem = replace(problem, black_box=replace(problem.black_box, boxes=boxes))
        spy.asked.clear()
    return solve(problem, METHODS[name], METHODS[name].params())


@pytest.mark.parametrize("name", ["growing_spheres", "robust_bayesian", "probe", "robust_mpm"])
def test_records_are_moved_to_where_they_keep_a_rule(name: str) -> None:
    assert ruled(name, accepts=lambda X: X[:, 0] > 1.0).status is Status.FOUND


@pytest.mark.parametrize("name", ["growing_spheres", "robust_bayesian", "probe"])
def test_only_a_search_that_looks_everywhere_says_that_there_is_nothing(name: str) -> None:
    """The model accepts next to no record that keeps the rule."""

    def accepts(X: np.ndarray) -> np.ndarray:
        return (X[:, 0] > 1.0) & ((np.abs(X[:, 0] + X[:, 1] - 0.75) > 0.01) | (np.abs(X[:, 0] - 4.4) < 1e-6))

    result = ruled(name, accepts=accepts)
    assert reason(result) is Reason.TARGET_NOT_REACHED
    assert result.verdict is not None
    if name != "robust_bayesian":  # which proposes records that the model refuses
        assert "does not prove" in result.verdict.sentence


def test_a_model_that_breaks_its_contract_is_an_error() -> None:
    problem, _ = ask(plane(2), linear_of(2), [-3.0, -3.0])
    broken, _ = ask(plane(2), linear_of(2), [-3.0, -3.0])
    broken.black_box.predict.predict = lambda X: np.zeros((len(X), 2))  # type: ignore[attr-defined]
    assert answer(problem).status is Status.FOUND
    with pytest.raises(ModelOutputInvalid):
        answer(broken)


def linear_of(d: int) -> Predict:
    return lambda X: X[:, :d].sum(axis=1) - 1.0


# --- odd places ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("far", [1e3, 1e6])
def test_people_far_from_all_records_are_answered(far: float) -> None:
    problem, spy = ask(
        plane(3, low=None, high=None),
        linear,
        [-far, far, -far],
        rows_raw=np.random.default_rng(0).normal(size=(300, 3)),
    )
    result = answer(problem)
    check(problem, spy, result)
    assert result.status is Status.FOUND


def test_records_on_the_way_to_others_are_the_last_resort_and_the_answer_says_so() -> None:
    """The model refuses whoever keeps one value, which samples never do and cheap proposals always do."""
    fact = np.array([-1.0, -1.5, -2.0, -0.5])

    def suspicious(X: Points) -> Scores:
        return np.where((fact == X).any(axis=1), -1.0, X.sum(axis=1) - 1.0)

    reference = np.random.default_rng(7).uniform(-5, 5, (400, 4))
    problem, spy = ask(plane(4, low=None, high=None), suspicious, fact.tolist(), rows_raw=reference)
    result = answer(problem)
    check(problem, spy, result)
    assert result.status is Status.FOUND
    assert len(result.counterfactuals[0].changed) == 4
    assert FALLBACK_WARNING in result.warnings


def refuses_every_try() -> tuple[RecourseProblem, Spy]:
    fact = np.array([-1.0, -1.5])
    reference = np.random.default_rng(7).uniform(-5, 5, (400, 2))

    def suspicious(X: Points) -> Scores:
        return np.where((fact == X).any(axis=1) | (np.abs(X) == 5.0).any(axis=1), -1.0, X.sum(axis=1) - 1.0)

    return ask(plane(2), suspicious, fact.tolist(), rows_raw=reference, constraints={"max_changes": 1})


def test_a_model_that_refuses_every_try_is_a_target_not_reached() -> None:
    problem, spy = refuses_every_try()
    result = answer(problem)
    check(problem, spy, result)
    assert reason(result) is Reason.TARGET_NOT_REACHED
    assert result.verdict is not None
    assert result.verdict.nearest is not None


# --- deadlines -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls_in_time", range(6))
def test_no_call_is_begun_after_the_deadline(monkeypatch: pytest.MonkeyPatch, calls_in_time: int) -> None:
    toy, clock = TOYS["loans, encoded"], Clock.installed(monkeypatch)
    question = ask(LOAN, toy.predict, toy.people()[0].tolist(), rows_raw=toy.rows_raw, **toy.options)
    problem, spy = clock.limit(question, calls=calls_in_time)
    result = answer(problem)
    asked, late = len(spy.asked), clock.now - problem.deadline
    assert asked <= calls_in_time
    assert late <= 1.0
    check(problem, spy, result)
    if calls_in_time < 4:  # survey, crossings and samples confirm nothing
        assert reason(result) is Reason.DEADLINE
    else:
        assert result.status is Status.FOUND
    assert (result.factual_score is None) == (calls_in_time == 0)


def test_a_deadline_in_the_past_costs_no_call() -> None:
    problem, spy = ask(plane(3), linear, [-1.0, 1.0, 0.0], deadline=-1.0)
    result = answer(problem)
    check(problem, spy, result)
    assert reason(result) is Reason.DEADLINE
    assert spy.asked == []


# --- seeds and knobs -------------------------------------------------------------------------------------------------


def bytes_of(result: RecourseResult) -> bytes:
    """All of an answer but the time it took."""
    content = asdict(result)
    del content["diagnostics"]["elapsed_ms"]
    return pickle.dumps(content)


@pytest.mark.parametrize("name", ["smooth", "tree", "loans, encoded", "loans, raw"])
def test_the_same_question_has_the_same_answer_to_the_last_bit(name: str) -> None:
    toy = TOYS[name]

    def once(seed: int) -> bytes:
        problem, _ = ask(
            toy.space, toy.predict, toy.people()[0].tolist(), rows_raw=toy.rows_raw, seed=seed, **toy.options
        )
        return bytes_of(answer(problem))

    answers = [once(seed) for seed in (0, 1, 2, 0, 1, 2)]
    assert answers[:3] == answers[3:]
    if name == "smooth":
        assert len(set(answers)) == 3


def mean_of(people: Points, **params: Any) -> tuple[float, float]:
    found = []
    for seed, person in enumerate(people):
        problem, _ = ask(plane(6), smooth, person.tolist(), seed=seed)
        result = answer(problem, radius_fraction=0.3, **params)
        assert result.status is Status.FOUND
        found.append((result.counterfactuals[0].score, result.counterfactuals[0].cost))
    return tuple(np.mean(found, axis=0).tolist())


@pytest.mark.parametrize("divergence", ["fisher_rao", "logdet", "quadratic", "bures"])
def test_a_larger_radius_of_the_unfavourable_class_goes_deeper_and_costs_more(divergence: str) -> None:
    candidates = np.random.default_rng(2).uniform(-3, 3, (200, 6)).round(2)
    people = candidates[smooth(candidates) < -0.5][:10]
    scores, costs = zip(
        *(mean_of(people, divergence=divergence, radius_unfavourable=radius) for radius in (0.0, 2.0, 10.0)),
        strict=True,
    )
    assert scores[0] < scores[1] < scores[2]
    assert costs[0] < costs[1] < costs[2]


@pytest.mark.parametrize("name", ["robust_mpm", "dice", "copa", "robust_projection"])
def test_the_only_record_that_the_model_accepts_is_found_where_there_are_few(name: str) -> None:
    """Of 1,800 legal records, one; no plane and no extreme change leads there."""
    levels = tuple(f"level {k}" for k in range(20))
    hours = Feature(name="a", type=FeatureType.INTEGER, min=0, max=89, center=45.0, scale=12.0)
    third = Feature(name="c", type=FeatureType.INTEGER, min=0, max=1, center=0.0, scale=1.0)
    space = FeatureSpace([hours, Feature(name="b", type=FeatureType.CATEGORICAL, categories=levels), third])
    rows = np.random.default_rng(0).integers(0, (90, 20, 2), (300, 3)).astype(float)

    def one_of_all(rows_raw: Points) -> Points:
        return np.where((rows_raw[:, 2] == 1.0) | ((rows_raw[:, :2] == (57.0, 17.0)).all(axis=1)), 1.0, -1.0)

    problem, spy = ask(space, one_of_all, [20.0, 3.0, 0.0], rows_raw=rows, constraints={"immutable": ("c",)}, raw=True)
    (found,) = solve(problem, METHODS[name], METHODS[name].params(), plan_s=1.0).counterfactuals
    assert found.row_raw.tolist() == [57.0, 17.0, 0.0]
    assert len(spy.asked) <= MAX_CALLS


@pytest.mark.parametrize("seed", range(5))
def test_the_fallback_of_a_linear_model_holds_its_cheapest_record(seed: int) -> None:
    """Whatever a method makes of the model: every record of the box is compared."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=4)
    features = [
        Feature(name=c, type=FeatureType.INTEGER, min=0, max=9, center=5.0, scale=float(rng.uniform(1.0, 3.0)))
        for c in "abcd"
    ]
    space = FeatureSpace(features)
    every = np.stack(np.meshgrid(*4 * [np.arange(10.0)]), axis=-1).reshape(-1, 4)
    scores = space.encode(every) @ weights
    threshold = float(np.sort(scores)[-20])
    problem, _ = ask(space, lambda X: X @ weights - threshold, every[scores.argmin()].tolist(), rows_raw=every[::7])
    black_box = replace(problem.black_box, linear=True, gradient=lambda X: np.tile(weights, (len(X), 1)))
    problem = replace(problem, black_box=black_box)
    found, _ = fallback_rows(problem, lambda rows_raw: np.zeros(len(rows_raw)))
    accepted = found[black_box.score_raw(found) >= 0.0]
    least = problem.action_set.cost(every[scores >= threshold + 1e-9]).min()
    assert problem.action_set.cost(accepted).min() <= least + 1e-9


@pytest.mark.parametrize("name", METHODS)
def test_who_can_reach_no_record_that_the_model_accepts_is_given_the_proof(name: str) -> None:
    features = [
        Feature(name=c, type=FeatureType.INTEGER, min=0, max=5, center=2.0, scale=1.0, spread=1.0) for c in "abc"
    ]
    space = FeatureSpace(features)
    every = np.stack(np.meshgrid(*3 * [np.arange(6.0)]), axis=-1).reshape(-1, 3)
    score, constraints = (lambda X: X.sum(axis=1) - 5.5), {"immutable": ("a",)}
    problem, _ = ask(space, score, [0.0, 1.0, 2.0], rows_raw=every, constraints=constraints)
    reachable = every[every[:, 0] == 0.0]
    assert (problem.black_box.score_raw(reachable) < 0.0).all()
    result = solve(problem, METHODS[name], METHODS[name].params())
    assert result.verdict is not None
    assert result.verdict.reason is Reason.INFEASIBLE_CONSTRAINTS
    assert f"{len(reachable) - 1} records besides" in result.verdict.sentence
    assert result.verdict.nearest is not None
    assert result.verdict.nearest.score == pytest.approx(problem.black_box.score_raw(reachable).max())
    assert result.verdict.relax is not None
    assert result.verdict.relax.feature == "a"


def test_constraints_that_allow_nothing_are_said_to() -> None:
    feature = Feature(name="a", type=FeatureType.INTEGER, min=0, max=5, center=2.0, scale=1.0, spread=1.0)
    rows_raw = np.arange(6.0)[:, None]
    problem, _ = ask(
        FeatureSpace([feature]), lambda X: X[:, 0], [0.0], rows_raw=rows_raw, constraints={"immutable": ("a",)}
    )  # fmt: skip
    verdict = answer(problem).verdict
    assert verdict is not None
    assert verdict.reason is Reason.INFEASIBLE_CONSTRAINTS
    assert verdict.sentence == "The constraints allow no change of this record."


def test_a_record_to_which_time_alone_leads_is_no_change_that_the_constraints_allow() -> None:
    time = Feature(name="months", type=FeatureType.INTEGER, min=0, max=99, moves_with_time=MovesWithTime(per_year=12))
    term = Feature(name="term", type=FeatureType.INTEGER, min=0, max=5, center=2.0, scale=1.0, spread=1.0)
    every = np.array([[months, term] for months in (0.0, 9.0) for term in range(6)])
    problem, _ = ask(
        FeatureSpace([replace(time, center=0.0, scale=10.0, spread=10.0), term]), lambda X: 0.1 * X[:, 0] - X[:, 1],
        [1.0, 4.0], rows_raw=every, constraints={"immutable": ("term",)}, timing=Timing(horizon_months=6),
    )  # fmt: skip
    verdict = answer(problem).verdict
    assert verdict is not None
    assert verdict.nearest is not None
    assert verdict.nearest.row_raw.tolist() == [7.0, 4.0]
    assert verdict.sentence == "The constraints allow no change of this record."


def test_a_change_that_the_person_makes_anyway_is_one_that_the_constraints_allow() -> None:
    term = Feature(name="term", type=FeatureType.INTEGER, min=0, max=5, center=2.0, scale=1.0, spread=1.0)
    space, rows_raw = FeatureSpace([term]), np.arange(6.0)[:, None]
    problem, _ = ask(space, lambda X: -0.9 - X[:, 0], [2.0], rows_raw=rows_raw)
    wishes = Wishes(must_include=(ChangeTo(feature="term", to=3),))
    verdict = answer(replace(problem, action_set=action_set(space, np.array([2.0]), wishes=wishes))).verdict
    assert verdict is not None
    assert verdict.sentence.endswith("that the constraints allow: 1 record besides the applicant's own.")


@pytest.mark.parametrize("name", ["robust_mpm", "growing_spheres"])
@pytest.mark.parametrize("person", [(-1.0, -1.5), (-2.0, 0.2), (0.5, -3.0)])
def test_who_asks_for_acceptance_only_gets_the_cheapest_record(name: str, person: tuple[float, float]) -> None:
    """Of steps along two features, no plane has a corner where the cheapest record lies."""

    def steps(X: Points) -> Points:
        return np.floor(2.0 * X).sum(axis=1) - 1.5 + (X[:, 0] >= 0.25)

    problem, _ = ask(plane(2), steps, person)
    grid = np.stack(np.meshgrid(np.linspace(-5.0, 5.0, 201), np.linspace(-5.0, 5.0, 201)), axis=-1).reshape(-1, 2)
    least = problem.action_set.cost(grid[steps(grid) >= 0.0]).min()
    params = METHODS[name].params(**({"divergence": "none"} if name == "robust_mpm" else {}))
    (found,) = solve(problem, METHODS[name], params).counterfactuals
    assert found.cost <= 1.05 * least
    if name == "robust_mpm":
        assert answer(problem, radius_unfavourable=0.0).counterfactuals[0].cost >= found.cost


def test_a_margin_keeps_a_distance_from_the_surrogate() -> None:
    people = np.array([[-1.0, 1.0, 0.0], [-2.0, 2.0, -1.0]])
    for person in people:
        near, far = (
            answer(ask(plane(3), linear, person.tolist())[0], margin=margin, divergence="none").counterfactuals[0]
            for margin in (0.0, 0.5)
        )
        unit = math.hypot(0.8, 0.5, 0.3)
        assert far.score >= near.score + 0.25 * unit
