"""A caseworker's way through the page: find a case by reference, see it, record its letter as sent, decide again."""

import re
from html import unescape
from typing import Any

import httpx
import pytest

from app.api.examples import APPLICANT, DEMO_MODEL
from tests.api.test_workbench import MOST_ON_A_PATH
from tests.browser import WATCH_SAID, Open, Page, expect, heard, nameless, reads, says, text, violations
from tests.conftest import Running

COUNT_CLICKS = "window.clicks = 0; addEventListener('click', (event) => { if (event.isTrusted) clicks++; }, true);"


def store(demo: Running, reference: str, **changes: Any) -> str:
    body = {"model": DEMO_MODEL, "applicant": APPLICANT, "reference": reference, "count": 2, **changes}
    recourse_id: str = httpx.post(f"{demo.url}/recourse", json=body, timeout=60).json()["id"]
    return recourse_id


def file_of(demo: Running, recourse_id: str) -> dict[str, Any]:
    file: dict[str, Any] = httpx.get(f"{demo.url}/recourse/{recourse_id}/case", timeout=60).json()
    return file


def find(page: Page, reference: str) -> None:
    page.wait_for_selector("#example:enabled", state="attached")
    page.click(".tabs >> text=Cases")
    page.fill("#reference", reference)
    page.press("#reference", "Enter")
    page.wait_for_function("() => document.querySelectorAll('#found tbody tr').length === 1")


def open_case(page: Page) -> None:
    page.click("#found tbody button")
    page.wait_for_selector("#case-form a")


@pytest.mark.slow
def test_a_letter_is_found_seen_and_recorded_as_sent_in_five_clicks(workbench: Open, demo: Running) -> None:
    recourse_id = store(demo, "five clicks")
    read: list[str] = []

    def watch(page: Page) -> None:
        page.add_init_script(COUNT_CLICKS)
        page.on("request", lambda request: read.append(request.url))

    page = workbench(prepare=watch, bypass_csp=True, reduced_motion="reduce")
    find(page, "five clicks")
    page.wait_for_selector("#case-form a")  # the only case of this reference opens by itself
    reads(page, "#case-title", "Case five clicks")
    expect(page.locator("#case .card")).to_have_count(2)
    assert violations(page) == []
    page.click("#case-body >> text=Letter")
    page.wait_for_function("() => document.querySelector('#letter-text').textContent.length > 100")
    page.fill("#letter-applied", "2026-03-01")
    page.get_by_text("Application of 1 March 2026").wait_for()
    page.fill("#letter-to", "Ms Ada Example\n\n 1 Street ")
    assert violations(page) == []
    page.click("#letter-record")
    page.wait_for_selector("#letter-said .note")
    assert page.evaluate("() => window.clicks") <= 4
    assert sum(len(httpx.get(url).content) for url in read if "/workbench" in url) < MOST_ON_A_PATH
    says(page, "#letter-said", "Recorded as sent by post, ")
    for said in ("Ms Ada Example 1 Street", "Application of 1 March 2026"):
        says(page, "#letter-text", said)
    (letter,) = file_of(demo, recourse_id)["letters"]
    assert (letter["channel"], letter["addressee"]) == ("post", ["Ms Ada Example", "1 Street"])
    # What is printed is what was recorded.
    with page.context.expect_page() as opened:
        page.click("#letter-print")
    opened.value.wait_for_load_state()
    assert "Ms Ada Example" in text(opened.value, ".addressee")
    opened.value.close()
    page.click("#letter-close")
    says(page, "#sent", "by post, to Ms Ada Example")
    page.click("#sent summary")
    says(page, "#sent .letter", "Ms Ada Example")
    assert violations(page) == []


