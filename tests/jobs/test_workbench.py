"""The workbench in a real browser before a service with jobs, a ledger and keys."""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.registry.registry import Registry
from tests.api.odd_model import BROODS
from tests.browser import Open, ask, expect, reads, says, text, violations, workbench_of
from tests.forks import forks
from tests.jobs.serving import Server
from tests.registry.loan import make_linear
from tests.servers import Start, StartWorker, starting


@pytest.fixture(scope="module")
def odd_server(models_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with starting("sqlite", models_store, tmp_path_factory.mktemp("server")) as start:
        yield start().ready()


@pytest.fixture
def workbench(browser: Any, odd_server: Server) -> Iterator[Open]:
    with workbench_of(browser, str(odd_server.client.base_url).rstrip("/")) as open_page:
        yield open_page


def choose(page: Any, model: str) -> None:
    """Pick a model and wait for its form."""
    page.wait_for_selector("#model:enabled")
    with page.expect_response(f"**/models/{model}%401/schema"):
        page.select_option("#model", f"{model}@1")
    page.wait_for_selector("#example:enabled")


def test_work_under_way_is_cancelled_at_a_click(workbench: Open, odd_server: Server) -> None:
    page = workbench()
    choose(page, "odd")
    page.click("#how summary")
    page.check("#background")
    page.click("#example")
    page.fill("#f-age", str(BROODS))
    page.get_by_text("The model says no").wait_for()
    page.click("#ask")
    page.get_by_text("Working.").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled. Nothing was changed.").wait_for()
    (job, *_) = odd_server.client.get("/jobs").json()["jobs"]
    assert job["status"] == "cancelled"
    # The child that computed it is dead, and another one answers.
    choose(page, "loan")
    ask(page)
    page.wait_for_selector(".specialists")


def test_many_applicants_are_answered_and_their_results_taken_away(workbench: Open, odd_server: Server) -> None:
    page = workbench(bypass_csp=True, reduced_motion="reduce")
    choose(page, "loan")
    schema = odd_server.client.get("/models/loan/schema").json()
    people = [{**schema["sample"]}, {**schema["sample"]}]
    names = list(people[0])
    lines = [",".join(["reference", *names])]
    lines += [",".join([f"case-{i}", *(str(one[name]) for name in names)]) for i, one in enumerate(people)]
    lines.append(lines[-1].replace("case-1", "=wrong").replace(str(people[0]["age"]), "none", 1))
    page.click(".tabs >> text=Many applicants")
    file = {"name": "people.csv", "mimeType": "text/csv", "buffer": "\n".join(lines).encode()}
    page.set_input_files("#file", file)
    page.get_by_role("button", name="Answer 3 applicants").click()
    page.wait_for_selector("#batch-results table")
    reads(page, "#batch-results p", "3 applicants: 2 with a way to a yes, 1 not answered.")
    assert violations(page) == []
    assert re.match(r"Many applicants: 3 Done · \d+ \w+ \d{4} at \d\d:\d\d ", text(page, "#jobs li >> nth=0"))
    rows = [" ".join(row.inner_text().split()) for row in page.locator("#batch-results tbody tr").all()]
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        box = page.locator("#batch-results .scroll")
        assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") == 0, f"the table is cut at {width}"
    expect(page.locator("#batch-results td[data-head='The model says']")).to_have_count(3)
    page.set_viewport_size({"width": 1280, "height": 900})
    assert rows[0].startswith("case-0 no, ")
    label = next(feature["label"] for feature in schema["features"] if feature["name"] == "age")
    assert rows[2] == f"=wrong {label} must be a whole number."
    (job, *_) = odd_server.client.get("/jobs").json()["jobs"]
    answers = [json.loads(line) for line in odd_server.client.get(f"{job['result']}").text.splitlines()]
    with page.expect_download() as taken:
        page.get_by_role("button", name="Take the results as CSV").click()
    assert taken.value.suggested_filename == "people-ways.csv"
    table = list(csv.DictReader(taken.value.path().read_text(encoding="utf-8").splitlines()))
    ways = [way for answer in answers[:2] for way in answer["counterfactuals"]]
    assert [line["changes"] for line in table[:-1]] == [" ".join(one["text"] for one in way["changes"]) for way in ways]
    assert [float(line["cost"]) for line in table[:-1]] == [way["cost"]["total"] for way in ways]
    assert (table[-1]["reference"], table[-1]["result"]) == ("'=wrong", "problem"), "no spreadsheet computes it"
    # Later, the same results are found among the work that has ended.
    page.reload()
    page.click("#jobs button >> nth=0")
    page.wait_for_selector("#batch-results table")
    reads(page, "#batch-results p", "3 applicants: 2 with a way to a yes, 1 not answered.")


def test_promises_are_checked_against_versions_of_the_chosen_model(workbench: Open) -> None:
    page = workbench()
    for model in ("odd", "loan"):
        page.click(".tabs >> text=One applicant")
        choose(page, model)
        page.click(".tabs >> text=Cases")
        page.wait_for_selector(f"#candidate option[value='{model}@1']", state="attached")
        offered = page.locator("#candidate option").evaluate_all("options => options.map(({ value }) => value)")
        assert {value.split("@")[0] for value in offered} == {model}


def test_a_batch_without_any_answer_says_why(workbench: Open, odd_server: Server) -> None:
    page = workbench()
    choose(page, "loan")
    schema = odd_server.client.get("/models/loan/schema").json()
    cells = [str(value) for value in (schema["sample"] | {"age": "none"}).values()]
    page.click(".tabs >> text=Many applicants")
    content = "\n".join([",".join(schema["sample"]), "", ",".join(cells), "", ",".join(cells)])
    page.set_input_files("#file", {"name": "people.csv", "mimeType": "text/csv", "buffer": content.encode()})
    page.get_by_role("button", name="Answer 2 applicants").click()
    page.wait_for_selector("#batch-results table")
    reads(page, "#batch-results p", "2 applicants: 2 not answered.")
    rows = lambda: [" ".join(row.inner_text().split()) for row in page.locator("#batch-results tbody tr").all()]  # noqa: E731
    label = next(feature["label"] for feature in schema["features"] if feature["name"] == "age")
    assert rows() == [f"Line {line} {label} must be a whole number." for line in (3, 5)]
    with page.expect_download() as taken:
        page.get_by_role("button", name="Take the results as CSV").click()
    table = list(csv.DictReader(taken.value.path().read_text(encoding="utf-8").splitlines()))
    assert [row["line"] for row in table] == ["3", "5"]
    # Later, nothing is known of the file.
    page.reload()
    page.get_by_text("Failed").first.wait_for()
    page.get_by_role("button", name="Results: Many applicants").first.click()
    page.wait_for_selector("#batch-results table")
    assert [row.split(f" {label}")[0] for row in rows()] == ["Applicant 1", "Applicant 2"]


def test_a_kept_promise_is_found_and_held_against_another_version(browser: Any, start: Start, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "versions")
    registry.register(make_linear(tmp_path / "1").write())
    registry.register(make_linear(tmp_path / "2").write(version="2", threshold=0.999), active=False)
    registry.register(make_linear(tmp_path / "3").write(version="3"), active=False)
    server = start(RECOURSE_MODELS_STORE=str(registry.root)).ready()
    with workbench_of(browser, str(server.client.base_url).rstrip("/")) as workbench:
        page = workbench()
        page.wait_for_selector("#example:enabled")
        ask(page)
        assert server.client.get("/recourse").json()["recourse"] == [], "what is only tried out is not kept"
        page.fill("#store-as", "case-1")
        page.click("#store button")
        page.get_by_text("You can find it under").wait_for()
        page.click(".note a[href='#promises']")
        (kept,) = server.client.get("/recourse", params={"reference": "case-1"}).json()["recourse"]
        page.fill("#reference", "case-2")
        page.click("#find button")
        page.get_by_text("No stored answer fits this.").wait_for()
        page.fill("#reference", "case-1")
        page.click("#find button")
        page.locator("#found").get_by_text("case-1").wait_for()
        assert kept["id"] not in text(page, "#found")
        title = server.client.get("/models/loan@1").json()["title"]
        says(page, "#found tbody", f"case-1 a way to a yes {title}, version 1 ")
        page.click("#found tbody button")
        page.wait_for_selector("#case-form a")
        for version, said in [("loan@2", "Broken."), ("loan@3", "Kept.")]:
            page.select_option("#verify-with", version)
            page.click("text=Does it still say yes?")
            page.get_by_text(said).wait_for()
        for version, said in [("loan@2", "0 kept and 1 broken"), ("loan@3", "1 kept and 0 broken")]:
            page.select_option("#candidate", version)
            page.click("#audit button")
            page.get_by_text(said).wait_for()
            says(page, "#audited", "Of 1 stored answer,")
            page.select_option("#of-kept", "true" if version == "loan@3" else "false")
            page.click("#find button")
            page.locator("#found tbody").get_by_text("kept" if version == "loan@3" else "broken").wait_for()
            assert "rec_" not in text(page, "#view-promises")


def test_work_in_the_background_is_done_by_workers(browser: Any, cluster: tuple[Server, StartWorker]) -> None:
    server, start_worker = cluster
    start_worker(), start_worker()
    with workbench_of(browser, str(server.client.base_url).rstrip("/")) as workbench:
        page = workbench()
        choose(page, "loan")
        page.click("#how summary")
        page.check("#background")
        ask(page)
        page.wait_for_selector(".specialists")
    (job,) = server.client.get("/jobs").json()["jobs"]
    assert job["status"] == "succeeded"


@pytest.mark.parametrize("start", ["sqlite"], indirect=True)
def test_future_models_are_trained_at_a_click(browser: Any, start: Start, tmp_path: Path) -> None:
    registry = Registry(tmp_path / "labelled")
    few = {"search": 10, "held_back": 10}
    registry.register(make_linear(tmp_path / "1").label().write(futures=few))
    server = start(RECOURSE_MODELS_STORE=str(registry.root), RECOURSE_REHEARSE="off").ready()
    with workbench_of(browser, str(server.client.base_url).rstrip("/")) as workbench:
        page = workbench()
        page.wait_for_selector("#example:enabled")
        ask(page)
        assert "If the lender trains its model again" not in text(page, "#answer")
        # The answer is asked again, now of the future models too.
        page.press("#about-panel summary", "Enter")  # a click may miss what the answer has moved
        page.click("#train")
        page.get_by_text("20 retrained models").wait_for()
        page.get_by_text("If the lender trains its model again").first.wait_for()
        says(page, ".certificate", "in 100 retrained models")
        page.click("#train")
        page.get_by_text("Job job_").wait_for()
        page.get_by_text("Job job_").wait_for(state="detached")
    jobs = server.client.get("/jobs").json()["jobs"]
    assert [(job["kind"], job["status"]) for job in jobs] == [("futures", "succeeded")] * 2


@pytest.mark.parametrize("start", ["sqlite"], indirect=True)
def test_a_slow_refusal_of_no_key_does_not_hide_why_the_entered_key_is_refused(browser: Any, start: Start) -> None:
    server = start(RECOURSE_AUTH="required").ready()
    held: dict[str, list[Any]] = {"models": [], "methods": []}
    with workbench_of(browser, str(server.client.base_url).rstrip("/")) as workbench:
        page = workbench()
        page.wait_for_selector("#key[open]")
        page.route("**/methods", lambda route: held["methods"].append(route))
        page.reload()
        page.wait_for_selector("#key[open]")
        page.route("**/models", lambda route: held["models"].append(route))
        page.fill("#key-value", "wrong")
        with page.expect_request("**/models"):
            page.keyboard.press("Enter")
        held["methods"].pop().continue_()
        page.unroute("**/methods")
        page.wait_for_selector("#key[open]")
        held["models"].pop().continue_()
        page.get_by_text("The API key is unknown, or was revoked or renewed").wait_for()


@pytest.mark.parametrize("start", ["sqlite"], indirect=True)
def test_a_key_is_asked_for_once_and_kept_in_the_session_only(browser: Any, start: Start, tmp_path: Path) -> None:
    server = start(RECOURSE_AUTH="required").ready()
    command = ["keys", "create", "officer", "--scope=recourse", "--scope=models"]
    made = forks().run("app.cli", *command, env={"RECOURSE_STATE_DIR": str(server.state), "PATH": ""})
    secret = made.stdout.strip()
    with workbench_of(browser, str(server.client.base_url).rstrip("/")) as workbench:
        page = workbench()
        page.wait_for_selector("#key[open]")
        page.fill("#key-value", "wrong")
        page.keyboard.press("Enter")
        page.get_by_text("The API key is unknown, or was revoked or renewed").wait_for()
        page.fill("#key-value", secret)
        page.keyboard.press("Enter")
        choose(page, "loan")
        ask(page)
        page.wait_for_selector(".specialists")
        assert page.evaluate("() => Object.values(sessionStorage)") == [secret]
        assert page.evaluate("() => localStorage.length + document.cookie.length") == 0
        page.click(".tabs >> text=Cases")
        page.click("#audit button")
        page.wait_for_selector("#audited .bad")
        page.click(".tabs >> text=One applicant")
        page.click("#about-panel summary")
        page.click("#train")
        page.wait_for_selector("#futures-job .bad")
        expect(page.locator("#train"), "this key cannot train future models").to_have_count(0)
        page.click("#forget")
        page.wait_for_selector("#key[open]")
        page.click("#key-cancel")
        page.wait_for_selector("#verdict .bad")
