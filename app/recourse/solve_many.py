"""Many applicants, one model: ``solve_many(problems, method, params)``, in about as many model calls as for one.

The applicants are answered in step (`app.recourse.models.in_step`), so every method shares calls without special code:
those of the model, and those of its future models. Every answer has the records and verdicts of `solve`. Its figures
may differ from those in the last bits, because a matrix product sums in another order for another number of rows.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from app.errors import RecourseError
from app.recourse.certificate_params import CertificateParams
from app.recourse.method import Method, MethodParams
from app.recourse.models.black_box import Predict, Wrapped
from app.recourse.models.in_step import in_step, joined
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult
from app.recourse.solve import solve

Outcome: TypeAlias = RecourseResult | RecourseError
"""An answer, or why there is none; one applicant's error is not the others'."""

R = TypeVar("R")
"""What is computed of each applicant."""


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
    deadline_s : as for `together`
    steps : as for `solve`
    """
    answer = partial(solve, method=method, params=params, certificate=certificate, plan_s=plan_s, steps=steps)
    return together(problems, answer, deadline_s=deadline_s)


def together(
    problems: Sequence[RecourseProblem], answer: Callable[[RecourseProblem], R], *, deadline_s: float
) -> list[R | RecourseError]:
    """What `answer` returns for each problem, or the `RecourseError` that it raises; they share their models' calls.

    Parameters
    ----------
    problems : have the same black box
    deadline_s : seconds from now for each applicant, in place of the problems' own deadlines; the applicants share the
        sum of their seconds
    """
    if not problems:
        return []
    black_box, deadline = problems[0].black_box, time.monotonic() + deadline_s * len(problems)
    assert all(problem.black_box is black_box for problem in problems)
    if black_box.remote is not None:
        black_box = replace(black_box, remote=_Shared(black_box.remote, black_box.by(deadline).predict))
    return in_step([partial(answer, replace(one, black_box=black_box, deadline=deadline)) for one in problems])


@dataclass(frozen=True)
class _Shared(Wrapped):
    """A remote model for one of several applicants, who shares calls with the others and is charged as if alone."""

    predict: Predict

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:  # noqa: ARG002 - all have the same
        return joined(self.predict, rows, dear=True)
