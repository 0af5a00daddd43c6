"""Many applicants at once: the answers are those that each alone would have had, in far fewer calls."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from app.errors import ModelOutputInvalid, ModelUnavailable, RecourseError
from app.recourse.actions.action_set import action_set
from app.recourse.certificate_params import CertificateParams
from app.recourse.method import Yields
from app.recourse.methods import METHODS
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import MAX_CALLS, solve
from app.recourse.solve_many import Outcome, solve_many
from app.recourse.verdict import Reason
from tests.recourse.toys import LOAN, Spy, ask, loan_rows, loan_score

PARAMS = METHODS["robust_mpm"].params()
CERTIFICATE = CertificateParams(noise_samples=50)


def by_columns(X: np.ndarray) -> np.ndarray:
    """Sums column by column, so that no row knows of the others."""
    return np.asarray(loan_score(X))


def questions(
    count: int, predict: Callable[[Any], Any] = by_columns, *, raw: bool = False, rowwise: bool = True
) -> tuple[list[RecourseProblem], Spy]:
    """Refused applicants and one who is accepted; all ask one model, each with a seed of their own."""
    rows_raw = loan_rows(200, seed=9)
    accepted = loan_score(LOAN.encode(rows_raw)) >= 0.0
    rows_raw = np.concatenate([rows_raw[~accepted][: count - 1], rows_raw[accepted][:1]])
    first, spy = ask(LOAN, predict, rows_raw[0].tolist(), rows_raw=loan_rows(300), raw=raw)
    black_box = replace(first.black_box, rowwise=rowwise)
    problems = [
        replace(first, black_box=black_box, action_set=action_set(LOAN, row_raw), seed=i)
        for i, row_raw in enumerate(rows_raw)
    ]
    return problems, spy


def comparable(outcome: Outcome) -> object:
    """Everything but the time it took; arrays as bytes."""
    if isinstance(outcome, RecourseError):
        return outcome.to_dict()
    found = [(one.row_raw.tobytes(), one.score, one.certificate, one.report) for one in outcome.counterfactuals]
    verdict = outcome.verdict
    nearest = verdict and verdict.nearest and verdict.nearest.row_raw.tobytes()
    return (
        outcome.status, outcome.factual_score, found, outcome.plan, verdict and verdict.reason, nearest,
        outcome.surrogate, outcome.diagnostics.model_calls, outcome.diagnostics.model_rows, outcome.warnings,
    )  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.release] if method.yields is Yields.PLAN else [])
        for name, method in METHODS.items()
    ],
)
@pytest.mark.parametrize("raw", [False, True])
def test_each_answer_is_the_one_that_the_applicant_alone_would_have_had(name: str, raw: bool) -> None:
    predict = (lambda rows_raw: by_columns(LOAN.encode(rows_raw))) if raw else by_columns
    problems, spy = questions(8, predict, raw=raw)
    method = METHODS[name]
    alone = [comparable(solve(problem, method, method.params(), CERTIFICATE)) for problem in problems]
    calls_alone = len(spy.asked)
    spy.asked.clear()
    together = solve_many(problems, method, method.params(), CERTIFICATE)
    assert [comparable(outcome) for outcome in together] == alone
    assert len(spy.asked) < calls_alone / 3
    statuses = {outcome.status for outcome in together if isinstance(outcome, RecourseResult)}
    assert statuses >= {Status.FOUND, Status.ALREADY_FAVOURABLE}


def test_all_of_them_ask_no_more_often_than_one_does() -> None:
    problems, spy = questions(30)
    outcomes = solve_many(problems, METHODS["robust_mpm"], PARAMS, CERTIFICATE)
    assert all(isinstance(outcome, RecourseResult) for outcome in outcomes)
    assert len(spy.asked) <= MAX_CALLS + 5, (
        "and one each for copies, the rest of a ladder, cheaper records, fewer changes, points beside records"
    )
    assert sum(map(len, spy.asked)) == sum(o.diagnostics.model_rows for o in outcomes if isinstance(o, RecourseResult))


@dataclass
class Far:
    """A model behind a network, with a budget for each answer."""

    predict: Callable[[np.ndarray], np.ndarray]
    max_calls: int = 20
    max_rows: int = 100_000
    deadlines: list[float] = field(default_factory=list)
    away: bool = False

    def price(self, rows: int) -> tuple[int, int]:
        return 1, rows

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:
        self.deadlines.append(deadline)
        if self.away:
            raise ModelUnavailable("the server of the model does not answer")
        return self.predict(rows)


def far_away(problems: list[RecourseProblem], far: Far) -> list[RecourseProblem]:
    black_box = replace(problems[0].black_box, remote=far)
    return [replace(problem, black_box=black_box) for problem in problems]


def test_a_remote_model_is_asked_by_all_at_once_and_each_pays_as_if_alone() -> None:
    problems, spy = questions(10)
    far = Far(spy)
    began = time.monotonic()
    outcomes = solve_many(far_away(problems, far), METHODS["robust_mpm"], PARAMS, deadline_s=5.0)
    assert [comparable(one) for one in outcomes] == [
        comparable(solve(problem, METHODS["robust_mpm"], PARAMS)) for problem in far_away(problems, Far(spy))
    ]
    assert len(far.deadlines) <= MAX_CALLS
    assert all(began + 50.0 <= deadline <= time.monotonic() + 50.0 for deadline in far.deadlines)
    poor = solve_many(far_away(problems, Far(spy, max_calls=2)), METHODS["robust_mpm"], PARAMS)
    reasons = {one.verdict.reason for one in poor if isinstance(one, RecourseResult) and one.verdict}
    assert reasons == {Reason.BUDGET}


def test_a_server_that_is_away_is_not_asked_again_for_each() -> None:
    problems, spy = questions(10)
    far = Far(spy, away=True)
    outcomes = solve_many(far_away(problems, far), METHODS["robust_mpm"], PARAMS, deadline_s=5.0)
    assert all(isinstance(one, ModelUnavailable) for one in outcomes)
    assert len(far.deadlines) == 1


def test_a_model_whose_sums_depend_on_the_number_of_rows_gives_the_same_records_and_verdicts() -> None:
    weights = np.random.default_rng(0).normal(size=LOAN.d)
    problems, spy = questions(8, lambda X: X @ weights, rowwise=False)
    alone = [solve(problem, METHODS["robust_mpm"], PARAMS) for problem in problems]
    calls_alone = len(spy.asked)
    spy.asked.clear()
    together = solve_many(problems, METHODS["robust_mpm"], PARAMS)
    assert len(spy.asked) < calls_alone / 2
    for one, other in zip(alone, together, strict=True):
        assert isinstance(other, RecourseResult)
        assert [way.row_raw.tolist() for way in other.counterfactuals] == [
            way.row_raw.tolist() for way in one.counterfactuals
        ]
        assert (other.status, other.verdict and other.verdict.reason) == (
            one.status,
            one.verdict and one.verdict.reason,
        )
        assert other.factual_score == pytest.approx(one.factual_score, abs=1e-9)
        assert other.diagnostics.model_rows == one.diagnostics.model_rows


def test_the_trouble_of_one_applicant_is_not_that_of_the_others() -> None:
    problems, _ = questions(6)
    poison = problems[2].action_set.space.encode(problems[2].factual_raw[None])[0]

    def sick(X: np.ndarray) -> np.ndarray:
        if (poison == X).all(axis=1).any():
            raise ModelOutputInvalid("The model cannot bear this record.")
        return by_columns(X)

    healthy = solve_many(problems, METHODS["robust_mpm"], PARAMS)
    black_box = replace(problems[0].black_box, predict=sick)
    problems = [replace(problem, black_box=black_box) for problem in problems]
    outcomes = solve_many(problems, METHODS["robust_mpm"], PARAMS)
    assert isinstance(outcomes[2], ModelOutputInvalid)
    others = [0, 1, 3, 4, 5]
    assert [comparable(outcomes[i]) for i in others] == [comparable(healthy[i]) for i in others]


def test_an_output_of_the_wrong_length_is_the_error_of_each() -> None:
    problems, spy = questions(3)
    spy.predict = lambda X: np.ones(len(X) - 1)
    outcomes = solve_many(problems, METHODS["robust_mpm"], PARAMS)
    assert all(isinstance(outcome, ModelOutputInvalid) for outcome in outcomes)


def test_an_unforeseen_error_ends_all_of_them() -> None:
    problems, spy = questions(4)

    def stumble(X: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError

    spy.predict = stumble
    with pytest.raises(ZeroDivisionError):
        solve_many(problems, METHODS["robust_mpm"], PARAMS)


def test_time_that_has_run_out_is_a_verdict() -> None:
    for rowwise in (True, False):
        problems, _ = questions(2, rowwise=rowwise)
        for outcome in solve_many(problems, METHODS["robust_mpm"], PARAMS, deadline_s=0.0):
            assert isinstance(outcome, RecourseResult)
            assert outcome.verdict is not None
            assert outcome.verdict.reason is Reason.DEADLINE


def test_nobody_asks_nothing() -> None:
    assert solve_many([], METHODS["robust_mpm"], PARAMS) == []
