"""The description is what is checked in, and it keeps what it promises."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import httpx
import pytest
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from app.api.bodies import JSON, NDJSON
from app.api.errors import MEANINGS, PROBLEM_JSON
from app.api.examples import (
    APPLICANT,
    AUDIT_EXAMPLES,
    BATCH_EXAMPLES,
    BATCH_LINES,
    DEMO_MODEL,
    PREDICT_EXAMPLES,
    RECOURSE_EXAMPLES,
    VERIFY_EXAMPLES,
)
from app.api.openapi import render
from app.errors import ERRORS
from app.questions.correction_schema import CORRECT_EXAMPLES
from app.questions.frontier_schema import FRONTIER_EXAMPLES
from app.questions.validity_schema import VALIDITY_EXAMPLES
from docs import answers
from tests.api.asking import document
from tests.conftest import NO_TLS, Running

CHECKED_IN = Path(__file__).parents[2] / "openapi.json"

OPERATIONS = {
    ("post", "/recourse"): "create_recourse",
    ("post", "/reasons"): "state_reasons",
    ("post", "/recourse/batch"): "create_batch",
    ("post", "/recourse/frontier"): "create_frontier",
    ("post", "/recourse/offers"): "list_offers",
    ("post", "/recourse/validity"): "certify_counterfactuals",
    ("get", "/recourse"): "list_recourse",
    ("get", "/recourse/{id}"): "get_recourse",
    ("delete", "/recourse/{id}"): "erase_recourse",
    ("get", "/recourse/{id}/notice"): "get_notice",
    ("post", "/recourse/{id}/notice"): "record_notice",
    ("get", "/recourse/{id}/letters/{letter}"): "get_letter",
    ("post", "/recourse/{id}/reviews"): "create_review",
    ("get", "/recourse/{id}/case"): "get_case",
    ("post", "/recourse/{id}/verify"): "verify_recourse",
    ("post", "/recourse/correct"): "correct_plan",
    ("post", "/v1/models/{id}:explain"): "explain_instance",
    ("get", "/methods"): "list_methods",
    ("get", "/models"): "list_models",
    ("get", "/models/{id}"): "get_model",
    ("get", "/models/{id}/schema"): "get_model_schema",
    ("get", "/models/{id}/calibration"): "get_model_calibration",
    ("post", "/models/{id}/predict"): "predict_decisions",
    ("post", "/models/{id}/audits"): "create_audit",
    ("get", "/models/{id}/audits"): "list_audits",
    ("post", "/models/{id}/comparisons"): "create_comparison",
    ("post", "/models/{id}/reports"): "create_report",
    ("get", "/models/{id}/reports"): "list_reports",
    ("get", "/reports/{id}"): "get_report",
    ("post", "/models/{id}/futures"): "create_futures",
    ("get", "/jobs"): "list_jobs",
    ("get", "/jobs/{id}"): "get_job",
    ("get", "/jobs/{id}/results"): "get_job_results",
    ("get", "/jobs/{id}/events"): "follow_job",
    ("delete", "/jobs/{id}"): "cancel_job",
    ("delete", "/jobs/{id}/results"): "delete_job_results",
    ("get", "/metrics"): "get_metrics",
    ("get", "/health/live"): "get_liveness",
    ("get", "/health/ready"): "get_readiness",
    ("get", "/problems/{code}"): "get_problem",
}


@pytest.fixture(scope="module")
def description() -> Any:
    return json.loads(render())


def resolved(description: Any, part: Any) -> Any:
    """A part of the description, or what it refers to."""
    _, kind, name = part["$ref"].rsplit("/", 2) if "$ref" in part else ("", "", "")
    return description["components"][kind][name] if name else part


def test_the_checked_in_description_is_the_current_one() -> None:
    """If this fails, run `recourse openapi > openapi.json` and look at the difference: clients rely on it."""
    assert CHECKED_IN.read_text(encoding="utf-8") == render()


def test_it_is_valid_openapi(description: Any) -> None:
    assert description["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(description).iter_errors()] == []


def test_every_operation_has_one_tag(description: Any) -> None:
    assert {len(o["tags"]) for item in description["paths"].values() for o in item.values()} == {1}


def test_a_running_service_names_its_own_address(description: Any, demo_client: httpx.Client) -> None:
    served = demo_client.get("/openapi.json").json()
    assert served["servers"] == [{"url": "/"}]
    assert {**served, "servers": description["servers"]} == description


def test_every_answer_has_an_example_that_is_as_described(description: Any) -> None:
    for path, item in description["paths"].items():
        for operation in item.values():
            for status in operation["responses"].keys() & {"200", "202"}:
                response = resolved(description, operation["responses"][status])
                content = response.get("content", {}).get("application/json")
                if content is not None:
                    schema = {**content["schema"], "components": description["components"]}
                    errors = OAS31Validator(schema).iter_errors(content["example"])
                    assert [error.message for error in errors] == [], f"{path} {status}"


def without_digits(answer: Any) -> Any:
    """What is the same on every processor: all but texts and the digits of numbers."""
    if isinstance(answer, dict):
        return {name: without_digits(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [without_digits(value) for value in answer]
    if isinstance(answer, bool | None):
        return answer
    return pytest.approx(answer, rel=0.05, abs=0.05) if isinstance(answer, int | float) else ANY


def test_examples_of_answers_are_those_of_the_demo(demo_client: httpx.Client) -> None:
    """`make openapi` asks for them again."""
    examples, asked = json.loads(answers.FILE.read_text()), answers.asked(demo_client)
    for name, answer in asked.items():
        assert answers.renewed(examples[name], answer) == without_digits(examples[name]), name
    recourse = asked["create_recourse"]["counterfactuals"][0]
    assert recourse["changes"] == examples["create_recourse"]["counterfactuals"][0]["changes"]


def test_objects_have_no_default(description: Any) -> None:
    """Of an object, openapi-python-client reads none, and leaves out the operations that have one."""
    schemas = description["components"]["schemas"].values()
    defaults = [field.get("default") for schema in schemas for field in schema.get("properties", {}).values()]
    assert not [default for default in defaults if isinstance(default, dict)]


def test_every_question_says_what_its_reference_is(description: Any) -> None:
    properties = {name: schema.get("properties", {}) for name, schema in description["components"]["schemas"].items()}
    asked = {
        name: one["reference"] for name, one in properties.items() if name.endswith("Request") and "reference" in one
    }
    assert set(asked) == {"RecourseRequest", "FrontierRequest", "OffersRequest", "ReasonsRequest"}
    assert [name for name, schema in asked.items() if "description" not in schema] == []


def test_operations_have_stable_names(description: Any) -> None:
    found = {
        (method, path): o["operationId"] for path, item in description["paths"].items() for method, o in item.items()
    }
    assert found == OPERATIONS


def test_every_operation_declares_its_errors_as_problems(description: Any) -> None:
    for item in description["paths"].values():
        for operation in item.values():
            statuses = set(operation["responses"])
            assert {"422", "500"} <= statuses
            assert statuses & {"200", "202", "204"}
            if "requestBody" in operation:
                assert {"400", "413", "415"} <= statuses
            for status, response in operation["responses"].items():
                if status not in ("200", "202", "204", "304"):
                    shared = resolved(description, response)
                    codes = set(shared["content"][PROBLEM_JSON]["examples"])
                    assert codes
                    assert {MEANINGS[ERRORS[code]].status for code in codes} == {int(status)}
                    assert list(shared["content"]) == [PROBLEM_JSON]
                    assert shared["description"]
    assert "HTTPValidationError" not in description["components"]["schemas"]


def test_an_operation_names_its_own_refusals(description: Any) -> None:
    paths = description["paths"]
    assert {"unknown-job", "not-ready"} <= set(paths["/jobs/{id}"]["get"]["x-problems"])
    assert not {"unknown-recourse", "internal-error"} & set(paths["/jobs/{id}"]["get"]["x-problems"])
    assert {"daily-budget-spent", "lane-crashed", "constraint-clash"} < set(paths["/recourse"]["post"]["x-problems"])


def test_it_is_short_enough_to_be_read_at_once() -> None:
    description = json.loads(CHECKED_IN.read_text(encoding="utf-8"))
    assert len(json.dumps(description, ensure_ascii=False, separators=(",", ":")).encode()) <= 300_000


def test_every_reference_leads_somewhere(description: Any) -> None:
    text = json.dumps(description)
    for kind in ("schemas", "responses", "examples", "parameters"):
        names = {part.split('"')[0] for part in text.split(f'"#/components/{kind}/')[1:]}
        assert names <= set(description["components"][kind])
        assert kind == "schemas" or names == set(description["components"][kind])


@pytest.fixture(scope="module")
def demo_client(demo: Running) -> Any:
    with httpx.Client(base_url=demo.url, timeout=30, verify=NO_TLS) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (path, example["value"])
        for path, examples in {
            "/recourse": RECOURSE_EXAMPLES,
            "/recourse/correct": CORRECT_EXAMPLES,
            "/recourse/frontier": FRONTIER_EXAMPLES,
            "/recourse/validity": VALIDITY_EXAMPLES,
            f"/models/{DEMO_MODEL}/predict": PREDICT_EXAMPLES,
        }.items()
        for example in examples.values()
    ],
)
def test_examples_work_at_the_first_click(demo_client: httpx.Client, path: str, body: Any) -> None:
    answer = document(demo_client.post(path, json=body))
    assert {part["status"] for part in answer.get("points", [answer]) if "status" in part} <= {"found", "corrected"}


@pytest.mark.parametrize(("examples", "media_type"), [(BATCH_EXAMPLES, JSON), (BATCH_LINES, NDJSON)])
def test_examples_of_batches_work_at_the_first_click(demo_client: httpx.Client, examples: Any, media_type: str) -> None:
    for example in examples.values():
        value = example["value"]
        content = value if isinstance(value, str) else json.dumps(value)
        response = demo_client.post("/recourse/batch", content=content, headers={"Content-Type": media_type})
        assert response.status_code == 202
        assert response.json()["progress"] == {"done": 0, "total": 2, "refused": None}
        assert demo_client.delete(response.headers["location"]).json()["status"] == "cancelled"


def test_examples_of_verification_work_at_the_first_click(demo_client: httpx.Client) -> None:
    question = {"model": DEMO_MODEL, "applicant": APPLICANT}
    given = demo_client.post("/recourse", json=question).json()["id"]
    for example in VERIFY_EXAMPLES.values():
        assert demo_client.post(f"/recourse/{given}/verify", json=example["value"]).json()["still_valid"] is True
    for example in AUDIT_EXAMPLES.values():
        assert demo_client.post(f"/models/{DEMO_MODEL}/audits", json=example["value"]).status_code == 202


def test_parameters_have_examples_that_work(description: Any, demo_client: httpx.Client) -> None:
    for path, item in description["paths"].items():
        if path.startswith(("/jobs/", "/recourse/", "/reports/")):
            continue  # there are no jobs and no recourse that everybody has
        parameters = [resolved(description, one) for one in item.get("get", {}).get("parameters", [])]
        assert all("examples" in parameter or not parameter["required"] for parameter in parameters)
        given: dict[str, dict[str, Any]] = {"path": {}, "query": {}}
        for parameter in parameters:
            for example in parameter.get("examples", {}).values():
                given[parameter["in"]][parameter["name"]] = example["value"]
        if given["path"] or given["query"]:
            response = demo_client.get(path.format(**given["path"]), params=given["query"])
            assert response.status_code == 200


def test_every_property_is_described(description: Any) -> None:
    """By itself, or by the schema that it refers to."""
    bare = [
        f"{name}.{key}"
        for name, schema in description["components"]["schemas"].items()
        for key, one in schema.get("properties", {}).items()
        if not one.keys() & {"description", "$ref"}
    ]
    assert bare == []
