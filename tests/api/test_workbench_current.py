"""The workbench shows as current only what is about the applicant, the model and the limits on the page."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.registry.registry import Registry
from app.settings import Settings
from tests.browser import Open, Page, ask, expect, fill_in, reads, workbench_of
from tests.conftest import Running, run
from tests.registry.loan import WEIGHTS, make_linear

pytestmark = pytest.mark.release
"""The main path through the page is in `test_workbench.py`."""

CHANGES: dict[str, Callable[[Page], Any]] = {
    "another example": lambda page: page.click("#example"),
    "a field": lambda page: page.fill("#f-age", "41"),
    "a parameter": lambda page: page.locator("#parameters input").first.evaluate(
        "(input) => { input.value = 0.2; input.dispatchEvent(new Event('input', { bubbles: true })); }"
    ),
    "the method": lambda page: (page.click("#how summary"), page.select_option("#method", "copa")),
}


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with two versions of a model, and another model, which asks for pets too."""
    folder = tmp_path_factory.mktemp("lender")
    registry = Registry(folder / "store")
    registry.register(make_linear(folder / "1").write(id="loan"))
    registry.register(make_linear(folder / "2").write(id="loan", version="2"))
    pets = make_linear(folder / "pets")
    pets.manifest["features"].append({"name": "pets", "type": "integer", "min": 0, "max": 9})
    pets.set_artifact(json.dumps({"space": "encoded", "intercept": 0.0, "weights": WEIGHTS | {"pets": 0.1}}).encode())
    pets.columns.append("pets")
    pets.records = [{**record, "pets": i % 5} for i, record in enumerate(pets.records)]
    registry.register(pets.write(id="pets"))
    yield from run(Settings(models_store=registry.root, lanes_sync=1))


@pytest.fixture
def desk(browser: Any, lender: Running) -> Iterator[Open]:
    """The page of that service; `loan@2` is chosen at first."""
    with workbench_of(browser, lender.url) as open_page:
        yield open_page


def hold(page: Page, path: str) -> list[Any]:
    """Keep the next requests of an address waiting."""
    held: list[Any] = []
    page.route(re.compile(rf"/{path}$"), lambda route: held.append(route))
    return held


def switch(page: Page, model: str) -> None:
    """Choose a model and wait for its form."""
    with page.expect_response(f"**/models/{model.replace('@', '%40')}/schema"):
        page.select_option("#model", model)
    page.wait_for_function("(model) => document.querySelector('#about').textContent.includes(model)", arg=model)


def ask_and_draw(page: Page) -> None:
    """An answer, and its curve."""
    ask(page)
    page.click("#draw")
    page.wait_for_selector("#curve svg")


def values(page: Page) -> list[str]:
    fields: list[str] = page.eval_on_selector_all("#fields input, #fields select", "(all) => all.map((f) => f.value)")
    return fields


