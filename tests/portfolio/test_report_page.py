"""The page of a report: its figures, escaping, plots to scale, and no script."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from app.portfolio.comparison_page import comparison_page
from app.portfolio.page_parts import EDGE, WIDTH, bars, points
from app.portfolio.report_page import page
from tests.portfolio.test_report import FIXED, reported
from tests.registry.loan import loan_records


@pytest.fixture(scope="module")
def found(loans: Path) -> dict[str, Any]:
    by = [{"feature": "age", "edges": [40]}]
    return reported(loans, loan_records(160, seed=5), groups={"by": by, "permutations": 99}, constraints=FIXED)[1]


def tables(text: str) -> dict[str, list[list[str]]]:
    """The cells of each table, by its caption."""
    root = ElementTree.fromstring("<r>" + "".join(re.findall("<table>.*?</table>", text)) + "</r>")
    return {
        str(table.findtext("caption")): [[cell.text or "" for cell in row] for row in table.iterfind("tbody/tr")]
        for table in root
    }


def test_the_tables_have_the_figures(found: dict[str, Any]) -> None:
    told, none = tables(page(found)), found["preclusion"]
    proven = none["proven"]["enumerated"] + none["proven"]["optimised"]
    assert [row[1] for row in told["Refused applicants"]] == [
        str(found["recourse"]["found"]), str(proven), str(none["open"]),
    ]  # fmt: skip
    names = [found["labels"][one["feature"]] for one in found["levers"]]
    assert [row[0] for row in told["Features that change"]] == names
    assert [int(row[2]) for row in told["Limits"]] == [one["blocks"] for one in found["limits"]]
    (table,) = found["groups"]
    assert [row[0] for row in told["Groups by age"]] == [row["group"] for row in table["rows"]]
    costs = [one for row in table["rows"] for one in row["harder"] if one["measure"] == "cost"]
    assert [row[6] for row in told["Groups by age"]] == [f"{one['value_at_equal_score']:.2f}" for one in costs]
    assert [row[7] for row in told["Groups by age"]] == [f"{one['p_at_equal_score']:.3g}" for one in costs]


def test_features_have_the_names_that_people_call_them(found: dict[str, Any]) -> None:
    labels = {name: f"What is called {name}" for name in found["labels"]}
    told = tables(page({**found, "labels": labels}))
    named = [row[0] for row in told["Features that change"]]
    assert all(name.startswith("What is called ") for name in named)
    assert "“What is called income”, must stay as it is" in [row[0] for row in told["Limits"]]
    assert "Groups by What is called age" in told


def test_it_is_one_small_file_that_fetches_and_runs_nothing(found: dict[str, Any]) -> None:
    text = page(found)
    assert len(text.encode()) <= 200_000
    assert not re.search("<script|<link|<img|url\\(|http|@import| on[a-z]+=", text)
    assert {"dark", "print"} <= set(re.findall(r"dark|print", text))
    assert text.count("<svg") == text.count('role="img" aria-label=')
    assert text == page(json.loads(json.dumps(found)))


def test_columns_have_names_and_labels_fit(found: dict[str, Any]) -> None:
    assert not re.search("<th[^>]*></th>", page(found))
    long = "Monthly payments on other debts, and on all those that nobody has asked about"
    label, _ = re.findall(r"<text[^>]*>([^<]*)<", bars("t", [(long, 1.0, "1")]))
    # On a phone a letter of the plots is 11 units wide at most, on average.
    assert label.startswith("Monthly payments on other debts, and")
    assert 11 * len(label) <= WIDTH


def test_names_are_text(found: dict[str, Any]) -> None:
    levers = [{"feature": "savings", "used": 0.5, "only": None}]
    text = page({**found, "levers": levers, "labels": {**found["labels"], "savings": "<b>&"}})
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text


def test_a_report_without_refused_people_has_a_page(found: dict[str, Any]) -> None:
    recourse = {"found": 0, "share": None, "interval": None, "cost": None, "changes": {}, "months": None}
    nobody = {**found, "recourse": recourse, "limits": None, "levers": [], "groups": [], "contestable": None}
    assert "What does it cost" not in page(nobody)


FIVE = (
    "How many are shut out, and by what?",
    "Which of our limits could give, and by how much?",
    "What could we tell most people?",
    "Is it harder for some, and is that more than their scores?",
    "May loan@2 replace loan@1?",
)
"""What a reader without the documents asks of the page."""


def compared(**more: Any) -> dict[str, Any]:
    """A comparison as its answer has it."""
    versions = {
        "baseline": {"id": "loan", "version": "1"},
        "candidate": {"id": "loan", "version": "2"},
        "records": {"scored": 100, "unscored": 0},
        "conditions": [],
        "warnings": [],
    }
    figures = {
        "decisions": {"yes_yes": 50, "yes_no": 7, "no_yes": 3, "no_no": 40},
        "recourse": {"gained": 1, "lost": 2, "p": 1.0},
        "cost": {"pairs": 38, "ratio": 1.25, "dearer": 0.75, "median_change": 0.5, "interval": [0.3, 0.7]},
        "precluded": {"proven": 1, "open": 0},
        "promises": {"given": 40, "broken": 8, "share": 0.2, "interval": [0.09, 0.35], "told": 0.05},
        "beyond_retraining": 0.02,
        "retrainings": 60,
    }
    return {**versions, "comparison": {**figures, **more}}


def test_a_page_answers_five_questions_under_headings_that_ask_them(found: dict[str, Any]) -> None:
    first = found["limits"][0]
    way = {"text": "Savings: much", "alone": 0.5, "reach": 0.5, "interval": [0.4, 0.6], "people": 80}
    way |= {"cost": 1.0, "future_validity": None}
    text = page({**found, "common_ways": [way]}, compared())
    answers = dict(re.findall("<h2>(.*?)</h2><p>(.*?)</p>", text))
    shut_out, limit, ways, harder, version = (answers[question] for question in FIVE)
    none = found["records"]["refused"] - found["recourse"]["found"]
    assert shut_out.startswith(f"{none} of {found['records']['refused']}")
    assert f"{first['blocks']} without it" in limit
    step = first["would_help"][0]
    assert f"{step['people']} with {step['by']:,.0f}" in limit
    assert "together reach 50%" in ways
    assert harder.startswith("Harder for:")
    assert version.startswith("No")
    assert "8 of 40" in version
    # In short, before everything else.
    refused = found["records"]["refused"]
    listed = re.findall("<li>(.*?)</li>", text.split("<h2>")[0])
    assert listed[0].startswith(f"Without a way to a yes under today’s limits: {none:,} of {refused:,} refused")
    assert listed[1].startswith("The limit that alone shuts out most: ")
    assert listed[1].endswith(f" ({first['blocks']:,}).")
    assert [one.partition(":")[0] for one in listed[2:4]] == [
        "Harder than scores explain for", "Reached by what could be told to all alike",
    ]  # fmt: skip
    assert listed[4].startswith("May loan@2 replace loan@1? No, ")


def test_a_comparison_says_which_conditions_fail() -> None:
    judged = {"text": "lost>1%", "measure": "lost", "value": 0.05, "interval": [0.03, 0.07], "limit": 0.01}
    fails = {**compared(), "conditions": [{**judged, "holds": False, "sure": True}]}
    assert "No: 1 of 1 conditions fail." in comparison_page(fails)
    assert "lost&gt;1%: share of those the baseline refuses" in comparison_page(fails)
    holds = {**compared(beyond_retraining=None), "conditions": [{**judged, "holds": True, "sure": True}]}
    assert "Yes: all conditions hold." in comparison_page(holds)
    assert ">No" not in comparison_page(compared(beyond_retraining=0.5))


def test_bars_and_points_are_to_scale() -> None:
    root = ElementTree.fromstring(bars("t", [("a", 4.0, "4"), ("b", 1.0, "1"), ("c", 0.0, "0")]))
    longest, quarter, none = (float(one.attrib["width"]) for one in root.iterfind("rect"))
    assert (quarter / longest, none) == (pytest.approx(0.25, abs=1e-3), 0.0)
    root = ElementTree.fromstring(points("t", [("a", 0.25, 0.5, 1.0, True)]))
    middle, interval = root.findall("line")
    (dot,) = root.iterfind("circle")
    assert dot.attrib["cx"] == middle.attrib["x1"]
    assert dot.attrib["class"] == "flag"
    assert float(interval.attrib["x2"]) == WIDTH - EDGE
    assert float(interval.attrib["x1"]) == EDGE + 0.25 * (WIDTH - 2 * EDGE)
