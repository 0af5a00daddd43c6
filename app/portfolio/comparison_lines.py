"""A line of a comparison for each record: decisions and answers of both versions."""

from dataclasses import dataclass

import numpy as np

from app.errors import RecourseError
from app.futures.store import load_futures
from app.ledger.audits import fitting_row
from app.models import tasks
from app.portfolio.answered import (
    NO,
    YES,
    Answered,
    Asked,
    Row,
    accepts,
    answers,
    decide,
    row_raw_of,
    without_errors,
)
from app.questions.answers import Json
from app.questions.question import Question
from app.recourse.answer_part import AnswerPart
from app.registry.ref import ModelRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(AnswerPart):
    """One line of a comparison: a record's decisions and answers by both versions."""

    reference: str | None
    baseline: str
    """Its decision on the record, `accepted` or `refused`."""
    candidate: str
    before: Answered | None
    """The baseline's answer; null where it accepts the record."""
    after: Answered | None
    """The candidate's answer to a person whom both refuse."""
    kept: bool | None
    """Whether the candidate accepts what the baseline's answer advises; null without an answer."""
    promised: float | None
    """What the baseline's answer promises: the share of future models."""
    broken_by: tuple[int, ...]
    """Held-back future models of the baseline that refuse its answer."""
    diagnostics: Json
    """Calls of both models, and records in them."""


@dataclass
class _Person:
    """One record while its line is made."""

    row: Json
    own: Row
    """The raw row in the baseline's schema."""
    other: Row
    """And in the candidate's."""
    yes: tuple[bool, bool] = (False, False)
    before: Asked | None = None
    after: Asked | None = None


def lines(baseline: ModelRef, candidate: ModelRef, payload: Json) -> "list[Line | RecourseError]":
    """For each row of a comparison's payload, in order, the line with both versions' answers, or an error."""
    a, b = tasks.load(baseline), tasks.load(candidate)
    common = Question.from_json(payload["question"])
    result: dict[int, Line | RecourseError] = {}
    people: dict[int, _Person] = {}
    for i, row in enumerate(payload["rows"]):
        try:
            own = row_raw_of(a, row)
            other = b.black_box.space.read(row.get("applicant") or a.black_box.space.record(own), pointer="/applicant")
            people[i] = _Person(row=row, own=own, other=other)
        except RecourseError as error:
            result[i] = error
    mine = without_errors(decide(a.black_box, {i: one.own for i, one in people.items()}), result)
    theirs = without_errors(decide(b.black_box, {i: one.other for i, one in people.items()}), result)
    for i in mine.keys() & theirs.keys():
        people[i].yes = accepts(a.black_box, mine[i]), accepts(b.black_box, theirs[i])
    refused = {i: one for i, one in people.items() if i not in result and not one.yes[0]}
    before = answers(baseline, common, payload, {i: one.own for i, one in refused.items()})
    for i, found in without_errors(before, result).items():
        people[i].before = found
    both = {i: one for i, one in refused.items() if i not in result and not one.yes[1]}
    after = answers(candidate, common, payload, {i: one.other for i, one in both.items()})
    for i, found in without_errors(after, result).items():
        people[i].after = found
    for i, one in people.items():
        if i not in result:
            result[i] = _line(one, baseline, candidate)
    return [result[i] for i in range(len(payload["rows"]))]


def _line(one: _Person, baseline: ModelRef, candidate: ModelRef) -> Line:
    a, b = tasks.load(baseline).black_box, tasks.load(candidate).black_box
    kept: bool | None = None
    promised: float | None = None
    broken_by: tuple[int, ...] = ()
    asked = [found for found in (one.before, one.after) if found is not None]
    calls, rows = 2 + sum(found.calls for found in asked), 2 + sum(found.rows for found in asked)
    if one.before is not None and (row_raw := one.before.row_raw) is not None:
        fits = fitting_row(b.space, a.space.record(row_raw))
        kept = fits is not None and bool(b.accepts(b.score_raw(fits[None]))[0])
        calls, rows = calls + 1, rows + 1
        futures = load_futures(tasks.load(baseline).registered)
        if futures is not None:
            found = one.before.found.counterfactuals
            # No promise is made about a record that only the proof has found.
            promised = found[0].future.promised if found and found[0].future is not None else None
            yes = futures.held_back.scores_raw(row_raw[None])[0] >= 0.0
            broken_by = tuple(np.flatnonzero(~yes).tolist())
    unit = None if one.before is None else one.before.actions
    return Line(
        reference=one.row.get("reference"),
        baseline=YES if one.yes[0] else NO,
        candidate=YES if one.yes[1] else NO,
        before=None if one.before is None or unit is None else one.before.answered(unit),
        after=None if one.after is None or unit is None else one.after.answered(unit),
        kept=kept,
        promised=promised,
        broken_by=broken_by,
        diagnostics={"model_calls": calls, "model_rows": rows},
    )
