"""Several ways on the workbench: side by side, with what the person rules out and what they will do anyway."""

import math
import re
from typing import Any

import httpx
import pytest

from app.questions.offers_schema import REGULAR
from tests.browser import Open, Page, ask, expect, fill_in, reads, says, text, violations
from tests.conftest import Running

pytestmark = pytest.mark.release
"""The main path through the page is in `test_workbench.py`."""

TWO_WAYS, THREE_WAYS = 2, 5
"""Examples of the demo: applicants with so many ways."""


def example(open_page: Open, number: int = TWO_WAYS, **options: Any) -> tuple[Page, dict[str, Any]]:
    """The page with the answer for one of the example applicants, and that answer."""
    page = open_page(**options)
    page.wait_for_selector("#example:enabled")
    for _ in range(number - 1):
        page.click("#example")
    with page.expect_response("**/recourse") as answered:
        ask(page)
    return page, asked(answered)


def asked(answered: Any) -> dict[str, Any]:
    """The answer to a request, with its body."""
    answer: dict[str, Any] = answered.value.json()
    return answer | {"body": answered.value.request.post_data_json}


def press(page: Page, words: str, nth: int = 0) -> dict[str, Any]:
    """Press one of the buttons of a change, and wait until its answer is shown."""
    with page.expect_response("**/recourse") as answered:
        page.get_by_role("button", name=words).nth(nth).click()
    page.wait_for_selector("#answer[aria-busy=false]")
    return asked(answered)


def first_change(way: dict[str, Any]) -> dict[str, Any]:
    """The change that a card shows first."""
    feature = way["steps"][0]["feature"] if way["steps"] else way["changes"][0]["feature"]
    (change,) = (one for one in way["changes"] if one["feature"] == feature)
    return dict(change)


def names(way: dict[str, Any]) -> list[str]:
    return [change["feature"] for change in way["changes"]]


