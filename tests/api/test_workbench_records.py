"""The workbench with records as lenders have them: missing values, special codes, derived features, time."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.registry.registry import Registry
from app.settings import Settings
from tests.browser import Open, Page, expect, reads, says, text, workbench_of
from tests.conftest import Running, run
from tests.registry.loan import WEIGHTS, ModelDirectory, make_linear

CODES = {-9: "no bureau record", -8: "no usable trades"}


def make_untidy(path: Path) -> ModelDirectory:
    """A model whose records may lack an income or a housing, and have codes in place of debts."""
    model = make_linear(path)
    age, income, _, savings, _, housing = model.manifest["features"]
    age |= {"label": "Age", "change": "none", "protected": True}
    income |= {"label": "Income", "unit": "EUR", "missing": "indicator", "fill": 2_000, "decimals": 0}
    income |= {"change": "increase", "advice": {"max": 9_000}, "takes": {"months": 3}}
    savings |= {"missing": "fill", "fill": "none"}
    housing |= {"label": "Housing", "missing": "indicator"}
    model.manifest["features"] += [
        {"name": "debts", "type": "integer", "label": "Debt payments", "unit": "EUR", "min": 0, "max": 5_000,
         "change": "decrease", "special": CODES},
        {"name": "burden", "type": "continuous", "label": "Burden", "derived": "debts / income", "missing": "fill",
         "fill": 0},
        {"name": "months_in_job", "type": "integer", "label": "Time in the job", "unit": "months", "min": 0,
         "moves_with_time": {"per_year": 12}},
    ]  # fmt: skip
    weights = WEIGHTS | {"income:missing": -0.5, "housing=missing": -0.2, "debts": -0.3, "burden": -0.8}
    weights |= {"months_in_job": 0.1}
    model.set_artifact(json.dumps({"space": "encoded", "intercept": -0.5, "weights": weights}).encode())
    model.columns += ["debts", "months_in_job"]
    for i, record in enumerate(model.records):
        record |= {"debts": -9 if i % 7 == 0 else -8 if i % 9 == 0 else 370 * i % 4_000, "months_in_job": i}
        record |= {name: "" for name, every in (("income", 5), ("savings", 8), ("housing", 11)) if i % every == 0}
    return model


RECORD: dict[str, Any] = {
    "age": 40, "income": 3_000, "amount": 15_000, "savings": "some", "guarantor": False, "housing": "rented",
    "debts": 1_200, "months_in_job": 30,
}  # fmt: skip


@pytest.fixture(scope="module")
def lender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("untidy")
    registry = Registry(folder / "store")
    registry.register(make_untidy(folder / "untidy").write(id="untidy"))
    yield from run(Settings(models_store=registry.root, lanes_sync=1))


@pytest.fixture
def page(browser: Any, lender: Running) -> Iterator[Page]:
    """The page with that model, and `RECORD` in its form."""
    with workbench_of(browser, lender.url) as open_page:
        yield filled(open_page)


def filled(open_page: Open) -> Page:
    page = open_page()
    page.wait_for_selector("#example:enabled")
    for name, value in RECORD.items():
        field = page.locator(f"#f-{name}")
        if field.evaluate("(field) => field.tagName") == "SELECT":
            words = {True: "yes", False: "no"}.get(value, value)
            field.select_option(label=words)
        else:
            field.fill(str(value))
    page.wait_for_selector("#verdict b")
    return page


def sent(page: Page, act: Any, path: str = "predict") -> dict[str, Any]:
    """The body of the request that an act leads to."""
    with page.expect_response(f"**/{path}") as answered:
        act()
    body: dict[str, Any] = json.loads(answered.value.request.post_data)
    return body


def tick(page: Page, name: str, words: str) -> None:
    """Choose one of the states of a number."""
    page.locator(f'[aria-label$="no number"] label:has-text("{words}")').locator(
        f'xpath=.//input[starts-with(@id, "f-{name}-state")]'
    ).check()


@pytest.mark.slow
def test_a_missing_number_is_sent_as_null(page: Page) -> None:
    body = sent(page, lambda: tick(page, "income", "missing"))
    assert body["records"] == [RECORD | {"income": None}]
    expect(page.locator("#f-income")).to_be_disabled()
    expect(page.locator("#f-income")).to_have_value("")
    page.wait_for_selector("#verdict b")
    back = sent(page, lambda: (page.uncheck("#f-income-state-0"), page.fill("#f-income", "3000")))
    assert back["records"] == [RECORD]


@pytest.mark.release
def test_levels_may_be_missing_too(page: Page) -> None:
    body = sent(page, lambda: page.select_option("#f-housing", label="missing"))
    assert body["records"][0]["housing"] is None
    body = sent(page, lambda: page.select_option("#f-savings", label="missing"))
    assert body["records"][0]["savings"] is None
    reads(page, "#f-guarantor", "choose no yes")


@pytest.mark.slow
def test_a_code_is_a_state_with_a_name(page: Page) -> None:
    assert sent(page, lambda: tick(page, "debts", "no usable trades"))["records"][0]["debts"] == -8
    body = sent(page, lambda: tick(page, "debts", "no bureau record"))
    assert body["records"][0]["debts"] == -9
    expect(page.locator("#f-debts-state-1")).not_to_be_checked()


@pytest.mark.release
def test_who_types_a_code_means_its_state(page: Page) -> None:
    page.fill("#f-debts", "-9")
    page.press("#f-debts", "Tab")
    expect(page.locator("#f-debts-state-0")).to_be_checked()
    expect(page.locator("#f-debts")).to_have_value("")
    page.fill("#f-income", "-9")
    reads(page, "#f-income-hint", "Income must be at least 0 EUR.")


@pytest.mark.release
def test_an_empty_field_is_not_a_missing_value(page: Page) -> None:
    page.fill("#f-income", "")
    page.click("#ask")
    reads(page, "#f-income-hint", "Income needs a value.")
    page.wait_for_function("() => document.querySelector('#f-burden').innerText === ''")


@pytest.mark.slow
def test_derived_features_are_computed_and_not_sent(page: Page) -> None:
    reads(page, "#f-burden", "0.4")
    reads(page, "#f-burden-hint", "computed: Debt payments / Income")
    body = sent(page, lambda: page.fill("#f-debts", "600"))
    assert "burden" not in body["records"][0]
    page.wait_for_function("() => document.querySelector('#f-burden').innerText === '0.2'")
    sent(page, lambda: tick(page, "income", "missing"))
    page.wait_for_function("() => document.querySelector('#f-burden').innerText === 'missing'")


@pytest.mark.release
def test_the_form_says_what_is_never_advice(page: Page) -> None:
    reads(page, "#f-age-hint", "18 to 100 years · protected, never part of advice")
    reads(page, "#f-months_in_job-hint", "from 0 months · moves with time, never part of advice")
    reads(page, "#f-income-hint", "0 to 20,000 EUR · only up · advice: up to 9,000 EUR")
    for name in ("age", "months_in_job", "burden"):
        expect(page.locator(f"#limit-{name}")).to_have_count(0)


@pytest.mark.slow
def test_an_answer_says_what_follows_and_how_long_it_takes(page: Page) -> None:
    page.click("#limits summary")
    for name in ("amount", "savings", "guarantor", "housing", "debts"):
        page.locator(f'input[name="way-{name}"][value=none]').evaluate("(radio) => radio.click()")
    page.fill("#months", "4")
    with page.expect_response("**/recourse") as answered:
        page.click("#ask")
    assert json.loads(answered.value.request.post_data)["horizon_months"] == 4
    (way,) = answered.value.json()["counterfactuals"]
    page.wait_for_selector(".changes")
    reads(page, "#answer-body h3", "1 change to a yes")
    says(page, ".changes", "Takes about 3 months.")
    reads(page, ".path > p", "By itself: In 3 months the time in the job is 33 months.")
    reads(page, ".follows", f"Burden: from 0.4 to {way['applicant']['burden']:.4f}".rstrip("0"))
    says(page, "#answer-body", "It takes about 3 months.")


@pytest.mark.release
def test_more_time_can_be_allowed(page: Page) -> None:
    page.click("#limits summary")
    for name in ("amount", "savings", "guarantor", "housing", "debts"):
        page.locator(f'input[name="way-{name}"][value=none]').evaluate("(radio) => radio.click()")
    page.fill("#months", "1")
    page.click("#ask")
    page.wait_for_selector("#allow")
    says(page, "#answer-body", "Taking longer than 1 month would help most: an answer that takes")
    page.click("#allow")
    page.wait_for_selector(".changes")
    expect(page.locator("#months")).to_have_value("120")


@pytest.mark.release
def test_an_answer_to_a_person_without_numbers_has_words(page: Page) -> None:
    tick(page, "income", "missing")
    sent(page, lambda: tick(page, "debts", "no bureau record"))
    page.wait_for_selector("#verdict b")
    page.click("#ask")
    page.wait_for_selector("#answer-body h3")
    shown = text(page, "#answer-body").split("How this was computed")[0]
    for raw in ("null", "-9", "1e", "NaN", "undefined"):
        assert raw not in shown
