"""The cost-robustness curve of one applicant."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from app.api.schemas.models import Decision, Described, ModelVersion
from app.api.schemas.recourse import ApplicantQuestion, CounterfactualAnswer, DiagnosticsAnswer
from app.api.schemas.strict import FEW, LONGEST_NAME, NUMBER, Strict
from app.recourse.result import Reason, Status

MOST_POINTS = 20
"""Values of one curve."""


class Sweep(Strict):
    """Which parameter of the method takes which values."""

    parameter: Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
    """A robustness knob of the method; `GET /methods` lists them."""
    values: Annotated[list[Annotated[float, NUMBER]], Field(min_length=1, max_length=MOST_POINTS), FEW]
    """Different values, each within the limits of the parameter."""


class FrontierRequest(ApplicantQuestion):
    """The question what more certainty would cost an applicant."""

    sweep: Sweep


class Point(Described):
    """The answer at one value."""

    value: float
    status: Status
    cost: float | None
    """Null unless something was found."""
    dominated: bool
    """Whether another point is at least as robust and costs no more, and is better in one of the two."""
    counterfactual: CounterfactualAnswer | None
    reason: Reason | None
    """Why nothing was found."""
    detail: str | None
    """The reason as a sentence."""


class FrontierAnswer(Described):
    """The curve; every record in it was confirmed by the model itself."""

    reference: str | None
    model: ModelVersion
    method: dict[str, Any]
    """The method with every parameter, as asked for; `parameter` takes its value from each point."""
    parameter: str
    factual: Decision
    points: list[Point]
    """In the order of the values. Those that are not dominated grow in cost with robustness."""
    diagnostics: DiagnosticsAnswer
    """Of all points together."""
    warnings: list[str]
    seed: int
