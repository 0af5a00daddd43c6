"""The cost-robustness curve of one applicant."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError

from app.api.described import describe
from app.api.errors import faults_of, in_body
from app.api.examples import APPLICANT, DEMO_MODEL
from app.api.strict import FEW, LONGEST_NAME, NUMBER, Strict, derive, optional
from app.errors import Fault, InvalidRequest
from app.questions import frontier
from app.questions.frontier import FrontierQuestion
from app.questions.methods_schema import CHOICES
from app.questions.schema import ApplicantQuestion
from app.recourse.frontier import FUTURE_VALIDITY
from app.recourse.problem import Robustness
from app.recourse.solve import METHODS

MOST_POINTS = 20
"""Values of one curve."""


FACTORS = (0.0, 0.1, 0.3, 1.0, 3.0)
"""Usual values of a knob, as multiples of its default."""

STANDARD = 0.3
"""In place of a default that is no number above 0."""

SHARES = (0.5, 0.7, 0.8, 0.9, 0.95)
"""Usual values of `future_validity`."""


class Sweep(Strict):
    """A parameter of the method and its values."""

    parameter: Annotated[str, StringConstraints(max_length=LONGEST_NAME)] | None = None
    """A robustness knob of the method, as `GET /methods` lists them; or `future_validity`, with every method of a model
    with future models. The first knob of the method when absent."""
    values: Annotated[list[Annotated[float, NUMBER]], Field(min_length=1, max_length=MOST_POINTS), FEW] | None = None
    """Distinct values, each within the limits of the parameter; a few around its default when absent."""


OptionalSweep: Any = optional(Sweep)
RobustnessRequest: Any = derive(Robustness)


class FrontierRequest(ApplicantQuestion):
    """The cost of recourse for an applicant at several levels of robustness."""

    sweep: OptionalSweep
    """What is varied."""

    def question(self) -> FrontierQuestion:
        """The question of the request, without the applicant's record.

        Raises `InvalidRequest` with every fault of the sweep.
        """
        parameter = self.sweep.parameter or usual_parameter(self.method)
        if parameter is None:
            detail = f"must be {FUTURE_VALIDITY}: the method {self.method.name} has no parameter for robustness"
            raise InvalidRequest(faults=[Fault("/sweep/parameter", detail)])
        values = self.sweep.values or usual_values(self.method, parameter)
        if faults := value_faults(self.method, parameter, dict(enumerate(values))):
            raise InvalidRequest(faults=faults)
        common = super().question()
        known = {f.name: getattr(common, f.name) for f in fields(common)}
        return FrontierQuestion(**known, parameter=parameter, values=tuple(values))


FrontierAnswer: Any = describe(frontier.FrontierAnswer)

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


def usual_parameter(method: Any) -> str | None:
    """Name of the parameter that a frontier varies if the request names none; None if the method has none to vary."""
    return next(iter(METHODS[method.name].knobs), None)


def usual_values(method: Any, parameter: str) -> list[float]:
    """Values of a method's parameter, around its default, in order from the cheapest answer to the most robust one."""
    if parameter == FUTURE_VALIDITY:
        return list(SHARES)
    field = CHOICES[method.name].model_fields.get(parameter)
    default = field.default if field is not None else None
    standard = default if isinstance(default, float) and default > 0.0 else STANDARD
    values = [round(standard * factor, 6) for factor in FACTORS]
    allowed = [value for value in values if not value_faults(method, parameter, {0: value})]
    return allowed if METHODS[method.name].knobs.get(parameter, 1) > 0 else allowed[::-1]


def value_faults(method: Any, parameter: str, values: Mapping[int, float]) -> list[Fault]:
    """The faults of the values of a sweep; their pointers start with `/sweep`.

    Parameters
    ----------
    values : values of `parameter`, by their index in the sweep
    """
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
            found = faults_of(in_body(error), {parameter: value})
            faults += [Fault(f"/sweep/values/{i}", fault.detail) for fault in found]
        if any(value == before for j, before in values.items() if j < i):
            faults.append(Fault(f"/sweep/values/{i}", "is there already"))
    return faults
