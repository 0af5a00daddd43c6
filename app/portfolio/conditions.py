"""Conditions on a comparison, such as ``broken>5%``: what a release must not do."""

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

from app.errors import Fault, InvalidRequest
from app.portfolio.shares import Interval, inside
from app.recourse.answer_part import EXACT, AnswerPart

MEASURES = {
    "broken": "share of the baseline's answers that the candidate refuses",
    "lost": "share of those the baseline refuses who have recourse before and none after",
    "gained": "share of those the baseline refuses who have none before and recourse or a yes after",
    "refused": "share of all records that the baseline accepts and the candidate refuses",
    "cost": "median cost of the candidate's answers over that of the baseline's, same people",
    "precluded": "share of those the candidate refuses for whom it is proven that no legal change is accepted",
    "beyond_retraining": "probability that a mere retraining of the baseline breaks at least as many answers",
}
"""What a condition may be about."""

_FORM = re.compile(r"\s*([a-z]+(?:[_-][a-z]+)?)\s*([<>])\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%?)\s*", re.ASCII)

_HOW = {"<": operator.lt, ">": operator.gt}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The value of one measure of a comparison, with its interval."""

    value: float | None
    """None where there is nothing to measure."""
    interval: Interval | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(AnswerPart):
    """A condition of `fail_if`, and whether the candidate passes it."""

    text: str
    """As the request has it."""
    measure: str
    """What it is about."""
    value: float | None
    """Null where there is nothing to measure; then the condition does not hold."""
    interval: tuple[float, float] | None
    """95 %; null of `beyond_retraining`, which is a probability itself."""
    limit: float = field(metadata=EXACT)
    """The number in the text, as a share where it is in percent."""
    holds: bool
    """Whether the candidate passes: the value is on the good side of the limit."""
    sure: bool
    """Whether the whole interval is on one side of the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition of `fail_if`, such as ``broken>5%``: the candidate fails if the measure is beyond the limit."""

    text: str
    measure: str
    fails: Literal["<", ">"]
    limit: float

    @classmethod
    def parse(cls, text: str, pointer: str = "") -> Self:
        """Read a condition from a text such as ``broken>5%``.

        Raises `InvalidRequest` with a fault at `pointer`.
        """
        found = _FORM.fullmatch(text)
        measure = "" if found is None else found[1].replace("-", "_")
        if found is None or measure not in MEASURES:
            known = ", ".join(MEASURES)
            detail = f"must be a measure, < or >, and a number, such as broken > 5%; measures are {known}"
            raise InvalidRequest(faults=[Fault(pointer, detail)])
        limit = float(found[3]) / (100.0 if found[4] else 1.0)
        return cls(text=text.strip(), measure=measure, fails="<" if found[2] == "<" else ">", limit=limit)

    def judged(self, measures: Mapping[str, Measured]) -> Judged:
        """The condition with its measured value, and whether it holds; it does not hold where nothing was measured."""
        found = measures[self.measure]
        value, interval = found.value, found.interval
        return Judged(
            text=self.text,
            measure=self.measure,
            value=value,
            interval=interval,
            limit=self.limit,
            holds=value is not None and not _HOW[self.fails](value, self.limit),
            sure=value is not None and (interval is None or not inside(self.limit, interval)),
        )


def sentence(judged: Judged) -> str:
    """A sentence about a judged condition: whether it holds, its value, the distance to the limit, the interval."""
    if judged.value is None:
        return f"FAIL  {judged.text}: there is nothing to measure {judged.measure} on."
    word = "ok  " if judged.holds else "FAIL"
    by = f"{abs(judged.value - judged.limit):.4g} {'above' if judged.value > judged.limit else 'below'} the limit"
    interval = "" if judged.interval is None else f", 95 % {judged.interval[0]:.4g} to {judged.interval[1]:.4g}"
    open_ = "" if judged.sure else "; the interval contains the limit"
    return f"{word}  {judged.text}: {judged.measure} is {judged.value:.4g}, {by}{interval}{open_}."


PASSES, FAILS, OPEN = 0, 1, 3


def exit_code(judged: Sequence[Judged], *, sure: bool) -> int:
    """The exit code of the command: 0 if all conditions hold, 1 if some do not, 3 if some are not sure.

    Without `sure`, only the values decide, and 3 does not occur. With `sure`, the code is 1 if the whole interval of
    some condition is beyond its limit; else 3 if some interval contains its limit; else 0.
    """
    if any(not one.holds and (one.sure or not sure) for one in judged):
        return FAILS
    return OPEN if sure and not all(one.sure for one in judged) else PASSES
