"""Any model as one score per point, in logit space."""

import math
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float

from app.errors import DeadlineExceeded, ModelOutputInvalid
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.meter import Meter
from app.recourse.models.score import LOGIT_LIMIT, Output, favourable, logit, sigmoid
from tests.recourse.questions import PROPERTY, examples

SPACE = FeatureSpace(
    [
        Feature(name="x", type=FeatureType.CONTINUOUS, center=10.0, scale=2.0),
        Feature(name="c", type=FeatureType.CATEGORICAL, categories=("a", "b")),
    ]
)
NOWHERE = np.zeros((1, 3))


def saying(*outputs: float, output: Output = Output.PROBABILITY, threshold: float = 0.5) -> BlackBox:
    """A model that gives these outputs whatever it is asked."""
    return BlackBox(space=SPACE, predict=lambda X: np.array(outputs), output=output, threshold=threshold)


def scores(black_box: BlackBox, count: int) -> Float[np.ndarray, "n"]:
    return black_box.score(np.zeros((count, 3)))


# --- scores ----------------------------------------------------------------------------------------------------------


def test_a_probability_scores_its_log_odds_beyond_those_of_the_threshold() -> None:
    found = scores(saying(0.2, 0.5, 0.8, 0.9, threshold=0.8), 4)
    np.testing.assert_allclose(found, np.log([0.25 / 4, 1 / 4, 1.0, 9 / 4]), atol=1e-12)
    assert favourable(found).tolist() == [False, False, True, True]


def test_a_logit_scores_its_distance_to_the_threshold() -> None:
    assert scores(saying(-1.0, 2.0, 3.0, output=Output.LOGIT, threshold=2.0), 3).tolist() == [-3.0, 0.0, 1.0]


def test_points_of_a_scorecard_keep_their_distances() -> None:
    found = scores(saying(600.0, 619.0, 620.0, 640.0, 800.0, output=Output.LOGIT, threshold=620.0), 5)
    assert found.tolist() == [-20.0, -1.0, 0.0, 20.0, LOGIT_LIMIT]


def test_labels_score_plus_or_minus_one() -> None:
    assert scores(saying(0.0, 1.0, 1.0, output=Output.LABEL), 3).tolist() == [-1.0, 1.0, 1.0]


def test_certainty_is_very_sure_and_not_infinite() -> None:
    assert scores(saying(0.0, 1.0), 2).tolist() == [-LOGIT_LIMIT, LOGIT_LIMIT]
    assert scores(saying(-1e308, 1e308, output=Output.LOGIT, threshold=0.0), 2).tolist() == [-LOGIT_LIMIT, LOGIT_LIMIT]
    assert scores(saying(-1e308, output=Output.LOGIT, threshold=1e308), 1).tolist() == [-LOGIT_LIMIT]


@pytest.mark.parametrize("output", Output)
def test_no_finite_answer_is_no_score_and_no_yes(output: Output) -> None:
    found = scores(saying(math.nan, math.inf, -math.inf, 1.0, output=output), 4)
    assert np.isnan(found).tolist() == [True, True, True, False]
    assert favourable(found).tolist() == [False, False, False, True]


def near(number: float) -> Iterator[float]:
    """The floats around a number."""
    for towards in (-math.inf, math.inf):
        step = number
        for _ in range(6):
            yield step
            step = math.nextafter(step, towards)


@settings(PROPERTY, max_examples=examples(300))
@given(st.floats(0.0, 1.0, exclude_min=True, exclude_max=True))
def test_the_sign_of_a_score_is_the_models_own_comparison(threshold: float) -> None:
    outputs = [p for p in near(threshold) if 0.0 <= p <= 1.0] + [0.0, 1.0, 5e-324, 1.0 - 2**-53]
    found = scores(saying(*outputs, threshold=threshold), len(outputs))
    assert favourable(found).tolist() == [p >= threshold for p in outputs]


@settings(PROPERTY, max_examples=examples(300))
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_sign_of_a_logit_score_is_the_models_own_comparison(threshold: float) -> None:
    outputs = [output for output in near(threshold) if math.isfinite(output)]
    found = scores(saying(*outputs, output=Output.LOGIT, threshold=threshold), len(outputs))
    assert favourable(found).tolist() == [output >= threshold for output in outputs]


