"""Answer one applicant's question: ``solve(problem, method, params) -> RecourseResult``.

`app.recourse.method_run` answers a question with one record or a plan, `app.recourse.ways` asks it for several ways
that differ in what is changed, and for those that include or leave out what the person wishes.
"""

import math

from app.recourse.certificate import CertificateParams
from app.recourse.method import Method, MethodParams
from app.recourse.method_run import MAX_CALLS, WEIGHTS_WARNING
from app.recourse.methods import DEFAULT_METHOD, METHODS
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult
from app.recourse.ways import Ways

__all__ = ["DEFAULT_METHOD", "MAX_CALLS", "METHODS", "WEIGHTS_WARNING", "solve"]


def solve(
    problem: RecourseProblem,
    method: Method,
    params: MethodParams,
    certificate: CertificateParams | None = None,
    *,
    plan_s: float = math.inf,
) -> RecourseResult:
    """Answer one applicant's question with counterfactuals that the black box has confirmed, or with a verdict.

    The same problem, method and parameters give the same answer, timings aside, unless the deadline cuts it short.

    Parameters
    ----------
    plan_s : seconds for the joint bounds of a plan; where they take longer, a bracket is returned

    Raises
    ------
    InvalidRequest : `future_validity` is asked of a model without future models
    ModelOutputInvalid : the model broke its contract, e.g. with a probability above 1
    ModelUnavailable : a remote model does not answer
    SolverFailed : a solver ended without an answer, and no fallback record was accepted
    """
    return Ways(problem, method).answer(params, certificate, plan_s=plan_s)
