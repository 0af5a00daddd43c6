"""The answer. Only `app.recourse.solve` makes one, after it has asked the black box about every record in it."""

import time
from dataclasses import dataclass, field, replace
from enum import StrEnum

from app.recourse.answer_part import EXACT, AnswerPart
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.committee import Drawn
from app.recourse.reports import SurrogateReport
from app.recourse.verdict import Verdict


class Status(StrEnum):
    """Outcome of a question; each one is an answer, none is an error."""

    FOUND = "found"
    ALREADY_FAVOURABLE = "already_favourable"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFutureCertificate(AnswerPart):
    """Shares of the held-back future models that accept all members of a plan, and at least one."""

    all: float
    """Share that accepts every member."""
    all_interval: tuple[float, float]
    """95 % confidence interval, as that of one counterfactual."""
    any: float
    """Share that accepts at least one member."""
    any_interval: tuple[float, float]
    """95 % confidence interval, as that of one counterfactual."""
    stressed_all: float | None
    """Smallest share over all stresses, each up to its full strength, that accepts every member; null without any."""
    stressed_any: float | None
    """The same for at least one member."""
    models: int
    """Number of future models that were asked."""
    source: str
    """Where they come from."""
    records: Drawn | None
    """As those of one counterfactual."""
    asked: float | None = field(metadata=EXACT)
    """Share that the request asked for; null where it asked for none."""
    promise: str = ""
    """In words: what can be promised of at least one member, then of all, with the condition (English)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCertificate:
    """Bounds on the probability that a linear model accepts all members of a plan.

    They hold over all distributions of the model's weights in the certificate's Gelbrich ball.
    """

    lower: float
    upper: float
    exact: bool
    """Whether the bounds are tight, up to the solver's accuracy; False where those of future models widened them."""
    status: str
    """`complete`, or `bracket` where the solver did not finish in time and the bounds come from the members' own."""
    proximity: float
    """Mean L2 distance to the factual, encoded units."""
    diversity: float
    """Determinant of ``1/(1 + distance)`` between the members: 0 for equal ones, towards 1 for distant ones."""
    future: PlanFutureCertificate | None = None
    """What future models say about all members together; None where the model has no future models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics(AnswerPart):
    """What the answer took to compute."""

    model_calls: int | None
    """Calls of the model; null where the computation was stopped at its time limit."""
    model_rows: int | None
    """Records in those calls."""
    elapsed_ms: float
    """Time in milliseconds."""

    @classmethod
    def since(cls, began: float, calls: int, rows: int) -> "Diagnostics":
        """Diagnostics of a computation; `began` is what `time.perf_counter()` was at its beginning."""
        return cls(model_calls=calls, model_rows=rows, elapsed_ms=1e3 * (time.perf_counter() - began))

    def plus(self, calls: int | None, rows: int | None) -> "Diagnostics":
        """These diagnostics with further model calls and rows added; both are None if any of the numbers is unknown."""
        if self.model_calls is None or self.model_rows is None or calls is None or rows is None:
            return replace(self, model_calls=None, model_rows=None)
        return replace(self, model_calls=self.model_calls + calls, model_rows=self.model_rows + rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecourseResult:
    """The verified answer to one `RecourseProblem`."""

    status: Status
    factual_score: float | None
    """None where the model gave no finite score."""
    factual_probability: float | None
    counterfactuals: tuple[Counterfactual, ...] = ()
    """Ranked, all confirmed favourable; empty unless `status` is `found`."""
    plan: PlanCertificate | None = None
    """Of all of them together, where the method gives several and a certificate was requested."""
    verdict: Verdict | None = None
    """Present iff `status` is `not_found`."""
    fallback: bool = False
    """Whether the counterfactuals may miss the method's own constraint; `warnings` explains it."""
    misses: bool = False
    """Whether the counterfactual is known to miss it; False of plans."""
    enough: tuple[tuple[int, ...], ...] = ()
    """Features of smaller parts of its changes that the model accepts by themselves and that bring most of the rise of
    its score, where only an estimate of the model asks for the rest; empty of plans."""
    second_look: tuple[float, int] | None = None
    """Share of the held-back future models that accept the refused record as it is, and how many they are."""
    offer: Counterfactual | None = None
    """The applicant's record with the best terms that the model accepts; None where there are none, or none is known.
    """
    surrogate: SurrogateReport | None = None
    diagnostics: Diagnostics
    warnings: tuple[str, ...] = ()
