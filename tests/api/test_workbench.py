"""The workbench in a real browser: what a person sees who has never heard of counterfactuals."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from app.api.routes.methods import DESCRIPTIONS
from tests.browser import Open, Page, ask, chromium, text, workbench_of
from tests.conftest import Running
from tests.optional import library

MOST_BYTES = 50_000
"""Of everything that is loaded before the page can be used, as it is sent."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def workbench(browser: Any, demo: Running) -> Iterator[Open]:
    """The page of a service with the demo model; it takes jobs but computes none."""
    with workbench_of(browser, demo.url) as open_page:
        yield open_page


def stub(page: Page, path: str, answer: Callable[[Any], None]) -> None:
    """Answer one address in place of the service."""
    page.route(re.compile(rf"{path}(\?|$)"), answer)


# --- what is sent ----------------------------------------------------------------------------------------------------


def test_the_page_may_do_nothing_but_call_the_service(client: httpx.Client) -> None:
    page = client.get("/workbench")
    policy = dict(part.strip().split(" ", 1) for part in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "img-src", "connect-src")} == {"'self'"}
    assert policy["require-trusted-types-for"] == "'script'"
    assert not re.search(r"<style|style=|\son\w+=|<script>", page.text)
    assert "http://" not in page.text
    assert "https://" not in page.text


def test_the_page_is_small(client: httpx.Client) -> None:
    page = client.get("/workbench")
    sizes = {"/workbench": len(page.content)}
    for address in re.findall(r'(?:href|src)="(workbench/[^"]+)"', page.text):
        with client.stream("GET", f"/{address}") as response:
            assert response.status_code == 200
            sizes[address] = len(b"".join(response.iter_raw()))
    assert len(sizes) == 4
    assert sum(sizes.values()) < MOST_BYTES, sizes


# --- the main path ---------------------------------------------------------------------------------------------------


def test_a_first_recourse_takes_two_clicks(workbench: Open) -> None:
    page = workbench()
    page.click("#example")
    page.wait_for_selector("#verdict b")
    assert text(page, "#verdict").startswith("The model says no. 57 in 100")
    page.click("#ask")
    page.wait_for_selector("#answer-body h3")
    assert "from 97.0% to" in text(page, ".changes")
    assert re.search(r"At least \d+ in 100 retrained models still say yes", text(page, ".promise"))
    assert re.search(r"in 100 such applicants would be refused after all", text(page, ".promise"))
    assert page.evaluate("() => document.activeElement.id") == "answer"
    assert page.evaluate("() => shifts") < 0.01


def test_the_decision_follows_what_is_typed(workbench: Open) -> None:
    page = workbench()
    page.click("#example")
    page.wait_for_selector("#verdict .no")
    page.fill("#f-card_utilisation", "3")
    page.wait_for_selector("#verdict .yes")
    page.click("#ask")
    page.wait_for_selector("#answer-body h3")
    assert text(page, "#answer-body h3") == "The model says yes already. Nothing needs to change."


def test_the_form_says_what_may_be_entered(workbench: Open) -> None:
    page = workbench()
    page.wait_for_selector("#example:enabled")
    assert text(page, "#f-monthly_income-hint") == "500 to 15,000 EUR · only up"
    assert text(page, "#f-late_payments-hint") == "0 to 6 · fixed, never part of advice"
    assert page.locator("#limit-late_payments").count() == 0


def test_wrong_input_is_told_at_its_field_and_not_sent(workbench: Open) -> None:
    page = workbench()
    page.click("#example")
    page.wait_for_selector("#verdict b")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.fill("#f-age", "255")
    assert text(page, "#f-age-hint") == "Age must be at most 80 years."
    assert page.get_attribute("#f-age", "aria-invalid") == "true"
    page.fill("#f-term", "")
    page.click("#ask")
    assert text(page, "#f-term-hint") == "Repayment term needs a value."
    assert text(page, "#verdict") == "2 fields to fill in or correct."
    assert page.evaluate("() => document.activeElement.id") == "f-age"
    assert asked == []


def test_the_keyboard_is_enough(workbench: Open) -> None:
    page = workbench()
    page.wait_for_selector("#example:enabled")
    page.focus("#example")
    page.keyboard.press("Enter")
    page.wait_for_selector("#verdict b")
    page.focus("#f-age")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer-body h3")
    dear = text(page, ".changes")
    page.focus("#dial")
    page.keyboard.press("Home")
    page.wait_for_function("(dear) => !document.querySelector('.changes').innerText.includes(dear)", arg=dear[-6:])
    assert page.get_attribute("#dial", "aria-valuetext") == "Step 1 of 8"


# --- limits ----------------------------------------------------------------------------------------------------------


