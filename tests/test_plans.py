"""What is said of plans, on the paper's own data: the orderings of its table 1, and that every member is an answer."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.recourse.plans.corrector import CorrectionParams
from benchmarks.plans import Found, Halves, copa, corrected, dice, load
from benchmarks.tasks import DATA

pytestmark = pytest.mark.slow
PEOPLE = 8


@pytest.fixture(scope="module")
def student() -> Halves:
    if not (DATA / "student" / "present.csv").exists():
        pytest.skip(f"no Student data in {DATA}; RECOURSE_DATA names the folder of the data sets")
    data = load("student")
    assert data is not None
    return replace(data, applicants_raw=data.applicants_raw[:PEOPLE])


@pytest.fixture(scope="module")
def plain(student: Halves) -> list[Found]:
    return dice(student)


def mean(plans: list[Found], figure: str) -> float:
    return float(np.mean([getattr(plan, figure) for _, plan in plans]))


def empirical(student: Halves, plans: list[Found]) -> float:
    return float(np.mean([student.valid(rows_raw) for rows_raw, _ in plans]))


def test_every_member_is_legal_accepted_and_different(student: Halves, plain: list[Found]) -> None:
    assert len(plain) == PEOPLE
    for applicant, (rows_raw, _) in zip(student.applicants_raw, plain, strict=True):
        assert student.problem(applicant).action_set.contains(rows_raw).all()
        assert (student.black_box.score_raw(rows_raw) >= 0.0).all()
        assert len(np.unique(rows_raw, axis=0)) == len(rows_raw)


def test_copa_stays_valid_where_dice_does_not(student: Halves, plain: list[Found]) -> None:
    robust = copa(student, 0.5, 5.0)
    assert len(robust) == PEOPLE
    assert mean(robust, "lower") > mean(plain, "lower") + 0.2
    assert empirical(student, robust) > empirical(student, plain) + 0.2


def test_a_larger_weight_of_validity_is_more_valid(student: Halves) -> None:
    lowers = [mean(copa(student, weight, 5.0), "lower") for weight in (0.0, 0.05, 0.5)]
    assert lowers[0] < lowers[1] < lowers[2]


def test_a_mahalanobis_correction_raises_validity_and_changes_little_else(student: Halves, plain: list[Found]) -> None:
    fixed: list[Any] = corrected(student, plain, CorrectionParams(kind="mahalanobis"))
    assert all(after.lower >= before.lower for (_, after), (_, before) in zip(fixed, plain, strict=True))
    assert mean(fixed, "lower") > mean(plain, "lower") + 0.05
    assert empirical(student, fixed) >= empirical(student, plain)
    assert mean(fixed, "proximity") == pytest.approx(mean(plain, "proximity"), rel=0.1)
    assert mean(fixed, "diversity") == pytest.approx(mean(plain, "diversity"), rel=0.1)
