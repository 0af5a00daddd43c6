"""Valid requests, of which each test changes one thing; and what every answer must look like."""

from typing import Any

import httpx

APPLICANT: dict[str, Any] = {
    "age": 30, "income": 1500.0, "amount": 20000.0, "savings": "none", "guarantor": False, "housing": "rented",
}  # fmt: skip
"""Refused by `loan@1` and by `odd@1`."""

CARRIED = 5e-6
"""Relative error of a number in an answer, which has six significant digits."""


def question(**changes: Any) -> dict[str, Any]:
    """A valid body for POST /recourse, which asks for all that there is to test."""
    return {"model": "loan", "applicant": APPLICANT, "detail": "full", **changes}


def document(response: httpx.Response) -> dict[str, Any]:
    """The JSON of a response that must be 200."""
    assert response.status_code == 200, response.text[:500]
    found: dict[str, Any] = response.json()
    return found


def ask(client: httpx.Client, **changes: Any) -> dict[str, Any]:
    """The answer of POST /recourse to a valid body with these changes."""
    return document(client.post("/recourse", json=question(**changes)))


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The problem document of a response, which must be one in every respect."""
    assert response.status_code == status, response.text[:500]
    assert response.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = response.json()
    assert set(document) - {"errors"} == {"type", "title", "status", "detail", "instance", "request_id", "code"}
    assert document["type"] == f"/problems/{code}"
    assert document["code"] == code
    assert document["status"] == status
    assert document["instance"] == response.request.url.path
    assert document["request_id"] == response.headers["x-request-id"]
    return document


def faults(response: httpx.Response, status: int = 422, code: str = "invalid-request") -> dict[str, str]:
    """The faults of a refused request by their pointers."""
    return {fault["pointer"]: fault["detail"] for fault in problem(response, status, code)["errors"]}