@settings(PROPERTY, max_examples=examples(200))
@given(p=st.floats(0.0, 1.0), q=st.floats(0.0, 1.0), threshold=st.floats(0.01, 0.99))
def test_a_higher_probability_never_scores_lower(p: float, q: float, threshold: float) -> None:
    low, high = scores(saying(min(p, q), max(p, q), threshold=threshold), 2)
    assert low <= high


@PROPERTY
@given(p=st.floats(0.0, 1.0), threshold=st.floats(0.01, 0.99))
def test_the_probability_of_a_score_is_the_models(p: float, threshold: float) -> None:
    black_box = saying(p, threshold=threshold)
    found = black_box.probability(scores(black_box, 1))
    assert found is not None
    assert found[0] == pytest.approx(p, abs=1e-12)


def test_a_model_of_labels_has_no_probabilities() -> None:
    assert saying(1.0, output=Output.LABEL).probability(np.array([1.0])) is None


def test_the_probability_of_a_logit_is_its_sigmoid() -> None:
    black_box = saying(1.0, output=Output.LOGIT, threshold=0.5)
    assert black_box.probability(scores(black_box, 1)) == pytest.approx(1 / (1 + math.exp(-1)))


@PROPERTY
@given(st.floats(-30, 30))
def test_sigmoid_undoes_logit(value: float) -> None:
    assert float(logit(sigmoid(-abs(value)))) == pytest.approx(-abs(value))
    assert float(sigmoid(value)) + float(sigmoid(-value)) == pytest.approx(1.0)


# --- what a model may not do -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "predict",
    [
        lambda X: np.zeros((len(X), 1)),
        lambda X: np.zeros((len(X), 2)),
        lambda X: np.zeros(len(X) + 1),
        lambda X: np.float64(0.5),
        lambda X: np.zeros(0),
    ],
)
def test_a_model_gives_one_number_per_record(predict: Callable[[np.ndarray], np.ndarray]) -> None:
    black_box = BlackBox(space=SPACE, predict=predict)
    with pytest.raises(ModelOutputInvalid, match="one number per record"):
        black_box.score(NOWHERE)


@pytest.mark.parametrize("output", [-1e-9, 1.0 + 1e-9, 7.0])
def test_a_probability_is_between_zero_and_one(output: float) -> None:
    with pytest.raises(ModelOutputInvalid, match="outside"):
        saying(output).score(NOWHERE)


# --- what a model is asked -------------------------------------------------------------------------------------------


def asked(input_: Input, ask: Callable[[BlackBox], object]) -> list[list[float]]:
    heard: list[list[float]] = []

    def predict(X: np.ndarray) -> np.ndarray:
        heard.extend(X.tolist())
        return np.full(len(X), 0.5)

    ask(BlackBox(space=SPACE, predict=predict, input=input_))
    return heard


def test_an_encoded_model_is_asked_about_points_even_between_records() -> None:
    point = np.array([[0.3, 0.4, 0.6]])
    assert asked(Input.ENCODED, lambda model: model.score(point)) == [[0.3, 0.4, 0.6]]
    assert asked(Input.ENCODED, lambda model: model.score_raw(np.array([[12.0, 1.0]]))) == [[1.0, 0.0, 1.0]]


def test_a_raw_model_is_asked_about_records_only() -> None:
    assert asked(Input.RAW, lambda model: model.score(np.array([[0.5, 0.4, 0.6]]))) == [[11.0, 1.0]]
    assert asked(Input.RAW, lambda model: model.score_raw(np.array([[12.3, 1.0]]))) == [[12.3, 1.0]]


# --- the meter -------------------------------------------------------------------------------------------------------


def test_calls_rows_and_silence_are_counted() -> None:
    meter = Meter(saying(math.nan, 0.4))
    meter.score(np.zeros((2, 3)))
    meter.score_raw(np.zeros((2, 2)))
    assert (meter.calls, meter.rows, meter.silent) == (2, 4, 2)


def test_no_call_is_begun_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    meter = Meter(saying(0.4), deadline=101.0)
    meter.score(NOWHERE)
    now = 101.0
    with pytest.raises(DeadlineExceeded):
        meter.score(NOWHERE)
    with pytest.raises(DeadlineExceeded):
        meter.check()
    assert meter.calls == 1


def test_a_probability_that_rounding_put_above_one_is_one() -> None:
    space = FeatureSpace([Feature(name="x", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0)])
    black_box = BlackBox(space=space, predict=lambda X: np.full(len(X), np.nextafter(1.0, 2.0)))
    assert black_box.score(np.zeros((2, 1))) == pytest.approx([LOGIT_LIMIT, LOGIT_LIMIT])
