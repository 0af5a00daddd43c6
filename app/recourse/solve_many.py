"""Many applicants, one model: ``solve_many(problems, method, params)``, in as many model calls as for one of them.

Each applicant is solved by `solve` in a thread of its own; one thread runs at a time. An applicant that calls the model
waits until all others call it or have their answer; then one call scores all their rows. So every method shares calls
without special code, and every answer equals the one of `solve`.

That is exact to the last bit only where the model's output for a row does not depend on the other rows of the call
(`BlackBox.rowwise`). A matrix product does not guarantee that: BLAS sums in another order for another number of rows.
Such models are in this process, where a call costs less than a switch between threads, so their applicants are solved
one after another. Calls of remote models are always shared, because there each call is expensive.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.errors import ModelOutputInvalid, RecourseError
from app.recourse.certificate_params import CertificateParams
from app.recourse.method import Method, MethodParams
from app.recourse.models.black_box import Predict, Wrapped
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult
from app.recourse.solve import solve

Outcome = RecourseResult | RecourseError
"""An answer, or why there is none; one applicant's error is not the others'."""


def solve_many(
    problems: Sequence[RecourseProblem],
    method: Method,
    params: MethodParams,
    certificate: CertificateParams | None = None,
    *,
    plan_s: float = math.inf,
    deadline_s: float = math.inf,
) -> list[Outcome]:
    """The outcome of `solve` for each problem, in order; all of them ask the same black box.

    Parameters
    ----------
    plan_s : as for `solve`
    deadline_s : seconds for each applicant from now on, in place of the problems' own deadlines; applicants that share
        calls share the sum of it
    """
    if not problems:
        return []
    black_box, shared_s = problems[0].black_box, deadline_s * len(problems)
    assert all(problem.black_box is black_box for problem in problems)

    def answer(problem: RecourseProblem, seconds: float) -> RecourseResult:
        return solve(replace(problem, deadline=time.monotonic() + seconds), method, params, certificate, plan_s=plan_s)

    def answer_asking(problem: RecourseProblem, predict: Predict) -> RecourseResult:
        remote = None if black_box.remote is None else _Shared(black_box.remote, predict)
        asking = replace(problem, black_box=replace(black_box, predict=predict, remote=remote))
        return answer(asking, shared_s)

    if black_box.rowwise and len(problems) > 1:
        predict = black_box.by(time.monotonic() + shared_s).predict
        return _in_step([partial(answer_asking, problem) for problem in problems], predict)
    return [_outcome(partial(answer, problem, deadline_s)) for problem in problems]


@dataclass(frozen=True)
class _Shared(Wrapped):
    """A remote model for one of several applicants, who shares calls with the others and is charged as if alone."""

    ask: Predict

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:  # noqa: ARG002 - all have the same
        return self.ask(rows)


def _outcome(work: Callable[[], RecourseResult]) -> Outcome:
    try:
        return work()
    except RecourseError as error:
        return error


def _in_step(works: Sequence[Callable[[Predict], RecourseResult]], predict: Predict) -> list[Outcome]:
    applicants = [_Applicant(work) for work in works]
    try:
        for one in applicants:
            one.proceed(None)
        while asking := [one for one in applicants if one.question is not None]:
            replies = _replies(predict, [one.question for one in asking if one.question is not None])
            for one, reply in zip(asking, replies, strict=True):
                one.proceed(reply)
    finally:
        for one in applicants:
            one.abandon()
    return [one.outcome for one in applicants]


Reply = np.ndarray | RecourseError | None
"""The model's output or the error; None before the first call."""


def _replies(predict: Predict, questions: Sequence[np.ndarray]) -> list[Reply]:
    """Of one call; after an error that a record may have caused, of one call each, so it affects one applicant only."""
    rows = np.concatenate(questions)
    try:
        output = np.asarray(predict(rows))
    except ModelOutputInvalid:
        output = np.empty(0)
    except RecourseError as error:
        # The server is unavailable, or time is over: one call each would fail too.
        return [error] * len(questions)
    if output.shape == (len(rows),):
        return list(np.split(output, np.cumsum([len(question) for question in questions])[:-1]))
    return [_reply(predict, question) for question in questions]


def _reply(predict: Predict, question: np.ndarray) -> Reply:
    try:
        return np.asarray(predict(question))
    except RecourseError as error:
        return error


class _Abandoned(BaseException):
    """Ends the thread of an applicant whose answer is no longer needed."""


class _Applicant:
    """One applicant's work in a thread that runs only during `proceed`: until its next question, or its end."""

    def __init__(self, work: Callable[[Predict], RecourseResult]) -> None:
        self.question: np.ndarray | None = None
        """Model input that waits to be scored."""
        self._work = work
        self._reply: Reply = None
        self._abandoned = False
        self._result: Outcome | BaseException | None = None
        self._turn, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="applicant", daemon=True)

    @property
    def outcome(self) -> Outcome:
        """The answer, or why there is none; raises unexpected errors."""
        assert self._result is not None
        if isinstance(self._result, RecourseResult | RecourseError):
            return self._result
        raise self._result

    def proceed(self, reply: Reply) -> None:
        """Go on with the model's reply."""
        self.question, self._reply = None, reply
        if not self._thread.ident:
            self._thread.start()
        self._turn.release()
        self._paused.acquire()

    def abandon(self) -> None:
        """End the thread if it still runs."""
        if self.question is not None:
            self._abandoned = True
            self.proceed(None)

    def _run(self) -> None:
        self._turn.acquire()
        try:
            self._result = self._work(self._ask)
        except BaseException as error:  # noqa: BLE001 - raised again by `outcome`
            self._result = error
        self._paused.release()

    def _ask(self, model_input: np.ndarray) -> np.ndarray:
        self.question = model_input
        self._paused.release()
        self._turn.acquire()
        if self._abandoned:
            raise _Abandoned
        if isinstance(self._reply, RecourseError):
            raise self._reply
        assert self._reply is not None
        return self._reply
