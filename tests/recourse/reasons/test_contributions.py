"""What each feature contributes, against closed forms and against Shapley values over all sets."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.errors import ModelOutputInvalid
from app.recourse.actions.action_set import action_set
from app.recourse.features import MISSING, Feature, FeatureSpace, FeatureType, Missing, Table
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.meter import Meter
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.reasons import Against, Comparison, ReasonsParams, ReasonsStatus, explain
from app.recourse.reasons.shapley import CALL_ROWS, contributions
from app.registry.registry import Registry
from tests.recourse.reasons.lender import FEATURES, curved, problem, rows, shapley
from tests.registry.loan import make_linear

POOR = [1.2, 1.6, 25, 2, 3]
"""Refused, with the worst of everything but a state."""

EVERYONE, ACCEPTED = ReasonsParams(against=Against.EVERYONE), ReasonsParams()


@pytest.mark.parametrize("person", [POOR, [0.5, 0.4, 60, 0, -9], [2.0, 4.0, 33, 1, 0]])
@pytest.mark.parametrize("params", [EVERYONE, ACCEPTED])
def test_sampled_contributions_are_shapley_values(person: list[float], params: ReasonsParams) -> None:
    asked = problem(person)
    found = explain(asked, params)
    assert found.contributions is not None
    assert found.comparison is not None
    expected = shapley(curved, np.array(person), found.comparison.rows_raw)
    errors = found.contributions.std_errors
    assert (errors < 0.1).all()
    assert (np.abs(found.contributions.values - expected) <= 4.0 * errors + 1e-9).all()


def entangled(table: np.ndarray) -> np.ndarray:
    """A score with products of four features: of products of two, walks in both directions make no error."""
    income, debt, age, housing, late = table.T
    return 0.5 * income * debt * (housing == 1) - 0.02 * (age - 40) * debt * np.maximum(late, 0) * income - 0.6


@pytest.mark.parametrize(("records", "least"), [(150, 0.5), (3000, 0.2)], ids=["all are asked about", "a sample is"])
def test_the_stated_error_is_that_of_sampling(records: int, least: float) -> None:
    """Over many seeds, the mean squared error of each feature is the squared standard error, to a factor of two.

    A sample errs less than is stated, since its records are spread evenly over the scores.
    """
    asked, person = problem(POOR, entangled, reference_raw=rows(records)), np.array(POOR, dtype=float)
    others = Comparison.of(asked.reference, Against.EVERYONE)
    expected = shapley(entangled, person, others.rows_raw)
    found = [
        contributions(Meter(asked.black_box), person, float(entangled(person[None])[0]), others, seed)
        for seed in range(60)
    ]
    squared = np.mean([(one.values - expected) ** 2 for one in found], axis=0)
    stated = np.mean([one.std_errors**2 for one in found], axis=0)
    assert (squared < 2.0 * stated).all()
    assert (squared > least * stated).all()
    assert (stated > 1e-6).all()


@pytest.mark.parametrize("params", [EVERYONE, ACCEPTED])
def test_contributions_add_up_to_the_difference_of_the_scores(params: ReasonsParams) -> None:
    large = problem(POOR, reference_raw=rows(3000))  # more records than are asked about
    for asked in (problem(POOR), large):
        found = explain(asked, params)
        assert found.contributions is not None
        assert found.comparison is not None
        difference = curved(np.array([POOR]))[0] - found.comparison.scores.mean()
        assert found.contributions.values.sum() == pytest.approx(difference, abs=1e-9)


def test_a_linear_model_has_its_closed_form(tmp_path: Path) -> None:
    model = Registry(tmp_path / "store").register(make_linear(tmp_path / "loan").write()).load()
    space, reference = model.black_box.space, model.reference
    person = reference.rows_raw[np.argmin(reference.scores)]
    found = explain(RecourseProblem(
        black_box=model.black_box, reference=reference, action_set=action_set(space, person),
    ), EVERYONE)  # fmt: skip
    assert found.contributions is not None
    X, x = space.encode(reference.rows_raw), space.encode(person[None])[0]
    weights = np.array([model.black_box.score(X[:1] + e)[0] - model.black_box.score(X[:1])[0] for e in np.eye(space.d)])
    by_column = weights * (x - X.mean(axis=0))
    expected = [by_column[span].sum() for span in space.spans]
    assert found.contributions.values == pytest.approx(np.array(expected), abs=1e-6)
    assert not found.contributions.std_errors.any()
    sides = np.sign(reference.rows_raw - person)[:, space.feature_of_column]
    leaning = (sides * weights * (x - X)).mean(axis=0)
    assert found.contributions.lean == pytest.approx([leaning[span].sum() for span in space.spans], abs=1e-6)
    assert found.diagnostics.model_calls == 2  # the applicant, and the gradient


def test_an_additive_model_is_exact_and_a_sampled_one_agrees() -> None:
    def additive(table: np.ndarray) -> np.ndarray:
        income, debt, _, housing, late = table.T
        home = np.array([0.0, 0.4, -0.2])[housing.astype(int)]
        return np.sqrt(income) - np.minimum(debt, 2.0) + home - (late > 1) - 0.5

    sampled = problem(POOR, additive)
    exact = replace(sampled, black_box=replace(sampled.black_box, additive=True))
    for params in (EVERYONE, ACCEPTED):
        one, other = explain(exact, params).contributions, explain(sampled, params).contributions
        assert one is not None
        assert other is not None
        assert one.values == pytest.approx(other.values, abs=1e-9)
        assert one.lean == pytest.approx(other.lean, abs=1e-9)
        assert not one.std_errors.any()
        # Every record is asked about, and the order of the features does not matter.
        assert other.std_errors == pytest.approx(np.zeros(len(FEATURES)), abs=1e-9)


def test_what_a_derived_feature_does_belongs_to_those_it_follows_from() -> None:
    features = (
        *FEATURES[:2],
        Feature(name="burden", type=FeatureType.CONTINUOUS, derived="debt / (income + 1)", center=0.0, scale=1.0),
        Feature(name="weight", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0,
                derived=Table(from_="housing", table={"rented": 1.0, "owned": 0.0, "other": 2.0})),
        *FEATURES[2:],
    )  # fmt: skip
    columns = ("income", "debt", "burden", "weight", "age", "housing", "late")

    def of_model(table: np.ndarray) -> np.ndarray:
        return 1.0 - 3.0 * table[:, columns.index("burden")] - 0.5 * table[:, columns.index("weight")]

    def by_hand(base: np.ndarray) -> np.ndarray:
        weight = np.array([1.0, 0.0, 2.0])[base[:, 3].astype(int)]
        return 1.0 - 3.0 * base[:, 1] / (base[:, 0] + 1.0) - 0.5 * weight

    asked = problem(POOR, of_model, features)
    found = explain(asked, EVERYONE)
    assert found.contributions is not None
    assert found.comparison is not None
    expected = shapley(by_hand, np.array(POOR), found.comparison.rows_raw)
    assert (np.abs(found.contributions.values - expected) <= 4.0 * found.contributions.std_errors + 1e-9).all()
    named = {asked.black_box.space.names[one.feature] for one in found.reasons}
    assert named == {"debt", "income", "housing"}


def test_mixtures_without_a_derived_value_are_left_out() -> None:
    """A ratio to a difference of two features has no value where they are equal, which mixtures of records may be."""
    features = (
        Feature(name="a", type=FeatureType.INTEGER, center=0.0, scale=1.0),
        Feature(name="b", type=FeatureType.INTEGER, center=0.0, scale=1.0),
        Feature(name="r", type=FeatureType.CONTINUOUS, derived="1 / (a - b)", center=0.0, scale=1.0),
    )

    def score(table: np.ndarray) -> np.ndarray:
        assert np.isfinite(table).all()
        return table[:, 0] - 3.0 + 0.1 * table[:, 2]

    rng = np.random.default_rng(0)
    reference_raw = np.column_stack([rng.integers(1, 8, 60), np.zeros(60)]).astype(float)
    found = explain(problem([2, -1], score, features, reference_raw), EVERYONE)
    assert found.status is ReasonsStatus.FOUND
    assert found.contributions is not None
    sound = (reference_raw[:, 0] != -1) & (reference_raw[:, 1] != 2)
    assert found.contributions.records == sound.sum()
    never = np.tile([3.0, 2.0], (60, 1))  # with the person's `a` and their own `b`, all of them divide by zero
    with pytest.raises(ModelOutputInvalid):
        explain(problem([2, 1], score, features, never), EVERYONE)


def test_a_missing_value_contributes_as_the_state_it_is() -> None:
    features = (
        Feature(name="income", type=FeatureType.CONTINUOUS, missing=Missing.NAN, center=2.0, scale=1.0),
        Feature(name="debt", type=FeatureType.CONTINUOUS, center=1.0, scale=1.0),
    )

    def score(table: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(table[:, 0]), -2.0, table[:, 0]) - table[:, 1]

    reference_raw = np.array([[MISSING, 0.5], [2.0, 1.0], [4.0, 1.5]] * 10)
    found = explain(problem([MISSING, 0.2], score, features, reference_raw), EVERYONE)
    assert found.contributions is not None
    assert found.contributions.values == pytest.approx([-2.0 - 4.0 / 3.0, 0.8])
    (reason,) = found.reasons
    assert (reason.feature, reason.usual_raw) == (0, 3.0)  # of those that state it


def test_one_feature_takes_all() -> None:
    feature = Feature(name="x", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0)
    space = FeatureSpace([feature])
    black_box = BlackBox(space=space, predict=lambda X: X[:, 0] ** 3, input=Input.RAW, output=Output.LOGIT, threshold=0)
    others = np.linspace(0.0, 2.0, 20)[:, None]
    reference = Reference(space=space, rows_raw=others, scores=others[:, 0] ** 3, largest_distance=2.0)
    asked = RecourseProblem(black_box=black_box, reference=reference, action_set=action_set(space, np.array([-1.0])))
    found = explain(asked, EVERYONE)
    assert found.contributions is not None
    assert found.contributions.values == pytest.approx([-1.0 - (others**3).mean()])
    assert found.diagnostics.model_rows == 1


def test_many_features_stay_within_few_calls() -> None:
    features = [Feature(name=f"f{j}", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0) for j in range(300)]
    rng = np.random.default_rng(0)
    reference_raw, weights = rng.normal(size=(500, 300)), rng.normal(size=300) / 17.0
    person = reference_raw[np.argmin(reference_raw @ weights)]
    asked = problem(person.tolist(), lambda table: np.tanh(table @ weights) + 0.1, features, reference_raw)
    found = explain(asked, EVERYONE)
    assert found.contributions is not None
    assert found.contributions.records == 16
    assert found.diagnostics.model_calls == 5
    assert found.diagnostics.model_rows is not None
    assert found.diagnostics.model_rows <= 4 * CALL_ROWS + 1
    linear = weights * (person - reference_raw.mean(axis=0))
    assert np.corrcoef(found.contributions.values, linear)[0, 1] > 0.9
