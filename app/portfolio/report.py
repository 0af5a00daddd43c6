"""Who has recourse, what it takes, what stands in the way, and for whom it is harder: the figures of all lines."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float

from app.models import tasks
from app.portfolio import groups
from app.portfolio.answered import LEAST, late_warnings, without_recourse
from app.portfolio.chosen_ways import CommonWay, chosen_ways, common_ways
from app.portfolio.shares import Interval, wilson
from app.questions.answers import Json, ModelVersion, plain
from app.questions.frame import identity
from app.recourse.answer_part import EXACT, AnswerPart
from app.registry.ref import ModelRef

CONTESTABLE = 0.5
"""Share of the held-back future models that accept a refused record from which on its refusal is a coin flip."""

MEASURES = ("none", "cost", "changes", "months")
"""Burdens that groups are compared by."""

REMOTE = (
    "The model is remote and each question to it is paid: limits in the way, features without which there is no way, "
    "common ways and proofs are left out."
)

# --- the answer ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRecords(AnswerPart):
    """Decisions on the source, in records."""

    scored: int
    """The model gave a decision."""
    accepted: int
    """The model accepts them."""
    refused: int
    """The model refuses them; everything below is about these."""
    unscored: int
    """It gave none: the record does not fit the schema, or the model failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(AnswerPart):
    """Quantiles over people."""

    p10: float
    """A tenth of them have at most this."""
    p25: float
    """A quarter have at most this."""
    p50: float
    """The median."""
    p75: float
    """Three quarters have at most this."""
    p90: float
    """Nine tenths have at most this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRecourse(AnswerPart):
    """Of the people who are refused: who has a change that the model accepts, and what it takes."""

    found: int
    """People with such a change."""
    share: float | None
    """Null where nobody is refused."""
    interval: Interval | None
    """95 %, Wilson."""
    cost: Quantiles | None
    """Of those found, in spreads weighted by the lender's costs."""
    changes: Mapping[str, int]
    """People by how many features they change."""
    months: Quantiles | None
    """Of those found, how long the changes take."""
    future_validity: Quantiles | None
    """Share of held-back future models that accept each answer; null without future models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven(AnswerPart):
    """People for whom it is proven that no legal record is accepted."""

    enumerated: int
    """Every legal record was asked about."""
    optimised: int
    """The largest score within reach is too small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPreclusion(AnswerPart):
    """People without recourse: whether none exists."""

    proven: Proven
    missed_by_search: int
    """The search found nothing, the proof a record; they count as found."""
    open: int
    """The search found nothing, and there is no proof."""
    accepted_share_at_most: float | None
    """95 % bound on the share of legal records that are accepted, the largest of those open; null without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldHelp(AnswerPart):
    """A point of the curve of a limit."""

    by: float
    """By how much the limit gives, raw units."""
    people: int
    """People without recourse who have a way then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInTheWay(AnswerPart):
    """A limit that, given up alone, opens a way."""

    limit: str
    """As in `constraints`; `change` and `advice` are the manifest's."""
    feature: str | None
    """Null for time."""
    lender_set: bool
    """Whether the manifest sets it, and not the request."""
    blocks: int
    """People without recourse who have a way without it."""
    would_help: tuple[WouldHelp, ...]
    """How many have one where it only gives; empty for levels and time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever(AnswerPart):
    """A feature that answers change."""

    feature: str
    """Its name."""
    used: float
    """Share of the answers that change it."""
    only: int | None
    """People who have no way without it, of those whose answer has at most two changes; null of a remote model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harder(AnswerPart):
    """Whether it is harder for the members of a group, by one measure."""

    measure: str
    """`none` (no way at all), `cost`, `changes` or `months`; none where there is no way counts as the most."""
    value: float
    """Chance that a member has it harder than somebody else; 0.5 is alike."""
    interval: Interval
    """95 %, Brunner and Munzel."""
    p: float
    """Adjusted for all groups and measures of the table, by permutation."""
    p_at_equal_score: float
    """The same among people of the same tenth of the model's score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow(AnswerPart):
    """The refused people of a group."""

    group: str
    """Its name."""
    refused: int
    """Its members who are refused."""
    share: float
    """Of them with recourse."""
    interval: Interval
    """95 %, Wilson."""
    within_budget: float
    """Share whose way costs at most the budget."""
    within_budget_interval: Interval
    """95 %, Wilson."""
    median_cost: float | None
    """Over all of them; null where half have no way."""
    median_cost_interval: tuple[float | None, float | None]
    """95 %, by order statistics; null where an end is beyond all who have a way."""
    harder: tuple[Harder, ...]
    """By each measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable(AnswerPart):
    """People compared by one characteristic."""

    by: str
    """A feature, or a column of the records."""
    budget: float | None
    """Cost, as asked, or the median of those found."""
    tests: int
    """Groups times measures that the p values are adjusted for."""
    permutations: int
    """Behind each p value."""
    suppressed: tuple[str, ...]
    """Groups that are too small to be shown, and one more where a single one could be had by subtraction."""
    rows: tuple[GroupRow, ...]
    """The groups that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource(AnswerPart):
    """Which records were asked about."""

    kind: str
    """`reference`, the records that the model was registered with, `records`, those of the request, or `ledger`."""
    records: int
    """How many there are."""
    erased: int | None = None
    """Of the ledger: questions of the period whose records were erased."""
    repeated: int | None = None
    """Of the ledger: earlier questions with the reference of a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer(AnswerPart):
    """Recourse of everybody whom a version refuses."""

    model: ModelVersion
    """The version that was asked."""
    source: ReportSource
    """Whom it was asked about."""
    seed: int = field(metadata=EXACT)
    """Of the first record; each record adds 1."""
    records: ReportRecords
    """Its decisions."""
    recourse: ReportedRecourse
    """Who has a way, and what it takes."""
    preclusion: ReportedPreclusion
    """Who has none."""
    limits: tuple[LimitInTheWay, ...] | None
    """Those that block most people first; null where the request leaves this part out, and of a remote model."""
    levers: tuple[Lever, ...] | None
    """Those that most answers use first; null likewise."""
    groups: tuple[GroupTable, ...]
    """A table for each characteristic that was asked for."""
    common_ways: tuple[CommonWay, ...] | None
    """Those first that help most; null where the request leaves this part out, of a remote model, and where too few
    reference records are refused."""
    terms_alone: float | None
    """Share of the refused whom other terms of the lender alone turn into accepted; null where the version names no
    terms that are better one way."""
    contestable: int | None
    """Refused records that at least half of the held-back future models accept as they are; null without them."""
    labels: Mapping[str, str]
    """What people call the features of the model."""
    warnings: tuple[str, ...]
    """What a reader has to know besides."""


