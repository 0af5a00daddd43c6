"""The sentence of a promise, in every language, and that nothing else tells a share of models."""

import re
from pathlib import Path
from typing import Any

import pytest

from app.letters.regime import Templates
from app.recourse.promise import ENGLISH, PromisePhrases, promise_text, ways_text

ROOT = Path(__file__).parents[2]
LANGUAGES = {"page": ENGLISH} | {
    tag: language.promise for tag, language in Templates.read("general", None, "en").languages.items()
}
SHARE = re.compile(r"(in|of|von) 100\b[^.`;]*\b(models?|Modell\w*)\b[^.`;]*\b(accept|say|do|nehmen)\b[^.]*")
HOLDS = "If, bit by bit,"
OTHERS = "most such models still accept this; other changes may break it."
CONDITION = re.compile(r"\b(if|wenn|whether)\b", re.IGNORECASE)


def future(low: float = 0.8438, high: float = 0.99, **changes: Any) -> dict[str, Any]:
    known = {"records": "fresh", "source": "retrained", "models": 60}
    return {"probability": 56 / 60, "interval": [low, high], **known, **changes}


def stressed(limit: float | None, column: str = "@score", direction: str = "down") -> dict[str, Any]:
    curve = [{"strength": s, "share": 0.9} for s in (0.0, 0.25, 0.5, 1.0)]
    return {
        "holds_up_to": limit, "column": column, "direction": direction, "curve": curve, "lowest": 0.916667,
        "models": 12,
    }  # fmt: skip


def test_the_lower_end_is_said_with_its_condition() -> None:
    assert promise_text(future()) == "If applicants stay as they are, at least 84 in 100 retrained models accept this."
    same = promise_text(future(records="same", source="stand_in"))
    assert same == (
        "If the model is trained again on the same records, at least 84 in 100 stand-in models accept this."
    )
    # Read from JSON, 0.57 is 56.99999999999999 hundredths.
    assert "at least 57 in" in promise_text(future(low=0.57))
    assert "at least 99 in" in promise_text(future(low=0.9999))


def test_where_nothing_can_be_promised_no_share_is() -> None:
    assert promise_text(future(low=0.0, high=0.0596)) == (
        "Even if applicants stay as they are, most retrained models refuse this: at most 6 in 100 accept it."
    )
    assert promise_text(future(low=0.011, high=0.3)) == (
        "Even if applicants stay as they are, most retrained models refuse this: at most 30 in 100 accept it."
    )
    assert promise_text(future(low=0.098, high=0.702, stressed=stressed(None))) == (
        "Even if applicants stay as they are, count on no more than 9 in 100 retrained models to accept this."
    )
    assert promise_text(future(low=0.098, high=0.702) | {"probability": 0.4}) == (
        "Even if applicants stay as they are, do not count on retrained models to accept this."
    )
    assert promise_text(future(low=0.004, high=0.9)) == (
        "Even if applicants stay as they are, how many retrained models accept this is not known."
    )


@pytest.mark.parametrize(
    ("column", "limit", "said"),
    [
        ("@score", 1.0, f"{HOLDS} applicants get as weak as the weaker half of yours, {OTHERS}"),
        ("@score", 0.5, "If applicants get weaker, it may hold only up to a point."),
        ("@score", None, "If applicants get weaker, it may not hold."),
        ("@label", 1.0, f"{HOLDS} the odds of a good outcome halve, {OTHERS}"),
        ("@answers", None, "If people who follow such advice fail, it may not hold."),
        ("income", 1.0, f"{HOLDS} applicants get like the half of yours with the lowest income, {OTHERS}"),
        ("income", None, "If low values of income get more frequent, it may not hold."),
    ],
)
def test_how_far_it_holds_is_said_and_not_how_likely_that_is(column: str, limit: float | None, said: str) -> None:
    assert promise_text(future(stressed=stressed(limit, column))).endswith(f"accept this. {said}")


