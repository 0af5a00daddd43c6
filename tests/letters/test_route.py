"""GET /recourse/{id}/notice: the letter, in the form and language of the request."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.letters.regime import Templates
from app.letters.route import Notice
from app.reasons.route import REASONS_EXAMPLES
from app.settings import Settings
from tests.api.asking import APPLICANT, faults, problem, question
from tests.conftest import Running, run
from tests.letters.test_letter import LATE, LENDER

UNKNOWN = "rec_01KAHQ0W3MZC9Y7T5X2V8RDB4E"


@pytest.fixture(scope="module")
def address(running: Any) -> str:
    """Of the letter about an answer without reasons."""
    return f"/recourse/{_given(running.url, reference='<b>case</b>')}/notice"


def _given(url: str, **changes: Any) -> str:
    recourse_id: str = httpx.post(f"{url}/recourse", json=question(**changes)).json()["id"]
    return recourse_id


@pytest.mark.parametrize(
    ("query", "accept", "expected"),
    [
        ("", "*/*", "application/json"),
        ("", "application/json", "application/json"),
        ("", "text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
        ("", "text/plain", "text/plain; charset=utf-8"),
        ("", "image/png", "application/json"),
        ("?format=text", "text/html", "text/plain; charset=utf-8"),
        ("?format=html", "*/*", "text/html; charset=utf-8"),
    ],
)
def test_the_form_is_what_the_client_takes(
    client: httpx.Client, address: str, query: str, accept: str, expected: str
) -> None:
    response = client.get(f"{address}{query}", headers={"Accept": accept})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == expected
    assert "Accept" in response.headers["vary"]


def test_the_letter_says_what_the_answer_says(client: httpx.Client, address: str) -> None:
    answer = client.get(address.removesuffix("/notice")).json()
    alone = client.post("/reasons", json={"model": "loan", "applicant": APPLICANT}).json()
    notice = client.get(address).json()
    Notice.model_validate(notice)
    assert (notice["id"], notice["refused"]) == (answer["id"], True)
    # Reasons that the request did not ask for are there all the same, but a small one that most others have, too.
    expected = [one["text"] for one in alone["reasons"]]
    assert [one["text"] for one in notice["reasons"]] == [text for text in expected if text != "Guarantor: no"]
    (way,) = notice["ways"]
    texts = {change["text"] for change in answer["counterfactuals"][0]["changes"]}
    assert set(way["steps"]) == texts
    text = client.get(f"{address}?format=text").text
    for step in way["steps"]:
        assert step in " ".join(text.split())


def test_the_same_record_gives_the_same_letter(client: httpx.Client, address: str) -> None:
    assert client.get(f"{address}?format=html").content == client.get(f"{address}?format=html").content


def test_recorded_reasons_are_used(client: httpx.Client) -> None:
    body = question(reasons={"against": "everyone", "count": 1})
    recourse_id = client.post("/recourse", json=body).json()["id"]
    notice = client.get(f"/recourse/{recourse_id}/notice").json()
    assert len(notice["reasons"]) == 1
    assert notice["compared_with"].startswith("all ")


def test_the_language_is_that_of_the_request(client: httpx.Client, address: str) -> None:
    refused = client.get(f"{address}?format=text", headers={"Accept-Language": "de-AT, en;q=0.5"})
    assert (refused.status_code, refused.json()["code"]) == (409, "notice-incomplete")
    assert "words.de of" in refused.json()["detail"], "the model has no words in German"
    german = client.get(f"{address}?format=text&draft=true", headers={"Accept-Language": "de-AT, en;q=0.5"})
    assert german.headers["content-language"] == "de"
    assert "Ihr Antrag" in german.text
    english = client.get(f"{address}?format=text&lang=en", headers={"Accept-Language": "de"})
    assert english.headers["content-language"] == "en"
    assert faults(client.get(f"{address}?lang=xx")) == {"": "the query parameter lang must be one of de, en"}


def test_the_words_of_a_language_reach_schema_and_letter(demo: Running) -> None:
    with httpx.Client(base_url=demo.url, timeout=30) as client:
        features = {one["name"]: one for one in client.get("/models/consumer-loan/schema").json()["features"]}
        assert client.get("/models/consumer-loan").json()["titles"]["de"].startswith("Privatkredit")
        assert features["term"]["words"]["de"] == {"label": "Laufzeit", "unit": "Monate", "levels": {}}
        assert features["savings"]["words"]["de"]["levels"]["none"] == "keine"
        body = REASONS_EXAMPLES["accepted"]["value"]
        given = client.post("/recourse", json={**body, "count": 3}).json()["id"]
        letter = " ".join(client.get(f"/recourse/{given}/notice?format=text&lang=de").text.split())
    assert "Ihr Antrag: Privatkredit (erfundene Antragsteller)" in letter
    for english in ("Personal loan", "months", "Loan", "income"):
        assert english not in letter


def test_the_page_is_safe_to_open(client: httpx.Client, address: str) -> None:
    page = client.get(f"{address}?format=html")
    assert "&lt;b&gt;case&lt;/b&gt;" in page.text
    assert "<b>" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'; style-src 'sha256-")


def test_an_accepted_application_has_a_letter(client: httpx.Client, running: Any) -> None:
    rich = {**question()["applicant"], "income": 6000.0, "amount": 1000.0, "guarantor": True}
    notice = client.get(f"/recourse/{_given(running.url, applicant=rich)}/notice").json()
    assert (notice["accepted"], notice["refused"], notice["reasons"], notice["ways"]) == (True, False, [], [])


@pytest.fixture(scope="module")
def nobody(models_store: Path) -> Iterator[Running]:
    """A service whose settings do not say who the lender is."""
    yield from run(
        Settings(models_store=models_store, trust_pickle=True, lanes_sync=1, lender_name="", notice_regime="us")
    )


@pytest.mark.parametrize("form", ["json", "text", "html"])
def test_no_letter_without_a_sender_but_a_draft_says_what_is_missing(nobody: Running, form: str) -> None:
    with httpx.Client(base_url=nobody.url, timeout=30) as client:
        address = f"/recourse/{_given(nobody.url)}/notice?format={form}"
        refused = problem(client.get(address), 409, "notice-incomplete")
        draft = client.get(f"{address}&draft=true")
        for name in ("RECOURSE_LENDER_NAME", "RECOURSE_LENDER_AUTHORITY", "RECOURSE_LENDER_BUREAU"):
            assert name in refused["detail"]
            assert name in draft.text
        assert "RECOURSE_LENDER_ADDRESS" not in refused["detail"]
        assert draft.status_code == 200
        assert form == "json" or "DRAFT, NOT TO BE SENT" in draft.text
        assert "[RECOURSE_LENDER_AUTHORITY]" in draft.text  # where its value will stand


def test_a_draft_of_what_may_go_out_is_the_letter(client: httpx.Client, address: str) -> None:
    assert client.get(f"{address}?format=text&draft=true").content == client.get(f"{address}?format=text").content


def test_what_is_not_there_has_no_letter(client: httpx.Client, running: Any) -> None:
    problem(client.get(f"/recourse/{UNKNOWN}/notice"), 404, "unknown-recourse")
    problem(client.get("/recourse/none/notice"), 404, "unknown-recourse")
    recourse_id = _given(running.url)
    client.delete(f"/recourse/{recourse_id}")
    problem(client.get(f"/recourse/{recourse_id}/notice"), 410, "erased")
    assert set(faults(client.get(f"/recourse/{recourse_id}/notice?format=pdf"))) == {""}


OFFERED = {
    "age": 41, "monthly_income": 2684.0, "monthly_debt": 282.0, "card_utilisation": 80.0, "late_payments": 0,
    "amount": 11600, "term": 30, "employment": "over 7 years", "savings": "under 1,000 EUR", "housing": "rented",
    "purpose": "debt consolidation", "guarantor": False,
}  # fmt: skip
"""Of the demo, who gets more than half of the amount."""

PER_MM = 96 / 25.4
"""Pixels of a page."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "offers"),
    [(REASONS_EXAMPLES["accepted"]["value"] | {"horizon_months": 24}, False),
     ({"model": "consumer-loan", "applicant": OFFERED}, True)],
)  # fmt: skip
def test_the_page_prints_on_one_sheet(
    browser: Any, demo: Any, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any], offers: bool
) -> None:
    """With four reasons, three ways of up to three steps each, an address, who signs, and an offer; of every regime."""
    notices = demo.app.state.service.notices
    monkeypatch.setattr(notices, "_lender", replace(LENDER, signatory=("J. Doe", "Head of Credit")))
    sent_to = "&addressee=".join(("", "Ms Ada Example", "1 Example Street", "12345 Sample Town", "Sampleland"))
    monkeypatch.setattr(notices, "_offer_share", 0.5)
    answer = httpx.post(f"{demo.url}/recourse", json={**asked, "count": 3, "reasons": True}, timeout=30).json()
    assert len(answer["counterfactuals"]) == 3
    page = browser.new_page()
    try:
        counted = {}
        for language, regime in sorted(LATE):
            monkeypatch.setattr(notices, "templates", Templates.read(regime, None, language))
            page.goto(
                f"{demo.url}/recourse/{answer['id']}/notice?format=html&lang={language}{sent_to}&applied_on=2026-03-01"
            )
            assert page.locator(".addressee").count() == 1
            assert bool({"Other terms", "Andere Bedingungen"} & {*page.locator("h2").all_inner_texts()}) is offers
            assert page.locator("h1").count() == 1
            sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))
            counted[regime, language] = len(sheets)
            page.set_viewport_size({"width": round((210 - 2 * 13) * PER_MM), "height": 1000})
            page.emulate_media(media="print")
            left = 287 - page.locator("main").evaluate("main => main.getBoundingClientRect().height") / PER_MM
            assert left > 5.0, f"{regime}.{language} leaves {left:.1f} mm for longer names"
        assert counted == dict.fromkeys(counted, 1)
    finally:
        page.close()


