"""Read a request of every kind where Python may not be parsed, after all that the service imports."""

import ast
from typing import Never

import app.main  # noqa: F401 - what it imports may parse
from app.api.schemas.corrections import CorrectRequest, correction_question_of
from app.api.schemas.recourse import RecourseRequest, question_of
from app.api.schemas.validity import ValidityRequest, validity_question_of
from app.recourse.methods import METHODS


def parse(*_: object, **__: object) -> Never:
    raise AssertionError("Python is parsed while a request is read")


if __name__ == "__main__":
    ast.parse = parse
    about = {"model": "loan", "applicant": {}}
    for name in METHODS:
        request = about | {"method": {"name": name}, "reasons": True}
        question_of(RecourseRequest.model_validate(request)).to_json()
    records = about | {"counterfactuals": [{}]}
    validity_question_of(ValidityRequest.model_validate(records)).to_json()
    correction_question_of(CorrectRequest.model_validate(records)).to_json()
