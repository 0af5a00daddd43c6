"""Many applicants at once."""

from typing import Annotated, Any

from pydantic import Field, StrictBool, WithJsonSchema

from app.api.schemas.models import Record
from app.api.schemas.problem import Problem
from app.api.schemas.recourse import RecourseQuestion, Reference
from app.api.schemas.strict import Strict


class BatchRow(Strict):
    """One applicant of a batch."""

    applicant: Record
    reference: Reference | None = None
    """Your own name for this case; given back in its line."""


# Rows are looked at one by one, because a bad one must not fail the others.
AnyRow = Annotated[Any, WithJsonSchema(BatchRow.model_json_schema())]


class BatchCommon(RecourseQuestion):
    """What the applicants of a batch have in common; row `i`, from 0, has the seed `seed + i` (0 follows 2^53 - 1)."""

    store: StrictBool = True
    """Keep questions and answers in the ledger, as with a single request. If false, only the job has them."""


class BatchRequest(BatchCommon):
    """The question what each of many applicants could change."""

    applicants: Annotated[list[AnyRow], Field(min_length=1)]


class BatchProblem(Problem):
    """The line of an applicant who has no answer."""

    reference: str | None
    """Of the applicant."""
