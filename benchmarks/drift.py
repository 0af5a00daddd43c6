"""Promises if the population moves: what is told against what is true, cost and time of asking under stress."""

import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.futures.rehearsal import rehearse
from app.futures.spec import Choices, Material
from app.futures.store import load_futures
from app.recourse.actions.action_set import action_set
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.committee import FutureModels
from app.recourse.problem import RecourseProblem, Under
from app.recourse.solve import METHODS, solve
from app.registry.registry import Registry
from benchmarks import papers
from benchmarks.betarce import betarce
from benchmarks.lenders import EPOCHS, FAMILIES, RECORDS, Lender, Records, lender
from benchmarks.tables import show
from examples.consumer_loan import train as demo
from examples.consumer_loan.applicants import applicants
from examples.training import probability, write_records

PEOPLE = 30
"""Applicants of each lender."""
TRUE_MODELS = 30
"""Models of the population that moved."""
ASKED: tuple[tuple[str, str, dict[str, Any], float | None, Under | None], ...] = (
    ("nothing", "robust_mpm", {}, None, None),
    ("0.9 same", "robust_mpm", {}, 0.9, "same"),
    ("0.8 stress", "robust_mpm", {}, 0.8, "stress"),
    ("0.9 stress", "robust_mpm", {}, 0.9, "stress"),
    ("0.95 stress", "robust_mpm", {}, 0.95, "stress"),
    ("roar", "roar", {}, None, None),
)
"""Name, method, its parameters, share and what it is about."""


def shifts() -> Iterator[tuple[Records, str]]:
    """Populations that move, and the names of their epochs."""
    if (acs := RECORDS["acs"]()) is not None:
        names = [feature.name for feature in acs.features]
        age, born = acs.rows_raw[:, names.index("AGEP")], acs.rows_raw[:, names.index("RAC1P")]
        yield replace(acs, name="acs income, to the older half", later=age >= np.median(age)), "acs"
        white = acs.features[names.index("RAC1P")].categories.index("c1")
        yield replace(acs, name="acs income, to other races", later=born != white), "acs"
    if (german := RECORDS["german"]()) is not None:
        names = [feature.name for feature in german.features]
        amount = german.rows_raw[:, names.index("amount")]
        later = amount >= np.median(amount)
        yield replace(german, name="german, to larger amounts", later=later, training=400), "german"
    student, moved = RECORDS["student"](), papers.student()
    if student is not None and moved is not None:
        rows_raw = np.concatenate([moved.present_raw, moved.shifted_raw])
        labels = np.concatenate([moved.labels, moved.shifted_labels])
        later = np.arange(len(rows_raw)) >= len(moved.present_raw)
        yield (
            replace(student, name="student, to the other school", rows_raw=rows_raw, labels=labels, later=later),
            "student",
        )


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Answers of one lender to one question; an entry for each applicant who has one."""

    found: list[Counterfactual]
    applicants: int
    ms: float
    """Processor time of an answer."""
    silent: float
    """Share of answers told less than was asked for, without a warning."""


def ask(of: Lender, method: str, params: dict[str, Any], share: float | None, under: Under | None) -> Asked:
    """Every applicant's first counterfactual."""
    found, silent, began = list[Counterfactual](), 0, time.process_time()
    for row_raw in of.applicants_raw:
        problem = RecourseProblem(
            black_box=of.loaded.black_box, reference=of.loaded.reference, futures=of.futures, future_validity=share,
            action_set=action_set(of.loaded.black_box.space, row_raw, rules=of.loaded.rules), under=under,
        )  # fmt: skip
        result = solve(problem, METHODS[method], METHODS[method].params(**params))
        found += result.counterfactuals[:1]
        told = [one.future for one in result.counterfactuals[:1] if one.future]
        silent += any(one.probability < (one.asked or 0.0) - 1e-9 for one in told) and not result.warnings
    ms = 1e3 * (time.process_time() - began) / len(of.applicants_raw)
    return Asked(found=found, applicants=len(of.applicants_raw), ms=ms, silent=silent / max(1, len(found)))


