"""Two versions of a model, asked about the same records: a line for each record, then the figures of all lines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from app.errors import RecourseError
from app.futures.store import load_futures
from app.ledger.audits import fitting_row
from app.models import tasks
from app.portfolio.answered import (
    LEAST,
    NO,
    YES,
    Answered,
    Asked,
    Row,
    accepts,
    answers,
    decide,
    late_warnings,
    row_raw_of,
    without_errors,
    without_recourse,
)
from app.portfolio.conditions import Condition, Judged, Measured
from app.portfolio.shares import PairedCosts, Share, beyond_retraining, exact, mcnemar, paired_costs, wilson
from app.questions.answers import Json, ModelVersion, plain
from app.questions.frame import identity
from app.questions.question import Question
from app.recourse.answer_part import EXACT, AnswerPart
from app.registry.ref import ModelRef

# --- the answer ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRecords(AnswerPart):
    """Decisions of the baseline on the source, in records."""

    scored: int
    """Both versions gave a decision."""
    accepted: int
    """The baseline accepts."""
    refused: int
    """The baseline refuses."""
    unscored: int
    """A version gave none: the record fits no schema, or the model failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions(AnswerPart):
    """Decisions of the baseline, then of the candidate, in records."""

    yes_yes: int
    """Both accept."""
    yes_no: int
    """Only the baseline accepts."""
    no_yes: int
    """Only the candidate accepts."""
    no_no: int
    """Both refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRecourse(AnswerPart):
    """Of the people whom the baseline refuses: who has a change that the model accepts, before and after."""

    found_before: int
    """The baseline has an answer for them."""
    found_after: int
    """Also those whom the candidate accepts as they are."""
    gained: int
    """None before; recourse, or a yes, after."""
    lost: int
    """Recourse before, none after."""
    p: float | None
    """Exact McNemar test of gained against lost; null where fewer than 30 are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCost(AnswerPart):
    """Costs of the people who have recourse with both versions, in the baseline's cost units."""

    pairs: int
    """People whose costs are compared."""
    median_change: float | None
    """Median of what the cost of each changes by; null without people."""
    interval: tuple[float, float] | None
    """95 %, by bootstrap of people."""
    dearer: float | None
    """Share of the people for whom the candidate's answer costs more."""
    ratio: float | None
    """Median cost after over median cost before."""
    ratio_interval: tuple[float, float] | None
    """95 %, by bootstrap of people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPromises(AnswerPart):
    """What the baseline's answers say under the candidate."""

    given: int
    """People for whom the baseline has an answer."""
    broken: int
    """Answers that the candidate refuses."""
    share: float | None
    """Share of them; null without answers."""
    interval: tuple[float, float] | None
    """95 %, Clopper and Pearson."""
    told: float | None
    """Share that the answers let a reader expect to be broken; null without future models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPreclusion(AnswerPart):
    """People without recourse under the candidate: whether none exists."""

    proven: int
    """The model refuses every legal record."""
    open: int
    """The search found nothing, and there is no proof."""
    missed_by_search: int
    """The search found nothing, the proof a record; they count as found."""
    accepted_share_at_most: float | None
    """95 % bound on the share of legal records that are accepted, the largest of those open; null without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(AnswerPart):
    """What the candidate changes."""

    decisions: Decisions
    recourse: ComparedRecourse
    cost: ComparedCost
    promises: ComparedPromises
    retrainings: int
    """Held-back future models of the baseline, each taken for a candidate."""
    beyond_retraining: float | None
    """(1 + retrainings that break at least as many promises) / (1 + retrainings); null without future models, or with
    fewer than 30 promises."""
    precluded: ComparedPreclusion


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSource(AnswerPart):
    """Which records were asked about."""

    kind: str
    """`reference`, the reference records of the baseline, or `records`, those of the request."""
    records: int
    """How many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonAnswer(AnswerPart):
    """What changes for the applicants if one version replaces another."""

    baseline: ModelVersion
    candidate: ModelVersion
    source: ComparisonSource
    seed: int = field(metadata=EXACT)
    """Of the first record; each record adds 1."""
    records: ComparedRecords
    comparison: Comparison
    conditions: tuple[Judged, ...]
    """Those of `fail_if`, in their order."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""


# --- a line for each record ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Line(AnswerPart):
    """One record under both versions."""

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
    """What both versions say about each row of the payload of a comparison, or why they say nothing."""
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


# --- the figures of all lines ----------------------------------------------------------------------------------------