def test_ways_stand_side_by_side_and_say_what_differs(workbench: Open) -> None:
    page, answer = example(workbench, THREE_WAYS, bypass_csp=True, reduced_motion="reduce")
    ways = answer["counterfactuals"]
    assert answer["body"]["count"] == len(ways) == page.locator(".card").count() == 3
    reads(page, "#answer-body h3", "3 ways to a yes")
    boxes = [card.bounding_box() for card in page.locator(".card").all()]
    assert len({box["y"] for box in boxes}) == 1
    assert [box["x"] for box in boxes] == sorted({box["x"] for box in boxes})
    costs = [way["cost"]["total"] for way in ways]
    assert costs == sorted(costs)
    least, *times = (text(page, f".card:nth-child({i}) .effort") for i in (1, 2, 3))
    assert least == "least effort"
    times = [one.replace("same effort", "1 × the effort") for one in times]
    assert [float(one.removesuffix(" × the effort")) for one in times] == pytest.approx(
        [cost / costs[0] for cost in costs[1:]], rel=0.05
    )
    # Each names what only it changes, and what only the first does.
    first, *others = map(names, ways)
    for i, other in enumerate(others, start=2):
        apart = [text(page, f"label[for=f-{name}]") for name in set(other) ^ set(first)]
        said = text(page, f".card:nth-child({i}) .apart")
        assert said.startswith(f"{len(other)} changes. Unlike way 1: ")
        assert set(re.findall("“(.+?)”", said)) == set(apart)
    for i, way in enumerate(ways, start=1):
        card = f".card:nth-child({i})"
        shown = text(page, card)
        future = way["validity"]["future"]
        assert future["promise"] in shown
        assert f"at least {math.floor(100 * future['interval'][0])} in 100 retrained models" in future["promise"]
        assert "Worst-case" not in shown, "the bounds are folded"
        # The path begins with the applicant, has each change with the decision after it, and ends at the way itself.
        assert f"Now {round(100 * answer['factual']['probability'])} in 100" in shown
        legs = [" ".join(leg.inner_text().split()) for leg in page.locator(f"{card} .path li .after").all()]
        decisions = way["steps"] or [way["validity"]["current"]]
        assert legs == [
            f"Then {round(100 * one['probability'])} in 100, {('no', 'yes')[one['favourable']]}" for one in decisions
        ]
        assert decisions[-1]["favourable"]
        expect(page.locator(f"{card} .path .rail")).to_have_count(1 + len(decisions))
    page.click(".card:nth-child(1) .specialists summary")
    page.wait_for_selector(".card:nth-child(1) .specialists .way")
    says(page, ".card:nth-child(1)", "Worst-case bound under shift")
    assert violations(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    boxes = [card.bounding_box() for card in page.locator(".card").all()]
    assert len({box["x"] for box in boxes}) == 1
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390


def test_wishes_stand_in_one_row_beside_a_form_that_does_not_scroll(workbench: Open) -> None:
    page = workbench()
    ask(page)
    assert page.evaluate("() => getComputedStyle(document.querySelector('.forms')).overflowY") == "visible"
    page.wait_for_selector(".wish-row button")
    tops = page.evaluate(
        "() => [...document.querySelectorAll('.wish-row')].map((row) => [...row.children].map((one) => one.offsetTop))"
    )
    assert max(map(len, tops)) == 3
    assert [row for row in tops if len(set(row)) > 1] == []


def test_on_a_phone_the_answer_comes_before_the_form_once_it_is_there(workbench: Open) -> None:
    page = workbench()
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_selector("#example:enabled")

    def above() -> bool:
        answer, form = (page.locator(one).bounding_box() for one in ("#answer", "#fields"))
        return bool(answer["y"] < form["y"])

    assert not above()
    ask(page)
    assert above()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_keyboard_goes_the_way_the_eye_does(workbench: Open, width: int) -> None:
    page = workbench(reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 844})
    page.wait_for_selector("#example:enabled")

    def blocks() -> list[str]:
        """The parts of the view in the order of the tab key; each is below the one before, or to the right of it."""
        order: list[str] = page.evaluate(
            """() => {
                const parts = [...document.querySelectorAll("header, .intro, .forms, #decision, .outputs, footer")];
                const shown = parts.filter((part) => part.clientHeight);
                // Where a part would stand that sticks to an edge of the window.
                const sticky = [...document.querySelectorAll(".pinned, #decision")];
                for (const part of sticky) part.style.position = "static";
                const boxes = shown.map((part) => part.getBoundingClientRect());
                for (const part of sticky) part.style.position = "";
                const name = (part) => part.id || part.className || part.localName;
                return shown.map((part, i) =>
                    i && boxes[i].top < boxes[i - 1].bottom - 1 && boxes[i].left < boxes[i - 1].right - 1
                        ? `${name(part)} stands before ${name(shown[i - 1])}` : name(part));
            }"""
        )
        expect(page.locator("[tabindex]:not([tabindex='0'], [tabindex='-1'])")).to_have_count(0)
        return order

    first = ["decision", "forms"] if width == 1280 else ["forms", "decision"]
    assert blocks() == ["header", "intro", *first, "outputs", "footer"]
    ask(page)
    first = ["decision", "forms", "outputs"] if width == 1280 else ["outputs", "forms", "decision"]
    assert blocks() == ["header", "intro", *first, "footer"]
    # By keys alone: from the title to the example, to the answer, and to a wish.
    page.reload()
    page.wait_for_selector("#example:enabled")
    stops = ["example", "ask"] if width == 390 else ["ask", "example"]
    page.focus("#title-one")
    seen: list[str] = []
    while not seen or seen[-1] != stops[-1]:
        page.keyboard.press("Tab")
        seen.append(page.evaluate("() => document.activeElement.id"))
    assert [stop for stop in seen if stop in stops] == stops
    page.focus("#example")
    page.keyboard.press("Enter")
    page.wait_for_selector("#verdict b")
    page.focus("#ask")
    page.keyboard.press("Enter")
    page.wait_for_selector("#answer-body h3")
    assert page.evaluate("() => document.activeElement.id") == "answer"
    page.keyboard.press("Tab")
    while page.evaluate("() => document.activeElement.closest('#answer') && !document.activeElement.matches('.wish')"):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("#wishes .chip")


