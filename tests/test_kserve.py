"""KServe's V1 protocol, as its documentation has it: instances in, predictions and explanations out."""

from typing import Any

import httpx
from jsonschema import Draft202012Validator

from tests.api.asking import APPLICANT, document, faults, problem, question

ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["predictions", "explanations"],
    "properties": {
        "predictions": {"type": "array", "minItems": 1, "maxItems": 1},
        "explanations": {"type": "array", "minItems": 1, "maxItems": 1},
    },
}

ADDRESS = "/v1/models/loan:explain"


def test_an_instance_is_explained_by_its_recourse(client: httpx.Client) -> None:
    found = document(client.post(ADDRESS, json={"instances": [APPLICANT]}))
    Draft202012Validator(ANSWER).validate(found)
    assert found["predictions"] == [0]
    (explanation,) = found["explanations"]
    ours = client.post("/recourse", json=question(detail="short")).json()
    changing = ("id", "created_at", "expires_at", "diagnostics")
    assert {k: v for k, v in explanation.items() if k not in changing} == {
        k: v for k, v in ours.items() if k not in changing
    }
    assert client.get(f"/recourse/{explanation['id']}").status_code == 200
    accepted = explanation["counterfactuals"][0]["applicant"]
    again = client.post("/v1/models/loan@1:explain", json={"instances": [accepted]}).json()
    assert again["predictions"] == [1]
    assert again["explanations"][0]["status"] == "already_favourable"


def test_a_model_that_answers_is_ready(client: httpx.Client) -> None:
    for name in ("loan", "loan@1"):
        response = client.get(f"/v1/models/{name}")
        assert (response.status_code, response.json()) == (200, {"name": name, "ready": True})
    problem(client.get("/v1/models/nobody"), 404, "unknown-model")


def test_faults_of_an_instance_have_their_place_in_the_request(client: httpx.Client) -> None:
    bad = {**APPLICANT, "age": "old", "shoes": 2}
    assert set(faults(client.post(ADDRESS, json={"instances": [bad]}), code="invalid-record")) == {
        "/instances/0/age",
        "/instances/0/shoes",
    }
    assert set(faults(client.post(ADDRESS, json={"instances": []}))) == {"/instances"}
    assert set(faults(client.post(ADDRESS, json={"instances": [APPLICANT] * 2}))) == {"/instances"}
    assert set(faults(client.post(ADDRESS, json={"instances": [[1.0, 2.0]]}))) == {"/instances/0"}
    problem(client.post("/v1/models/nobody:explain", json={"instances": [APPLICANT]}), 404, "unknown-model")
