"""The pages that problem documents point to."""

import httpx
import pytest

from app.api.routes.problems import ProblemPage
from app.errors import ERRORS
from tests.api.asking import problem, question


@pytest.mark.parametrize("code", sorted(ERRORS))
def test_every_error_has_a_page(client: httpx.Client, code: str) -> None:
    page = client.get(f"/problems/{code}", headers={"accept": "text/html,*/*"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    document = client.get(f"/problems/{code}", headers={"accept": "application/json"}).json()
    ProblemPage.model_validate(document)
    assert document["code"] == code
    assert f"<h1>{document['title']}</h1>" in page.text
    assert document["meaning"].partition("'")[0] in page.text


def test_the_type_of_a_problem_is_the_address_of_its_page(client: httpx.Client) -> None:
    document = problem(client.post("/recourse", json=question(seed="x")), 422, "invalid-request")
    assert client.get(document["type"]).status_code == 200


def test_there_is_no_page_for_an_error_that_does_not_exist(client: httpx.Client) -> None:
    response = client.get("/problems/<script>")
    problem(response, 404, "not-found")