def test_what_the_person_cannot_do_is_ruled_out_until_it_is_taken_back(workbench: Open) -> None:
    page, first = example(workbench, bypass_csp=True, reduced_motion="reduce")
    change = first_change(first["counterfactuals"][0])
    assert change["delta"] < 0
    second = press(page, "Can’t do this")
    (this,) = second["body"]["exclude"]["changes"]
    assert this["feature"] == change["feature"]
    # Who cannot go so far cannot go nearly so far: values nearer to it than to the person's own are ruled out as well.
    middle = (change["from"] + change["to"]) / 2
    assert change["to"] < this["to"] < middle
    for way in second["counterfactuals"]:
        assert way["applicant"][change["feature"]] >= 0.99 * middle
    # A number that is too far can be corrected.
    with page.expect_response("**/recourse") as answered:
        page.fill(".chip input", "700")
        page.press(".chip input", "Tab")
    assert asked(answered)["body"]["exclude"]["changes"] == [this | {"to": 700}]
    page.wait_for_selector("#answer[aria-busy=false]")
    third = press(page, "Leave it as it is")
    barred = third["body"]["exclude"]["features"]
    assert len(barred) == 1
    assert not any(set(barred) & set(names(way)) for way in third["counterfactuals"])
    pinned = first_change(third["counterfactuals"][0])
    fourth = press(page, "Will do it")
    assert fourth["body"]["must_include"] == [{"feature": pinned["feature"], "to": pinned["to"]}]
    assert all(way["applicant"][pinned["feature"]] == pinned["to"] for way in fourth["counterfactuals"])
    # The latest wish about a feature takes the place of those before it.
    count = len({change["feature"], *barred, pinned["feature"]})
    expect(page.locator(".chip")).to_have_count(count)
    assert violations(page) == []
    for left in reversed(range(count)):
        last = press(page, "Remove: ")
        expect(page.locator(".chip")).to_have_count(left)
    assert "exclude" not in last["body"]
    assert last["counterfactuals"] == first["counterfactuals"]


def test_when_nothing_is_left_the_reason_and_the_chips_are_shown(workbench: Open) -> None:
    page, answer = example(workbench)
    while answer["status"] == "found":
        far = page.get_by_role("button", name="Leave it as it is").count() > 0
        answer = press(page, "Leave it as it is" if far else "Can’t do this")
    reads(page, "#answer-body h3", "No way to a yes was found")
    expect(page.locator("#store"), "whoever has no way gets a letter too").to_have_count(1)
    says(page, "#answer-body", "is ruled out, or some of its changes are")
    chips = page.locator(".chip").count()
    assert chips > 0
    back = press(page, "Remove this limit and ask again")
    assert back["status"] == "found"
    expect(page.locator(".chip")).to_have_count(chips - 1)


def test_the_wishes_of_one_person_are_not_those_of_the_next(workbench: Open) -> None:
    page, _ = example(workbench)
    press(page, "Can’t do this")
    ages = {page.input_value("#f-age")}
    page.click("#example")
    expect(page.locator(".chip")).to_have_count(0)
    for _ in range(4):
        ages.add(page.input_value("#f-age") + page.input_value("#f-amount"))
        page.click("#example")
    assert len(ages) == 5


