"""Conditions of `--fail-if`: how they are read, when they hold, and the exit code."""

import pytest

from app.errors import InvalidRequest
from app.portfolio.conditions import MEASURES, Condition, Judged, Measured, exit_code, sentence


@pytest.mark.parametrize(
    ("text", "measure", "fails", "limit"),
    [
        ("broken>5%", "broken", ">", 0.05),
        (" lost > 0.01 ", "lost", ">", 0.01),
        ("beyond-retraining<0.05", "beyond_retraining", "<", 0.05),
        ("beyond_retraining < .05", "beyond_retraining", "<", 0.05),
        ("cost>1.5", "cost", ">", 1.5),
    ],
)
def test_conditions_are_read(text: str, measure: str, fails: str, limit: float) -> None:
    found = Condition.parse(text)
    assert (found.measure, found.fails, found.limit) == (measure, fails, pytest.approx(limit))


@pytest.mark.parametrize(
    "text", ["", "broken", "broken>", "broken>=5%", "breach>5%", "broken>5%%", "broken>-1", "5%<broken"]
)
def test_anything_else_is_refused_with_the_measures(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Condition.parse(text, "/fail_if/0")
    (fault,) = refused.value.faults
    assert fault.pointer == "/fail_if/0"
    assert all(measure in fault.detail for measure in MEASURES)


@pytest.mark.parametrize(
    ("value", "interval", "holds", "sure"),
    [
        (0.02, (0.01, 0.04), True, True),
        (0.02, (0.01, 0.06), True, False),
        (0.07, (0.04, 0.09), False, False),
        (0.07, (0.06, 0.09), False, True),
        (0.05, (0.05, 0.05), True, False),
        (None, None, False, False),
        (0.02, None, True, True),
    ],
)
def test_the_point_decides_and_the_interval_says_whether_it_is_sure(
    value: float | None, interval: tuple[float, float] | None, holds: bool, sure: bool
) -> None:
    judged = Condition.parse("broken > 5%").judged({"broken": Measured(value=value, interval=interval)})
    assert (judged.holds, judged.sure) == (holds, sure)
    assert sentence(judged).startswith("ok" if holds else "FAIL")


@pytest.mark.parametrize(
    ("judged", "sure", "code"),
    [
        ([], False, 0),
        ([(True, True), (True, False)], False, 0),
        ([(True, True), (False, False)], False, 1),
        ([(True, True), (False, True)], True, 1),
        ([(True, True), (True, True)], True, 0),
        ([(True, False)], True, 3),
        ([(False, False)], True, 3),
        ([(False, False), (False, True)], True, 1),
    ],
)
def test_exit_codes(judged: list[tuple[bool, bool]], sure: bool, code: int) -> None:
    same = {"text": "lost>0", "measure": "lost", "value": 0.5, "interval": None, "limit": 0.0}
    assert exit_code([Judged(**same, holds=holds, sure=certain) for holds, certain in judged], sure=sure) == code
