"""Which contributions are stated as reasons, and the verdicts where none are."""

import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.recourse.features import Change, Feature
from app.recourse.models.meter import Meter
from app.recourse.reasons import Against, Comparison, Departure, NoReasons, ReasonsParams, ReasonsStatus, explain
from app.recourse.reasons.shapley import Contributions, contributions
from tests.recourse.reasons.lender import FEATURES, curved, problem, rows

POOR = [1.2, 1.6, 25, 2, 3]


def named(features: tuple[Feature, ...] = FEATURES, **params: object) -> list[str]:
    found = explain(problem(POOR, features=features), ReasonsParams(**params))  # type: ignore[arg-type]
    return [features[one.feature].name for one in found.reasons]


def test_reasons_are_the_largest_first_and_lowered_the_score() -> None:
    found = explain(problem(POOR), ReasonsParams())
    assert found.status is ReasonsStatus.FOUND
    assert 1 < len(found.reasons) <= 4
    contributed = [one.contribution for one in found.reasons]
    assert contributed == sorted(contributed)
    assert max(contributed) < 0.0
    assert all(one.contribution < -2.0 * one.std_error for one in found.reasons)
    assert 0.0 < sum(one.share for one in found.reasons) <= 1.0


def test_a_value_is_not_too_low_where_having_less_would_have_raised_the_score() -> None:
    """Half of those compared with have no debt and half a large one, so that a middling one is below their average."""

    def score(table: np.ndarray) -> np.ndarray:
        return 0.5 - np.minimum(table[:, 1], 2.0)

    def way(debt: float, reference_raw: np.ndarray) -> Departure | None:
        asked = problem([2.0, debt, 40, 0, 0], score, reference_raw=reference_raw)
        (reason,) = explain(asked, ReasonsParams(against=Against.EVERYONE)).reasons
        assert reason.feature == 1
        return reason.departure

    mixed = rows(100)
    mixed[:, 1] = np.tile([0.0, 9.0], 50)
    assert way(2.0, mixed) is None
    assert way(5.0, mixed) is Departure.TOO_HIGH
    mixed[:, 1] = np.tile([0.0, 1.0], 50)
    assert way(2.0, mixed) is Departure.TOO_HIGH


def test_a_principal_reason_is_named_though_most_have_it_too() -> None:
    """The law lets no principal reason be left out; what most have is stated as it is, and is not too low."""

    def score(table: np.ndarray) -> np.ndarray:
        return 0.5 * table[:, 1] + table[:, 0] - 3.0

    reference = rows(100)
    reference[:, 0], reference[:, 1] = 4.0, np.where(np.arange(100) < 15, 9.0, 0.0)
    asked = problem([2.9, 0.0, 40, 0, 0], score, reference_raw=reference)
    found = {one.feature: one for one in explain(asked, ReasonsParams(against=Against.EVERYONE)).reasons}
    assert found.keys() == {0, 1}
    assert (found[1].usual_raw, found[1].departure) == (0.0, None)


@pytest.mark.parametrize(("std_error", "counts"), [(2.25, True), (2.75, False)])
def test_a_contribution_counts_from_two_standard_errors_on(
    monkeypatch: pytest.MonkeyPatch, std_error: float, counts: bool
) -> None:
    """At two standard errors one of forty contributions that are none would count."""
    measured = contributions

    def doubtful(*asked: Any) -> Contributions:
        found = measured(*asked)
        values, errors = np.full_like(found.values, -1.0), np.zeros_like(found.std_errors)
        values[2], errors[2] = -5.0, std_error
        return replace(found, values=values, std_errors=errors)

    monkeypatch.setattr(sys.modules[explain.__module__], "contributions", doubtful)
    assert ("age" in named()) is counts


def test_fewer_can_be_asked_for() -> None:
    assert named(count=1) == named()[:1]


