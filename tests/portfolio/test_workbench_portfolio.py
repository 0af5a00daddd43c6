"""The portfolio on the workbench: a report is started, watched, listed, opened and kept."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_workbench import show
from tests.browser import Open, chromium, expect, workbench_of
from tests.jobs.serving import Server
from tests.servers import starting

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lender(loans: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with starting("sqlite", loans, tmp_path_factory.mktemp("server")) as begin:
        yield begin().ready()


@pytest.fixture
def desk(lender: Server) -> Iterator[Open]:
    with chromium() as browser, workbench_of(browser, str(lender.client.base_url).rstrip("/")) as open_page:
        yield open_page


def test_a_report_is_started_listed_opened_and_kept(desk: Open, tmp_path: Path) -> None:
    page: Any = desk()
    show(page, "Portfolio")
    page.wait_for_selector("#reports >> text=No reports yet.")
    page.click("#report")
    page.wait_for_selector("#report-job progress")
    page.wait_for_selector("#reports >> text=Done", timeout=120_000)
    expect(page.locator("#reports li")).to_have_count(1)
    page.wait_for_selector("#report-job progress", state="detached")
    with page.expect_popup() as opened:
        page.click("#reports >> text=Open")
    assert "Refused by loan@1: who can get a yes, and how" in opened.value.inner_text("h1")
    with page.expect_download() as kept:
        page.click("#reports >> text=JSON")
    kept.value.save_as(tmp_path / "report.json")
    result = json.loads((tmp_path / "report.json").read_text())
    assert (result["model"]["id"], result["source"]["records"]) == ("loan", 200)
    page.reload()
    page.wait_for_selector("#reports >> text=Done")


def test_a_problem_is_shown(desk: Open) -> None:
    page: Any = desk(prepare=lambda page: page.route("**/models/loan%401/reports", _refused))
    show(page, "Portfolio")
    page.click("#report")
    page.wait_for_selector("#report-job >> text=The job store cannot be reached.")
    expect(page.locator("#report")).to_be_enabled()


def _refused(route: Any) -> None:
    problem = {"title": "Not ready", "detail": "The job store cannot be reached.", "code": "not-ready", "status": 503}
    route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem))
