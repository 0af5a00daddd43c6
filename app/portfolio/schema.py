"""A comparison of two versions, and its answer."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from app.api.described import describe
from app.api.strict import FEW, NUMBER, Sent, Strict, with_fields_of
from app.jobs.lines import SEEDS
from app.portfolio import comparison
from app.questions.answers import Json
from app.questions.batch_schema import AnyRow, to_row
from app.questions.question import Question
from app.questions.schema import OptionalCost, OptionalMethod, by_method
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.timing import Timing
from app.recourse.problem import Robustness

VersionName = Annotated[str, StringConstraints(min_length=3, max_length=200)]


class ReferenceSource(Strict):
    """The reference records of the baseline."""

    kind: Literal["reference"]
    """The records that the baseline was registered with."""


class RecordsSource(Strict):
    """Records of the request."""

    kind: Literal["records"]
    """Those that follow."""
    records: Annotated[list[AnyRow], Field(min_length=1)]
    """Applicants as in a batch. Accepted ones count for the decisions only."""


@with_fields_of(Timing)
class AskedOfMany(Strict):
    """What is asked about each record of a comparison or report."""

    method: OptionalMethod
    """The method; `robust_mpm` when absent."""
    constraints: Annotated[Constraints, Sent()] = Field(default_factory=Constraints)
    """What applicants cannot or will not do."""
    cost: OptionalCost
    """What changes cost."""
    robustness: Annotated[Robustness, Sent()] = Field(default_factory=Robustness)
    """What the answers must withstand."""
    seed: Annotated[int, Field(ge=0, le=SEEDS - 1), NUMBER] = 0
    """The same request with the same seed has the same result."""

    def question(self) -> Question:
        """The question that is asked about each applicant; the applicant's record is not yet in it."""
        return by_method(self)


class ComparisonCommon(AskedOfMany):
    """The versions to compare, what both are asked, and what the candidate must not do."""

    baseline: VersionName
    """`id@version` of the version in use."""
    candidate: VersionName
    """`id@version` that is to replace it; it may be registered with `--inactive`."""
    fail_if: Annotated[tuple[Annotated[str, StringConstraints(max_length=100)], ...], Field(max_length=20), FEW] = ()
    """Such as `broken > 5%` or `beyond-retraining < 0.05`; the result says which the candidate passes."""


class ComparisonRequest(ComparisonCommon):
    """What a comparison asks, and about which records."""

    source: Annotated[ReferenceSource | RecordsSource, Field(discriminator="kind")] | None = None
    """Whom to ask about; the reference records of the baseline when absent."""

    def rows(self) -> list[Json] | None:
        """The records of the request as rows of a job; None if the baseline's reference records are compared."""
        return [to_row(one) for one in self.source.records] if isinstance(self.source, RecordsSource) else None


ComparisonAnswer: Any = describe(comparison.ComparisonAnswer)

COMPARISON_EXAMPLES: Any = {
    "gate": {
        "summary": "May version 2 go live?",
        "value": {
            "baseline": "consumer-loan@1",
            "candidate": "consumer-loan@2",
            "fail_if": ["beyond-retraining < 0.05", "lost > 1%"],
        },
    },
}
