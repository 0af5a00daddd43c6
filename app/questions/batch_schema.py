"""Many applicants at once."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, StrictBool
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from app.api.bodies import read_json, validated
from app.api.problem import Problem
from app.api.strict import Strict
from app.errors import InvalidRequest, RecourseError
from app.models.schema import Record
from app.questions.answers import Json
from app.questions.question import Question
from app.questions.schema import RecourseQuestion, Reference, SeveralWays


class BatchRow(Strict):
    """One applicant of a batch."""

    applicant: Record
    reference: Reference | None = None
    """Your own name for this case; returned in its line."""


@dataclass(frozen=True)
class AsRow:
    """Annotation by which OpenAPI describes each row with the schema `row`, although rows are validated later.

    Rows are validated one by one, so that an invalid row does not make the others fail.
    """

    row: type[Strict]

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self.row.__pydantic_core_schema__)


AnyRow = Annotated[Any, AsRow(BatchRow)]


class BatchCommon(RecourseQuestion, SeveralWays):
    """What the applicants of a batch have in common.

    Row `i`, counted from 0, has the seed `seed + i`; after 2^53 - 1, seeds continue at 0.
    """

    store: StrictBool = True
    """Keep questions and answers in the ledger, as with a single request. If false, only the job has them."""

    def question(self) -> Question:
        """The question that the batch asks about each applicant, with the number of counterfactuals asked for."""
        return self.counted(super().question(), self.method)


class BatchRequest(BatchCommon):
    """What each of many applicants could change."""

    applicants: Annotated[list[AnyRow], Field(min_length=1)]
    """The applicants, answered in this order."""


class BatchProblem(Problem):
    """The line of an applicant without an answer."""

    reference: str | None
    """Of the applicant."""


def line_to_row(line: bytes, schema: type[BatchRow] = BatchRow) -> Json:
    """The row of a batch for one line of JSON; if the line is invalid, the row holds the error."""
    try:
        return to_row(read_json(line), schema)
    except InvalidRequest as error:
        return refused_row({}, error)


def to_row(value: Any, schema: type[BatchRow] = BatchRow) -> Json:
    """The row of a batch for one applicant; if the applicant is invalid, the row holds the error."""
    try:
        return validated(schema, value).model_dump()
    except InvalidRequest as error:
        return refused_row(value, error)


def refused_row(value: Any, error: RecourseError) -> Json:
    """The row of a batch for a value that is no valid applicant: the error, and the value's `reference` if any."""
    reference = value.get("reference") if isinstance(value, dict) else None
    known = isinstance(reference, str) and len(reference) <= 200 and reference.isprintable()
    return {"refused": error.to_dict(), "reference": reference if known else None}