@pytest.mark.slow
def test_a_case_is_handled_by_keyboard_and_ear_alone(workbench: Open, demo: Running) -> None:
    """Each result is said, each control has a name, and the focus is never lost."""
    recourse_id = store(demo, "by ear")
    page = workbench(prepare=lambda page: page.add_init_script(WATCH_SAID), bypass_csp=True, reduced_motion="reduce")
    page.wait_for_selector("#example:enabled", state="attached")
    page.focus(".tabs >> text=Cases")
    page.keyboard.press("Enter")
    page.wait_for_selector("#found tbody tr")
    page.focus("#reference")
    page.keyboard.type("by ear")
    heard(page)
    page.keyboard.press("Enter")
    page.wait_for_selector("#case-form a")
    said = heard(page)
    assert "1 stored answer. |" in said
    assert said.endswith("The data of this applicant are now in the form under One applicant. > region Case by ear")
    assert nameless(page) == []
    page.keyboard.press("Tab")
    assert heard(page) == " > button Letter"
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.querySelector('#letter-text').textContent.length > 100")
    assert heard(page) == "The letter is shown in English. > region Text of the letter"
    assert nameless(page) == []
    page.focus("#letter-language")
    page.keyboard.type("G")
    page.get_by_text("Guten Tag").wait_for()
    # Words of the model in German are there.
    assert heard(page).startswith("The letter is shown in German. > combobox Language")
    page.focus("#letter-record")
    page.keyboard.press("Enter")
    page.wait_for_selector("#letter-said .note")
    page.wait_for_selector("#sent summary", state="attached")
    said = heard(page)
    assert said.startswith("Recorded as sent by post, ")
    assert said.endswith("> button Print")
    page.keyboard.press("Escape")
    assert heard(page).endswith("> region Case by ear")
    page.focus("#case summary >> text=Look at it again")
    page.keyboard.press("Enter")
    page.fill("#review-by", "Sam Clerk")
    page.fill("#review-reason", "by ear")
    page.select_option("#review-decision", "refused")
    assert nameless(page) == []
    page.focus("text=Record the review")
    heard(page)
    page.keyboard.press("Enter")
    page.get_by_text("The review is recorded.").wait_for()
    assert heard(page).endswith("The review is recorded. > region Case by ear")
    assert len(file_of(demo, recourse_id)["letters"]) == len(file_of(demo, recourse_id)["reviews"]) == 1


@pytest.mark.slow
def test_a_question_is_asked_by_keyboard_and_ear_alone(workbench: Open) -> None:
    page = workbench(prepare=lambda page: page.add_init_script(WATCH_SAID))
    page.wait_for_selector("#example:enabled")
    for _ in range(8):
        page.keyboard.press("Tab")
    assert heard(page).endswith("> button Fill in an example")
    page.keyboard.press("Enter")
    page.wait_for_selector("#verdict b")
    said = heard(page)
    assert "The model says no. 57 in 100 is the predicted chance of a good outcome; a yes needs 80." in said
    assert said.endswith("> button Another example")
    page.keyboard.press("Shift+Tab")
    assert heard(page) == " > button Show the ways to a yes"
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer-body h3")
    page.wait_for_function("() => document.querySelector('#answer').getAttribute('aria-busy') === 'false'")
    said = heard(page)
    assert said.startswith("Asking | ")
    assert said.endswith(" to a yes > region The answer")
    assert nameless(page) == []


@pytest.mark.slow
def test_a_case_is_decided_on_again(workbench: Open, demo: Running) -> None:
    recourse_id = store(demo, "again")
    page = workbench()
    find(page, "again")
    open_case(page)
    page.click("#case summary >> text=Look at it again")
    page.fill("#review-by", "Sam Clerk")
    page.fill("#review-reason", "<b>overlooked</b>")
    page.select_option("#review-decision", "accepted")
    page.click("text=Record the review")
    page.get_by_text("Sam Clerk: accepted. <b>overlooked</b>").wait_for()
    (review,) = file_of(demo, recourse_id)["reviews"]
    assert (review["by"], review["decision"]) == ("Sam Clerk", "accepted")
    with page.context.expect_page() as opened:
        page.click("text=Case file")
    opened.value.wait_for_load_state()
    assert "Sam Clerk" in text(opened.value, "main")
    opened.value.close()
    page.click("#case >> text=Close")
    expect(page.locator("#case")).not_to_be_visible()