def reduced(baseline: ModelRef, candidate: ModelRef, payload: Json, texts: Sequence[str]) -> Json:
    """The `ComparisonAnswer` of the lines of all parts, as plain data; the same bytes for the same lines."""
    every = [json.loads(text) for text in texts]
    scored = [line for line in every if "baseline" in line]
    futures = load_futures(tasks.load(baseline).registered)
    models = 0 if futures is None else futures.held_back.count
    found = _compared(scored, models, payload["question"]["seed"])
    conditions = [Condition.parse(text) for text in payload["fail_if"]]
    measures = _measures(found, scored)
    yes = found.decisions.yes_yes + found.decisions.yes_no
    answer = ComparisonAnswer(
        baseline=identity(tasks.load(baseline).registered),
        candidate=identity(tasks.load(candidate).registered),
        source=ComparisonSource(kind=payload["source"]["kind"], records=len(every)),
        seed=payload["question"]["seed"],
        records=ComparedRecords(
            scored=len(scored), accepted=yes, refused=len(scored) - yes, unscored=len(every) - len(scored)
        ),
        comparison=found,
        conditions=tuple(condition.judged(measures) for condition in conditions),
        warnings=tuple(_warnings(scored, models)),
    )
    plain_answer: Json = plain(answer)
    return plain_answer


def _compared(scored: Sequence[Json], models: int, seed: int) -> Comparison:
    decided = [(line["baseline"] == YES, line["candidate"] == YES) for line in scored]
    refused = [line for line in scored if line["before"] is not None]
    before = np.array([line["before"]["status"] == "found" for line in refused], dtype=bool)
    after = np.array([line["candidate"] == YES or line["after"]["status"] == "found" for line in refused], dtype=bool)
    gained, lost = int((~before & after).sum()), int((before & ~after).sum())
    pairs = [
        (line["before"]["cost"], line["after"]["cost"])
        for line in refused
        if line["after"] is not None and line["before"]["cost"] is not None and line["after"]["cost"] is not None
    ]
    paid = np.array(pairs, dtype=float).reshape(-1, 2)
    given = [line for line in refused if line["kept"] is not None]
    broken = sum(not line["kept"] for line in given)
    told = [line["promised"] for line in given if line["promised"] is not None]
    retrainings = np.bincount([k for line in given for k in line["broken_by"]], minlength=models).astype(int)
    share = exact(broken, len(given))
    return Comparison(
        decisions=Decisions(
            yes_yes=decided.count((True, True)),
            yes_no=decided.count((True, False)),
            no_yes=decided.count((False, True)),
            no_no=decided.count((False, False)),
        ),
        recourse=ComparedRecourse(
            found_before=int(before.sum()),
            found_after=int(after.sum()),
            gained=gained,
            lost=lost,
            p=mcnemar(gained, lost) if len(refused) >= LEAST else None,
        ),
        cost=_cost(len(pairs), paired_costs(paid[:, 0], paid[:, 1], seed)),
        promises=ComparedPromises(
            given=len(given),
            broken=broken,
            share=None if share is None else share.value,
            interval=None if share is None else share.interval,
            told=1.0 - float(np.mean(told)) if told else None,
        ),
        retrainings=models,
        beyond_retraining=beyond_retraining(broken, retrainings) if len(given) >= LEAST else None,
        precluded=_precluded([line["after"] for line in refused if line["after"] is not None]),
    )


def _cost(pairs: int, costs: PairedCosts | None) -> ComparedCost:
    if costs is None:
        return ComparedCost(
            pairs=0, median_change=None, interval=None, dearer=None, ratio=None, ratio_interval=None
        )  # fmt: skip
    return ComparedCost(pairs=pairs, **asdict(costs))


def _precluded(after: Sequence[Json]) -> ComparedPreclusion:
    none = without_recourse(after)
    return ComparedPreclusion(
        proven=none.proven.total(),
        open=none.open,
        missed_by_search=none.missed_by_search,
        accepted_share_at_most=none.accepted_share_at_most,
    )


def _measures(found: Comparison, scored: Sequence[Json]) -> dict[str, Measured]:
    refused = found.decisions.no_yes + found.decisions.no_no
    return {
        "broken": Measured(value=found.promises.share, interval=found.promises.interval),
        "lost": _measured(wilson(found.recourse.lost, refused)),
        "gained": _measured(wilson(found.recourse.gained, refused)),
        "refused": _measured(wilson(found.decisions.yes_no, len(scored))),
        "cost": Measured(value=found.cost.ratio, interval=found.cost.ratio_interval),
        "precluded": _measured(wilson(found.precluded.proven, found.decisions.no_no)),
        "beyond_retraining": Measured(value=found.beyond_retraining),
    }


def _measured(share: Share | None) -> Measured:
    return Measured(value=None) if share is None else Measured(value=share.value, interval=share.interval)


def _warnings(scored: Sequence[Json], models: int) -> list[str]:
    found = []
    if not models:
        found.append("The baseline has no future models, so nothing says how much a mere retraining would break.")
    refused = sum(line["baseline"] == NO for line in scored)
    if refused < LEAST:
        found.append(f"The baseline refuses {refused} of these records: too few for a test ({LEAST} are needed).")
    return found + late_warnings(
        [line[when] for line in scored for when in ("before", "after") if line[when] is not None]
    )


def schema_faults(baseline: Any, candidate: Any) -> list[str]:
    """Names of features that two schemas do not share, or that have other values or states there."""
    mine = {feature.name: (feature.type, feature.levels) for feature in baseline.features}
    other = {feature.name: (feature.type, feature.levels) for feature in candidate.features}
    return sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