HEAD = (
    "lender", "asked", "found", "L1 cost", "of the default's", "told", "told >= asked", "silent", "lowest told",
    "true, moved", "lowest > true + .05", "true below its interval", "rank corr.", "its ceiling", "foreseen", "ms",
)  # fmt: skip


def rows_of(of: Lender) -> Iterable[Sequence[str]]:
    """A row for each question, and one for BetaRCE."""
    default, pairs = 0.0, list[np.ndarray]()
    for name, method, params, share, under in ASKED:
        asked = ask(of, method, params, share, under)
        pairs.append(np.column_stack([*_lowest_and_true(of, asked), *_halves(of, asked), _foreseen(of, asked)]))
        cost = float(np.mean([one.cost for one in asked.found])) if asked.found else np.nan
        default = cost if name == "nothing" else default
        yield (of.name, name, *_row(of, asked, cost, default, share))
    # What is told has to tell answers apart, those of different questions as well.
    lowest, true, one, other, foreseen = np.concatenate(pairs).T
    ranked = [_rank_correlation(*pair) for pair in ((lowest, true), (one, other), (foreseen, true))]
    yield (of.name, "all of these", *["-"] * 10, *ranked, "-")
    began, moved = time.process_time(), list[tuple[np.ndarray, float]]()
    for row_raw in of.applicants_raw:
        problem = RecourseProblem(
            black_box=of.loaded.black_box, reference=of.loaded.reference, futures=of.futures,
            action_set=action_set(of.loaded.black_box.space, row_raw, rules=of.loaded.rules),
        )  # fmt: skip
        spheres = METHODS["growing_spheres"]
        base = solve(problem, spheres, spheres.params()).counterfactuals
        if base and (reached := betarce(problem, base[0].row_raw, of.futures.search, 0.9)):
            moved.append(reached)
    if moved:
        cost, rows_raw = float(np.mean([one[1] for one in moved])), np.array([one[0] for one in moved])
        ms = 1e3 * (time.process_time() - began) / len(of.applicants_raw)
        told, true = of.futures.held_back.shares(rows_raw).mean(), of.truth.shares(rows_raw).mean()
        yield (
            of.name, "BetaRCE 0.9", f"{len(moved)} of {len(of.applicants_raw)}", f"{cost:.2f}",
            f"{cost / default:.2f}", f"{told:.3f}", "-", "-", "-", f"{true:.3f}", *["-"] * 5, f"{ms:.0f}",
        )  # fmt: skip


def _row(of: Lender, asked: Asked, cost: float, default: float, share: float | None) -> Sequence[str]:
    if not asked.found:
        return (f"0 of {asked.applicants}", *["-"] * 13)
    lowest, true = _lowest_and_true(of, asked)
    told = np.array([one.future.probability if one.future else np.nan for one in asked.found])
    stressed = [one.future.stressed if one.future else None for one in asked.found]
    least = np.array([np.nan if one is None else one.interval[0] for one in stressed])
    return (
        f"{len(asked.found)} of {asked.applicants}", f"{cost:.2f}", f"{cost / default:.2f}", f"{told.mean():.3f}",
        "-" if share is None else f"{(told >= share - 1e-9).mean():.0%}", f"{asked.silent:.0%}", f"{lowest.mean():.3f}",
        f"{true.mean():.3f}", f"{(lowest > true + 0.05).mean():.0%}", f"{(true < least - 1e-9).mean():.0%}",
        _rank_correlation(lowest, true), _rank_correlation(*_halves(of, asked)),
        _rank_correlation(_foreseen(of, asked), true), f"{asked.ms:.0f}",
    )  # fmt: skip


