"""Further faults of a request some of whose parts have the wrong form, so that all its faults are reported at once."""

from collections.abc import Collection
from contextlib import suppress
from functools import partial

from fastapi import Request
from pydantic import ValidationError

from app.api.deps import service_of
from app.api.strict import MOST_ENTRIES
from app.errors import Fault, RecourseError
from app.questions.frontier_schema import MOST_POINTS, Sweep, usual_parameter, value_faults
from app.questions.schema import RecourseQuestion
from app.questions.validation import Check, checks

ONE, OTHER = "applicant", "factual"
"""Names of the member of requests that is a record; the second is known to some of them."""

MANY = ("counterfactuals", "records")
"""Members that are a list of them."""


def further_faults(request: Request, body: object, wrong: Collection[object]) -> list[Fault]:
    """Faults of those members of a recourse request that have the right form; empty where the named model is unknown.

    Parameters
    ----------
    wrong : names of the members that have a wrong form; these members are not checked
    """
    if not isinstance(body, dict):
        return []
    service = service_of(request)
    right = {name: value for name, value in body.items() if name not in wrong}
    asked = {name: value for name, value in right.items() if name in RecourseQuestion.model_fields}
    try:
        question = RecourseQuestion.model_validate({"model": request.path_params.get("id"), **asked})
        model = service.models.find(question.model)
    except (ValidationError, RecourseError):
        return []
    named = ONE if ONE in body else OTHER
    records = {f"/{named}": body[named]} if ONE in body or OTHER in right else {}
    for name in MANY:
        if isinstance(listed := body.get(name), list):
            records |= {f"/{name}/{i}": record for i, record in enumerate(listed[:MOST_ENTRIES])}
    reading: list[Check] = [
        partial(model.space.read, record, pointer=pointer)
        for pointer, record in records.items()
        if isinstance(record, dict)
    ]
    found: list[Fault] = []
    for check in (*reading, *checks(service.models, model, question.question())):
        try:
            check()
        except RecourseError as error:
            found += error.faults
    return found if "method" in wrong else found + _sweep_faults(question, body.get("sweep"))


def _sweep_faults(question: RecourseQuestion, sweep: object) -> list[Fault]:
    """Faults of those values of a sweep that are numbers."""
    if not isinstance(sweep, dict) or not isinstance(listed := sweep.get("values"), list):
        return []
    values: dict[int, float] = {}
    for i, value in enumerate(listed[:MOST_POINTS]):
        with suppress(ValidationError):
            values |= enumerate(Sweep.model_validate({**sweep, "values": [value]}).values or (), start=i)
    parameter = sweep.get("parameter") or usual_parameter(question.method)
    return value_faults(question.method, parameter, values) if values and parameter else []
