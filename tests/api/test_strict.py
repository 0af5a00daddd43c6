"""Records of the core as request schemas."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

import pytest
from annotated_types import Ge, Interval
from pydantic import TypeAdapter, ValidationError

from app.api.errors import MOST_FAULTS
from app.api.strict import derive, to_record
from app.questions.schema import RecourseRequest
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.timing import Timing
from app.recourse.actions.wishes import Wishes
from app.recourse.certificate_params import CertificateParams
from app.recourse.problem import Robustness
from app.recourse.reasons import ReasonsParams
from app.recourse.solve import METHODS
from tests.forks import forks


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, kw_only=True)
class Inner:
    """Inside."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    value: float | str | None = None
    """Either."""


@dataclass(frozen=True, kw_only=True)
class Parent:
    """Above."""

    __pydantic_config__: ClassVar = {"use_attribute_docstrings": True}

    count: Annotated[int, Ge(1)] = 3
    """How many."""


@dataclass(frozen=True, kw_only=True)
class Outer(Parent):
    """Outside."""

    share: Annotated[float, Interval(gt=0, lt=1)] | None = None
    kind: Literal["a", "b"] = "a"
    names: tuple[str, ...] = ()
    colours: Mapping[str, Colour] = field(default_factory=dict)
    inner: Mapping[str, Inner] = field(default_factory=dict)


Schema = derive(Outer)


def test_a_request_becomes_the_record() -> None:
    request = {"count": 2.0, "share": 0.5, "names": ["x"], "colours": {"c": "red"}, "inner": {"i": {"value": 1}}}
    assert to_record(Outer, Schema.model_validate(request)) == Outer(
        count=2, share=0.5, names=("x",), colours={"c": Colour.RED}, inner={"i": Inner(value=1.0)}
    )
    assert to_record(Outer, Schema.model_validate({})) == Outer()


PARTS = (Constraints, CertificateParams, Timing, Robustness, ReasonsParams)
"""Records of the core that requests may leave to their defaults."""


@pytest.mark.parametrize("record", [*PARTS, *(method.params for method in METHODS.values())])
def test_what_a_request_leaves_to_its_defaults_is_the_record_that_it_would_state(record: type[Any]) -> None:
    schema = derive(record)
    left = to_record(record, schema.model_validate({}))
    assert left == TypeAdapter(record).validate_python(schema.model_validate({}).model_dump())
    assert to_record(record, schema.model_validate({})) is left
    for name, value in schema.model_validate({}).model_dump(mode="json").items():
        assert to_record(record, schema.model_validate({name: value})) == left


def test_a_question_without_wishes_is_one_with_none() -> None:
    asked = {"model": "loan", "applicant": {}}
    for silent in (asked, {**asked, "exclude": {}}, {**asked, "must_include": []}):
        assert RecourseRequest.model_validate(silent).question().wishes == Wishes()


def test_a_part_of_a_request_is_the_record_of_the_core() -> None:
    asked: dict[str, Any] = {"model": "loan", "applicant": {}}
    for silent in (asked, {**asked, "constraints": None}, {**asked, "constraints": {}}):
        assert RecourseRequest.model_validate(silent).constraints == Constraints()
    request = RecourseRequest.model_validate({**asked, "constraints": {"immutable": ["age"]}})
    assert request.constraints == Constraints(immutable=("age",))


def test_null_for_an_optional_object_is_its_absence() -> None:
    assert to_record(Outer, Schema.model_validate({"colours": None, "inner": None})) == Outer()
    assert {"type": "null"} in Schema.model_json_schema()["properties"]["inner"]["anyOf"]
    for request in ({"count": None}, {"names": None}, {"inner": {"i": None}}):
        with pytest.raises(ValidationError):
            Schema.model_validate(request)


def test_limits_and_sentences_are_in_the_schema() -> None:
    described = Schema.model_json_schema()
    assert described["description"] == "Outside."
    assert described["properties"]["count"] == {
        "default": 3, "description": "How many.", "minimum": 1, "title": "Count", "type": "integer",
    }  # fmt: skip
    assert described["additionalProperties"] is False


@pytest.mark.parametrize(
    "request_",
    [
        {"count": True}, {"count": "2"}, {"count": 0}, {"count": 2.5}, {"share": "0.5"}, {"share": False},
        {"share": 1.0},
        {"share": float("nan")}, {"kind": "c"}, {"names": "x"}, {"names": [1]}, {"names": ["x" * 101]},
        {"names": ["x"] * 1001}, {"colours": {"c": "blue"}}, {"inner": {"i": {"value": True}}},
        {"inner": {"i": {"other": 1}}}, {"inner": []}, {"other": 1}, {"colours": {str(i): "red" for i in range(1001)}},
    ],
)  # fmt: skip
def test_nothing_is_taken_for_what_it_is_not(request_: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Schema.model_validate(request_)


def test_a_type_that_cannot_be_taken_literally_is_our_mistake() -> None:
    @dataclass(frozen=True)
    class Loose:
        anything: object

    with pytest.raises(TypeError, match="literally"):
        derive(Loose)


@pytest.mark.parametrize(("unknown", "kind"), [(2, "unknown_field"), (MOST_FAULTS + 1, "extra_forbidden")])
def test_fields_are_named_only_for_as_many_faults_as_are_listed(unknown: int, kind: str) -> None:
    """To name them for each of 45,000 unknown fields took the event loop a second."""
    with pytest.raises(ValidationError) as raised:
        RecourseRequest.model_validate(
            {"model": "m", "applicant": {}, "constraints": {f"z{i}": 1 for i in range(unknown)}}
        )
    assert {fault["type"] for fault in raised.value.errors()} == {kind}
    assert raised.value.error_count() == unknown


@pytest.mark.slow
def test_no_request_makes_python_parse() -> None:
    """Two threads that do so at once get a `SystemError` from CPython 3.11 from time to time: an answer 500."""
    done = forks().run("tests.api.unparsed", env=os.environ)
    assert (done.returncode, done.stderr) == (0, "")