# --- the figures of all lines ----------------------------------------------------------------------------------------


def reduced(ref: ModelRef, payload: Json, texts: Sequence[str]) -> Json:
    """The `ReportAnswer` of the lines of all parts, as plain data; the same bytes for the same lines."""
    every = [json.loads(text) for text in texts]
    scored = [line for line in every if "decision" in line]
    refused = [line for line in scored if line["answer"] is not None]
    given = [line["answer"] for line in refused]
    accepted_by = [line["accepted_by"] for line in refused if line["accepted_by"] is not None]
    by_terms = [line["by_terms"] for line in refused if line["by_terms"] is not None]
    parts, model = payload["parts"], tasks.load(ref)
    remote = model.black_box.remote is not None
    chosen = chosen_ways(ref, payload) if "ways" in parts and refused and not remote else None
    answer = ReportAnswer(
        model=identity(model.registered),
        source=ReportSource(records=len(every), **payload["source"]),
        seed=payload["question"]["seed"],
        records=ReportRecords(
            scored=len(scored), accepted=len(scored) - len(refused), refused=len(refused),
            unscored=len(every) - len(scored),
        ),
        recourse=_recourse(given),
        preclusion=_preclusion(given),
        limits=_limits(refused) if "limits" in parts and not remote else None,
        levers=_levers(refused, remote=remote) if "levers" in parts else None,
        groups=tuple(_groups(refused, one, payload) for one in payload["groups"]["by"]),
        common_ways=None if chosen is None else common_ways(chosen, model.black_box.space.features, refused),
        terms_alone=sum(by_terms) / len(by_terms) if by_terms else None,
        contestable=sum(share >= CONTESTABLE for share in accepted_by) if accepted_by else None,
        labels={feature.name: feature.title for feature in model.black_box.space.features},
        warnings=tuple(_warnings(refused, remote=remote)),
    )  # fmt: skip
    plain_answer: Json = plain(answer)
    return plain_answer


def _recourse(given: Sequence[Json]) -> ReportedRecourse:
    found = [one for one in given if one["status"] == "found"]
    share = wilson(len(found), len(given))
    return ReportedRecourse(
        found=len(found),
        share=None if share is None else share.value,
        interval=None if share is None else share.interval,
        cost=_quantiles([one["cost"] for one in found]),
        changes={str(n): count for n, count in sorted(Counter(one["changes"] for one in found).items())},
        months=_quantiles([one["months"] for one in found]),
        future_validity=_quantiles([one["future_validity"] for one in found if one["future_validity"] is not None]),
    )


def _quantiles(values: Sequence[float]) -> Quantiles | None:
    if not values:
        return None
    p10, p25, p50, p75, p90 = np.percentile(values, [10, 25, 50, 75, 90]).tolist()
    return Quantiles(p10=p10, p25=p25, p50=p50, p75=p75, p90=p90)


