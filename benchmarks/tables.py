"""The tables, as Markdown."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar, get_args

import cvxpy as cp
import numpy as np

from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.surrogate.divergences import Deviation, Divergence, largest_deviation
from app.recourse.surrogate.mpm import minimise_spread
from benchmarks import prototype
from benchmarks.recourse import measure
from benchmarks.tasks import GERMAN, Task, available, german

T = TypeVar("T")

FRONTIER: tuple[dict[str, Any], ...] = (
    {"radius_fraction": 0.05, "radius_unfavourable": 0.0},
    {"radius_fraction": 0.3, "radius_unfavourable": 0.0},
    {"radius_fraction": 0.3, "radius_unfavourable": 1.0},
    {"radius_fraction": 0.3, "radius_unfavourable": 3.0},
    {"radius_fraction": 0.5, "radius_unfavourable": 0.0},
    {"radius_fraction": 0.5, "radius_unfavourable": 1.0},
    {"radius_fraction": 0.5, "radius_unfavourable": 3.0},
    {"radius_fraction": 0.5, "radius_unfavourable": 10.0},
    {"radius_fraction": 0.7, "radius_unfavourable": 10.0},
    {"radius_fraction": 1.0, "radius_unfavourable": 10.0},
    {"radius_fraction": 0.5, "radius_unfavourable": 10.0, "margin": 0.25},
    {"radius_fraction": 0.5, "radius_unfavourable": 10.0, "margin": 0.5},
    {"radius_fraction": 0.5, "radius_unfavourable": 10.0, "margin": 0.75},
    {"radius_fraction": 0.5, "radius_unfavourable": 10.0, "margin": 1.0},
)
"""Settings of `robust_mpm`, from cheap to robust."""


def show(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print one table, a row as soon as it is measured."""
    print(f"### {title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def methods() -> None:
    """Per model and method: time, floor, share found, valid and legal, cost."""
    head = (
        "model", "method", "found", "valid", "legal", "L1 cost", "changed (mean / median)", "future validity",
        "solve ms (p95)", "floor ms", "solve / floor", "PyTorch floor ms", "solve / PyTorch floor", "calls", "rows",
    )  # fmt: skip

    def rows() -> Iterable[Sequence[str]]:
        for task in available():
            variants = [("robust_mpm", RobustMpmParams())]
            if task.name != "german four, box":
                variants.append(("robust_mpm, projection", RobustMpmParams(search="projection")))
            for name, params in variants:
                m = measure(task, params)
                yield (
                    task.name, name, f"{m.found:.0%}", f"{m.valid:.0%}", f"{m.legal:.0%}", f"{m.cost:.2f}",
                    f"{m.changed:.2f} / {m.changed_median:g}", f"{m.future:.2f}",
                    f"{m.solve_ms:.2f} ({m.solve_p95_ms:.2f})", f"{m.floor_ms:.2f}", f"{m.ratio:.1f}",
                    f"{m.torch_floor_ms:.2f}", f"{m.torch_ratio:.1f}", f"{m.calls:.1f}", f"{m.rows:.0f}",
                )  # fmt: skip

    show("Methods: 50 rejected applicants each", head, rows())


def frontier() -> None:
    """Cost against validity under 20 networks retrained on bootstraps, beside the plain pipeline of the papers."""
    if not GERMAN.exists():
        print(f"No {GERMAN}: the frontier needs it; RECOURSE_DATA says where the data sets are.\n")
        return
    head = (
        "radius fraction", "rho-", "margin", "found", "L1 cost", "changed", "future validity",
        "plain: found", "plain: L1 cost", "plain: changed", "plain: future validity",
    )  # fmt: skip
    for epochs in (None, 60):
        task = german("all", epochs=epochs)
        show(f"Frontier, {task.name}", head, _frontier_rows(task))


def _frontier_rows(task: Task) -> Iterable[Sequence[str]]:
    for setting in FRONTIER:
        params = RobustMpmParams(**setting)
        m, plain = measure(task, params), prototype.measure(task, params)
        yield (
            f"{params.radius_fraction:g}", f"{params.radius_unfavourable:g}", f"{params.margin:g}",
            f"{m.found:.0%}", f"{m.cost:.2f}", f"{m.changed:.2f}", f"{m.future:.3f}",
            f"{plain.found:.0%}", f"{plain.cost:.2f}", f"{plain.changed:.2f}", f"{plain.future:.3f}",
        )  # fmt: skip


def mpm() -> None:
    """Minimax machines: the exact solution against the conic program, in the same run."""
    rng = np.random.default_rng(0)

    def rows() -> Iterable[Sequence[str]]:
        for d in (7, 20, 61):
            plus, minus = (np.cov(rng.normal(size=(500, d)) @ rng.normal(size=(d, d)), rowvar=False) for _ in range(2))
            a = rng.normal(size=d)
            for divergence in get_args(Divergence):
                one, other = largest_deviation(plus, divergence, 0.0), largest_deviation(minus, divergence, 1.0)
                fast, w = _median_ms(partial(minimise_spread, a, one, other), 30)
                slow, value = _median_ms(partial(_conic, a, one, other), 3)
                excess = (one(w) + other(w)) / value - 1.0
                yield (f"{d}", divergence, f"{fast:.2f}", f"{slow:.1f}", f"{slow / fast:.0f}", f"{excess:.1e}")

    head = ("columns", "divergence", "exact ms", "conic program ms", "ratio", "objective over the conic one")
    show("Minimax probability machines", head, rows())


def _conic(a: np.ndarray, plus: Deviation, minus: Deviation) -> float:
    w = cp.Variable(len(a))

    def tau(one: Deviation) -> cp.Expression:
        return one.scale * cp.norm(np.linalg.cholesky(one.covariance).T @ w) + one.norm * cp.norm(w)

    problem = cp.Problem(cp.Minimize(tau(plus) + tau(minus)), [a @ w == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate": the column of ratios shows how much
        problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def _median_ms(work: Callable[[], T], repeats: int) -> tuple[float, T]:
    answer = work()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return 1e3 * float(np.median(times)), answer
