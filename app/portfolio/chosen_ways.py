"""The common ways of a report: chosen on refused reference records, measured on everybody else."""

import json
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from app.futures.store import load_futures
from app.kept import kept
from app.models import tasks
from app.portfolio.answered import LEAST, Asked, answers
from app.portfolio.common_ways import Reached, Row, Rule, Rules, best_cover, candidates, rule_text
from app.portfolio.shares import Interval, wilson
from app.questions.answers import Json
from app.questions.question import Question
from app.recourse.answer_part import AnswerPart
from app.recourse.features import Feature, RawValue
from app.recourse.models.committee import FutureModels
from app.recourse.models.meter import Meter
from app.registry.ref import ModelRef

CHOOSERS = 250
"""Refused reference records on which ways are chosen: at most, and at most half of them."""

LEAST_KEPT = 0.01
"""Share of future models below which a record counts as no less kept, so that each burden is finite."""

BYTES = 100_000
"""What is kept of a choice, roughly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayChange(AnswerPart):
    """What a way does with one feature."""

    feature: str
    """Its name."""
    kind: Literal["level", "at_least", "at_most", "by", "times"]
    """To a category; to a value, for those who are not there yet; by a difference; times a factor."""
    value: RawValue
    """Raw number, level, number of levels, or factor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonWay(AnswerPart):
    """A change that is the same for all, added to earlier ways; measured on people who did not choose it."""

    rule: tuple[WayChange, ...]
    """All that it changes."""
    text: str
    """The same in words."""
    people: int
    """Refused people it is measured on."""
    alone: float
    """Share of them for whom it is legal as it stands, and accepted."""
    reach: float
    """Share of them whom it reaches, or one before it."""
    interval: Interval
    """95 % of `reach`, Wilson."""
    added: float
    """By how much it raises `reach`."""
    cost: float | None
    """Mean over those reached so far, each by the way of least cost per future model that accepts; null of nobody."""
    future_validity: float | None
    """Mean share of held-back future models that accept these records; null without them."""
    optimal: bool
    """Whether no as many ways of all candidates reach more of those who chose; proven."""
    at_most: float
    """Share of those who chose whom as many candidates can reach at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The common ways of a report, the people from whose answers they were chosen, and the model calls this took."""

    rules: Rules
    reached: tuple[int, ...]
    """How many of those who chose the first way reaches, the first two, ..."""
    at_most: tuple[int, ...]
    """How many as many of the candidates can reach at most."""
    choosers: frozenset[bytes]
    """Raw rows of those who chose."""
    people: int
    """How many did: some can have equal rows."""
    least: float
    """Share of the search set of future models that must accept a record as well."""
    calls: int
    rows: int
    """Calls of the model that the choice took, and records in them."""

    def reached_by(self, one: Asked, meter: Meter) -> Reached:
        """The common ways that reach a person: their ascending indices, and the accepted raw record of each."""
        futures = one.problem.futures
        return self.rules.reached(one.actions, meter, None if futures is None else futures.search, self.least)

    def stated(self, one: Asked, reached: Reached) -> tuple[Json | None, ...] | None:
        """For each way, a dict of its `cost`, `burden` and `future_validity` for one person.

        The dict is None for a way that does not reach the person. The burden is the cost divided by the share of future
        models in the search set that accept the record. The whole result is None for a person from whose answer the
        ways were chosen.
        """
        if one.actions.factual_raw.tobytes() in self.choosers:
            return None
        futures, (found, rows_raw) = one.problem.futures, reached
        result: list[Json | None] = [None] * len(self.rules.rules)
        costs = one.actions.cost(rows_raw)
        burdens = _burdens(costs, rows_raw, None if futures is None else futures.search).tolist()
        shares: list[float | None] = [None] * len(found)
        if futures is not None and found.size:
            shares = futures.promised(futures.held_back.scores_raw(rows_raw)).tolist()
        for r, cost, burden, share in zip(found.tolist(), costs.tolist(), burdens, shares, strict=True):
            result[r] = {"cost": cost, "burden": burden, "future_validity": share}
        return tuple(result)


def _burdens(
    costs: Float[np.ndarray, "r"], rows_raw: Float[np.ndarray, "r p"], search: FutureModels | None
) -> Float[np.ndarray, "r"]:
    """What a yes costs that a retraining keeps: the cost over the share of the search set that accepts the record."""
    if search is None or not len(rows_raw):
        return costs
    return costs / np.maximum(search.shares(rows_raw), LEAST_KEPT)


