"""What a meter sends to a remote model, and what it counts."""

from dataclasses import replace

import numpy as np
import pytest

from app.errors import BudgetExceeded, ModelOutputInvalid
from app.recourse.models.black_box import BlackBox
from app.recourse.models.meter import MOST_REMEMBERED, Meter
from app.recourse.models.score import Output
from tests.recourse.test_solve_many import Far
from tests.recourse.toys import LOAN, Spy, loan_rows, loan_score

ROWS = loan_rows(40)


def remote(**budget: int) -> tuple[Meter, Spy]:
    spy = Spy(loan_score, LOAN, raw=False)
    box = BlackBox(space=LOAN, predict=spy, output=Output.LOGIT, threshold=0.0)
    return Meter(replace(box, remote=Far(spy, **budget))), spy


def test_no_record_is_sent_twice() -> None:
    meter, spy = remote()
    scores = meter.score_raw(ROWS[:3])
    assert np.array_equal(meter.score_raw(ROWS[[4, 2, 4, 0]]), meter.black_box.score_raw(ROWS[[4, 2, 4, 0]]))
    assert np.array_equal(meter.score_raw(ROWS[:3]), scores)
    assert [len(X) for X in spy.asked] == [3, 1]
    assert (meter.calls, meter.rows) == (2, 4)


def test_large_calls_are_sent_as_they_are() -> None:
    meter, spy = remote()
    many = loan_rows(MOST_REMEMBERED + 1)
    for _ in range(2):
        meter.score_raw(many)
    assert [len(X) for X in spy.asked] == [len(many)] * 2


def test_what_several_ask_at_a_time_is_one_call() -> None:
    meter, spy = remote()

    def both(k: int) -> list[float]:
        return [float(meter.score_raw(ROWS[[i]])[0]) for i in range(k, k + 2)]

    together = meter.together([lambda k=k: both(k) for k in (0, 10, 20)])
    assert [len(X) for X in spy.asked] == [3, 3]
    assert meter.calls == 2
    alone, _ = remote()
    assert np.array_equal(together, [alone.score_raw(ROWS[k : k + 2]) for k in (0, 10, 20)])


def test_a_budget_that_does_not_pay_for_all_pays_for_the_first() -> None:
    meter, spy = remote(max_rows=5)
    replies = meter.together([lambda k=k: len(meter.score_raw(ROWS[k : k + 2])) for k in (0, 10, 20)])
    assert replies[:2] == [2, 2]
    assert isinstance(replies[2], BudgetExceeded)
    assert [len(X) for X in spy.asked] == [2, 2]


def test_an_output_of_the_wrong_length_is_refused() -> None:
    meter, spy = remote()
    spy.predict = lambda X: np.ones(len(X) - 1)
    with pytest.raises(ModelOutputInvalid, match="for 3 records"):
        meter.score_raw(ROWS[:3])