@pytest.mark.slow
def test_a_value_that_was_wrong_is_corrected_in_the_form_and_asked_about_again(workbench: Open, demo: Running) -> None:
    recourse_id = store(demo, "wrong")
    page = workbench(bypass_csp=True, reduced_motion="reduce")
    find(page, "wrong")
    open_case(page)
    page.click("#case summary >> text=Look at it again")
    says(page, "#review-corrected", "Is a value wrong?")
    page.click("#case-form a")
    page.fill("#f-monthly_income", "6000")
    page.click(".tabs >> text=Cases")
    page.fill("#review-by", "Sam Clerk")
    says(page, "#review-corrected", "To be corrected: Net monthly income to 6,000 EUR.")
    page.fill("#review-reason", "payslips")
    assert violations(page) == []
    page.click("text=Record the review")
    page.get_by_text("Sam Clerk: corrected Net monthly income to 6,000 EUR; the model says").wait_for()
    (review,) = file_of(demo, recourse_id)["reviews"]
    assert (review["corrections"], review["decision"]) == ({"monthly_income": 6000}, None)


@pytest.mark.slow
def test_a_letter_that_may_not_go_out_is_a_draft(
    workbench: Open, demo: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    notices = demo.service.notices
    monkeypatch.setattr(notices, "_lender", replace(notices._lender, name=""))
    recourse_id = store(demo, "nobody")
    page = workbench()
    find(page, "nobody")
    open_case(page)
    page.click("#case-body >> text=Letter")
    page.wait_for_selector("#letter-said .note")
    says(page, "#letter-said", "RECOURSE_LENDER_NAME")
    says(page, "#letter-text", "DRAFT, NOT TO BE SENT")
    expect(page.locator("#letter-record")).to_be_disabled()
    page.click("#letter-close")
    assert file_of(demo, recourse_id)["letters"] == []


@pytest.mark.slow
def test_with_a_key_the_letter_prints_here_and_the_case_file_is_downloaded(workbench: Open, demo: Running) -> None:
    """A page of its own could not send the key."""
    store(demo, "with a key")
    page = workbench(prepare=lambda page: page.add_init_script("sessionStorage.setItem('recourse-api-key', 'rk_any')"))
    find(page, "with a key")
    open_case(page)
    with page.expect_download() as downloaded:
        page.click("text=Case file")
    assert downloaded.value.suggested_filename == "case with a key.html"
    page.evaluate("() => { window.printed = 0; window.print = () => window.printed++; }")
    page.click("#case-body >> text=Letter")
    page.wait_for_function("() => document.querySelector('#letter-text').textContent.length > 100")
    page.click("#letter-print")
    page.wait_for_function("() => window.printed === 1")
    page.emulate_media(media="print")
    expect(page.locator("#letter-form")).not_to_be_visible()
    expect(page.locator("#letter-text")).to_be_visible()


@pytest.mark.slow
def test_a_case_fits_a_phone(workbench: Open, demo: Running) -> None:
    recourse_id = store(demo, "narrow")
    page = workbench()
    page.set_viewport_size({"width": 390, "height": 800})
    find(page, "narrow")
    open_case(page)
    page.click("#case-body >> text=Letter")
    page.wait_for_function("() => document.querySelector('#letter-text').textContent.length > 100")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    box = page.locator("#letter").bounding_box()
    assert box["width"] <= 390
    # Paragraphs are as the letter has them, and their lines as the browser breaks them.
    letter = httpx.get(f"{demo.url}/recourse/{recourse_id}/notice?format=html", timeout=60).text
    paragraphs = [unescape(one) for one in re.findall(r"<p>([^<]*)</p>", letter)]
    assert max(map(len, paragraphs)) > 100
    shown = page.locator("#letter-text > *").evaluate_all("(parts) => parts.map((part) => part.textContent)")
    assert [one for one in paragraphs if one not in shown] == []
    entries = page.locator("#letter-text li").evaluate_all("(entries) => entries.map((entry) => entry.textContent)")
    assert entries == [unescape(one) for one in re.findall(r"<li>([^<]*)</li>", letter)]
    assert page.locator("#letter-text").evaluate("(text) => text.scrollWidth - text.clientWidth") == 0
