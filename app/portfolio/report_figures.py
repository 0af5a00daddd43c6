"""The figures of a report, added up line by line: about 150 bytes of each refused record stay in memory."""

import json
import sys
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from app.models import tasks
from app.portfolio import groups
from app.portfolio.answered import LEAST, Unanswered
from app.portfolio.chosen_ways import Given, chosen_ways, common_ways
from app.portfolio.report import (
    GroupRow,
    GroupTable,
    Harder,
    Lever,
    LimitInTheWay,
    Proven,
    Quantiles,
    ReportAnswer,
    ReportedPreclusion,
    ReportedRecourse,
    ReportRecords,
    ReportSource,
    WouldHelp,
)
from app.portfolio.report_lines import bands
from app.portfolio.shares import wilson
from app.questions.answers import Json, plain
from app.questions.frame import identity
from app.recourse.features import Feature
from app.registry.ref import ModelRef

CONTESTABLE = 0.5
"""Share of the held-back future models that accept a refused record from which on its refusal is a coin flip."""

MEASURES = ("none", "cost", "changes", "months")
"""Burdens that groups are compared by."""

REMOTE = (
    "The model is remote and each question to it is paid: limits in the way, features without which there is no way, "
    "common ways and proofs are left out."
)


def reduced(ref: ModelRef, payload: Json, texts: Iterable[str]) -> Json:
    """The `ReportAnswer` as plain data, computed from the lines of a report; equal lines give equal bytes.

    Parameters
    ----------
    texts : each line as JSON
    """
    asked = payload["groups"]["by"]
    people = _People(labels={one.get("column") or one["feature"]: [] for one in asked})
    for text in texts:
        people.add(json.loads(text))
    parts, model, refused = payload["parts"], tasks.load(ref), len(people.scores)
    remote, features = model.black_box.remote is not None, model.black_box.space.features
    chosen = chosen_ways(ref, payload) if "ways" in parts and refused and not remote else None
    answer = ReportAnswer(
        model=identity(model.registered),
        source=ReportSource(records=people.records, **payload["source"]),
        seed=payload["question"]["seed"],
        records=ReportRecords(
            scored=people.scored, accepted=people.scored - refused, refused=refused,
            unscored=people.records - people.scored,
        ),
        recourse=people.recourse(),
        preclusion=people.preclusion(),
        limits=people.limits_in_the_way(features) if "limits" in parts and not remote else None,
        levers=people.levers(remote=remote) if "levers" in parts else None,
        groups=tuple(_groups(people, by, payload) for by in asked),
        common_ways=None if chosen is None else common_ways(chosen, features, people.given),
        terms_alone=people.by_terms[True] / people.by_terms.total() if people.by_terms else None,
        contestable=people.contestable,
        labels={feature.name: feature.title for feature in features},
        warnings=tuple(_warnings(people, remote=remote)),
    )  # fmt: skip
    plain_answer: Json = plain(answer)
    return plain_answer


@dataclass(slots=True)
class _People:
    """What the lines say of whom the model refuses; numbers in their order, infinite where there is no way."""

    labels: dict[str, list[str | None]]
    """The group of each by each characteristic; None where the record does not say it."""
    records: int = 0
    scored: int = 0
    scores: "array[float]" = field(default_factory=lambda: array("d"))
    cost: "array[float]" = field(default_factory=lambda: array("d"))
    changes: "array[float]" = field(default_factory=lambda: array("d"))
    months: "array[float]" = field(default_factory=lambda: array("d"))
    future_validity: "array[float]" = field(default_factory=lambda: array("d"))
    """Only of those who have one."""
    unanswered: Unanswered = field(default_factory=Unanswered)
    used: Counter[str] = field(default_factory=Counter)
    only: Counter[str] = field(default_factory=Counter)
    limits: dict[tuple[str, str | None, bool], Counter[float | None]] = field(default_factory=dict)
    """Of each limit by how much it has to give, and for how many people."""
    by_terms: Counter[bool] = field(default_factory=Counter)
    contestable: int | None = None
    given: Given = field(default_factory=Given)

    def add(self, line: Json) -> None:
        """Count one line of the report, given as plain data."""
        self.records += 1
        if "decision" not in line:
            return
        self.scored += 1
        if (one := line["answer"]) is None:
            return
        self.scores.append(line["score"])
        self.unanswered.add(one)
        found = one["status"] == "found"
        for measure in MEASURES[1:]:
            getattr(self, measure).append(one[measure] if found else np.inf)
        if found:
            self.used.update(one["levers"])
            self.only.update(line["only"])
            if one["future_validity"] is not None:
                self.future_validity.append(one["future_validity"])
        for limit in line["limits"]:
            key = limit["limit"], limit["feature"], limit["lender_set"]
            self.limits.setdefault(key, Counter())[limit["by"]] += 1
        if line["by_terms"] is not None:
            self.by_terms[line["by_terms"]] += 1
        if line["accepted_by"] is not None:
            self.contestable = (self.contestable or 0) + (line["accepted_by"] >= CONTESTABLE)
        for name, labels in self.labels.items():
            label = line["groups"].get(name)
            labels.append(None if label is None else sys.intern(label))
        if line["ways"] is not None:
            self.given.add(line["ways"])

    @property
    def found(self) -> Bool[np.ndarray, "n"]:
        """Mask of the refused people who have a way to a yes."""
        return np.isfinite(np.array(self.cost))

    def recourse(self) -> ReportedRecourse:
        """How many of the refused people have recourse, and what it takes."""
        found = self.found
        share = wilson(int(found.sum()), len(found))
        changes = Counter(np.array(self.changes)[found].astype(int).tolist())
        return ReportedRecourse(
            found=int(found.sum()),
            share=None if share is None else share.value,
            interval=None if share is None else share.interval,
            cost=_quantiles(np.array(self.cost)[found]),
            changes={str(n): count for n, count in sorted(changes.items())},
            months=_quantiles(np.array(self.months)[found]),
            future_validity=_quantiles(np.array(self.future_validity)),
        )

    def preclusion(self) -> ReportedPreclusion:
        """Numbers of people without recourse, by what is proven of them."""
        none = self.unanswered
        return ReportedPreclusion(
            proven=Proven(enumerated=none.proven["enumerated"], optimised=none.proven["optimised"]),
            missed_by_search=none.missed_by_search,
            open=none.open,
            accepted_share_at_most=none.accepted_share_at_most,
        )

    def limits_in_the_way(self, features: Sequence[Feature]) -> tuple[LimitInTheWay, ...]:
        """Limits whose removal gives people a way to a yes; those first that stand in the way of most people.

        Each has its curve: by how much the limit is widened, and how many people then have a way.
        """
        found, units = [], {feature.name: feature.unit for feature in features}
        for (limit, feature, lender_set), steps in self.limits.items():
            known = sorted(by for by in steps if by is not None)
            people = np.cumsum([steps[by] for by in known]).tolist()
            curve = tuple(WouldHelp(by=at, people=count) for at, count in zip(known, people, strict=True))
            one = LimitInTheWay(
                limit=limit, feature=feature, lender_set=lender_set, blocks=steps.total(), would_help=curve,
                unit="months" if feature is None else units[feature],
            )  # fmt: skip
            found.append(one)
        return tuple(sorted(found, key=lambda one: (-one.blocks, one.feature or "", one.limit)))

    def levers(self, *, remote: bool) -> tuple[Lever, ...]:
        """Features that answers change, those first that most answers change.

        Parameters
        ----------
        remote : whether the model is remote; then `only` is None for each feature
        """
        found = int(self.found.sum())
        levers = (
            Lever(feature=name, used=count / found, only=None if remote else self.only[name])
            for name, count in self.used.items()
        )
        return tuple(sorted(levers, key=lambda one: (-one.used, one.feature)))