def test_what_nobody_can_change_is_a_reason_all_the_same() -> None:
    fixed = tuple(replace(feature, change=Change.NONE) for feature in FEATURES)
    assert named(fixed) == named()


def test_a_protected_feature_is_never_named_and_its_share_is_stated() -> None:
    first = named()[0]
    protected = tuple(replace(feature, protected=feature.name == first) for feature in FEATURES)
    assert first not in named(protected)
    open_, hidden = (explain(problem(POOR, features=features), ReasonsParams()) for features in (FEATURES, protected))
    assert open_.protected_share == 0.0
    assert hidden.protected_share == pytest.approx(open_.reasons[0].share)
    # The others keep their shares of all that lowered the score.
    assert [one.share for one in hidden.reasons[:2]] == pytest.approx([one.share for one in open_.reasons[1:3]])


def test_what_the_manifest_does_not_name_is_no_reason() -> None:
    first = named()[0]
    silent = tuple(
        replace(one, reason=replace(one.reason, named=False)) if one.name == first else one for one in FEATURES
    )
    assert first not in named(silent)
    hidden = explain(problem(POOR, features=silent), ReasonsParams())
    assert hidden.protected_share == pytest.approx(explain(problem(POOR), ReasonsParams()).reasons[0].share)


def test_the_accepted_are_those_just_above_the_cut_off() -> None:
    reference = problem(POOR, reference_raw=rows(4000)).reference
    near, everyone = (Comparison.of(reference, against) for against in Against)
    accepted = np.sort(reference.scores[reference.scores >= 0.0])
    assert len(near.scores) == 200
    assert np.sort(near.scores) == pytest.approx(accepted[:200])
    assert len(everyone.scores) == 4000


def test_an_accepted_applicant_has_no_reasons() -> None:
    found = explain(problem([5.0, 0.1, 50, 1, 0]), ReasonsParams())
    assert (found.status, found.reasons, found.verdict) == (ReasonsStatus.ALREADY_FAVOURABLE, (), None)
    assert found.diagnostics.model_rows == 1


def test_there_is_nobody_to_compare_with() -> None:
    found = explain(problem(POOR, lambda table: curved(table) - 100.0), ReasonsParams())
    assert (found.status, found.verdict) == (ReasonsStatus.NOT_FOUND, NoReasons.NONE_ACCEPTED)


def test_an_applicant_better_than_average_in_everything_has_no_reasons_against_everyone() -> None:
    asked = problem([5.0, 0.1, 50, 1, 0], lambda table: curved(table) - 100.0)
    found = explain(asked, ReasonsParams(against=Against.EVERYONE))
    assert (found.status, found.verdict) == (ReasonsStatus.NOT_FOUND, NoReasons.NOTHING_LOWERS)


def test_no_time_is_a_verdict() -> None:
    asked = replace(problem(POOR), deadline=time.monotonic() - 1.0)
    found = explain(asked, ReasonsParams())
    assert (found.status, found.verdict) == (ReasonsStatus.NOT_FOUND, NoReasons.DEADLINE)
    assert found.factual_score is None


def test_no_score_is_a_verdict() -> None:
    found = explain(problem(POOR, lambda table: np.full(len(table), np.nan)), ReasonsParams())
    assert (found.status, found.verdict) == (ReasonsStatus.NOT_FOUND, NoReasons.MODEL_OUTPUT_INVALID)


def test_the_same_seed_gives_the_same_reasons() -> None:
    one, again, other = (explain(problem(POOR, seed=seed), ReasonsParams()) for seed in (3, 3, 4))
    assert one.reasons == again.reasons
    assert one.reasons != other.reasons


def test_calls_count_towards_the_meter_of_a_larger_answer() -> None:
    asked = problem(POOR)
    meter = Meter(asked.black_box)
    found = explain(asked, ReasonsParams(), meter)
    assert (found.diagnostics.model_calls, found.diagnostics.model_rows) == (meter.calls, meter.rows)