def test_a_stress_of_an_earlier_release_is_not_read_as_more() -> None:
    old = {"column": "age", "direction": "down", "probability": 0.7, "interval": [0.56, 0.9], "models": 60}
    assert promise_text(future(stressed=old, corrected=None)) == promise_text(future())


def test_what_later_versions_kept_takes_the_place_of_the_rehearsal() -> None:
    said = promise_text(future(measured={"share": 0.817, "promises": 300, "retrainings": 3}, stressed=stressed(1.0)))
    assert "the next model accepted 81 in 100" in said
    assert "84" not in said
    assert "weak" not in said


def test_what_earlier_dates_kept_is_said_and_first_where_it_is_less() -> None:
    before = {"share": 0.617, "interval": [0.4, 0.8], "promises": 120, "months": 12}
    less = promise_text(future(kept_before=before))
    assert less.startswith("Of 120 answers like this one that could have been given earlier, 61 in 100 still held 12")
    assert "months later. If applicants stay as they are, at least 84 in 100" in less
    more = promise_text(future(kept_before={**before, "share": 0.9}))
    assert more.startswith("If applicants stay")
    assert more.endswith("90 in 100 still held 12 months later.")


def test_one_of_several_ways_comes_first() -> None:
    together = {"any_interval": [0.921, 1.0], "all_interval": [0.6, 0.8], "records": "fresh", "source": "retrained"}
    assert ways_text(together, 3) == (
        "If applicants stay as they are, at least 92 in 100 retrained models accept at least one of these 3 ways, and "
        "at least 60 accept all of them."
    )


def test_a_plan_of_one_way_is_promised_as_a_record() -> None:
    alone = future() | {"any": 1.0, "any_interval": [0.841, 1.0], "all_interval": [0.841, 1.0]}
    assert ways_text(alone, 1) == "If applicants stay as they are, at least 84 in 100 retrained models accept this."


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("low", "probability"), [(0.62, 0.87), (0.3, 0.87), (0.1, 0.47)])
def test_a_lowered_promise_counts_no_models(language: str, low: float, probability: float) -> None:
    """No number of 60 models is such a share."""
    lowered, counted = (
        promise_text(future(low=low) | {"probability": share}, LANGUAGES[language])
        for share in (probability, round(60 * probability) / 60)
    )
    assert "60" not in lowered
    assert low > 0.5 or lowered == counted, "nor is more promised of fewer than half because the share was lowered"
    assert ("60" in counted) == (low == 0.62 and language != "page"), "what promises too little counts none"


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("limit", [None, 0.5, 1.0])
def test_of_models_under_stress_no_number_is_said(language: str, limit: float | None) -> None:
    """They are of all strengths together."""
    phrases = LANGUAGES[language]
    said = promise_text(future(stressed=stressed(limit)), phrases).removeprefix(promise_text(future(), phrases))
    assert said
    assert not re.search(r"\d", said)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_language_says_a_share_without_a_condition(language: str) -> None:
    phrases: PromisePhrases = LANGUAGES[language]
    for name in ("stay", "same", "at_most", "measured", "ways", "ways_same"):
        sentence = getattr(phrases, name)
        assert CONDITION.search(sentence), sentence
        assert "100" in sentence
    for change in (future(), future(records="same"), future(low=0.0), future(stressed=stressed(0.5))):
        assert not re.search(r"[{}]", promise_text(change, phrases))


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", *sorted((ROOT / "app/letters/templates").glob("*.txt")),
     *sorted((ROOT / "app/api/static/workbench").glob("*.js")), *sorted((ROOT / "app/cli").glob("*.py"))],
    ids=lambda path: path.name,
)  # fmt: skip
def test_nothing_else_writes_how_many_models_accept(path: Path) -> None:
    """A sentence about a share of models outside the one function has the condition beside it."""
    flat = " ".join(path.read_text(encoding="utf-8").split())
    for found in SHARE.finditer(flat):
        around = flat[max(0, flat.rfind(". ", 0, found.start())) : found.end()]
        assert CONDITION.search(around), around
