"""PROBE: what a chosen invalidation rate costs, whether noise keeps to it, and the authors' method beside it."""

import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.methods.probe import ProbeParams
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult
from app.recourse.robustness.invalidation import noise_columns
from app.recourse.solve import METHODS, solve
from benchmarks import authors_probe
from benchmarks.tables import show
from benchmarks.tasks import GERMAN, Task, german, german_forest, german_linear

TARGETS = (0.35, 0.2, 0.1, 0.05)
STD = 0.1
DRAWS = 100_000
DRAWS_AT_ONCE = 20_000


def table() -> None:
    """Per model and rate: share found, the rate measured by other draws, cost, CPU time; then the authors' method."""
    if not GERMAN.exists():
        print(f"No {GERMAN}: these tables need it; RECOURSE_DATA says where the data sets are.\n")
        return
    head = (
        "model", "rate asked", "found", "measured rate: mean", "worst", "L1 cost", "changed", "CPU ms: median", "p95",
        "calls",
    )  # fmt: skip
    makers: list[Callable[[], Task]] = [lambda: german("all"), lambda: german("four"), german_forest, german_linear]
    show("Invalidation rates, noise 0.1", head, (row for make in makers for row in _rows(make())))
    beside = (
        "rate asked", "authors: found", "measured rate", "L1 cost", "made legal: accepted", "measured rate", "L1 cost",
        "probe, at the same measured rates: found", "measured rate", "L1 cost", "not dearer",
    )  # fmt: skip
    task = german("four")
    show("The authors' method, german four", beside, (_beside(task, target) for target in TARGETS))


def _rows(task: Task) -> Iterable[Sequence[str]]:
    std = noise_columns(task.space, STD)
    for target in TARGETS:
        answers, times = [], []
        for applicant in task.applicants_raw:
            started = time.process_time()
            answers.append(_answer(task, applicant, target))
            times.append(1e3 * (time.process_time() - started))
        found = [answer.counterfactuals[0] for answer in answers if answer.counterfactuals]
        rates = [_rate(task, task.space.encode(one.row_raw[None])[0], std) for one in found]
        yield (
            task.name, f"{target:g}", f"{len(found) / len(answers):.0%}", f"{np.mean(rates):.3f}", f"{max(rates):.4f}",
            f"{np.mean([one.cost for one in found]):.3f}", f"{np.mean([len(one.changed) for one in found]):.2f}",
            f"{np.median(times):.1f}", f"{np.percentile(times, 95):.1f}",
            f"{np.mean([answer.diagnostics.model_calls for answer in answers]):.0f}",
        )  # fmt: skip


def _beside(task: Task, target: float) -> Sequence[str]:
    """The authors' points as they are; made legal; and our answers to the rate that each legal one really has."""
    std = noise_columns(task.space, STD)
    free: list[tuple[float, float]] = []
    legal: list[tuple[float, float]] = []
    ours: list[tuple[float, float, bool]] = []
    for applicant, x in zip(task.applicants_raw, authors_probe.points(task, target, std), strict=True):
        if np.isnan(x).any():
            continue
        actions = action_set(task.space, applicant)
        free.append((_rate(task, x, std), _cost_between(actions, x)))
        row_raw = actions.snap(task.space.decode(x[None]))
        if task.black_box.score_raw(row_raw)[0] < 0.0 or not actions.contains(row_raw)[0]:
            continue
        rate, cost = _rate(task, task.space.encode(row_raw)[0], std), float(actions.cost(row_raw)[0])
        legal.append((rate, cost))
        answer = _answer(task, applicant, float(np.clip(rate, 0.001, 0.999)))
        if answer.counterfactuals:
            one = answer.counterfactuals[0]
            measured = _rate(task, task.space.encode(one.row_raw[None])[0], std)
            ours.append((measured, one.cost, one.cost <= cost + 1e-9))
    n = len(task.applicants_raw)
    cells = [f"{target:g}"]
    for part, whole in ((free, n), (legal, n), (ours, len(legal))):
        rate, cost, *_ = np.mean(part, axis=0)
        cells += [f"{len(part) / whole:.0%}", f"{rate:.3f}", f"{cost:.3f}"]
    return (*cells, f"{np.mean([kept for _, _, kept in ours]):.0%}")


def _answer(task: Task, applicant: np.ndarray, target: float) -> RecourseResult:
    actions = action_set(task.space, applicant)
    problem = RecourseProblem(black_box=task.black_box, reference=task.reference, action_set=actions)
    return solve(problem, METHODS["probe"], ProbeParams(target_invalidation_rate=target, noise_std=STD))


def _rate(task: Task, x: np.ndarray, std: np.ndarray) -> float:
    """Of noise that the answer has not been measured with."""
    rng, refused = np.random.default_rng(4711), 0
    for _ in range(DRAWS // DRAWS_AT_ONCE):
        noisy = x + rng.standard_normal((DRAWS_AT_ONCE, len(x))) * std
        refused += int((~(task.black_box.score(noisy) >= 0.0)).sum())
    return refused / DRAWS


def _cost_between(actions: ActionSet, x: np.ndarray) -> float:
    """The cost of an encoded point, which between records is interpolated linearly."""
    space, A = actions.space, actions
    numbers = np.abs(x - A.x0)[space.numeric_columns] @ A.weights[space.numeric]
    own = space.group_starts + A.factual_raw[space.groups].astype(np.intp)
    return float(numbers + (1.0 - x[own]) @ A.weights[space.groups])