def _quantiles(values: Float[np.ndarray, "n"]) -> Quantiles | None:
    if not len(values):
        return None
    p10, p25, p50, p75, p90 = np.percentile(values, [10, 25, 50, 75, 90]).tolist()
    return Quantiles(p10=p10, p25=p25, p50=p50, p75=p75, p90=p90)


def _groups(people: _People, by: Json, payload: Json) -> GroupTable:
    """People who have a group by one characteristic, each group against all others."""
    name, edges = by.get("column") or by["feature"], by.get("edges") or ()
    known = np.array([label is not None for label in people.labels[name]], dtype=bool)
    labels = [label for label in people.labels[name] if label is not None]
    asked, seed = payload["groups"], payload["question"]["seed"]
    hidden = groups.suppressed(labels)
    order = {label: k for k, label in enumerate(bands(edges))}
    shown = sorted(set(labels) - set(hidden), key=lambda label: (order.get(label, 0), label))
    found = people.found[known]
    burdens = {"none": (~found).astype(float)} | {
        measure: np.array(getattr(people, measure))[known] for measure in MEASURES[1:]
    }
    budget = asked["budget"]
    if budget is None and found.any():
        budget = float(np.median(burdens["cost"][found]))
    permutations = asked["permutations"]
    rows: list[GroupRow] = []
    if len(shown) > 0 and len(set(labels)) > 1:
        strata = groups.strata_of(np.array(people.scores)[known])
        plain_p = groups.rank_tests(burdens, labels, shown, permutations=permutations, seed=seed)
        equal_p = groups.rank_tests(burdens, labels, shown, strata=strata, permutations=permutations, seed=seed)
        for k, group in enumerate(shown):
            mine = np.array([label == group for label in labels])
            rows.append(_row(group, mine, found, burdens, strata, budget, plain_p[k], equal_p[k]))
    return GroupTable(
        by=name, budget=budget, tests=len(rows) * len(MEASURES), permutations=permutations, suppressed=tuple(hidden),
        rows=tuple(rows),
    )  # fmt: skip


def _row(
    group: str,
    mine: Bool[np.ndarray, "n"],
    found: Bool[np.ndarray, "n"],
    burdens: groups.Burdens,
    strata: Int[np.ndarray, "n"],
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
                value_at_equal_score=groups.at_equal_score(burdens[measure], mine, strata),
                p_at_equal_score=float(p_at_equal_score[k]),
            )
        )
    return GroupRow(
        group=group, refused=refused, share=share.value, interval=share.interval, within_budget=within.value,
        within_budget_interval=within.interval, median_cost=median, median_cost_interval=median_interval,
        harder=tuple(harder),
    )  # fmt: skip


def _warnings(people: _People, *, remote: bool) -> list[str]:
    found, refused = [REMOTE] if remote else [], len(people.scores)
    if refused < LEAST:
        found.append(f"The model refuses {refused} of these records: too few for shares to say much ({LEAST}).")
    if unread := people.records - people.scored:
        whose = (
            "1 record is in no figure; its line says"
            if unread == 1
            else f"{unread:,} records are in no figure; their lines say"
        )
        found.append(f"{whose} what is wrong.")
    return found + people.unanswered.warnings()
