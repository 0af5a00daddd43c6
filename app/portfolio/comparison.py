"""What a candidate changes beside a baseline: the figures of all lines of a comparison."""

import json
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from app.futures.store import load_futures
from app.models import tasks
from app.portfolio.answered import LEAST, YES, Unanswered
from app.portfolio.conditions import Condition, Judged, Measured
from app.portfolio.shares import PairedCosts, Share, beyond_retraining, exact, mcnemar, paired_costs, wilson
from app.questions.answers import Json, ModelVersion, plain
from app.questions.frame import identity
from app.recourse.answer_part import EXACT, AnswerPart
from app.registry.ref import ModelRef

# --- the answer ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRecords(AnswerPart):
    """Numbers of records by the baseline's decision."""

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
    """Numbers of records by the decisions of both versions."""

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
    """How many people whom the baseline refuses have recourse, with each version."""

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
    """How the candidate decides on the baseline's answers."""

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
    """People without recourse under the candidate, by what is proven."""

    proven: int
    """The model refuses every legal record."""
    open: int
    """The search found nothing, and there is no proof."""
    missed_by_search: int
    """The search found nothing, the proof a record; they count as found."""
    accepted_share_at_most: float | None
    """95 % bound on the accepted share of legal records, the largest of those open; null without any."""


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
    """Which records were compared."""

    kind: str
    """`reference` (of the baseline) or `records` (of the request)."""
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
    """What to know besides."""


# --- the figures of all lines ----------------------------------------------------------------------------------------


def reduced(baseline: ModelRef, candidate: ModelRef, payload: Json, texts: Iterable[str]) -> Json:
    """The `ComparisonAnswer` as plain data, computed from the lines of a comparison; equal lines give equal bytes.

    Parameters
    ----------
    texts : each line as JSON
    """
    futures = load_futures(tasks.load(baseline).registered)
    counted = _Counted(0 if futures is None else futures.held_back.count)
    for text in texts:
        counted.add(json.loads(text))
    found = counted.compared(payload["question"]["seed"])
    conditions = [Condition.parse(text) for text in payload["fail_if"]]
    yes = found.decisions.yes_yes + found.decisions.yes_no
    scored = counted.decided.total()
    measures = _measures(found, scored)
    answer = ComparisonAnswer(
        baseline=identity(tasks.load(baseline).registered),
        candidate=identity(tasks.load(candidate).registered),
        source=ComparisonSource(kind=payload["source"]["kind"], records=counted.records),
        seed=payload["question"]["seed"],
        records=ComparedRecords(
            scored=scored, accepted=yes, refused=scored - yes, unscored=counted.records - scored
        ),
        comparison=found,
        conditions=tuple(condition.judged(measures) for condition in conditions),
        warnings=tuple(_warnings(scored - yes, counted)),
    )  # fmt: skip
    plain_answer: Json = plain(answer)
    return plain_answer


