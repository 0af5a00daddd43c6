"""The cost-robustness curve of one applicant."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from app.api.errors import faults_of
from app.api.examples import APPLICANT, DEMO_MODEL
from app.api.schemas.described import describe
from app.api.schemas.methods import CHOICES
from app.api.schemas.recourse import ApplicantQuestion, RobustnessRequest, question_of
from app.api.schemas.strict import FEW, LONGEST_NAME, NUMBER, Strict
from app.compute import use_cases
from app.compute.messages import FrontierQuestion
from app.errors import Fault, InvalidRequest
from app.recourse.frontier import FUTURE_VALIDITY
from app.recourse.solve import METHODS

MOST_POINTS = 20
"""Values of one curve."""


class Sweep(Strict):
    """A parameter of the method and its values."""

    parameter: Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
    """A robustness knob of the method, as `GET /methods` lists them; or `future_validity`, with every method of a model
    with future models."""
    values: Annotated[list[Annotated[float, NUMBER]], Field(min_length=1, max_length=MOST_POINTS), FEW]
    """Distinct values, each within the limits of the parameter."""


class FrontierRequest(ApplicantQuestion):
    """The cost of recourse for an applicant at several levels of robustness."""

    sweep: Sweep


FrontierAnswer: Any = describe(use_cases.FrontierAnswer)

FRONTIER_EXAMPLES: Any = {
    "retraining": {
        "summary": "Cost at several ambiguity radii",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "sweep": {"parameter": "radius_unfavourable", "values": [0, 1, 2, 5, 10]},
        },
    },
    "noise": {
        "summary": "Cost at several invalidation rates",
        "value": {
            "model": DEMO_MODEL,
            "applicant": APPLICANT,
            "method": {"name": "probe", "noise_std": 0.2},
            "sweep": {"parameter": "target_invalidation_rate", "values": [0.35, 0.2, 0.1, 0.05]},
        },
    },
}


def frontier_question_of(request: FrontierRequest) -> FrontierQuestion:
    """The question of a request, without its record. Raises `InvalidRequest` with every fault of the sweep."""
    parameter, values = request.sweep.parameter, request.sweep.values
    if faults := value_faults(request.method, parameter, dict(enumerate(values))):
        raise InvalidRequest(faults=faults)
    common = question_of(request)
    known = {f.name: getattr(common, f.name) for f in fields(common)}
    return FrontierQuestion(**known, parameter=parameter, values=tuple(values))


def value_faults(method: Any, parameter: str, values: Mapping[int, float]) -> list[Fault]:
    """Faults of values of a method's parameter, by their positions in the sweep."""
    name = method.name
    knobs = (*METHODS[name].knobs, FUTURE_VALIDITY)
    if parameter not in knobs:
        return [Fault("/sweep/parameter", f"must be one of {', '.join(knobs)}")]
    faults: list[Fault] = []
    for i, value in values.items():
        try:
            if parameter == FUTURE_VALIDITY:
                RobustnessRequest.model_validate({parameter: value})
            else:
                CHOICES[name].model_validate({**method.model_dump(), parameter: value})
        except ValidationError as error:
            body = {parameter: value}
            found = [{**detail, "loc": ("body", *detail["loc"])} for detail in error.errors()]
            faults += [Fault(f"/sweep/values/{i}", fault.detail) for fault in faults_of(found, body)]
        if any(value == before for j, before in values.items() if j < i):
            faults.append(Fault(f"/sweep/values/{i}", "is there already"))
    return faults
