"""Time, floor, legality, cost and future validity of `solve`."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from app.recourse.actions.action_set import action_set
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.features import Change, Feature, FeatureType
from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.models.black_box import Predict
from app.recourse.models.score import favourable
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult
from app.recourse.solve import METHODS, solve
from benchmarks.tasks import Task

REPEATS = 3
"""Timed answers per applicant, after one that is not timed; the fastest counts."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One row of a table; medians or means over the applicants of a task."""

    found: float
    valid: float
    """Of those found: favourable when the model is asked about the returned record by another route."""
    legal: float
    """Of those found: within the schema, on its lattice, and never against a feature's direction."""
    cost: float
    changed: float
    changed_median: float
    future: float
    solve_ms: float
    solve_p95_ms: float
    floor_ms: float
    """The model's own `predict` on exactly the inputs of the answer."""
    ratio: float
    """Median over applicants of solve / floor."""
    torch_floor_ms: float
    torch_ratio: float
    calls: float
    rows: float


class Recorded:
    """A model that keeps what it is asked."""

    def __init__(self, predict: Predict) -> None:
        self.predict = predict
        self.inputs: list[np.ndarray] = []

    def __call__(self, model_input: np.ndarray) -> np.ndarray:
        """The answer of the model."""
        self.inputs.append(model_input.copy())
        return self.predict(model_input)


def measure(task: Task, params: RobustMpmParams) -> Measured:
    """Answer every applicant of a task."""
    answers, times, floors, torch_floors = [], [], [], []
    for applicant in task.applicants_raw:
        recorded = Recorded(task.black_box.predict)
        recording = replace(task, black_box=replace(task.black_box, predict=recorded))
        answers.append(answer(recording, applicant, params))
        inputs = recorded.inputs
        times.append(_fastest(partial(answer, task, applicant, params)))
        floors.append(_replay(task.black_box.predict, inputs))
        torch_floors.append(_replay(task.torch_predict, inputs) if task.torch_predict else float("nan"))
    found = [
        (a, x, a.counterfactuals[0]) for a, x in zip(answers, task.applicants_raw, strict=True) if a.counterfactuals
    ]
    milliseconds, floor, torch_floor = 1e3 * np.array(times), 1e3 * np.array(floors), 1e3 * np.array(torch_floors)
    return Measured(
        found=len(found) / len(answers),
        valid=float(np.mean([_valid(task, one) for _, _, one in found])),
        legal=float(np.mean([legal(task, x, one.row_raw) for _, x, one in found])),
        cost=float(np.mean([one.cost for _, _, one in found])),
        changed=float(np.mean([len(one.changed) for _, _, one in found])),
        changed_median=float(np.median([len(one.changed) for _, _, one in found])),
        future=future_validity(task, np.array([one.row_raw for _, _, one in found])),
        solve_ms=float(np.median(milliseconds)),
        solve_p95_ms=float(np.percentile(milliseconds, 95)),
        floor_ms=float(np.median(floor)),
        ratio=float(np.median(milliseconds / floor)),
        torch_floor_ms=float(np.median(torch_floor)),
        torch_ratio=float(np.median(milliseconds / torch_floor)),
        calls=float(np.mean([a.diagnostics.model_calls for a in answers])),
        rows=float(np.mean([a.diagnostics.model_rows for a in answers])),
    )


def future_validity(task: Task, rows_raw: np.ndarray) -> float:
    """Share of retrained networks that accept a record, averaged over records."""
    if not task.retrained or not len(rows_raw):
        return float("nan")
    X = task.space.encode(rows_raw)
    return float(np.mean([decide(X).mean() for decide in task.retrained]))


def answer(
    task: Task, applicant: np.ndarray, params: RobustMpmParams, certificate: CertificateParams | None = None
) -> RecourseResult:
    """One question, asked of the library."""
    actions = action_set(task.space, applicant)
    problem = RecourseProblem(black_box=task.black_box, reference=task.reference, action_set=actions)
    return solve(problem, METHODS["robust_mpm"], params, certificate)


def _fastest(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def _replay(predict: Predict, inputs: list[np.ndarray]) -> float:
    return _fastest(lambda: [predict(X) for X in inputs])


def _valid(task: Task, one: Counterfactual) -> bool:
    """Asked again, through the JSON record; in PyTorch where the task has the network there."""
    record = task.space.record(one.row_raw)
    row_raw = task.space.read(record)[None]
    if task.torch_predict is not None:
        return bool(task.torch_predict(task.space.encode(row_raw))[0] >= task.black_box.threshold)
    return bool(favourable(task.black_box.score_raw(row_raw))[0])


def legal(task: Task, before: np.ndarray, after: np.ndarray) -> bool:
    """Within the schema, on its lattice, and never against a feature's direction."""
    return all(_legal_value(f, b, a) for f, b, a in zip(task.space.features, before, after, strict=True))


def _legal_value(feature: Feature, before: float, after: float) -> bool:
    low, high = feature.range_raw
    ways = {Change.ANY: True, Change.NONE: after == before, Change.INCREASE: after >= before}
    whole = feature.type is FeatureType.CONTINUOUS or after == int(after)
    return low <= after <= high and whole and ways.get(feature.change, after <= before)