class _Counted:
    """What the figures need of the lines, added up line by line, so that no line stays in memory."""

    def __init__(self, models: int) -> None:
        self.records = 0
        self.decided: Counter[tuple[bool, bool]] = Counter()
        """Whether the baseline accepts, and the candidate."""
        self.recourse: Counter[tuple[bool, bool]] = Counter()
        """Of whom the baseline refuses: recourse before, and recourse or a yes after."""
        self.costs = array("d"), array("d")
        """Before and after, of whom both have an answer for."""
        self.kept: Counter[bool] = Counter()
        self.promised = array("d")
        self.broken_by = np.zeros(models, dtype=int)
        self.before, self.after = Unanswered(), Unanswered()

    def add(self, line: Json) -> None:
        """Count one line of the comparison, given as plain data."""
        self.records += 1
        if "baseline" not in line:
            return
        self.decided[line["baseline"] == YES, line["candidate"] == YES] += 1
        before, after = line["before"], line["after"]
        if before is None:
            return
        self.before.add(before)
        if after is not None:
            self.after.add(after)
            if before["cost"] is not None and after["cost"] is not None:
                self.costs[0].append(before["cost"])
                self.costs[1].append(after["cost"])
        has_after = line["candidate"] == YES or after["status"] == "found"
        self.recourse[before["status"] == "found", has_after] += 1
        if line["kept"] is not None:
            self.kept[line["kept"]] += 1
            self.broken_by[line["broken_by"]] += 1
            if line["promised"] is not None:
                self.promised.append(line["promised"])

    def compared(self, seed: int) -> Comparison:
        """The figures of all lines counted so far; `seed` decides the bootstrap intervals."""
        decided, recourse, given = self.decided, self.recourse, self.kept.total()
        gained, lost = recourse[False, True], recourse[True, False]
        share = exact(self.kept[False], given)
        before, after = (np.array(costs) for costs in self.costs)
        return Comparison(
            decisions=Decisions(
                yes_yes=decided[True, True],
                yes_no=decided[True, False],
                no_yes=decided[False, True],
                no_no=decided[False, False],
            ),
            recourse=ComparedRecourse(
                found_before=recourse[True, True] + lost,
                found_after=recourse[True, True] + gained,
                gained=gained,
                lost=lost,
                p=mcnemar(gained, lost) if recourse.total() >= LEAST else None,
            ),
            cost=_cost(len(before), paired_costs(before, after, seed)),
            promises=ComparedPromises(
                given=given,
                broken=self.kept[False],
                share=None if share is None else share.value,
                interval=None if share is None else share.interval,
                told=1.0 - float(np.mean(self.promised)) if self.promised else None,
            ),
            retrainings=len(self.broken_by),
            beyond_retraining=beyond_retraining(self.kept[False], self.broken_by) if given >= LEAST else None,
            precluded=ComparedPreclusion(
                proven=self.after.proven.total(),
                open=self.after.open,
                missed_by_search=self.after.missed_by_search,
                accepted_share_at_most=self.after.accepted_share_at_most,
            ),
        )


def _cost(pairs: int, costs: PairedCosts | None) -> ComparedCost:
    if costs is None:
        return ComparedCost(
            pairs=0, median_change=None, interval=None, dearer=None, ratio=None, ratio_interval=None
        )  # fmt: skip
    return ComparedCost(pairs=pairs, **asdict(costs))


def _measures(found: Comparison, scored: int) -> dict[str, Measured]:
    refused = found.decisions.no_yes + found.decisions.no_no
    return {
        "broken": Measured(value=found.promises.share, interval=found.promises.interval),
        "lost": _measured(wilson(found.recourse.lost, refused)),
        "gained": _measured(wilson(found.recourse.gained, refused)),
        "refused": _measured(wilson(found.decisions.yes_no, scored)),
        "cost": Measured(value=found.cost.ratio, interval=found.cost.ratio_interval),
        "precluded": _measured(wilson(found.precluded.proven, found.decisions.no_no)),
        "beyond_retraining": Measured(value=found.beyond_retraining),
    }


def _measured(share: Share | None) -> Measured:
    return Measured(value=None) if share is None else Measured(value=share.value, interval=share.interval)


def _warnings(refused: int, counted: _Counted) -> list[str]:
    found = []
    if not len(counted.broken_by):
        found.append("The baseline has no future models, so nothing says how much a mere retraining would break.")
    if refused < LEAST:
        found.append(f"The baseline refuses {refused} of these records: too few for a test ({LEAST} are needed).")
    late = Unanswered(late=counted.before.late + counted.after.late)
    return found + late.warnings()


def schema_faults(baseline: Any, candidate: Any) -> list[str]:
    """Sorted names of the features in which two feature spaces differ: by presence, type or levels."""
    mine = {feature.name: (feature.type, feature.levels) for feature in baseline.features}
    other = {feature.name: (feature.type, feature.levels) for feature in candidate.features}
    return sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
