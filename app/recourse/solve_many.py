"""Many applicants, one model: ``solve_many(problems, method, params)``, in as many model calls as for one of them.

Each applicant is solved by `solve`, all in step (`app.recourse.models.in_step`), so every method shares calls without
special code, and every answer equals the one of `solve`.

That is exact to the last bit only where the model's output for a row does not depend on the other rows of the call
(`BlackBox.rowwise`). A matrix product does not guarantee that: BLAS sums in another order for another number of rows.
Such models are in this process, where a call costs less than a switch between threads, so their applicants are solved
one after another. Calls of remote models are always shared, because there each call is expensive.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.errors import RecourseError
from app.recourse.certificate_params import CertificateParams
from app.recourse.method import Method, MethodParams
from app.recourse.models.black_box import Predict, Wrapped
from app.recourse.models.in_step import in_step
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
    steps: bool = True,
) -> list[Outcome]:
    """The outcome of `solve` for each problem, in order; all problems must have the same black box.

    Parameters
    ----------
    plan_s : seconds for the joint bounds of a plan; where they take longer, wider bounds are returned
    steps : as for `solve`
    deadline_s : seconds from now for each applicant, in place of the problems' own deadlines; applicants whose model
        calls are joined share the sum of their seconds
    """
    if not problems:
        return []
    black_box, shared_s = problems[0].black_box, deadline_s * len(problems)
    assert all(problem.black_box is black_box for problem in problems)

    def answer(problem: RecourseProblem, seconds: float) -> RecourseResult:
        asked = replace(problem, deadline=time.monotonic() + seconds)
        return solve(asked, method, params, certificate, plan_s=plan_s, steps=steps)

    def answer_asking(problem: RecourseProblem, predict: Predict) -> RecourseResult:
        remote = None if black_box.remote is None else _Shared(black_box.remote, predict)
        asking = replace(problem, black_box=replace(black_box, predict=predict, remote=remote))
        return answer(asking, shared_s)

    if black_box.rowwise and len(problems) > 1:
        predict = black_box.by(time.monotonic() + shared_s).predict
        return in_step([partial(answer_asking, problem) for problem in problems], predict)
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