def _lowest_and_true(of: Lender, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """The smallest share that is told of each answer, under any stress, and the true share after the shift."""
    stressed = [one.future.stressed if one.future else None for one in asked.found]
    lowest = np.array([np.nan if one is None else one.lowest for one in stressed])
    return lowest, of.truth.shares(np.array([one.row_raw for one in asked.found])) if asked.found else lowest


def _halves(of: Lender, asked: Asked) -> tuple[np.ndarray, np.ndarray]:
    """The true share of each answer by one half of the true models, and by the other: nothing told can rank better."""
    if not asked.found:
        return np.empty(0), np.empty(0)
    yes = of.truth.scores_raw(np.array([one.row_raw for one in asked.found])) >= 0.0
    return yes[:, ::2].mean(axis=1), yes[:, -1::-2].mean(axis=1)


def _foreseen(of: Lender, asked: Asked) -> np.ndarray:
    """The share of each answer by models of today's records that are drawn as if the shift were known; else 0."""
    if of.foreseen is None or not asked.found:
        return np.zeros(len(asked.found))
    return of.foreseen.shares(np.array([one.row_raw for one in asked.found]))


def _rank_correlation(told: np.ndarray, true: np.ndarray) -> str:
    from scipy.stats import spearmanr

    return "-" if np.ptp(told) == 0.0 or np.ptp(true) == 0.0 else f"{spearmanr(told, true).statistic:.2f}"


def drift() -> None:
    """Told against true where the next models are trained on another part of the population."""

    def rows() -> Iterable[Sequence[str]]:
        with demo_lender() as of:
            yield from rows_of(of)
        for data, key in shifts():
            for family in FAMILIES:
                with lender(
                    data, FAMILIES[family](EPOCHS[key]), drawn="fresh", true_models=TRUE_MODELS, applicants=PEOPLE
                ) as of:
                    yield from rows_of(of)

    show("If the population moves", HEAD, rows())


@contextmanager
def demo_lender() -> Iterator[Lender]:
    """The demo, and its own models of a year later."""
    registered = Registry(Path(__file__).parents[1] / "models_store").find("consumer-loan")
    loaded, futures = registered.load(), load_futures(registered)
    assert futures is not None
    scores = []
    for year in (1,):
        space, network, _, _ = demo.train(year)
        scores.append((space, network))
    rows_raw, _ = applicants(2_000, 777)
    refused = rows_raw[loaded.black_box.score_raw(rows_raw) < 0.0][: 2 * PEOPLE]

    def score_all(table: np.ndarray) -> np.ndarray:
        own = loaded.black_box.space.decode(table)
        limit = np.log(demo.THRESHOLD / (1.0 - demo.THRESHOLD))
        chances = [probability(network, space.encode(own)) for space, network in scores]
        return np.column_stack([np.log(p / (1.0 - p)) - limit for p in chances])

    yield Lender(
        name="demo, a year later", loaded=loaded, futures=futures, applicants_raw=refused, seconds=0.0,
        truth=FutureModels(space=loaded.black_box.space, count=len(scores), score_all=score_all),
    )  # fmt: skip


def stress_times() -> None:
    """Time of a rehearsal of the demo without stress and with it."""
    with tempfile.TemporaryDirectory() as folder:
        import shutil

        store = Path(folder) / "store"
        shutil.copytree(Path(__file__).parents[1] / "models_store", store)
        model = Registry(store).find("consumer-loan")
        space, _, rows_raw, outcomes = demo.train()
        write_records(Path(folder) / "records.csv", space, rows_raw, (demo.LABEL, outcomes))
        taken = []
        for stress in ("none", "auto"):
            began = time.process_time()
            rehearse(model, Choices(stress=stress), Material(data=Path(folder) / "records.csv"))
            taken.append(time.process_time() - began)
    show(
        "Time of a rehearsal with stress", ("model", "without, CPU s", "with", "ratio"),
        [("demo, 20,000 records", f"{taken[0]:.1f}", f"{taken[1]:.1f}", f"{taken[1] / taken[0]:.2f}")],
    )  # fmt: skip


TABLES: dict[str, Callable[[], None]] = {"drift": drift, "stress_times": stress_times}
