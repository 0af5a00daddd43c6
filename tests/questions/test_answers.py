"""Results as plain data."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.questions.answers import ModelVersion, decision, decision_if_asked, plain
from app.questions.frame import Frame
from app.questions.recourse import out_of_time, recourse_answer
from app.questions.schema import RecourseAnswer
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.answer_part import rounded_output
from app.recourse.counterfactual import Counterfactual
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.reports import SurrogateReport
from app.recourse.result import Diagnostics, RecourseResult, Status
from app.recourse.verdict import Reason, Relaxation, Verdict

SPACE = FeatureSpace(
    [
        Feature(name="amount", type=FeatureType.INTEGER, unit="EUR", center=0.0, scale=1000.0),
        Feature(name="housing", type=FeatureType.CATEGORICAL, categories=("rented", "owned")),
    ]
)
LESS = Counterfactual(row_raw=np.array([2000.0, 0.0]), score=0.5, probability=0.62, cost=3.0, changed=(0,))
FOUND = RecourseResult(
    status=Status.FOUND,
    factual_score=-0.8,
    factual_probability=0.31,
    counterfactuals=(LESS,),
    surrogate=SurrogateReport(kind="mpm", worst_case_accuracy=0.4, fidelity=0.9, samples=100),
    diagnostics=Diagnostics(model_calls=4, model_rows=1664, elapsed_ms=6.1),
    warnings=("Mind the gap.",),
)
FRAME = Frame(
    id="rec_1", reference=None, model=ModelVersion(id="loan", version="1", sha256=""), method={}, seed=0, stored=True
)


@pytest.fixture
def actions() -> ActionSet:
    return action_set(SPACE, np.array([5000.0, 0.0]))


@pytest.mark.parametrize(("months", "warned"), [(0.0, False), (3.0, False), (3.1, True), (24.0, True)])
def test_what_takes_longer_than_the_answer_is_valid_is_said(actions: ActionSet, months: float, warned: bool) -> None:
    frame = replace(FRAME, created_at="2026-01-01T00:00:00.000Z", expires_at="2026-04-01T00:00:00.000Z")
    found = replace(FOUND, counterfactuals=(replace(LESS, takes_months=months),))
    told = recourse_answer(frame, actions, found)
    assert told.counterfactuals[0].takes_months == months
    assert any("longer than the answer is valid" in text for text in told.warnings) == warned


def test_of_several_ways_those_that_take_too_long_are_named(actions: ActionSet) -> None:
    frame = replace(FRAME, created_at="2026-01-01T00:00:00.000Z", expires_at="2026-04-01T00:00:00.000Z")

    def told(*months: float) -> str:
        found = replace(FOUND, counterfactuals=tuple(replace(LESS, takes_months=one) for one in months), warnings=())
        (warning,) = recourse_answer(frame, actions, found).warnings
        return warning.split(":")[0]

    assert told(6.0) == "This takes 6 months, longer than the answer is valid"
    assert told(1.0, 6.0) == "Way 2 (6 months) takes longer than the answer is valid"
    assert told(6.0, 1.0, 24.0) == "Ways 1 (6 months) and 3 (24 months) take longer than the answer is valid"


def test_what_was_found_is_told_in_the_model_s_own_terms(actions: ActionSet) -> None:
    told = plain(recourse_answer(FRAME, actions, FOUND))
    assert told["status"] == "found"
    refused = {"probability": 0.31, "score": -0.8, "points": None, "favourable": False, "future": None}
    assert told["factual"] == refused
    assert told["counterfactuals"] == [
        {
            "rank": 1,
            "applicant": {"amount": 2000, "housing": "rented"},
            "changes": [
                {
                    "feature": "amount", "from": 5000, "to": 2000, "delta": -3000, "unit": "EUR",
                    "accepted": None, "takes_months": 0.0, "by_time": False,
                    "text": "Reduce the amount from 5,000 EUR to 2,000 EUR.",
                }
            ],
            "takes_months": 0.0,
            "lasts": None,
            "cost": {"total": 3.0, "norm": "l1", "changed_features": 1},
            "validity": {
                "current": {"favourable": True, "probability": 0.62, "score": 0.5, "points": None},
                "noise": None,
                "shift": None,
                "joint": None, "future": None,
            },
            "report": None, "difference": None, "steps": None,
        }
    ]  # fmt: skip
    assert told["surrogate"] == {"kind": "mpm", "worst_case_accuracy": 0.4, "fidelity": 0.9, "samples": 100}
    assert told["diagnostics"] == {"model_calls": 4, "model_rows": 1664, "elapsed_ms": 6.1}
    assert told["warnings"] == ["Mind the gap."]
    json.dumps(told, allow_nan=False)


def test_that_nothing_was_found_is_told_with_what_was_nearest_and_what_would_help(actions: ActionSet) -> None:
    nearest = replace(LESS, score=-0.1)
    relax = Relaxation(constraint="bounds", feature="amount", sufficient=True, text="Ask for less.")
    verdict = Verdict(reason=Reason.INFEASIBLE_CONSTRAINTS, sentence="No.", nearest=nearest, relax=relax)
    result = replace(FOUND, status=Status.NOT_FOUND, counterfactuals=(), verdict=verdict, surrogate=None)
    told = plain(recourse_answer(FRAME, actions, result))
    assert (told["status"], told["reason"], told["detail"]) == ("not_found", "infeasible_constraints", "No.")
    assert told["nearest"]["applicant"] == {"amount": 2000, "housing": "rented"}
    assert (told["nearest"]["score"], told["nearest"]["favourable"]) == (-0.1, False)
    assert told["relax"] == {
        "constraint": "bounds", "feature": "amount", "sufficient": True, "text": "Ask for less.", "takes_months": None,
    }  # fmt: skip
    assert told["surrogate"] is None
    json.dumps(told, allow_nan=False)


@pytest.mark.parametrize(("reason", "known"), [(Reason.DEADLINE, False), (Reason.MODEL_OUTPUT_INVALID, True)])
def test_a_record_that_the_model_was_not_asked_about_has_no_decision(
    actions: ActionSet, reason: Reason, known: bool
) -> None:
    """A letter would call it a refusal."""
    verdict = Verdict(reason=reason, sentence="No.")
    missed = replace(FOUND, status=Status.NOT_FOUND, factual_score=None, factual_probability=None,
                     counterfactuals=(), verdict=verdict)  # fmt: skip
    told = recourse_answer(FRAME, actions, missed).factual
    assert (told is not None) is known
    assert told is None or told.favourable is False


def test_an_answer_without_time_has_the_same_fields(actions: ActionSet) -> None:
    stopped = plain(out_of_time(FRAME, 12.0))
    assert list(stopped) == list(plain(recourse_answer(FRAME, actions, FOUND)))
    assert list(stopped) == list(RecourseAnswer.model_fields)


def test_without_time_there_is_no_decision() -> None:
    assert decision_if_asked(None, None, Reason.DEADLINE, None) is None
    assert decision_if_asked(None, None, None, None) is None
    assert decision_if_asked(-1.0, 0.3, Reason.DEADLINE, None) == decision(-1.0, 0.3, None)
    assert decision_if_asked(None, None, Reason.MODEL_OUTPUT_INVALID, None) == decision(None, None, None)


@pytest.mark.parametrize(("score", "favourable"), [(0.0, True), (-1e-300, False), (None, False)])
def test_zero_is_favourable_and_nothing_is_not(score: float | None, favourable: bool) -> None:
    assert decision(score, None, None).favourable is favourable


@pytest.mark.parametrize(
    ("probability", "score", "shown"),
    [(0.3855177136451451, -1.85, 0.385518), (0.79999996, -2.5e-7, 0.79999996), (0.5, None, 0.5), (None, 1.0, None)],
)
def test_a_rounded_output_stays_on_its_side_of_the_threshold(
    probability: float | None, score: float | None, shown: float | None
) -> None:
    assert rounded_output(probability, score) == shown