def _preclusion(given: Sequence[Json]) -> ReportedPreclusion:
    none = without_recourse(given)
    return ReportedPreclusion(
        proven=Proven(enumerated=none.proven["enumerated"], optimised=none.proven["optimised"]),
        missed_by_search=none.missed_by_search,
        open=none.open,
        accepted_share_at_most=none.accepted_share_at_most,
    )


def _limits(refused: Sequence[Json]) -> tuple[LimitInTheWay, ...]:
    people: dict[tuple[str, str | None, bool], list[float | None]] = {}
    for line in refused:
        for one in line["limits"]:
            people.setdefault((one["limit"], one["feature"], one["lender_set"]), []).append(one["by"])
    found = []
    for (limit, feature, lender_set), steps in people.items():
        known = sorted({by for by in steps if by is not None})
        curve = tuple(WouldHelp(by=at, people=sum(by is not None and by <= at for by in steps)) for at in known)
        found.append(
            LimitInTheWay(limit=limit, feature=feature, lender_set=lender_set, blocks=len(steps), would_help=curve)
        )
    return tuple(sorted(found, key=lambda one: (-one.blocks, one.feature or "", one.limit)))


def _levers(refused: Sequence[Json], *, remote: bool) -> tuple[Lever, ...]:
    found = [line for line in refused if line["answer"]["status"] == "found"]
    used = Counter(name for line in found for name in line["answer"]["levers"])
    only = Counter(name for line in found for name in line["only"])
    levers = (
        Lever(feature=name, used=count / len(found), only=None if remote else only[name])
        for name, count in used.items()
    )
    return tuple(sorted(levers, key=lambda one: (-one.used, one.feature)))


def _groups(refused: Sequence[Json], by: Json, payload: Json) -> GroupTable:
    """People who have a group by one characteristic, each group against all others."""
    name = by.get("column") or by["feature"]
    asked, seed = payload["groups"], payload["question"]["seed"]
    people = [line for line in refused if name in line["groups"]]
    labels = [line["groups"][name] for line in people]
    hidden = groups.suppressed(labels)
    shown = sorted(set(labels) - set(hidden))
    given = [line["answer"] for line in people]
    found = np.array([one["status"] == "found" for one in given], dtype=bool)
    burdens = {"none": (~found).astype(float)} | {
        measure: np.array([one[measure] if yes else np.inf for one, yes in zip(given, found, strict=True)])
        for measure in MEASURES[1:]
    }
    budget = asked["budget"]
    if budget is None and found.any():
        budget = float(np.median(burdens["cost"][found]))
    permutations = asked["permutations"]
    rows: list[GroupRow] = []
    if len(shown) > 0 and len(set(labels)) > 1:
        strata = groups.strata_of(np.array([line["score"] for line in people]))
        plain_p = groups.rank_tests(burdens, labels, shown, permutations=permutations, seed=seed)
        equal_p = groups.rank_tests(burdens, labels, shown, strata=strata, permutations=permutations, seed=seed)
        for k, group in enumerate(shown):
            mine = np.array([label == group for label in labels])
            rows.append(_row(group, mine, found, burdens, budget, plain_p[k], equal_p[k]))
    return GroupTable(
        by=name, budget=budget, tests=len(rows) * len(MEASURES), permutations=permutations, suppressed=tuple(hidden),
        rows=tuple(rows),
    )  # fmt: skip


def _row(
    group: str,
    mine: Bool[np.ndarray, "n"],
    found: Bool[np.ndarray, "n"],
    burdens: groups.Burdens,
    budget: float | None,
    p: Float[np.ndarray, "k"],
    p_at_equal_score: Float[np.ndarray, "k"],
) -> GroupRow:
    """`mine` are the members, `found` who has a way; `p` and `p_at_equal_score` are by measure."""
    refused = int(mine.sum())
    share = wilson(int((found & mine).sum()), refused)
    within = wilson(int((burdens["cost"][mine] <= (np.inf if budget is None else budget)).sum()), refused)
    assert share is not None
    assert within is not None
    median, median_interval = groups.median(burdens["cost"][mine])
    harder = []
    for k, measure in enumerate(MEASURES):
        value, interval = groups.superiority(burdens[measure][mine], burdens[measure][~mine])
        harder.append(
            Harder(
                measure=measure,
                value=value,
                interval=interval,
                p=float(p[k]),
                p_at_equal_score=float(p_at_equal_score[k]),
            )
        )
    return GroupRow(
        group=group, refused=refused, share=share.value, interval=share.interval, within_budget=within.value,
        within_budget_interval=within.interval, median_cost=median, median_cost_interval=median_interval,
        harder=tuple(harder),
    )  # fmt: skip


def _warnings(refused: Sequence[Json], *, remote: bool) -> list[str]:
    found = [REMOTE] if remote else []
    if len(refused) < LEAST:
        found.append(f"The model refuses {len(refused)} of these records: too few for shares to say much ({LEAST}).")
    return found + late_warnings([line["answer"] for line in refused])
