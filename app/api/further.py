"""What else is wrong with a request of which a part has the wrong form: faults of all its parts are told at once."""

from collections.abc import Collection
from contextlib import suppress
from functools import partial

from fastapi import Request
from pydantic import ValidationError

from app.api.routes.recourse import query_of, value_faults
from app.api.schemas.frontier import MOST_POINTS, Sweep
from app.api.schemas.recourse import RecourseQuestion
from app.api.schemas.strict import MOST_ENTRIES
from app.errors import Fault, RecourseError
from app.service import Service
from app.service.checks import Check, checks

ONE = ("applicant", "factual")
"""Members of requests that are a record."""

MANY = ("counterfactuals", "records")
"""Members that are a list of them."""


def further_faults(request: Request, body: object, wrong: Collection[object]) -> list[Fault]:
    """What the model does not accept of the parts that have the right form; nothing where no model is told.

    `wrong` are the names of the members that have not.
    """
    if not isinstance(body, dict):
        return []
    service: Service = request.app.state.service
    right = {name: value for name, value in body.items() if name not in wrong}
    asked = {name: value for name, value in right.items() if name in RecourseQuestion.model_fields}
    try:
        question = RecourseQuestion.model_validate({"model": request.path_params.get("id"), **asked})
        model = service.models.find(question.model)
    except (ValidationError, RecourseError):
        return []
    records = {f"/{name}": body[name] for name in ONE if name in body}
    for name in MANY:
        if isinstance(listed := body.get(name), list):
            records |= {f"/{name}/{i}": record for i, record in enumerate(listed[:MOST_ENTRIES])}
    reading: list[Check] = [
        partial(model.space.read, record, pointer=pointer)
        for pointer, record in records.items()
        if isinstance(record, dict)
    ]
    found: list[Fault] = []
    for check in (*reading, *checks(service.models, model, query_of(question))):
        try:
            check()
        except RecourseError as error:
            found += error.faults
    return found if "method" in wrong else found + _sweep_faults(question, body.get("sweep"))


def _sweep_faults(question: RecourseQuestion, sweep: object) -> list[Fault]:
    """What the method does not accept of those values of a sweep that are numbers."""
    if not isinstance(sweep, dict) or not isinstance(listed := sweep.get("values"), list):
        return []
    values: dict[int, float] = {}
    for i, value in enumerate(listed[:MOST_POINTS]):
        with suppress(ValidationError):
            (values[i],) = Sweep.model_validate({**sweep, "values": [value]}).values
    return value_faults(question.method, sweep["parameter"], values) if values else []
