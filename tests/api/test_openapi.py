"""The description is what is checked in, and it keeps what it promises."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api.errors import PROBLEM_JSON
from app.api.examples import PREDICT_EXAMPLES, RECOURSE_EXAMPLES
from app.api.openapi import render
from tests.conftest import Running

CHECKED_IN = Path(__file__).parents[2] / "openapi.json"

OPERATIONS = {
    ("post", "/recourse"): "recourse",
    ("post", "/recourse/validity"): "validity",
    ("get", "/methods"): "list_methods",
    ("get", "/models"): "list_models",
    ("get", "/models/{id}"): "get_model",
    ("get", "/models/{id}/schema"): "get_model_schema",
    ("post", "/models/{id}/predict"): "predict",
    ("get", "/jobs"): "list_jobs",
    ("get", "/jobs/{id}"): "get_job",
    ("get", "/jobs/{id}/results"): "get_job_results",
    ("get", "/jobs/{id}/events"): "follow_job",
    ("delete", "/jobs/{id}"): "cancel_job",
    ("get", "/health/live"): "live",
    ("get", "/health/ready"): "ready",
    ("get", "/problems/{code}"): "get_problem",
}


@pytest.fixture(scope="module")
def description() -> Any:
    return json.loads(render())


def test_the_checked_in_description_is_the_current_one() -> None:
    """If this fails, run `recourse openapi > openapi.json` and look at the difference: clients rely on it."""
    assert CHECKED_IN.read_text(encoding="utf-8") == render()


def test_operations_have_stable_names(description: Any) -> None:
    found = {
        (method, path): o["operationId"] for path, item in description["paths"].items() for method, o in item.items()
    }
    assert found == OPERATIONS


def test_every_operation_declares_its_errors_as_problems(description: Any) -> None:
    for item in description["paths"].values():
        for operation in item.values():
            statuses = set(operation["responses"])
            assert {"200", "422", "500"} <= statuses
            if "requestBody" in operation:
                assert {"400", "413", "415"} <= statuses
            for status, response in operation["responses"].items():
                if status not in ("200", "202"):
                    assert list(response["content"]) == [PROBLEM_JSON]
                    assert response["description"]
    assert "HTTPValidationError" not in description["components"]["schemas"]


def test_every_reference_leads_somewhere(description: Any) -> None:
    text = json.dumps(description)
    names = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert names <= set(description["components"]["schemas"])


@pytest.fixture(scope="module")
def demo_client(demo: Running) -> Any:
    with httpx.Client(base_url=demo.url, timeout=30) as client:
        yield client


@pytest.mark.parametrize("name", RECOURSE_EXAMPLES)
def test_examples_of_recourse_work_at_the_first_click(demo_client: httpx.Client, name: str) -> None:
    response = demo_client.post("/recourse", json=RECOURSE_EXAMPLES[name]["value"])
    assert response.status_code == 200
    assert response.json()["status"] == "found"


@pytest.mark.parametrize("name", PREDICT_EXAMPLES)
def test_examples_of_decisions_work_at_the_first_click(demo_client: httpx.Client, name: str) -> None:
    response = demo_client.post("/models/consumer-loan/predict", json=PREDICT_EXAMPLES[name]["value"])
    assert response.status_code == 200


def test_parameters_have_examples_that_work(description: Any, demo_client: httpx.Client) -> None:
    for path, item in description["paths"].items():
        if path.startswith("/jobs/"):
            continue  # there are no jobs that everybody has
        for parameter in item.get("get", {}).get("parameters", []):
            if "examples" not in parameter:
                assert not parameter["required"]
                continue
            (example,) = parameter["examples"].values()
            query = {parameter["name"]: example["value"]} if parameter["in"] == "query" else {}
            response = demo_client.get(path.replace(f"{{{parameter['name']}}}", str(example["value"])), params=query)
            assert response.status_code == 200
