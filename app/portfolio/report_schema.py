"""A report, and its answer."""

from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from app.api.described import Described, describe
from app.api.strict import FEW, NUMBER, Moment, Strict
from app.jobs.schema import JobAnswer
from app.portfolio import report
from app.portfolio.schema import AskedOfMany, ReferenceSource
from app.questions.answers import Json
from app.questions.batch_schema import AsRow, BatchRow, to_row

Part = Literal["limits", "levers", "ways"]

Name = Annotated[str, StringConstraints(min_length=1, max_length=100)]


class GroupedRow(BatchRow):
    """One applicant of a report."""

    groups: Annotated[dict[Name, Name], FEW] = Field(default_factory=dict)
    """Groups that the model never sees, such as `{"sex": "female"}`."""


AnyGroupedRow = Annotated[Any, AsRow(GroupedRow)]


class GroupedSource(Strict):
    """Records of the request."""

    kind: Literal["records"]
    """Those that follow."""
    records: Annotated[list[AnyGroupedRow], Field(min_length=1)]
    """As in a batch, and with `groups`. Accepted ones are counted and left out."""


class LedgerSource(Strict):
    """People who asked any version before: the newest question of each `reference`."""

    kind: Literal["ledger"]
    """Erased ones are counted."""
    since: Moment | None = None
    """Asked at this moment or later."""
    until: Moment | None = None
    """Asked before this moment."""


class GroupsBy(Strict):
    """How people are grouped: by a feature, or by a key of the records' `groups`."""

    feature: Name | None = None
    """Any of the model."""
    edges: Annotated[list[Annotated[float, NUMBER]], Field(max_length=20), FEW] | None = None
    """Of a number: where one group ends and the next begins."""
    column: Name | None = None
    """Instead of it."""

    @model_validator(mode="after")
    def _one(self) -> "GroupsBy":
        if (self.feature is None) == (self.column is None):
            raise ValueError("must name either a feature or a column")
        if self.edges is not None and list(self.edges) != sorted(set(self.edges)):
            raise ValueError("edges must rise")
        return self


class Groups(Strict):
    """Which groups are compared."""

    by: Annotated[list[GroupsBy], Field(max_length=10), FEW] = Field(default_factory=list)
    """A table for each of these."""
    budget: Annotated[float, Field(gt=0), NUMBER] | None = None
    """Largest cost that counts as affordable; the median of those found when absent."""
    permutations: Annotated[int, Field(ge=99, le=9_999), NUMBER] = 499
    """Of the groups, behind each p value."""


class Ways(Strict):
    """Ways that are the same for everybody."""

    count: Annotated[int, Field(ge=1, le=10), NUMBER] = 5
    """Ways, those first that help most."""
    changes: Annotated[int, Field(ge=1, le=5), NUMBER] = 3
    """Features that a way changes at most."""
    future_validity: Annotated[float, Field(gt=0, le=1), NUMBER] | None = None
    """Share of future models that must accept what a way makes; that of `robustness` when absent."""


class ReportCommon(AskedOfMany):
    """What is asked about each record of a report."""

    parts: Annotated[tuple[Part, ...], FEW] = ("limits", "levers", "ways")
    """What is reported besides recourse and preclusion."""
    groups: Groups = Field(default_factory=Groups)
    """Whether it is harder for some."""
    ways: Ways = Field(default_factory=Ways)
    """Which few ways help most."""

    def figures(self) -> Json:
        """The `parts`, `groups` and `ways` of the request as plain data."""
        return {"parts": list(self.parts), **self.model_dump(include={"groups", "ways"})}


class ReportRequest(ReportCommon):
    """Whom to report on, and what is asked about each."""

    source: Annotated[ReferenceSource | GroupedSource | LedgerSource, Field(discriminator="kind")] | None = None
    """Whom to ask about; the reference records of the version when absent."""

    def rows(self) -> list[Json] | None:
        """The records of the request as rows of a job; None if the request names another source."""
        if not isinstance(self.source, GroupedSource):
            return None
        return [to_row(one, GroupedRow) for one in self.source.records]

    def period(self) -> tuple[datetime | None, datetime | None] | None:
        """Start and end of the period of a ledger source; None if the request names another source.

        An end without a limit is None.
        """
        return (self.source.since, self.source.until) if isinstance(self.source, LedgerSource) else None


def by_of(text: str, features: Collection[str] | None = None) -> Json:
    """What groups are made of, for a text such as `sex` or `age:25,35,50`; raises `ValueError` for other edges.

    Parameters
    ----------
    features : names of features, any other of which is a column; None where there are no columns
    """
    name, _, edges = text.partition(":")
    if edges:
        return {"feature": name, "edges": [float(edge) for edge in edges.split(",")]}
    return {"feature" if features is None or name in features else "column": name}


class ReportList(Described):
    """A page of reports."""

    reports: list[JobAnswer]
    """Newest first, also those that are underway; `id` is that of the report."""
    next_cursor: str | None
    """Pass it as `cursor` for the reports before these; null on the last page."""


ReportAnswer: Any = describe(report.ReportAnswer)

REPORT_EXAMPLES: Any = {
    "groups": {
        "summary": "Who has recourse, what stands in the way, and is it harder for the young?",
        "value": {"groups": {"by": [{"feature": "age", "edges": [25, 35, 50, 65]}]}},
    },
}