def chosen_ways(ref: ModelRef, payload: Json) -> Chosen | None:
    """The common ways of a report; None where too few reference records are refused to choose any.

    Each process chooses them once and keeps them.
    """
    asked = {name: payload[name] for name in ("question", "ways", "deadline_s", "plan_s")}
    key = ("common ways", ref, json.dumps(asked, sort_keys=True))
    return kept(key, lambda: _chosen(ref, payload), name=ref.name, size=lambda _: BYTES)


def _chosen(ref: ModelRef, payload: Json) -> Chosen | None:
    model, common, asked = tasks.load(ref), Question.from_json(payload["question"]), payload["ways"]
    refused = np.flatnonzero(model.reference.scores < 0.0)
    size = min(CHOOSERS, len(refused) // 2)
    if size < LEAST:
        return None
    drawn = np.sort(np.random.default_rng(common.seed).permutation(refused)[:size]).tolist()
    rows_raw: dict[int, Row] = {i: model.reference.rows_raw[i] for i in drawn}
    people = [one for one in answers(ref, common, {**payload, "first": 0}, rows_raw).values() if isinstance(one, Asked)]
    features = model.black_box.space.features
    found = [(one.row_raw, one.actions) for one in people if one.row_raw is not None]
    rules = Rules(candidates(features, found, asked["changes"]))
    meter, futures = Meter(model.black_box), load_futures(model.registered)
    search = None if futures is None else futures.search
    least = asked["future_validity"] or common.robustness.future_validity or 0.0
    least = least if futures is None else futures.share_for(least)
    burdens = np.full((len(people), len(rules.rules)), np.inf)
    for i, one in enumerate(people):
        k, records = rules.reached(one.actions, meter, search, least)
        burdens[i, k] = _burdens(one.actions.cost(records), records, search)
    best, reached, at_most = best_cover(burdens, asked["count"])
    return Chosen(
        rules=Rules([rules.rules[r] for r in best]),
        reached=tuple(reached),
        at_most=tuple(at_most),
        choosers=frozenset(row_raw.tobytes() for row_raw in rows_raw.values()),
        people=len(people),
        least=least,
        calls=sum(one.calls for one in people) + meter.calls,
        rows=sum(one.rows for one in people) + meter.rows,
    )


class Given:
    """Collects the burden, the cost and the future validity of each common way for each person."""

    def __init__(self) -> None:
        self._people, self._numbers = 0, array("d")

    def add(self, ways: Sequence[Json | None]) -> None:
        """Add what `Chosen.stated` returned for one person."""
        self._people += 1
        for one in ways:
            share = None if one is None else one["future_validity"]
            self._numbers.extend((math.inf, math.inf) if one is None else (one["burden"], one["cost"]))
            self._numbers.append(math.nan if share is None else share)

    def arrays(self) -> Float[np.ndarray, "3 n k"]:
        """Burdens, costs and future validities, in this order, each by person and way.

        Where a way does not reach a person, they are infinity, infinity and NaN.
        """
        return np.moveaxis(np.array(self._numbers).reshape(self._people, -1, 3), 2, 0)


def common_ways(chosen: Chosen, features: Sequence[Feature], given: Given) -> tuple[CommonWay, ...]:
    """The chosen ways, each with the shares of people whom it reaches: alone, and together with the ways before it.

    Parameters
    ----------
    given : figures of the people on whom the ways are measured
    """
    (burdens, costs, kept_by), result, before = given.arrays(), list[CommonWay](), 0
    people = len(costs)
    for k, rule in enumerate(chosen.rules.rules if people else ()):
        least = burdens[:, : k + 1].argmin(axis=1)
        paid, shares = costs[range(people), least], kept_by[range(people), least]
        met = np.isfinite(paid)
        share = wilson(int(met.sum()), people)
        assert share is not None
        result.append(
            CommonWay(
                rule=tuple(_changes(rule, features)),
                text=rule_text(rule, features),
                people=people,
                alone=float(np.isfinite(costs[:, k]).mean()),
                reach=share.value,
                interval=share.interval,
                added=(int(met.sum()) - before) / people,
                cost=_mean(paid[met]),
                future_validity=_mean(shares[met & ~np.isnan(shares)]),
                optimal=chosen.reached[k] == chosen.at_most[k],
                at_most=chosen.at_most[k] / chosen.people,
            )
        )
        before = int(met.sum())
    return tuple(result)


def _mean(values: Float[np.ndarray, "n"]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _changes(rule: Rule, features: Sequence[Feature]) -> list[WayChange]:
    found = []
    for move in rule:
        feature = features[move.feature]
        value: RawValue = move.value if move.kind in ("by", "times") else feature.value(move.value)
        end: Literal["at_least", "at_most"] = "at_least" if move.up else "at_most"
        found.append(WayChange(feature=feature.name, kind=end if move.kind == "to" else move.kind, value=value))
    return found
