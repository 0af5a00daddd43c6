"""Every error has a status, a title and a remedy, and looks the same over HTTP."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from fastapi import FastAPI

from app.api.errors import MEANINGS, faults_of, problem_response
from app.api.openapi import http_api
from app.errors import ERRORS, Fault, InvalidRequest, JobUnfinished, NotReady, Overloaded, RecourseError
from tests.api.asking import problem


def subclasses(root: type[RecourseError]) -> Iterator[type[RecourseError]]:
    yield root
    for child in root.__subclasses__():
        yield from subclasses(child)


def ours() -> set[type[RecourseError]]:
    return {error for error in subclasses(RecourseError) if error.__module__ == "app.errors"}


def test_every_error_has_a_meaning() -> None:
    assert set(MEANINGS) == ours()


def test_every_error_has_a_code_of_its_own() -> None:
    assert {error.code for error in ours()} == set(ERRORS)
    assert len(ERRORS) == len(ours())


@pytest.mark.parametrize("error", sorted(ours(), key=lambda error: error.code))
def test_meanings_are_sentences_with_a_sensible_status(error: type[RecourseError]) -> None:
    meaning = MEANINGS[error]
    assert meaning.title[0].isupper()
    assert meaning.remedy.endswith(".")
    assert error().detail.endswith(".")
    assert 400 <= meaning.status < 600


@pytest.mark.parametrize("error", [Overloaded, NotReady, JobUnfinished])
def test_who_should_come_again_is_told_when(error: type[RecourseError]) -> None:
    assert problem_response(error(), "/recourse").headers["retry-after"] == "1"


def test_addresses_that_do_not_exist(client: httpx.Client) -> None:
    for path in (
        "/nope",
        "/recourse/",
        "/models/",
        "/models/loan/",
        "/docs/",
        "/docs/static/nope.js",
        "/%00",
        "/%ff",
    ):
        problem(client.get(path), 404, "not-found")


@pytest.mark.parametrize("path", ["/recourse/fronteir", "/recourse/batches", "/recourse/explain"])
def test_a_misspelt_question_does_not_exist_and_the_others_are_named(client: httpx.Client, path: str) -> None:
    detail = problem(client.post(path, json={}), 404, "not-found")["detail"]
    assert set(re.findall(r"/recourse/\w+", detail)) == {
        path for path in client.get("/openapi.json").json()["paths"] if re.fullmatch(r"/recourse/[a-z]+", path)
    }


def test_methods_that_an_address_does_not_answer(client: httpx.Client) -> None:
    for method, path in [
        ("PUT", "/recourse"),
        ("DELETE", "/models"),
        ("PUT", "/models/loan"),
        ("PATCH", "/health/live"),
    ]:
        response = client.request(method, path)
        problem(response, 405, "method-not-allowed")
        assert response.headers["allow"]


@contextmanager
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, object]]]:
    lines: list[dict[str, object]] = []

    class Recorder:
        def error(self, event: str, **facts: object) -> None:
            lines.append({"event": event, **facts})

        info = error

    monkeypatch.setattr("app.api.middleware.log", Recorder())
    yield lines


def get(app: FastAPI, path: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            return await client.get(path)

    return asyncio.run(ask())


def test_a_bug_is_an_internal_error_and_the_log_says_where_but_not_what(monkeypatch: pytest.MonkeyPatch) -> None:
    app = http_api()

    @app.get("/buggy")
    async def buggy() -> None:
        raise LookupError("the applicant's secret")

    with logged(monkeypatch) as lines:
        response = get(app, "/buggy")
    problem(response, 500, "internal-error")
    assert "secret" not in response.text + str(lines)
    (line,) = (line for line in lines if line["event"] == "unforeseen-error")
    assert "LookupError" in str(line["trace"])
    assert "test_errors.py" in str(line["trace"])


def test_what_pydantic_calls_a_fault_is_put_in_our_words_for_each_place_once() -> None:
    details = [
        {"type": "float_type", "loc": ("body", "bounds", "x", "min", "function-before[_number(), float]")},
        {"type": "string_type", "loc": ("body", "bounds", "x", "min", "constrained-str")},
        {"type": "missing", "loc": ("body", "method", "probe", "name")},
        {"type": "of_some_future_release", "loc": ("body", "list", 1), "msg": "repeats the value 4711"},
    ]
    body = {"bounds": {"x": {"min": []}}, "method": {}, "list": [1, 4711]}
    assert faults_of(details, body) == [
        Fault("/bounds/x/min", "must be a number or must be a text"),
        Fault("/method/name", "is missing"),
        Fault("/list/1", "is not valid"),
    ]


def test_of_several_types_the_faults_of_the_one_that_fits_are_told() -> None:
    details = [
        {"type": "string_type", "loc": ("body", "must_include", 0, "str")},
        {"type": "missing", "loc": ("body", "must_include", 0, "ChangeTo", "to")},
        {"type": "string_type", "loc": ("body", "must_include", 1, "str")},
    ]
    body = {"must_include": [{"feature": "age"}, 3]}
    assert faults_of(details, body) == [
        Fault("/must_include/0/to", "is missing"),
        Fault("/must_include/1", "must be a text"),
    ]


def test_an_error_crosses_a_process_boundary_unchanged() -> None:
    error = InvalidRequest("No.", faults=[Fault("/a", "b")], known=["c"])
    assert RecourseError.from_dict(error.to_dict()).to_dict() == error.to_dict()