def test_a_letter_is_addressed_and_dated_before_it_is_sent(client: httpx.Client, address: str) -> None:
    lines = {"addressee": ["Ms Ada Example", "1 Example Street"], "applied_on": "2026-03-01"}
    notice = client.get(address, params=lines).json()
    assert (notice["addressee"], notice["applied_on"]) == (lines["addressee"], "1 March 2026")
    text = client.get(address, params={**lines, "format": "text"}).text
    assert "Ms Ada Example\n1 Example Street\n" in text
    assert "Application of 1 March 2026" in text
    sent = client.post(address, json={"channel": "post", **lines}).json()
    assert sent["text"] == text
    assert client.get(address, params={"addressee": ["x"] * 9}).status_code == 422
    assert client.get(address, params={"applied_on": "soon"}).status_code == 422


@pytest.mark.parametrize(("listed", "complete"), [(True, False), (["income"], True), (False, True)])
def test_a_letter_of_the_union_needs_what_the_database_reported(
    client: httpx.Client, running: Any, address: str, monkeypatch: pytest.MonkeyPatch, listed: Any, complete: bool
) -> None:
    """Article 19(6) of Directive (EU) 2023/2225: the result, the database, the categories of data."""
    notices = running.service.notices
    monkeypatch.setattr(notices, "_lender", LENDER)
    monkeypatch.setattr(notices, "templates", Templates.read("eu", None, "en"))
    model = running.service.models.find("loan@1")
    model = replace(model, manifest=model.manifest.model_copy(update={"consumer_report": listed}))
    monkeypatch.setattr(notices._models, "find", lambda *_args, **_options: model)
    answer = client.get(f"{address}?format=text")
    assert (answer.status_code == 200) is complete, answer.text
    assert ("It reported the following about you (figures rounded): " in " ".join(answer.text.split())) is isinstance(
        listed, list
    )
    if not complete:
        assert "consumer_report in model.yaml" in problem(answer, 409, "notice-incomplete")["detail"]
        draft = client.get(f"{address}?format=text&draft=true").text
        assert "consumer_report in model.yaml" in " ".join(draft.split())