def test_a_wish_that_no_longer_fits_is_named_as_on_the_page(workbench: Open, demo: Running) -> None:
    page, first = example(workbench)
    features = httpx.get(f"{demo.url}/models/consumer-loan/schema").json()["features"]
    change = first_change(first["counterfactuals"][0])
    (feature,) = (one for one in features if one["name"] == change["feature"])
    asked: list[str] = []
    press(page, "Can’t do this")
    page.on("request", lambda request: asked.append(request.url))
    for value in (feature["min"] - 1, feature["max"] + 1):
        page.fill(".chip input", str(value))
        page.press(".chip input", "Tab")
        reads(page, ".chip .fault", f"Type a number from {feature['min']:,.0f} to {feature['max']:,.0f}.")
    assert asked == []
    page.fill(".chip input", "")
    page.press(".chip input", "Tab")
    expect(page.locator(".chip .fault")).to_have_count(0)
    press(page, "Remove: ")
    pinned = press(page, "Will do it")["body"]["must_include"][0]
    assert pinned["feature"] == feature["name"]
    page.fill(f"#f-{feature['name']}", str(pinned["to"]))
    # A refusal of 422 would be in the console.
    page.route("**/recourse", lambda route: route.fulfill(status=403, body=route.fetch().body()))
    page.click("#ask")
    page.wait_for_selector("#answer-body .bad")
    said = text(page, "#answer-body .bad li")
    assert said == f"“{feature['label']}” is the applicant's own value, so nothing changes"


@pytest.mark.parametrize(
    ("pointer", "before", "rest"),
    [
        ("/must_include/0/to", "cannot be proposed of ", "here; possible: 0 to 4"),
        ("/must_include/0", "", "cannot change for this applicant: it is fixed"),
    ],
)
def test_what_the_service_says_of_a_wish_has_the_label(workbench: Open, pointer: str, before: str, rest: str) -> None:
    page, _ = example(workbench)
    name = press(page, "Will do it")["body"]["must_include"][0]["feature"]
    errors = [{"pointer": pointer, "detail": f'{before}"{name}" {rest}'}]
    # A refusal of 422 would be in the console.
    problem = {"title": "Invalid", "detail": "It is wrong.", "errors": errors}
    page.route("**/recourse", lambda route: route.fulfill(status=403, json=problem))
    page.click("#ask")
    label = page.locator(f"label[for=f-{name}]").inner_text()
    reads(page, "#answer-body .bad li", f"“{label}” {before.removesuffix('of ')}{rest}")


def test_how_far_a_number_moves_is_typed(workbench: Open) -> None:
    page, first = example(workbench)
    page.click("#limits summary")
    says(page, "#limit-monthly_income", "moves by at most 20% of its value")
    page.fill("#typed-min-card_utilisation", "10")
    page.fill("#least-amount", "1000")
    with page.expect_response(lambda response: "max_change" in (response.request.post_data or "")) as answered:
        page.fill("#largest-monthly_debt", "50")
        page.click("#ask")
    page.wait_for_selector("#answer[aria-busy=false]")
    found = press(page, "Show the ways to a yes")
    limits = found["body"]["constraints"]
    assert limits["bounds"] == {"card_utilisation": {"min": 10}}
    assert limits["max_change"] == {"monthly_debt": {"relative": 0.5}}
    assert limits["least_change"] == {"amount": 1000}
    before = first["body"]["applicant"]
    for way in found["counterfactuals"]:
        assert way["applicant"]["monthly_debt"] >= before["monthly_debt"] / 2 - 1
        assert way["applicant"]["card_utilisation"] >= 10
        moved = abs(way["applicant"]["amount"] - before["amount"])
        assert moved == 0 or moved >= 1000
    assert answered.value.ok


def test_the_share_asked_for_and_the_ways_are_typed(workbench: Open) -> None:
    page, _ = example(workbench)
    with page.expect_response("**/recourse") as answered:
        page.fill("#slider-value", "77")
        page.press("#slider-value", "Tab")
    assert asked(answered)["body"]["robustness"] == {"future_validity": 0.77}
    with page.expect_response("**/recourse") as answered:
        page.fill("#count", "4")
    assert asked(answered)["body"]["count"] == 4


