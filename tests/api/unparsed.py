"""Read a request of every kind where Python may not be parsed, after all that the service imports."""

import ast
from typing import Never

import app.main  # noqa: F401 - what it imports may parse
from app.questions.correction_schema import CorrectRequest
from app.questions.schema import RecourseRequest
from app.questions.validity_schema import ValidityRequest
from app.recourse.methods import METHODS


def parse(*_: object, **__: object) -> Never:
    raise AssertionError("Python is parsed while a request is read")


if __name__ == "__main__":
    ast.parse = parse
    about = {"model": "loan", "applicant": {}}
    for name in METHODS:
        request = about | {"method": {"name": name}, "reasons": True}
        RecourseRequest.model_validate(request).question().to_json()
    records = about | {"counterfactuals": [{}]}
    ValidityRequest.model_validate(records).question().to_json()
    CorrectRequest.model_validate(records).question().to_json()
