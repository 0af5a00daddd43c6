"""What the certificate costs: bounds by themselves, in an answer, and at registration."""

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from app.recourse.certificate_params import CertificateParams
from app.recourse.methods.robust_mpm import RobustMpmParams
from app.recourse.models.linear import WeightMoments
from app.recourse.models.score import sigmoid
from app.recourse.robustness.validity import plan_bounds, validity_bounds
from app.recourse.surrogate.refits import refit_moments
from benchmarks.recourse import REPEATS, answer
from benchmarks.tables import show
from benchmarks.tasks import Task, available

MEMBERS = 5
RADIUS = 0.02
REFITS = 1_000


def table() -> None:
    """Bounds of one counterfactual and of plans; answers with and without a certificate."""
    show(
        "Gelbrich bounds",
        ("dimension", "one counterfactual, us", "plan of 5: lower, ms", "plan of 5: upper, ms"),
        _bounds(),
    )
    head = ("model", "solve ms", "with the default certificate", "ratio", "with 10,000 noisy copies asked")
    show("Certificates in an answer", head, (_answers(task) for task in available()))
    show("Refits of a labelled model at registration", ("records", "columns", "refits", "s"), _refits())


def _bounds() -> Iterable[Sequence[str]]:
    rng = np.random.default_rng(0)
    for d in (60, 250, 1000):
        mean = rng.normal(size=d)
        mean /= np.linalg.norm(mean)
        points = rng.normal(size=(MEMBERS, d)) + 1.5 * np.sqrt(d) * mean
        moments = WeightMoments(mean=mean, factors=(0.2 * rng.normal(size=(d, 200)) / np.sqrt(d),), kind="surrogate")
        against = WeightMoments(mean=-mean, factors=(moments.root,), kind="surrogate")
        one = _median(partial(validity_bounds, points[:1], moments, RADIUS))
        lower = _median(partial(plan_bounds, points, moments, RADIUS))
        upper = _median(partial(plan_bounds, points, against, RADIUS))
        yield (f"{d}", f"{1e6 * one:.0f}", f"{1e3 * lower:.1f}", f"{1e3 * upper:.1f}")


def _refits() -> Iterable[Sequence[str]]:
    rng = np.random.default_rng(0)
    for records, columns in ((500, 61), (1_000, 61), (5_000, 61)):
        X = rng.normal(size=(records, columns))
        favourable = rng.random(records) < sigmoid(X @ rng.normal(size=columns) / 3.0)
        started = time.perf_counter()
        refit_moments(X, favourable, REFITS, 0)
        yield (f"{records:,}", f"{columns}", f"{REFITS:,}", f"{time.perf_counter() - started:.1f}")


def _answers(task: Task) -> Sequence[str]:
    params = RobustMpmParams()

    def median_ms(certificate: CertificateParams | None) -> float:
        times = []
        for applicant in task.applicants_raw:
            best = np.inf
            for _ in range(REPEATS):
                started = time.perf_counter()
                answer(task, applicant, params, certificate)
                best = min(best, time.perf_counter() - started)
            times.append(best)
        return 1e3 * float(np.median(times))

    median_ms(CertificateParams())
    plain, default, measured = (
        median_ms(one) for one in (None, CertificateParams(), CertificateParams(noise_samples=10_000))
    )
    return (task.name, f"{plain:.2f}", f"{default:.2f}", f"{default / plain:.2f}", f"{measured:.2f}")


def _median(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(20):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return float(np.median(times))