def test_wrong_numbers_are_explained_at_their_fields_and_not_sent(workbench: Open) -> None:
    page, _ = example(workbench)
    page.click("#limits summary")
    wrong = {
        "#count": ("9", "Type a number from 1 to 4."),
        "#slider-value": ("777", "Type a number from 1 to 100."),
        "#months": ("0", "Type a number from 0.1 to 1,200."),
        "#most": ("1.5", "Type a whole number."),
        "#typed-max-monthly_income": ("20000", "Type a number from 500 to 15,000."),
        "#largest-monthly_debt": ("-1", "Type a number that is at least 0."),
    }
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for field, (value, said) in wrong.items():
        page.fill(field, value)
        place = page.locator(field).locator("xpath=ancestor::*[self::label or contains(@class, 'field')][1]")
        assert place.locator(".fault").inner_text() == said
        assert page.get_attribute(field, "aria-invalid") == "true"
    page.click("#ask")
    assert page.evaluate("() => document.activeElement.getAttribute('aria-invalid')") == "true"
    assert asked == []
    page.fill("#count", "")
    assert page.locator(".field:has(#count) .fault").inner_text() == "Type a number from 1 to 4."
    for field in wrong:
        page.fill(field, "3" if field in ("#count", "#slider-value") else "")
    expect(page.locator(".fault")).to_have_count(0)


def test_a_stored_answer_brings_its_applicant_back(workbench: Open) -> None:
    page, first = example(workbench, THREE_WAYS, bypass_csp=True, reduced_motion="reduce")
    page.fill("#store-as", "brought back")
    page.click("#store button")
    page.get_by_text("You can find it under").wait_for()
    page.click("#example")
    assert page.input_value("#f-amount") != str(first["body"]["applicant"]["amount"])
    page.click(".tabs >> text=Cases")
    page.fill("#reference", "brought back")
    with page.expect_response("**/recourse?*reference=*"):
        page.click("#find button")
    page.locator("#found tbody").get_by_text("brought back").first.click()
    page.get_by_text("The data of this applicant are now in the form under One applicant.").wait_for()
    expect(page.locator("#f-amount")).to_have_value(str(first["body"]["applicant"]["amount"]))
    expect(page.locator("#case .card")).to_have_count(3)
    assert violations(page) == []


def test_terms_that_are_accepted_are_shown_with_all_others(workbench: Open) -> None:
    page = workbench(bypass_csp=True, reduced_motion="reduce")
    page.wait_for_selector("#example:enabled")
    fill_in(page)
    for name, value in REGULAR.items():
        if isinstance(value, bool | str):
            page.select_option(f"#f-{name}", label={False: "no", True: "yes"}.get(value, value))
        else:
            page.fill(f"#f-{name}", str(value))
    with page.expect_response("**/recourse") as answered:
        page.click("#ask")
    page.wait_for_selector("#answer-body h3")
    offer = asked(answered)["offer"]
    says(page, "#offer", offer["text"])
    with page.expect_response("**/recourse/offers") as answered:
        page.click("#offers")
    page.wait_for_selector("#offer tbody tr")
    every = asked(answered)
    as_asked = [one for one in every["offers"] if one["terms"]["term"] == REGULAR["term"]]
    assert as_asked[0]["terms"] == offer["terms"]
    rows = [row.inner_text().split("\t") for row in page.locator("#offer tbody tr").all()]
    for row, one in zip(rows, every["offers"], strict=True):
        assert row[0] == f"{one['terms']['amount']:,} EUR"
        assert row[1] == f"{one['terms']['term']} months"
        # The same number as in the service's own sentence.
        said = re.search(r"(at least|at most|no more than) \d+(?= in 100)", one["future"]["promise"])
        assert row[2] == (said[0].replace("no more than", "at least") if said else "not known")
    assert violations(page) == []
