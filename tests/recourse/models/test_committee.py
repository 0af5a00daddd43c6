"""Future models: shares and intervals against counting and scipy's own."""

import numpy as np
import pytest
from scipy.stats import binomtest

from app.recourse.models.black_box import Input
from app.recourse.models.committee import FutureModels
from app.recourse.robustness.invalidation import clopper_pearson
from tests.recourse.toys import LOAN, loan_rows, loan_score


@pytest.mark.parametrize(("accepted", "count"), [(0, 60), (1, 60), (57, 60), (60, 60), (3, 5)])
def test_intervals_are_those_of_an_exact_binomial_test(accepted: int, count: int) -> None:
    exact = binomtest(accepted, count).proportion_ci(0.95, method="exact")
    assert clopper_pearson(accepted, count) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("takes", list(Input))
def test_a_share_counts_the_models_that_accept(takes: Input) -> None:
    rows, shifts = loan_rows(300), np.linspace(-1.0, 1.0, 10)
    encode = LOAN.encode if takes is Input.RAW else (lambda X: X)
    futures = FutureModels(
        space=LOAN, count=10, score_all=lambda X: loan_score(encode(X))[:, None] + shifts, input=takes
    )
    own = loan_score(LOAN.encode(rows))
    assert (futures.shares(rows) == (own[:, None] + shifts >= 0).mean(axis=1)).all()
    assert (futures.scores(LOAN.encode(rows)) == own[:, None] + shifts).all()


def test_a_missing_score_is_no_yes() -> None:
    futures = FutureModels(space=LOAN, count=2, score_all=lambda X: np.tile([np.nan, 1.0], (len(X), 1)))
    assert futures.shares(loan_rows(3)).tolist() == [0.5, 0.5, 0.5]
