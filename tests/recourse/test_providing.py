"""Missing values: answers for applicants who lack them, with and without providing them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

from app.errors import InvalidRequest
from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Bounds, Constraints
from app.recourse.actions.wishes import ChangeTo, Exclude, Wishes
from app.recourse.assess import assess
from app.recourse.certificate import mistaken
from app.recourse.certificate_params import CertificateParams
from app.recourse.correct import correct
from app.recourse.features import MISSING, Advice, Feature, FeatureSpace, FeatureType
from app.recourse.features.feature import Missing
from app.recourse.models.committee import FutureModels, Futures
from app.recourse.plans.corrector import CorrectionParams
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import METHODS, PROVIDED_WARNING, WEIGHTS_WARNING, solve
from app.recourse.verdict import Reason
from tests.recourse.test_solve_many import Far
from tests.recourse.toys import Spy, ask

Score = Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, "n"]]

BUREAU = 0
"""The column of the feature that may be missing."""
NUMBERS = 4
WEIGHTS = np.random.default_rng(3).normal(size=(12, NUMBERS + 1))


def schema(*, provide: bool = True, numbers: int = NUMBERS) -> FeatureSpace:
    """A number that may be missing, with a column that says so, and some that may not."""
    other = Feature(name="", type=FeatureType.CONTINUOUS, min=0, max=20, center=5.0, scale=1.0)
    bureau = Feature(
        name="bureau", type=FeatureType.CONTINUOUS, min=0, max=10, center=5.0, scale=1.0, missing=Missing.INDICATOR,
        fill=0, provide=provide, provide_cost=0.2 if provide else 1.0,
    )  # fmt: skip
    return FeatureSpace([bureau, *(replace(other, name=f"f{j}") for j in range(numbers))])


def rows_of(space: FeatureSpace) -> Float[np.ndarray, "n p"]:
    rows_raw = np.random.default_rng(0).uniform(0, 11, (300, space.p))
    rows_raw[:40, BUREAU] = MISSING
    return rows_raw


def linear(weights: Float[np.ndarray, "p"], *, intercept: float = -3.0) -> Score:
    """Of a model that thinks little of who has no record at the bureau."""
    return lambda X: X @ np.concatenate([weights[:1], [-4.0], weights[1:]]) + intercept


def question(case: int = 0, *, bureau: float = MISSING, **asked: Any) -> tuple[RecourseProblem, Spy]:
    space = schema()
    factual = np.array([bureau, *np.random.default_rng(case).uniform(3, 8, NUMBERS)])
    problem, spy = ask(space, linear(WEIGHTS[case]), factual.tolist(), rows_raw=rows_of(space))
    return replace(problem, action_set=action_set(space, factual, **asked)), spy


def answer(problem: RecourseProblem, name: str = "robust_mpm") -> RecourseResult:
    return solve(problem, METHODS[name], METHODS[name].params(), CertificateParams())


@pytest.mark.parametrize("name", sorted(METHODS))
@pytest.mark.parametrize("bureau", [MISSING, 4.0])
def test_every_method_answers_where_a_number_may_be_missing(name: str, bureau: float) -> None:
    space = schema(provide=False, numbers=3)
    score = linear(np.array([0.5, 1.0, 1.0, -1.0]), intercept=-8.0)
    problem, _ = ask(space, score, [bureau, 5.0, 5.0, 6.0], rows_raw=rows_of(space))
    result = answer(problem, name)
    assert result.status is Status.FOUND
    for one in result.counterfactuals:
        assert problem.action_set.contains(one.row_raw[None])[0]
        assert score(space.encode(one.row_raw[None]))[0] >= 0.0


def test_who_may_not_change_all_of_a_set_still_gets_what_the_method_promises() -> None:
    tried = 0
    for case in range(12):
        free = answer(question(case)[0])
        if free.status is not Status.FOUND or len(free.counterfactuals[0].changed) < 2:
            continue
        names = tuple(schema().names[j] for j in free.counterfactuals[0].changed)
        barred = answer(question(case, wishes=Wishes(exclude=Exclude(sets=(names,))))[0])
        assert barred.status is Status.FOUND
        assert not barred.fallback
        assert not {schema().index(name) for name in names} <= set(barred.counterfactuals[0].changed)
        tried += 1
    assert tried >= 5


@pytest.mark.parametrize("asked", [{"constraints": Constraints(immutable=("bureau",))},
                                   {"wishes": Wishes(exclude=Exclude(features=("bureau",)))}])  # fmt: skip
def test_what_has_to_stay_missing_stays_missing(asked: dict[str, Any]) -> None:
    result = answer(question(0, **asked)[0])
    assert all(one.row_raw[BUREAU] == MISSING for one in result.counterfactuals)


@pytest.mark.parametrize(
    "asked",
    [
        {"constraints": Constraints(bounds={"bureau": Bounds(max=2.0)})},
        {"constraints": Constraints(bounds={"bureau": Bounds(min=8.0, max=9.0)})},
        {"wishes": Wishes(exclude=Exclude(changes=(ChangeTo(feature="bureau", to=5.0),)))},
    ],
)
def test_the_value_that_an_answer_assumes_is_one_that_the_request_allows(asked: dict[str, Any]) -> None:
    assert answer(question(0)[0]).counterfactuals[0].row_raw[BUREAU] == 5.0, "what is typical"
    bounds = asked.get("constraints", Constraints()).bounds.get("bureau", Bounds(min=0.0, max=10.0))
    result = answer(question(0, **asked)[0])
    (value,) = (one.row_raw[BUREAU] for one in result.counterfactuals)
    assert value not in (MISSING, 5.0)
    assert (bounds.min or 0.0) <= value <= bounds.max


def test_who_could_state_no_value_that_the_request_allows_states_none() -> None:
    space = schema()
    space = FeatureSpace([replace(space.features[0], advice=Advice(max=3.0)), *space.features[1:]])
    problem, _ = ask(space, linear(WEIGHTS[0]), [MISSING, *question(0)[0].action_set.factual_raw[1:].tolist()],
                     rows_raw=rows_of(space))  # fmt: skip
    constraints = Constraints(bounds={"bureau": Bounds(min=4.0)})
    asked = action_set(space, problem.action_set.factual_raw, constraints=constraints)
    result = answer(replace(problem, action_set=asked))
    assert all(one.row_raw[BUREAU] == MISSING for one in result.counterfactuals)


def test_a_stated_value_that_the_request_rules_out_is_refused() -> None:
    stated = ChangeTo(feature="bureau", to=4.0)
    with pytest.raises(InvalidRequest) as refused:
        question(0, wishes=Wishes(must_include=(stated,)), constraints=Constraints(bounds={"bureau": Bounds(max=2)}))
    assert [fault.pointer for fault in refused.value.faults] == ["/must_include/0/to"]
    with pytest.raises(InvalidRequest) as refused:
        question(0, wishes=Wishes(must_include=(stated,), exclude=Exclude(changes=(stated,))))
    assert [fault.pointer for fault in refused.value.faults] == ["/must_include/0/to"]


def test_the_budget_of_a_remote_model_is_that_of_the_whole_answer() -> None:
    for case in range(4):
        problem, spy = question(case)
        answer(replace(problem, black_box=replace(problem.black_box, remote=Far(spy, max_calls=6))))
        assert len(spy.asked) <= 6


def test_of_several_ways_those_that_provide_a_value_are_named() -> None:
    partly = 0
    for case in range(6):
        result = answer(replace(question(case)[0], count=3))
        ways = [k + 1 for k, one in enumerate(result.counterfactuals) if one.row_raw[BUREAU] != MISSING]
        told = [warning.removesuffix(PROVIDED_WARNING) for warning in result.warnings if "provides" in warning]
        if 0 < len(ways) < len(result.counterfactuals):
            partly += 1
            assert told == [f"Way {ways[0]}: " if len(ways) == 1 else f"Ways {ways[0]} and {ways[1]}: "]
        else:
            assert told == [""] * bool(ways)
    assert partly


# --- a value that is stated ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stated", [1.0, 4.0, 9.0])
def test_a_value_that_the_applicant_states_costs_what_providing_costs(stated: float) -> None:
    """Whatever is typical: nobody moves from there to a value that is their own."""
    problem, _ = question(0, wishes=Wishes(must_include=(ChangeTo(feature="bureau", to=stated),)))
    result = answer(problem)
    assert result.status is Status.FOUND
    known = question(0, bureau=stated)[0]
    for one in result.counterfactuals:
        assert one.row_raw[BUREAU] == stated
        assert one.cost == pytest.approx(0.2 + float(known.action_set.cost(one.row_raw[None])[0]))
        assert one.takes_months == float(known.action_set.clock.total(one.row_raw[None])[0])


def test_an_applicant_is_judged_by_the_record_that_lacks_the_value() -> None:
    """Where stating the value is enough, and is wished for, the applicant is still one whom the model refuses."""
    result = answer(accepted_once_stated())
    assert result.status is Status.FOUND
    assert result.factual_score == pytest.approx(7.0 - 5.0 - 4.0 - 1.0)
    (one,) = result.counterfactuals
    assert one.changed == (BUREAU,)


def accepted_once_stated(intercept: float = -1.0) -> RecourseProblem:
    """An applicant for whom stating the value is all that is missing, and who wishes to."""
    space = schema(numbers=1)
    score = linear(np.array([0.0, 1.0]), intercept=intercept)
    factual = np.array([MISSING, 7.0])
    problem, _ = ask(space, score, factual.tolist(), rows_raw=rows_of(space))
    return replace(problem, action_set=action_set(space, factual, wishes=Wishes(must_include=("bureau",))))


def test_where_too_few_future_models_accept_the_stated_record_the_verdict_names_it() -> None:
    refusing = FutureModels(space=schema(numbers=1), count=20, score_all=lambda X: np.full((len(X), 20), -1.0))
    futures = Futures(search=refusing, held_back=refusing, source="retrained")
    result = answer(replace(accepted_once_stated(), futures=futures, future_validity=0.9))
    assert result.status is Status.NOT_FOUND
    assert result.verdict is not None
    assert result.verdict.reason is Reason.TARGET_NOT_REACHED
    assert result.verdict.nearest is not None
    assert result.verdict.nearest.row_raw[BUREAU] != MISSING


def test_an_applicant_whom_the_model_accepts_without_the_value_needs_nothing() -> None:
    result = answer(accepted_once_stated(intercept=4.0))
    assert result.status is Status.ALREADY_FAVOURABLE
    assert result.factual_score == pytest.approx(7.0 - 5.0 - 4.0 + 4.0)


# --- records that are brought ----------------------------------------------------------------------------------------


def test_an_answer_that_provides_a_value_is_judged_as_it_was_given() -> None:
    problem, _ = question(0)
    given = answer(problem)
    (one,) = given.counterfactuals
    assert BUREAU in one.changed
    found = assess(problem, one.row_raw[None], CertificateParams())
    (same,) = found.judged
    assert (same.cost, same.changed, same.takes_months) == (one.cost, one.changed, one.takes_months)
    assert found.warnings == ()
    assert found.factual_score == pytest.approx(given.factual_score)
    assert same.certificate is not None
    assert one.certificate is not None
    assert (same.certificate.shift.linf_radius > 0.0) == (one.certificate.shift.linf_radius > 0.0)


def test_rows_with_and_without_the_value_are_each_judged_by_themselves() -> None:
    problem, _ = question(0)
    (one,) = answer(problem).counterfactuals
    (other,) = answer(question(0, constraints=Constraints(immutable=("bureau",)))[0]).counterfactuals
    found = assess(problem, np.array([one.row_raw, other.row_raw]), CertificateParams())
    assert [each.cost for each in found.judged] == pytest.approx([one.cost, other.cost])
    assert all(each.certificate is not None for each in found.judged)


def test_a_warning_of_a_mistaken_surrogate_counts_all_records() -> None:
    """Those with the value, and those without, are certified apart."""
    problem, _ = question(0)
    (one,) = answer(problem).counterfactuals
    (other,) = answer(question(0, constraints=Constraints(immutable=("bureau",)))[0]).counterfactuals
    found = assess(problem, np.array([other.row_raw, one.row_raw]), CertificateParams())
    certificates = [each.certificate for each in found.judged]
    assert certificates[1] is not None
    assert certificates[1].shift.gelbrich.lower > 0.0
    (warning,) = mistaken(np.array([1.0, -1.0]), certificates)
    assert "(counterfactual 2)" in warning
    assert mistaken(np.array([1.0, 1.0]), certificates) == []


def test_a_correction_keeps_the_value_that_was_provided() -> None:
    problem, _ = question(0)
    (one,) = answer(problem).counterfactuals
    found = correct(problem, one.row_raw[None], CorrectionParams(kind="requirement", margin=0.5), CertificateParams())
    assert found.factual_score is not None
    assert found.factual_score < 0.0
    assert all(member.row_raw[BUREAU] != MISSING for member in found.members)
    assert found.warnings == ()


def test_cost_weights_that_nobody_set_are_not_warned_of() -> None:
    """Providing a category has a cost of its own in the schema."""
    space = FeatureSpace(
        [
            Feature(name="job", type=FeatureType.CATEGORICAL, categories=("a", "b"), missing=Missing.NAN, provide=True,
                    provide_cost=0.5),
            Feature(name="income", type=FeatureType.INTEGER, min=0, max=20, center=5.0, scale=1.0),
            Feature(name="rent", type=FeatureType.INTEGER, min=0, max=20, center=5.0, scale=1.0),
        ]
    )  # fmt: skip
    rng = np.random.default_rng(0)
    rows_raw = np.column_stack([rng.integers(3, size=200), *rng.integers(0, 21, (2, 200))]).astype(float)
    problem, _ = ask(space, lambda X: X[:, 1] + X[:, 3] - X[:, 4] - 3.0, [2.0, 5.0, 5.0], rows_raw=rows_raw)
    dice = METHODS["dice"]
    result = solve(problem, dice, dice.params(objective="paper", count=2))  # type: ignore[call-arg]
    assert result.status is Status.FOUND
    assert WEIGHTS_WARNING not in result.warnings
