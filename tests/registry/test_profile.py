"""What is computed once: distances against all pairs, scores against the model, and what is worth a warning."""

import numpy as np
import pytest
from jaxtyping import Bool
from scipy.spatial.distance import pdist

from app.errors import ModelRefused
from app.recourse.actions.rules import LinearRule
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.black_box import BlackBox
from app.recourse.models.score import Output, sigmoid
from app.recourse.surrogate.refits import refit_moments
from app.registry import profile
from app.registry.profile import Outcomes, Profile, largest_distance, pack, unpack

SPACE = FeatureSpace([Feature(name=n, type=FeatureType.CONTINUOUS, center=0.0, scale=1.0) for n in ("a", "b")])
ROWS_RAW = np.random.default_rng(0).normal(size=(50, 2))


def black_box(predict: object) -> BlackBox:
    return BlackBox(space=SPACE, predict=predict, output=Output.LOGIT, threshold=0.0)  # type: ignore[arg-type]


def test_the_largest_distance_is_that_of_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "BLOCK", 7)
    X = np.random.default_rng(1).normal(size=(100, 5))
    found, exact = largest_distance(np.vstack([X, X]))
    assert exact
    assert found == pytest.approx(pdist(X).max(), rel=1e-12)


def test_of_many_records_a_seeded_subset_gives_a_lower_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile, "EXACT_RECORDS", 60)
    X = np.random.default_rng(1).normal(size=(100, 5))
    found, exact = largest_distance(X)
    assert not exact
    assert 0.8 * pdist(X).max() < found <= pdist(X).max()
    assert largest_distance(X) == (found, exact)


def test_scores_are_the_models_and_survive_the_disk() -> None:
    made = Profile.of(black_box(lambda X: X[:, 0] - 0.1), ROWS_RAW, ())
    np.testing.assert_array_equal(made.reference.scores, ROWS_RAW[:, 0] - 0.1)
    assert made.warnings == ()
    rows_raw, scores, moments = unpack(pack(made.reference))
    assert moments is None
    np.testing.assert_array_equal(rows_raw, ROWS_RAW)
    np.testing.assert_array_equal(scores, made.reference.scores)


@pytest.mark.parametrize(
    ("predict", "sentence"),
    [
        (lambda X: np.where(X[:, 0] > 0, np.nan, 1.0), "no finite output for 2[0-9] of 50"),
        (lambda X: X, r"shape \(50, 2\)"),
    ],
)
def test_a_model_that_does_not_score_its_reference_data_is_refused(predict: object, sentence: str) -> None:
    with pytest.raises(ModelRefused) as caught:
        Profile.of(black_box(predict), ROWS_RAW, ())
    assert [fault.pointer for fault in caught.value.faults] == ["/artifact"]
    assert caught.match(sentence)


def test_equal_records_are_refused() -> None:
    with pytest.raises(ModelRefused, match="only copies of one record"):
        Profile.of(black_box(lambda X: X[:, 0]), np.ones((9, 2)), ())


def test_the_records_that_break_a_rule_are_counted() -> None:
    rules = (LinearRule("a <= 0", (1.0, 0.0), 0.0), LinearRule("a <= 9", (1.0, 0.0), 9.0))
    ruled = Profile.of(black_box(lambda X: X[:, 0]), ROWS_RAW, rules)
    assert ruled.warnings == (
        f"The rule 'a <= 0' does not hold in {(ROWS_RAW[:, 0] > 0).sum()} of 50 reference records.",
    )


def outcomes(favourable: Bool[np.ndarray, "n"], refits: int = 50) -> Outcomes:
    return Outcomes(favourable=favourable, refits=refits)


def noisy(of: int = 0) -> Bool[np.ndarray, "n"]:
    return ROWS_RAW[:, of] + np.random.default_rng(3).normal(scale=0.5, size=50) > 0.0


def test_moments_of_refits_survive_the_disk() -> None:
    made = Profile.of(black_box(lambda X: X[:, 0]), ROWS_RAW, (), outcomes(noisy()))
    expected = made.reference.weight_moments
    _, _, moments = unpack(pack(made.reference))
    assert expected is not None
    assert moments is not None
    assert moments.kind == expected.kind == "registered"
    np.testing.assert_array_equal(moments.mean, expected.mean)
    np.testing.assert_array_equal(moments.root, expected.root)
    assert moments.mean[0] > 0.9
    assert made.warnings == ()


def test_refits_decide_at_the_models_own_threshold() -> None:
    strict = BlackBox(space=SPACE, predict=lambda X: sigmoid(X[:, 0]), output=Output.PROBABILITY, threshold=0.9)
    moments = [
        Profile.of(box, ROWS_RAW, (), outcomes(noisy())).reference.weight_moments
        for box in (black_box(lambda X: X[:, 0]), strict)
    ]
    at_even_odds, at_nine_to_one = (m.mean / m.mean[0] for m in moments if m is not None)
    fitted = refit_moments(ROWS_RAW, noisy(), 50, 0)
    np.testing.assert_allclose(at_even_odds, fitted.mean / fitted.mean[0])
    assert at_nine_to_one[2] < at_even_odds[2] - 0.3


def test_a_label_that_says_the_opposite_is_worth_a_warning() -> None:
    made = Profile.of(black_box(lambda X: X[:, 0]), ROWS_RAW, (), outcomes(~noisy()))
    assert len(made.warnings) == 1
    assert "differently from this one; is 1 the favourable outcome?" in made.warnings[0]


@pytest.mark.parametrize(("yes", "sentence"), [(0, "the outcome 1; there are 0"), (49, "the outcome 0; there are 1")])
def test_both_outcomes_must_occur(yes: int, sentence: str) -> None:
    with pytest.raises(ModelRefused, match=sentence) as caught:
        Profile.of(black_box(lambda X: X[:, 0]), ROWS_RAW, (), outcomes(np.arange(50) < yes))
    assert [fault.pointer for fault in caught.value.faults] == ["/label"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_records_that_cannot_be_fitted_are_refused() -> None:
    with pytest.raises(ModelRefused, match="do not determine a logistic regression"):
        Profile.of(black_box(lambda X: np.sign(X[:, 0])), ROWS_RAW * 1e154, (), outcomes(noisy()))
