"""Several ways: how many are found, what they cost against brute force, and how long they take; and one change less."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.advice_ranges import LEAST_SHARE
from app.recourse.actions.constraints import Constraints
from app.recourse.candidates import Candidates
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.method import MethodContext
from app.recourse.method_run import Groundwork
from app.recourse.methods.robust_mpm import METHOD, RobustMpmParams
from app.recourse.models.meter import Meter
from app.recourse.models.score import favourable
from app.recourse.problem import RecourseProblem
from app.recourse.solve import solve
from app.recourse.verification import single
from benchmarks.tables import show
from benchmarks.tasks import GERMAN, Task, consumer_loan, german

WAYS = 3
MOST_CHANGES = 3
"""Changes of a record that brute force tries."""
GRID = 9
"""Values of a number that it tries, over the range that the applicant has."""
CHUNK = 200_000
REPEATS = 5
SHARES = (0.0, single.CHANGE_SHARE)

Record = tuple[float, np.ndarray]
"""A cost, and the raw row that has it."""


@dataclass(frozen=True, kw_only=True)
class Ways:
    """The ways of one applicant: their costs, and the sets of features that they change."""

    costs: list[float]
    sets: list[frozenset[int]]


def table() -> None:
    """Three ways of rejected applicants beside all records with few changes; then what one change less is worth."""
    tasks = [german("all"), consumer_loan()] if GERMAN.exists() else [consumer_loan()]
    head = (
        "model", "people", "three ways", "2nd / 1st", "3rd / 1st", "the model's: 2nd / 1st", "3rd / 1st",
        "2nd / brute force", "3rd / brute force", "legal and accepted", "time / one answer", "calls",
    )  # fmt: skip
    show("Three ways: 50 rejected applicants each", head, map(_row, tasks))
    few = (
        "model", "worth of one change less", "L1 cost", "features changed", "with a change that 5 % replace",
        "processor ms", "calls",
    )  # fmt: skip
    answers = (_fewer(task, share) for task in tasks for share in SHARES)
    show("One change less: 50 rejected applicants each", few, answers)


def _row(task: Task) -> list[str]:
    ours, theirs, kept, times, valid, calls = [], [], [], [], [], list[int]()
    for applicant in task.applicants_raw:
        actions = action_set(task.space, applicant)
        problem = RecourseProblem(black_box=task.black_box, reference=task.reference, action_set=actions, count=WAYS)
        answer = solve(problem, METHOD, RobustMpmParams())
        found = answer.counterfactuals
        ours.append(Ways(costs=[one.cost for one in found], sets=[frozenset(one.changed) for one in found]))
        calls.append(answer.diagnostics.model_calls or 0)
        valid += [_is_valid(task, actions, one) for one in found]
        accepted, meeting = brute_force(problem)
        theirs.append(accepted)
        kept.append(meeting)
        times.append(_seconds(problem) / _seconds(replace(problem, count=1)))
    possible = [own for own, other in zip(ours, kept, strict=True) if len(other.costs) == WAYS]
    three = [len(one.costs) == WAYS for one in possible]
    both = [
        (own.costs, other.costs)
        for own, other in zip(ours, kept, strict=True)
        if len(own.costs) == len(other.costs) == WAYS
    ]
    return [
        task.name,
        f"{len(ours)}",
        f"{sum(three)} of {len(possible)}",
        *(f"{_ratio(ours, k):.2f}" for k in (1, 2)),
        *(f"{_ratio(theirs, k):.2f}" for k in (1, 2)),
        *(f"{np.mean([own[k] / other[k] for own, other in both]):.2f}" for k in (1, 2)),
        f"{np.mean(valid):.0%}",
        f"{np.median(times):.1f}",
        f"{np.mean(calls):.1f}",
    ]


def _fewer(task: Task, share: float) -> list[str]:
    """Answers as the service gives them, where one change less is worth this share of the cost."""
    usual, single.CHANGE_SHARE = single.CHANGE_SHARE, share
    costs, changes, replaced, times, calls = [], [], [], [], list[int]()
    for applicant in task.applicants_raw:
        actions = action_set(task.space, applicant, least_share=LEAST_SHARE)
        problem = RecourseProblem(black_box=task.black_box, reference=task.reference, action_set=actions)
        answer = solve(problem, METHOD, RobustMpmParams())
        (found,) = answer.counterfactuals
        few = replace(actions, constraints=Constraints(max_changes=len(found.changed) - 1))
        less = solve(replace(problem, action_set=few), METHOD, RobustMpmParams()) if len(found.changed) > 1 else None
        replaced.append(
            less is not None
            and bool(less.counterfactuals)
            and not less.fallback
            and less.counterfactuals[0].cost <= 1.05 * found.cost
        )
        costs.append(found.cost)
        changes.append(len(found.changed))
        times.append(1e3 * _seconds(problem))
        calls.append(answer.diagnostics.model_calls or 0)
    single.CHANGE_SHARE = usual
    return [
        task.name, f"{share:.0%}", f"{np.mean(costs):.3f}", f"{np.mean(changes):.2f}",
        f"{sum(replaced)} of {len(replaced)}", f"{np.mean(times):.1f}", f"{np.mean(calls):.1f}",
    ]  # fmt: skip


def _ratio(ways: list[Ways], k: int) -> float:
    """Mean cost of the way of this rank relative to the first."""
    return float(np.mean([one.costs[k] / one.costs[0] for one in ways if len(one.costs) == WAYS]))


def _seconds(problem: RecourseProblem) -> float:
    """Of this process: other work on the machine would make the ratio of two short times meaningless."""
    seconds = []
    for _ in range(REPEATS):
        began = time.process_time()
        solve(problem, METHOD, RobustMpmParams())
        seconds.append(time.process_time() - began)
    return min(seconds)


def _is_valid(task: Task, actions: ActionSet, one: Counterfactual) -> bool:
    """Legal, and favourable when the model is asked again through the JSON record."""
    row_raw = task.space.read(task.space.record(one.row_raw))[None]
    return bool(actions.contains(row_raw)[0] and favourable(task.black_box.score_raw(row_raw))[0])


def brute_force(problem: RecourseProblem) -> tuple[Ways, Ways]:
    """The cheapest ways with few changes of all that the model accepts, and of those that meet the method's constraint.

    The latter is that of the local model of this answer, so the search is compared with what it searches.
    """
    meets = _candidates(problem).meets
    accepted, meeting = dict[frozenset[int], Record](), dict[frozenset[int], Record]()
    for features, rows_raw in _rows(problem.action_set):
        yes = favourable(problem.black_box.score_raw(rows_raw))
        cost = problem.action_set.cost(rows_raw)
        for best, chosen in ((accepted, yes), (meeting, yes & meets(rows_raw))):
            if chosen.any():
                at = int(np.where(chosen, cost, np.inf).argmin())
                best[features] = float(cost[at]), rows_raw[at]
    return _different(problem, accepted), _different(problem, meeting)


def _candidates(problem: RecourseProblem) -> Candidates:
    groundwork, params = Groundwork(problem, Meter(problem.black_box)), RobustMpmParams()
    seen = groundwork.survey(params)
    context = MethodContext(
        sample=groundwork.sample(params), factual_score=seen.factual_score, neighbours=seen.ends,
        certificate=CertificateParams(), meter=Meter(problem.black_box),
    )  # fmt: skip
    candidates = METHOD.generate(problem, params, context)
    assert isinstance(candidates, Candidates)
    return candidates


def _different(problem: RecourseProblem, best: dict[frozenset[int], Record]) -> Ways:
    """The cheapest sets of features of which none contains an earlier one, nor what is enough of an earlier one."""
    ways, closed = Ways(costs=[], sets=[]), list[frozenset[int]]()
    for features, (cost, row_raw) in sorted(best.items(), key=lambda item: item[1][0]):
        if len(ways.costs) < WAYS and not any(earlier <= features for earlier in closed):
            ways.costs.append(cost)
            ways.sets.append(features)
            closed += [features, *_enough(problem, row_raw, features)]
    return ways


def _enough(problem: RecourseProblem, row_raw: np.ndarray, features: frozenset[int]) -> list[frozenset[int]]:
    """The parts of a way that the model accepts, and that bring most of what its score rises by."""
    parts = [frozenset(some) for k in range(1, len(features)) for some in combinations(sorted(features), k)]
    if not parts:
        return []
    rows_raw = np.tile(problem.factual_raw, (len(parts), 1))
    for row, part in zip(rows_raw, parts, strict=True):
        row[list(part)] = row_raw[list(part)]
    own, whole = problem.black_box.score_raw(np.array([problem.factual_raw, row_raw]))
    scores = problem.black_box.score_raw(rows_raw)
    most = favourable(scores) & (scores - own >= (whole - own) * single.ENOUGH_SHARE)
    return [part for part, is_enough in zip(parts, most, strict=True) if is_enough]


def _rows(actions: ActionSet) -> Iterator[tuple[frozenset[int], np.ndarray]]:
    """All records with a few changes, by the features that change."""
    values = {j: _values(actions, j) for j in np.flatnonzero(actions.movable).tolist()}
    for k in range(1, MOST_CHANGES + 1):
        for features in combinations([j for j in values if len(values[j])], k):
            chosen = np.array(list(product(*(values[j] for j in features))))
            rows_raw = np.tile(actions.factual_raw, (len(chosen), 1))
            rows_raw[:, features] = chosen
            yield frozenset(features), rows_raw[actions.contains(rows_raw)]


def _values(actions: ActionSet, j: int) -> np.ndarray:
    """The values of one feature that are tried: every level, or a grid of numbers; not the applicant's own."""
    fact = actions.factual_raw[j]
    if not actions.space.features[j].is_number:
        return np.array([level for level in actions.levels(j) if level != fact], dtype=float)
    grid = np.tile(actions.factual_raw, (GRID, 1))
    grid[:, j] = np.linspace(actions.lower_raw[j], actions.upper_raw[j], GRID)
    values = np.unique(actions.snap(grid)[:, j])
    return values[values != fact]
