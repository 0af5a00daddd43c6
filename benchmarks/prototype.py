"""The papers' pipeline as plainly as it can be written, to compare with: not used by the service.

The nearest crossing alone, a ball over all columns around it, the machine, then a mixed-integer program whose margin
is raised until the model says yes. Legal answers only, because illegal ones cannot be compared.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from app.errors import DegenerateSurrogate
from app.recourse.features import Change
from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.surrogate.class_moments import class_moments
from app.recourse.surrogate.mpm import fit
from benchmarks.recourse import future_validity
from benchmarks.tasks import Task

STEP = 0.1
MAX_STEPS = 60


@dataclass(frozen=True, kw_only=True)
class Plain:
    """What the plain pipeline reached."""

    found: float
    cost: float
    changed: float
    future: float


def measure(task: Task, params: RobustMpmParams) -> Plain:
    """Answer every applicant of a task."""
    answers = [_answer(task, x, params, np.random.default_rng(i)) for i, x in enumerate(task.applicants_raw)]
    found = [(x, y) for x, y in zip(task.applicants_raw, answers, strict=True) if y is not None]
    return Plain(
        found=len(found) / len(answers),
        cost=float(np.mean([_cost(task, x, y) for x, y in found])),
        changed=float(np.mean([(x != y).sum() for x, y in found])),
        future=future_validity(task, np.array([y for _, y in found])),
    )


def _answer(task: Task, row_raw: np.ndarray, params: RobustMpmParams, rng: np.random.Generator) -> np.ndarray | None:
    x0 = task.space.encode(row_raw[None])[0]
    centre = _crossing(task, x0, params.neighbours)
    radius = (params.radius_fraction or 0.5) * task.reference.largest_distance
    directions = rng.normal(size=(params.samples, len(x0)))
    lengths = radius * rng.random((params.samples, 1)) ** (1.0 / len(x0))
    X = centre + lengths * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    try:
        machine = fit(
            class_moments(X, task.black_box.score(X) >= 0.0),
            params.divergence,
            radius_unfavourable=params.radius_unfavourable,
        )
    except DegenerateSurrogate:
        return None
    w, c = machine.model.w, machine.model.c
    for k in range(MAX_STEPS):
        answer = _program(task, row_raw, w, params.margin + STEP * k - c - float(w @ x0))
        if answer is None or task.black_box.score_raw(answer[None])[0] >= 0.0:
            return answer
    return None


def _crossing(task: Task, x0: np.ndarray, k: int) -> np.ndarray:
    X = task.reference.X_favourable
    ends = X[((X - x0) ** 2).sum(axis=1).argsort()[:k]]
    times = np.linspace(0.0, 1.0, 1001)[1:]
    best, centre = np.inf, ends[0]
    for end in ends:
        points = x0 + times[:, None] * (end - x0)
        first = int((task.black_box.score(points) >= 0.0).argmax())
        distance = float(np.linalg.norm(points[first] - x0))
        if distance < best:
            best, centre = distance, points[first]
    return centre


def _program(task: Task, row_raw: np.ndarray, w: np.ndarray, need: float) -> np.ndarray | None:
    """Cheapest legal record: two columns per number (up, down), one per category, exactly one category per group."""
    space = task.space
    gain: list[float] = []
    cost: list[float] = []
    limit: list[float] = []
    owner: list[int] = []
    to: list[int] = []
    equal: list[list[int]] = []
    for j, feature in enumerate(space.features):
        if feature.change is Change.NONE:
            continue
        span = space.spans[j]
        if feature.is_group:
            now = int(row_raw[j])
            equal.append([len(gain) + level for level in range(len(feature.categories))])
            for level in range(len(feature.categories)):
                gain.append(w[span.start + level] - w[span.start + now])
                cost.append(float(level != now))
                limit.append(1.0)
                owner.append(j)
                to.append(level)
            continue
        low, high = feature.range_raw
        for sign, room in ((1, high - row_raw[j]), (-1, row_raw[j] - low)):
            if sign < 0 and feature.change is Change.INCREASE:
                continue
            gain.append(sign * w[span.start] / (feature.scale or 1.0))
            cost.append(1.0 / (feature.scale or 1.0))
            limit.append(room)
            owner.append(j)
            to.append(sign)
    rows = [np.array(gain), *(np.isin(np.arange(len(gain)), group).astype(float) for group in equal)]
    low_limits = np.array([need, *np.ones(len(equal))])
    high_limits = np.array([np.inf, *np.ones(len(equal))])
    solution = milp(
        np.array(cost),
        constraints=LinearConstraint(np.array(rows), low_limits, high_limits),
        bounds=Bounds(np.zeros(len(gain)), np.array(limit)),
        integrality=np.ones(len(gain)),
        options={"time_limit": 1.0},
    )
    if solution.x is None:
        return None
    answer = row_raw.copy()
    for j, target, amount in zip(owner, to, np.rint(solution.x), strict=True):
        if amount > 0.0:
            answer[j] = target if space.features[j].is_group else answer[j] + target * amount
    return answer


def _cost(task: Task, before: np.ndarray, after: np.ndarray) -> float:
    return sum(
        float(b != a) if feature.is_group else abs(a - b) / (feature.scale or 1.0)
        for feature, b, a in zip(task.space.features, before, after, strict=True)
    )
