"""Future models: what is told against what is true, what a share of them costs, and what asking them takes."""

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.recourse.actions.action_set import action_set
from app.recourse.certificate_params import CertificateParams
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.committee import Drawn
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from benchmarks.betarce import betarce
from benchmarks.lenders import (
    APPLICANTS,
    EPOCHS,
    FAMILIES,
    RECORDS,
    Lender,
    Records,
    boosting,
    leafwise,
    lender,
    noisy_records,
    registered,
)
from benchmarks.tables import show
from examples.training import standardised

ASKED = (None, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Shares of future models; None for the default answer."""
LENDERS = {
    "same": {"logistic": 8, "boosting": 8, "network": 8},
    "fresh": {"logistic": 48, "boosting": 70, "network": 22},
}
"""Lenders by what they draw for their next models and by family, as many as its training allows: the 60 models that
tell and the 100 true ones are the same for all applicants of a lender, and err in one direction for all of them."""
FEWER = 16
"""Applicants of each lender that trains on other records."""
MANY = 30_000
"""Records of a large rehearsal."""


def reliability() -> None:
    """Told and true share of future models, for bootstraps of the same records and for other records."""
    head = (
        "lender", "future models of", "asked", "found", "L1 cost", "told", "true", "mean told - true",
        "true below the interval", "told significantly too high", "bound `lower` <= true", "median true - lower",
    )  # fmt: skip

    def rows() -> Iterable[Sequence[str]]:
        for data in _available():
            for family in FAMILIES:
                yield from _reliability(data, family, others=False)
        for data in _available():
            if len(data.rows_raw) > 10 * data.training:
                for family in FAMILIES:
                    yield from _reliability(data, family, others=True)
        yield from _reliability(noisy_records(), "boosting", others=True)

    show("Future models: told against true", head, rows())


def _reliability(data: Records, family: str, *, others: bool) -> Iterable[Sequence[str]]:
    """One row for each share, over several lenders."""
    runs: list[dict[float | None, Told]] = []
    drawn: Drawn = "fresh" if others else "same"
    for seed in range(LENDERS[drawn][family]):
        with lender(
            data, FAMILIES[family](EPOCHS[_key(data)]), drawn=drawn, others=others, seed=seed,
            applicants=FEWER if others else APPLICANTS,
        ) as asked:  # fmt: skip
            runs.append({share: _told(asked, share) for share in ASKED})
    for share in ASKED:
        of_share = [run[share] for run in runs]
        told, true, low, lower, cost, too_high = (
            np.concatenate([getattr(one, name) for one in of_share])
            for name in ("told", "true", "low", "lower", "cost", "too_high")
        )
        difference = np.array([(one.told - one.true).mean() for one in of_share])
        error = difference.std(ddof=1) / math.sqrt(len(runs))
        yield (
            f"{data.name}, {family}", "other records" if others else "the same records",
            "-" if share is None else str(share), f"{len(told)} of {sum(one.asked for one in of_share)}",
            f"{cost.mean():.2f}", f"{told.mean():.3f}", f"{true.mean():.3f}",
            f"{difference.mean():+.3f} ± {error:.3f}", f"{(true < low).mean():.0%}", f"{too_high.mean():.0%}",
            f"{(lower <= true)[~np.isnan(lower)].mean():.0%}", f"{np.nanmedian(true - lower):.2f}",
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Told:
    """What the answers of one lender say about future models, and what is true; one number for each answer."""

    asked: int
    """Applicants."""
    told: np.ndarray
    true: np.ndarray
    low: np.ndarray
    """Lower end of the interval of what is told."""
    lower: np.ndarray
    """Proven bound, with moments `future`; NaN where the decisions around a person determine no local model."""
    cost: np.ndarray
    too_high: np.ndarray


def _told(asked: Lender, share: float | None) -> Told:
    found = answers(asked, share)
    futures = [one.future for one in found if one.future]
    told, models = np.array([one.promised for one in futures]), asked.futures.held_back.count
    accepted = (
        asked.truth.scores_raw(np.reshape([one.row_raw for one in found], (-1, asked.loaded.black_box.space.p))) >= 0.0
    )
    return Told(
        asked=len(asked.applicants_raw),
        told=told,
        true=accepted.mean(axis=1),
        low=np.array([one.interval[0] for one in futures]),
        lower=np.array([one.certificate.shift.gelbrich.lower if one.certificate else math.nan for one in found]),
        cost=np.array([one.cost for one in found]),
        too_high=np.array([_too_high(t, models, a) for t, a in zip(told, accepted, strict=True)]),
    )


def _too_high(told: float, models: int, accepted: np.ndarray) -> bool:
    """Whether the true future models accept so seldom that the told share is refuted at 2.5 % (Fisher's exact test)."""
    from scipy.stats import fisher_exact

    yes, told_yes = int(accepted.sum()), round(told * models)
    table = [[told_yes, models - told_yes], [yes, len(accepted) - yes]]
    return bool(fisher_exact(table, alternative="greater").pvalue < 0.025)


def frontier() -> None:
    """Cost against true future validity: the share asked for, beside the knobs of single methods."""
    head = ("lender", "asked", "found", "L1 cost", "changed", "told", "true", "ms")
    settings: list[tuple[str, str, dict[str, Any], float | None]] = [
        (f"future_validity {share}", "robust_mpm", {}, share) for share in (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
    ]
    settings += [
        ("robust_mpm", "robust_mpm", {}, None),
        *((f"robust_mpm, margin {margin}", "robust_mpm", {"margin": margin}, None) for margin in (0.25, 0.5, 1.0)),
        ("probe", "probe", {}, None),
        ("wachter", "wachter", {}, None),
        ("growing_spheres", "growing_spheres", {}, None),
    ]

    def rows() -> Iterable[Sequence[str]]:
        for data in _available()[:1]:
            with lender(data, FAMILIES["network"](EPOCHS[_key(data)])) as asked:
                for title, method, params, share in settings:
                    began = time.perf_counter()
                    found = answers(asked, share, method, params)
                    ms = 1e3 * (time.perf_counter() - began) / len(asked.applicants_raw)
                    rows_raw = np.array([one.row_raw for one in found])
                    told = np.mean([one.future.probability for one in found if one.future])
                    yield (
                        asked.name, title, f"{len(found)} of {len(asked.applicants_raw)}",
                        f"{np.mean([one.cost for one in found]):.2f}",
                        f"{np.mean([len(one.changed) for one in found]):.1f}", f"{told:.3f}",
                        f"{asked.truth.shares(rows_raw).mean():.3f}", f"{ms:.0f}",
                    )  # fmt: skip

                yield from _peers(asked)

    show("Cost against future validity", head, rows())


def _peers(asked: Lender) -> Iterable[Sequence[str]]:
    for share in (0.6, 0.8, 0.9):
        found, began = [], time.perf_counter()
        for row_raw in asked.applicants_raw:
            problem = _problem(asked, row_raw, None)
            base = solve(problem, METHODS["growing_spheres"], METHODS["growing_spheres"].params()).counterfactuals
            if base and (moved := betarce(problem, base[0].row_raw, asked.futures.search, share)):
                found.append((*moved, row_raw))
        ms = 1e3 * (time.perf_counter() - began) / len(asked.applicants_raw)
        rows_raw = np.array([one[0] for one in found])
        yield (
            asked.name, f"BetaRCE {share}, from growing_spheres", f"{len(found)} of {len(asked.applicants_raw)}",
            f"{np.mean([one[1] for one in found]):.2f}",
            f"{np.mean([(one[0] != one[2]).sum() for one in found]):.1f}",
            f"{asked.futures.held_back.shares(rows_raw).mean():.3f}", f"{asked.truth.shares(rows_raw).mean():.3f}",
            f"{ms:.0f}",
        )  # fmt: skip


def times() -> None:
    """Processor time of an answer without future models, with what they say about it, and with a share asked for."""
    head = ("lender", "rehearsal s", "without ms", "with future models ms", "ratio", "share 0.9 asked ms", "ratio")

    def rows() -> Iterable[Sequence[str]]:
        for data in _available():
            for family in FAMILIES:
                with lender(data, FAMILIES[family](EPOCHS[_key(data)])) as asked:
                    plain = _median_ms(asked, None, told=False)
                    told = _median_ms(asked, None, told=True)
                    share = _median_ms(asked, 0.9, told=True)
                    yield (
                        asked.name, f"{asked.seconds:.1f}", f"{plain:.1f}", f"{told:.1f}", f"{told / plain:.2f}",
                        f"{share:.1f}", f"{share / plain:.1f}",
                    )  # fmt: skip

    show("Time with future models", head, rows())


def rehearsals() -> None:
    """Time of making 100 future models of boosted trees from many records."""
    head = ("model", "records", "models", "wall s", "CPU s", "MB on disk")

    def rows() -> Iterable[Sequence[str]]:
        if (data := RECORDS["acs"]()) is None:
            return
        data = replace(data, training=MANY)
        training = np.random.default_rng(0).permutation(len(data.rows_raw))[:MANY]
        space = standardised(data.features, data.rows_raw[training])
        X = space.encode(data.rows_raw[training])
        for title, family in (
            ("XGBoost, 100 trees of depth 4", boosting()),
            ("LightGBM, 100 of 31 leaves", leafwise()),
        ):
            today = family.train(X, data.labels[training], 0)
            with tempfile.TemporaryDirectory() as folder:
                model = registered(Path(folder), data, space, family, today, training)
                clocks: dict[int, tuple[float, float]] = {}

                def note(done: int, total: int, clocks: dict[int, tuple[float, float]] = clocks) -> None:  # noqa: ARG001
                    clocks[done] = time.perf_counter(), time.process_time()

                record = rehearse(model, Choices(search=50, held_back=50), progress=note)
                size = sum(size for one in record.sets.values() for size in one.sizes.values())
            begun, made = clocks[0], clocks[100]
            spent = (f"{made[i] - begun[i]:.0f}" for i in (0, 1))
            yield title, f"{MANY:,}", "100", *spent, f"{size / 1e6:.0f}"

    show("Time of rehearsals", head, rows())


def _median_ms(asked: Lender, share: float | None, *, told: bool) -> float:
    measured = []
    for row_raw in asked.applicants_raw[:20]:
        problem = _problem(asked, row_raw, share)
        problem = problem if told else replace(problem, futures=None)
        began = time.thread_time()
        solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params(), CertificateParams())
        measured.append(1e3 * (time.thread_time() - began))
    return float(np.median(measured))


def answers(
    asked: Lender, share: float | None, method: str = "robust_mpm", params: dict[str, Any] | None = None
) -> list[Counterfactual]:
    """The first counterfactual of each applicant who has one."""
    found: list[Counterfactual] = []
    for row_raw in asked.applicants_raw:
        problem = _problem(asked, row_raw, share)
        result = solve(problem, METHODS[method], METHODS[method].params(**(params or {})), CertificateParams())
        found += result.counterfactuals[:1]
    return found


def _problem(asked: Lender, row_raw: np.ndarray, share: float | None) -> RecourseProblem:
    loaded = asked.loaded
    return RecourseProblem(
        black_box=loaded.black_box,
        reference=loaded.reference,
        action_set=action_set(loaded.black_box.space, row_raw, rules=loaded.rules),
        futures=asked.futures,
        future_validity=share,
    )


def _available() -> list[Records]:
    found = [(name, load()) for name, load in RECORDS.items()]
    if missing := [name for name, data in found if data is None]:
        print(f"Left out, as their data are not here: {', '.join(missing)}.\n")
    return [data for _, data in found if data is not None]


def _key(data: Records) -> str:
    return next(name for name in EPOCHS if data.name.startswith(name))


TABLES: dict[str, Callable[[], None]] = {
    "reliability": reliability,
    "future_frontier": frontier,
    "future_times": times,
    "rehearsals": rehearsals,
}
