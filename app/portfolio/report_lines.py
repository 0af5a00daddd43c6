"""A line of a report for each record: the decision, the answer, and what stands in the way."""

import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from app.errors import RecourseError
from app.futures.store import load_futures
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
from app.portfolio.chosen_ways import chosen_ways
from app.portfolio.common_ways import Reached
from app.portfolio.preclusion import accepts_at_random, preclusion
from app.portfolio.relaxations import InTheWay, Reachable, in_the_way
from app.questions import use_cases
from app.questions.answers import Json
from app.questions.question import Question
from app.recourse.actions.action_set import ActionSet
from app.recourse.answer_part import EXACT, AnswerPart
from app.recourse.features import Feature
from app.recourse.models.meter import Meter
from app.recourse.offers import offers
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.recourse.terms import directions
from app.registry.ref import ModelRef
from app.registry.version import LoadedModel

MOST_CHANGES = 2
"""Changes of an answer up to which each is asked for being the only lever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine(AnswerPart):
    """One line of a report: what it says of one record, without values of features."""

    reference: str | None
    decision: str
    """`accepted` or `refused`."""
    score: float = field(metadata=EXACT)
    answer: Answered | None
    """Null where the record is accepted."""
    only: tuple[str, ...]
    """Changes of the answer without any of which there is no way."""
    limits: tuple[Json, ...]
    """Limits in the way of who has no way; see `app.portfolio.relaxations.InTheWay`."""
    accepted_by: float | None
    """Share of the held-back future models that accept the refused record as it is."""
    by_terms: bool | None
    """Whether the lender's terms alone turn the no into a yes; null where the version names none, or the record is
    accepted."""
    ways: tuple[Json | None, ...] | None
    """Of each common way cost, burden (cost over the share of the search set of future models that accept) and future
    validity, null where it does not reach them; null for those who chose."""
    groups: Mapping[str, str]
    diagnostics: Json
    """Calls of the model, and records in them."""


def lines(ref: ModelRef, payload: Json) -> list[ReportLine | RecourseError]:
    """For each row of a report's payload, in order, the line with the version's answer, or an error."""
    model, common = tasks.load(ref), Question.from_json(payload["question"])
    result: dict[int, ReportLine | RecourseError] = {}
    rows_raw: dict[int, Row] = {}
    for i, row in enumerate(payload["rows"]):
        try:
            rows_raw[i] = row_raw_of(model, row)
        except RecourseError as error:
            result[i] = error
    scores = without_errors(decide(model.black_box, rows_raw), result)
    refused = {i: rows_raw[i] for i, score in scores.items() if not accepts(model.black_box, score)}
    asked = without_errors(answers(ref, common, payload, refused), result)
    spent = {i: _Spent(calls=1, rows=1) for i in scores}
    for i, one in asked.items():
        spent[i].add(one.calls, one.rows)
    # Of a remote model each question is paid: a report asks it no more than one for each person.
    parts = () if model.black_box.remote is not None else payload["parts"]
    chosen = chosen_ways(ref, payload) if "ways" in parts and (refused or (payload["first"] == 0 and scores)) else None
    if chosen is not None and payload["first"] == 0:
        # Asked once for all records, and so counted once.
        spent[min(spent)].add(chosen.calls, chosen.rows)
    reached: dict[int, Reached] = {}
    for i, one in asked.items():
        if chosen is None:
            break
        meter = Meter(model.black_box)
        reached[i] = chosen.reached_by(one, meter)
        spent[i].add(meter.calls, meter.rows)
    accepted_by = _accepted_by(model, {i: rows_raw[i] for i in asked})
    for i, score in scores.items():
        if i in result:
            continue
        person, only, limits, ways, by_terms = asked.get(i), tuple[str, ...](), list[InTheWay](), None, None
        if person is not None:
            reachable = partial(_reachable, person.problem, common, payload["deadline_s"], spent[i])
            _, known_raw = reached.get(i, (None, person.actions.factual_raw[None][:0]))
            only = _only_levers(model, common, person, known_raw, reachable) if "levers" in parts else ()
            limits = in_the_way(person.actions, reachable) if person.row_raw is None and "limits" in parts else []
            ways = None if chosen is None else chosen.stated(person, reached[i])
            by_terms = _by_terms(_in_time(person.problem, payload["deadline_s"]), spent[i])
        result[i] = _line(
            model, payload, i, rows_raw[i], score, person, only=only, limits=tuple(map(asdict, limits)), ways=ways,
            accepted_by=accepted_by.get(i), by_terms=by_terms, spent=spent[i],
        )  # fmt: skip
    return [result[i] for i in range(len(payload["rows"]))]


@dataclass(slots=True)
class _Spent:
    """What a line has asked of the model, which counts against the budget of the key."""

    calls: int
    rows: int

    def add(self, calls: int, rows: int) -> None:
        self.calls, self.rows = self.calls + calls, self.rows + rows


def _line(
    model: LoadedModel, payload: Json, i: int, row_raw: Row, score: float, one: Asked | None, *, only: tuple[str, ...],
    limits: tuple[Json, ...], ways: tuple[Json | None, ...] | None, accepted_by: float | None, by_terms: bool | None,
    spent: _Spent,
) -> ReportLine:  # fmt: skip
    row = payload["rows"][i]
    return ReportLine(
        reference=row.get("reference"),
        decision=YES if one is None else NO,
        score=score,
        answer=None if one is None else one.answered(one.actions),
        only=only,
        limits=limits,
        accepted_by=accepted_by,
        by_terms=by_terms,
        ways=ways,
        groups=dict(_labels(model, payload["groups"]["by"], row, row_raw)) if one is not None else {},
        diagnostics={"model_calls": spent.calls, "model_rows": spent.rows},
    )


def _accepted_by(model: LoadedModel, rows_raw: Mapping[int, Row]) -> dict[int, float]:
    """The share of the held-back future models that accept each record; empty without future models."""
    futures = load_futures(model.registered)
    if futures is None or not rows_raw:
        return {}
    shares = futures.promised(futures.held_back.scores_raw(np.array(list(rows_raw.values()))))
    return dict(zip(rows_raw, shares.tolist(), strict=True))


def _in_time(problem: RecourseProblem, deadline_s: float) -> RecourseProblem:
    """The same question, with all the time that one has."""
    return replace(problem, deadline=time.monotonic() + deadline_s)


def _by_terms(problem: RecourseProblem, spent: _Spent) -> bool | None:
    """Whether other terms are accepted; None where the version has none, and of a remote model, which is paid."""
    actions = problem.action_set
    if problem.black_box.remote is not None or actions.included or not directions(actions.space, {}):
        return None
    # None is listed, so no future model is asked about one.
    found = offers(replace(problem, under="same"), {}, most=0)
    spent.add(found.diagnostics.model_calls or 0, found.diagnostics.model_rows or 0)
    return found.more > 0


def _only_levers(
    model: LoadedModel, common: Question, one: Asked, known_raw: Float[np.ndarray, "k p"], reachable: Reachable
) -> tuple[str, ...]:
    """The features without a change of which a person has no way, where the answer changes few.

    What is unchanged in one of the records `known_raw`, which the model accepts, is not asked about again.
    """
    if one.row_raw is None or len(changed := one.actions.changes(one.row_raw)) > MOST_CHANGES:
        return ()
    only, constraints, fact = list[str](), common.constraints, one.actions.factual_raw
    for j in changed:
        name = one.actions.space.features[j].name
        fixed = replace(constraints, immutable=(*constraints.immutable, name))
        asked = replace(common, constraints=fixed, factual_raw=fact)
        if not (known_raw[:, j] == fact[j]).any() and not reachable(
            use_cases.actions_of(model.black_box.space, asked, model.rules)
        ):
            only.append(name)
    return tuple(only)


def _reachable(
    problem: RecourseProblem, common: Question, deadline_s: float, spent: _Spent, actions: ActionSet
) -> bool:  # fmt: skip
    """Whether the model accepts a record of an action set: by a few records, the proof, or else by the search."""
    meter = Meter(problem.black_box)
    yes = accepts_at_random(meter, actions)
    spent.add(meter.calls, meter.rows)
    if yes:
        return True
    known = preclusion(problem.black_box, problem.reference, actions, cheapest=False)
    spent.add(0, known.asked)
    if known.row_raw is not None or known.proof is not None:
        return known.row_raw is not None
    asked = replace(_in_time(problem, deadline_s), action_set=actions, seed=common.seed)
    found = solve(asked, METHODS[common.method], common.params)
    spent.add(found.diagnostics.model_calls or 0, found.diagnostics.model_rows or 0)
    return bool(found.counterfactuals)


def _labels(model: LoadedModel, by: Sequence[Json], row: Json, row_raw: Row) -> list[tuple[str, str]]:
    """The group of a person by each characteristic; none where a record does not say it."""
    found, features = [], model.black_box.space.features
    for one in by:
        if (column := one.get("column")) is not None:
            if (label := (row.get("groups") or {}).get(column)) is not None:
                found.append((column, str(label)))
            continue
        j = next(j for j, feature in enumerate(features) if feature.name == one["feature"])
        label = _label(features[j], float(row_raw[j]), one.get("edges") or ())
        if label is not None:
            found.append((one["feature"], label))
    return found


def _label(feature: Feature, value: float, edges: Sequence[float]) -> str | None:
    if not edges:
        return None if np.isnan(value) else str(feature.value(value))
    if np.isnan(value) or value in feature.states_raw:
        return None
    return bands(edges)[bisect_right(edges, value)]


def bands(edges: Sequence[float]) -> list[str]:
    """Names of the groups into which `edges` divide numbers, in ascending order; an empty list without edges."""
    between = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    return [f"below {edges[0]:g}", *between, f"{edges[-1]:g} and above"] if edges else []