def test_a_limit_that_blocks_is_named_and_can_be_taken_back(workbench: Open) -> None:
    page = workbench()
    page.click("#example")
    page.wait_for_selector("#verdict b")
    page.click("#limits summary")
    for stays in page.query_selector_all(".ways input[value=none]"):
        stays.evaluate("(radio) => radio.click()")
    page.click("#ask")
    page.wait_for_selector("#allow")
    assert text(page, "#answer-body h3") == "No way to a yes was found"
    assert "“Net monthly income” has to stay as it is." in text(page, "#answer-body")
    page.click("#allow")
    page.wait_for_selector(".changes")
    assert text(page, ".changes").startswith("Increase the net monthly income")


def test_a_range_is_kept(workbench: Open) -> None:
    page = workbench()
    ask(page)
    page.click("#limits summary")
    # The handle is dragged to half of the track: no less than 50 %.
    with page.expect_response("**/recourse") as answered:
        page.locator("#min-card_utilisation").evaluate(
            "(handle) => { handle.value = 50; handle.dispatchEvent(new Event('input')); }"
        )
    assert text(page, "#limit-card_utilisation output") == "Kept between 50% and 100%"
    assert json.loads(answered.value.request.post_data)["constraints"]["bounds"] == {"card_utilisation": {"min": 50}}
    (found,) = answered.value.json()["counterfactuals"]
    assert found["applicant"]["card_utilisation"] >= 50


# --- methods ---------------------------------------------------------------------------------------------------------


def test_every_method_has_its_parameters_and_its_dial(workbench: Open) -> None:
    page = workbench()
    page.wait_for_selector("#example:enabled")
    page.click("#how summary")
    for method in DESCRIPTIONS:
        page.select_option("#method", method["name"])
        shown = {field.get_attribute("id") for field in page.query_selector_all("#parameters [id^=p-]:not(p)")}
        assert shown == {f"p-{name}" for name in method["parameters"]["properties"] if name != "name"}
        assert page.is_visible("#dial-panel") == bool(method["knobs"])


def test_what_a_method_measured_is_told(workbench: Open) -> None:
    page = workbench()
    page.wait_for_selector("#example:enabled")
    page.click("#how summary")
    page.select_option("#method", "probe")
    page.fill("#p-target_invalidation_rate", "0.05")
    ask(page)
    assert "at most 5 in 100 were asked for" in text(page, ".promise")


def test_a_plan_stands_side_by_side(workbench: Open) -> None:
    page = workbench()
    page.wait_for_selector("#example:enabled")
    page.click("#how summary")
    page.select_option("#method", "copa")
    page.fill("#p-count", "3")
    ask(page)
    assert text(page, "#answer-body h3") == "3 ways to a yes"
    heads = [head.inner_text() for head in page.query_selector_all(".ways-table thead th")]
    assert heads == ["What changes", "Now", "Way 1", "Way 2", "Way 3"]
    assert "Retrained models that say yes, at least" in text(page, ".ways-table")
    assert re.search(r"at least \d+ in 100 retrained models still say yes to all 3 at once", text(page, "#together"))
    page.click("text=Way 2 in words")
    page.wait_for_selector("details[open] .promise")


# --- the frontier ----------------------------------------------------------------------------------------------------


def test_a_point_of_the_frontier_shows_its_changes(workbench: Open) -> None:
    page = workbench()
    ask(page)
    page.click("#draw")
    page.wait_for_selector("#curve svg")
    rows = page.locator("#curve tbody tr")
    assert page.locator("#curve circle").count() == rows.count() == 8
    page.click("#point-0")
    assert text(page, "#chosen h3").startswith("Step 1:")
    assert page.get_attribute("#point-0", "aria-pressed") == "true"
    assert page.evaluate("() => document.activeElement.id") == "point-0"
    cheap = text(page, "#chosen .changes")
    page.locator("#curve circle").last.click()
    assert text(page, "#chosen .changes") != cheap
    page.select_option("#against", "noise")
    assert page.locator("#curve circle").count() == 8


def test_bounds_that_come_late_stay_with_their_answer(workbench: Open, demo: Running) -> None:
    waiting: list[Any] = []
    answers: list[Any] = []

    def answer(route: Any) -> None:
        found = httpx.post(f"{demo.url}/recourse", json=json.loads(route.request.post_data), timeout=30).json()
        if not answers:
            found["plan"]["validity"] |= {"status": "pending", "job": "jobs/job_1", "exact": False}
        answers.append(found)
        route.fulfill(json=found)

    def results(route: Any) -> None:
        exact = answers[0]["plan"]["validity"] | {"status": "exact", "exact": True, "lower": 0.11, "upper": 0.11}
        route.fulfill(json=answers[0] | {"plan": answers[0]["plan"] | {"validity": exact}})

    job = {"id": "job_1", "error": None, "progress": {"done": 0, "total": 1}, "result": "/jobs/job_1/results"}

    def prepare(page: Page) -> None:
        stub(page, "/recourse", answer)
        stub(page, "/jobs/job_1", lambda route: route.fulfill(json=job | {"status": "running"}))
        stub(page, "/jobs/job_1/events", lambda route: waiting.append(route))
        stub(page, "/jobs/job_1/results", results)

    page = workbench(prepare=prepare)
    page.wait_for_selector("#example:enabled")
    page.click("#how summary")
    page.select_option("#method", "copa")
    page.fill("#p-count", "3")
    with page.expect_request("**/jobs/job_1/events"):
        ask(page)
    page.fill("#p-count", "2")
    page.click("#ask")
    page.get_by_text("still say yes to all 2 at once").wait_for()
    ended = f"event: succeeded\nid: 1\ndata: {json.dumps(job | {'status': 'succeeded'})}\n\n"
    with page.expect_response("**/jobs/job_1/results"):
        waiting[0].fulfill(content_type="text/event-stream", body=ended)
    page.evaluate("() => new Promise((done) => setTimeout(done))")
    assert "still say yes to all 2 at once" in text(page, "#together")
    assert "11 retrained" not in text(page, "#together")