def current(page: Page) -> list[str]:
    """The answer and the curve, where nothing says that they are outdated."""
    return [
        kind
        for kind, place in [("answer", "#answer-body:not(.outdated) h3"), ("curve", "#curve:not(.outdated) svg")]
        if page.locator(place).count() > 0
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_an_answer_to_another_question_is_not_shown_as_current(workbench: Open, change: str) -> None:
    page = workbench()
    ask(page)
    held = hold(page, "recourse")
    with page.expect_request("**/recourse"):
        page.click("#ask")
    page.wait_for_selector("#answer[aria-busy=true]")
    CHANGES[change](page)
    for route in held:
        route.continue_()
    page.wait_for_selector("#answer[aria-busy=false]")
    assert current(page) == []
    reads(page, "#answer-status", "")
    if change == "a field":
        assert page.evaluate("() => document.activeElement.id") == "f-age", "nobody is taken away from what they type"


@pytest.mark.parametrize("change", CHANGES)
def test_a_curve_of_another_question_is_not_shown_as_current(workbench: Open, change: str) -> None:
    page = workbench()
    ask(page)
    page.click("#frontier .specialists summary")
    page.select_option("#knob", "radius_unfavourable")
    page.click("#draw")
    page.wait_for_selector("#curve svg")
    held = hold(page, "recourse/frontier")
    with page.expect_request("**/recourse/frontier"):
        page.click("#draw")
    CHANGES[change](page)
    for route in held:
        route.continue_()
    page.wait_for_selector("#draw:enabled", state="attached")
    assert "curve" not in current(page)


def test_a_first_answer_follows_the_limits_that_change_while_it_is_computed(workbench: Open) -> None:
    page = workbench()
    fill_in(page)
    held = hold(page, "recourse")
    with page.expect_request("**/recourse"):
        page.click("#ask")
    with page.expect_request("**/recourse") as asked:
        page.fill("#count", "1")
    assert asked.value.post_data_json["count"] == 1
    for route in held:
        route.continue_()
    page.wait_for_selector(".card")
    expect(page.locator(".card")).to_have_count(1)
    assert current(page) == ["answer"]


def test_the_next_person_is_asked_about_at_a_click_only(workbench: Open) -> None:
    page = workbench(prepare=lambda page: page.clock.install())
    ask(page)
    held = hold(page, "recourse")
    with page.expect_request("**/recourse"):
        page.click("#ask")
    page.click("#example")
    page.wait_for_selector("#answer[aria-busy=false]")
    page.fill("#count", "1")
    page.clock.run_for(1_000)
    page.wait_for_selector("#answer[aria-busy=false]")
    assert len(held) == 1


def test_what_the_person_cannot_do_makes_the_curve_outdated(workbench: Open) -> None:
    page = workbench()
    ask_and_draw(page)
    page.get_by_role("button", name="Can’t do this").first.click()
    page.wait_for_selector("#answer[aria-busy=false]")
    assert current(page) == ["answer"]


def test_another_model_has_no_answer_yet_and_the_same_applicant(desk: Open) -> None:
    page = desk()
    ask_and_draw(page)
    page.get_by_role("button", name="Can’t do this").first.click()
    page.wait_for_selector("#answer[aria-busy=false]")
    page.fill("#f-age", "41")
    typed = values(page)
    held = hold(page, "recourse")
    with page.expect_request("**/recourse"):
        page.click("#ask")
    switch(page, "loan@1")
    for route in held:
        route.continue_()
    page.wait_for_selector("#answer[aria-busy=false]")
    assert current(page) == []
    for part in ("#store", ".wish", ".chip", "#curve svg"):
        expect(page.locator(part), part).to_have_count(0)
    assert values(page) == typed
    page.unroute_all()
    page.wait_for_selector("#verdict b")
    with page.expect_response("**/recourse") as answered:
        page.click("#ask")
    assert answered.value.request.post_data_json["model"] == "loan@1"
    assert answered.value.request.post_data_json["applicant"]["age"] == 41
    # A model that asks for more has a form of its own, without faults.
    switch(page, "pets@1")
    assert set(values(page)) == {""}
    expect(page.locator("#fields .fault")).to_have_count(0)


def test_what_is_left_empty_is_empty_for_another_model_too(desk: Open) -> None:
    page = desk()
    page.wait_for_selector("#example:enabled")
    page.fill("#f-age", "41")
    typed = values(page)
    switch(page, "loan@1")
    assert values(page) == typed
    expect(page.locator("#fields .fault")).to_have_count(0)


def test_the_limits_of_one_person_are_not_those_of_the_next(workbench: Open) -> None:
    page = workbench()
    ask(page)
    page.click("#limits summary")
    page.locator("input[name=way-card_utilisation][value=none]").check(force=True)
    page.fill("#most", "0")
    page.fill("#months", "6")
    page.check("#sequential")
    page.fill("#typed-min-monthly_income", "700")
    page.fill("#largest-monthly_debt", "50")
    page.click("#example")
    expect(page.locator("#limits .fault")).to_have_count(0)
    page.wait_for_selector("#verdict b")
    with page.expect_request("**/recourse") as asked:
        page.click("#ask")
    body = asked.value.post_data_json
    assert not any(body["constraints"].values())
    assert "horizon_months" not in body
    assert body["sequential"] is False


def test_an_error_is_no_outdated_answer(workbench: Open) -> None:
    page = workbench()
    ask_and_draw(page)
    problem = {"title": "Full", "detail": "The service has no room.", "status": 503}
    for path in ("recourse", "recourse/frontier"):
        page.route(re.compile(rf"/{path}$"), lambda route: route.fulfill(status=503, json=problem))
    with page.expect_response("**/recourse"):
        page.fill("#count", "1")
    page.locator("#answer-body").get_by_text("The service has no room.").wait_for()
    page.wait_for_selector("#answer[aria-busy=false]")
    reads(page, "#answer-status", "")
    page.click("#draw")
    page.locator("#curve").get_by_text("The service has no room.").wait_for()
    expect(page.locator(".outdated")).to_have_count(0)
    page.unroute_all()
    page.fill("#count", "2")
    page.wait_for_selector(".card")
    assert current(page) == ["answer"], "the answer still follows"


def test_the_measure_of_a_curve_outlives_another_method(workbench: Open) -> None:
    page = workbench()
    ask(page)
    page.click("#frontier .specialists summary")
    page.select_option("#knob", "radius_unfavourable")
    page.click("#draw")
    page.wait_for_selector("#curve svg")
    expect(page.locator("#against")).to_have_value("shift")
    page.click("#how summary")
    page.select_option("#method", "probe")
    page.click("#point-1")
    expect(page.locator("#against")).to_have_value("shift")
    assert "worst-case bound" in page.text_content("#curve svg")
    # The axis and the table count of a hundred.
    head = [" ".join(cell.inner_text().split()) for cell in page.locator("#curve thead > tr > *").all()]
    column = head.index("Worst-case bound under shift, of 100")
    bounds = page.eval_on_selector_all(
        "#curve tbody tr", "(rows, i) => rows.map((r) => r.children[i].innerText)", column
    )
    assert all(re.fullmatch(r"\d+|", bound) for bound in bounds)
    assert max(int(bound or 0) for bound in bounds) > 1