@pytest.mark.parametrize(("regime", "status"), [("us", 409), ("general", 200)])
def test_no_letter_of_the_united_states_hides_a_principal_reason(
    client: httpx.Client, running: Any, monkeypatch: pytest.MonkeyPatch, regime: str, status: int
) -> None:
    """Comment 9(b)(2)-4 of Regulation B: "no factor that was a principal reason may be excluded"."""
    notices = running.service.notices
    monkeypatch.setattr(notices, "_lender", LENDER)
    monkeypatch.setattr(notices, "templates", Templates.read(regime, None, "en"))
    address = f"/recourse/{_given(running.url, reasons=True)}/notice"

    async def hidden(recourse_id: str) -> Any:
        answer, request = await type(notices._given).asked(notices._given, recourse_id)
        return {**answer, "reasons": {**answer["reasons"], "protected_share": 0.9}}, request

    monkeypatch.setattr(notices._given, "asked", hidden)
    answer = client.get(f"{address}?format=text")
    assert answer.status_code == status, answer.text
    draft = " ".join(client.get(f"{address}?format=text&draft=true").text.split())
    assert ("features that no letter names made up 90% of them" in draft) is (status == 409)
    if status == 409:
        assert "every principal reason" in problem(answer, 409, "notice-incomplete")["detail"]