# --- the ledger ------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_what_was_asked(workbench: Open, demo: Running) -> None:
    asked: list[Any] = []

    def answer(route: Any) -> None:
        if route.request.method == "GET":
            route.fulfill(json={"recourse": []})
            return
        asked.append(json.loads(route.request.post_data))
        found = httpx.post(f"{demo.url}/recourse", json=asked[0], timeout=30).json()
        status = "found" if len(asked) == 1 else "not_found"
        route.fulfill(json=found | {"status": status, "stored": asked[-1]["store"]})

    page = workbench(prepare=lambda page: stub(page, "/recourse", answer))
    ask(page)
    page.fill("#f-card_utilisation", "3")
    page.fill("#keep-as", "case-1")
    page.click("#keep button")
    page.get_by_text("the service gave another answer, not the one above").wait_for()
    assert asked[1] == asked[0] | {"store": True, "reference": "case-1"}


# --- jobs ------------------------------------------------------------------------------------------------------------


def test_progress_is_shown_until_the_answer_is_there(workbench: Open, demo: Running) -> None:
    steps = [("progress", "queued", 0), ("progress", "running", 3), ("succeeded", "succeeded", 7)]

    def events(route: Any) -> None:
        job = {"id": "job_1", "error": None, "result": "/jobs/job_1/results"}
        lines = [
            f"event: {event}\nid: {status}\ndata: "
            + json.dumps({**job, "status": status, "progress": {"done": done, "total": 7}})
            for event, status, done in steps
        ]
        # The first answer breaks off after two events, and is taken up again where it broke off.
        assert route.request.headers.get("last-event-id") == (None if len(steps) == 3 else "running")
        sent, steps[:] = lines[:2] if len(steps) == 3 else lines, steps[2:]
        route.fulfill(content_type="text/event-stream", body="\n\n".join(sent) + "\n\n")

    def results(route: Any) -> None:
        route.fulfill(json=asked[0])

    asked: list[Any] = []

    def remember(route: Any) -> None:
        answer = httpx.post(f"{demo.url}/recourse", json=json.loads(route.request.post_data), timeout=30)
        asked.append(answer.json())
        waiting = {"id": "job_1", "status": "queued", "progress": {"done": 0, "total": 7}}
        route.fulfill(status=202, json=waiting)

    def prepare(page: Page) -> None:
        stub(page, "/recourse", remember)
        stub(page, "/jobs/job_1/events", events)
        stub(page, "/jobs/job_1/results", results)

    page = workbench(prepare=prepare)
    page.click("#example")
    page.wait_for_selector("#verdict b")
    page.click("#ask")
    page.get_by_text("Working: 3 of 7 done.").wait_for()
    page.wait_for_selector(".promise")


# --- everybody -------------------------------------------------------------------------------------------------------


def violations(page: Page) -> list[str]:
    """What axe finds against the page as it is."""
    axe = library("axe_playwright_python.sync_playwright").Axe()
    found = axe.run(page).response["violations"]
    return [f"{fault['id']}: {node['html'][:120]}" for fault in found for node in fault["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(workbench: Open, scheme: str) -> None:
    page = workbench(color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    page.wait_for_selector("#example:enabled")
    page.click("#limits summary")
    page.click("#how summary")
    ask(page)
    page.click("#answer .workings summary")
    page.click("#draw")
    page.wait_for_selector("#curve svg")
    page.fill("#f-age", "255")
    assert violations(page) == []


@pytest.mark.parametrize("width", [320, 768])
def test_nothing_is_wider_than_a_phone(workbench: Open, width: int) -> None:
    page = workbench()
    page.set_viewport_size({"width": width, "height": 700})
    page.wait_for_selector("#example:enabled")
    page.click("#limits summary")
    page.click("#how summary")
    ask(page)
    page.click("#draw")
    page.wait_for_selector("#curve svg")
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
