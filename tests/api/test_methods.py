"""The list of methods is the core's, and so are their parameters."""

from dataclasses import dataclass, fields
from typing import Any, Literal

import httpx
import pytest
from pydantic import TypeAdapter, ValidationError, create_model

from app.api.errors import faults_of
from app.api.strict import derive, to_record
from app.errors import Fault
from app.questions.methods_schema import CHOICES, Methods, one_of
from app.recourse.solve import METHODS
from tests.api.asking import question


def test_every_method_is_listed_with_its_parameters(client: httpx.Client) -> None:
    answer = client.get("/methods").json()
    Methods.model_validate(answer)
    assert [method["name"] for method in answer["methods"]] == list(METHODS)
    for described in answer["methods"]:
        method = METHODS[described["name"]]
        assert described["summary"] == method.summary
        assert list(described["parameters"]["properties"]) == ["name", *(f.name for f in fields(method.params))]
        assert described["parameters"]["additionalProperties"] is False
        assert described["knobs"] == list(method.knobs)
        assert described["robust_when"] == {
            knob: {1: "larger", -1: "smaller"}[sign] for knob, sign in method.knobs.items()
        }


@pytest.mark.parametrize("name", list(METHODS))
def test_limits_defaults_and_sentences_are_the_cores(name: str) -> None:
    ours = CHOICES[name].model_json_schema()["properties"]
    for parameter, expected in TypeAdapter(METHODS[name].params).json_schema()["properties"].items():
        assert without_edges(ours[parameter]) == without_edges(expected)
        assert ours[parameter]["description"].endswith(".")


def without_edges(schema: Any) -> Any:
    """What the core says of a parameter: not the words, nor the limits on names and numbers of entries."""
    if isinstance(schema, dict):
        edges = {"title", "description", "maxProperties", "propertyNames"}
        same = {"oneOf": "anyOf"}  # records that are told apart by their fields
        return {same.get(key, key): without_edges(value) for key, value in schema.items() if key not in edges}
    return [without_edges(member) for member in schema] if isinstance(schema, list) else schema


@pytest.mark.parametrize("name", list(METHODS))
def test_defaults_make_the_cores_record(name: str) -> None:
    params: Any = METHODS[name].params
    assert to_record(params, CHOICES[name].model_validate({"name": name})) == params()


@dataclass(frozen=True)
class Parameters:
    """Of a method to be."""

    size: int = 1


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ({"name": "magic"}, Fault("/method/name", "must be one of 'a', 'b'")),
        ({"size": 1}, Fault("/method/name", "is missing")),
        ({"name": "b", "size": True}, Fault("/method/size", "must be a number")),
        ({"name": "b", "a": True}, Fault("/method/a", "is not a field here; the fields are name, size")),
        (7, Fault("/method", "must be an object")),
    ],
)
def test_faults_in_one_of_several_methods_have_their_place(method: object, expected: Fault) -> None:
    choice = one_of([derive(Parameters, name=(Literal[name], ...)) for name in ("a", "b")])  # type: ignore[valid-type]
    request = create_model("Request", method=(choice, ...))
    body = {"method": method}
    with pytest.raises(ValidationError) as caught:
        request.model_validate(body)
    details = [{**found, "loc": ("body", *found["loc"])} for found in caught.value.errors()]
    assert faults_of(details, body) == [expected]


@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_answers_with_its_defaults(client: httpx.Client, name: str) -> None:
    response = client.post("/recourse", json=question(method={"name": name}))
    assert response.status_code == 200
    assert response.json()["method"]["name"] == name
