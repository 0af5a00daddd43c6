"""Plans as the applicants would use them: what they cost, how many changes, how different, and what retraining leaves.

The peer is DiCE's own library (`dice-ml`), which is no dependency of this project: its rows are left out where it is
not installed. It is told what each applicant may change, feature by feature.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.certificate import certify_plan
from app.recourse.certificate_params import CertificateParams
from app.recourse.models.meter import Meter
from app.recourse.plans.overlap import moved, overlaps
from app.recourse.problem import RecourseProblem
from app.recourse.result import PlanCertificate
from app.recourse.shift import shift_of
from app.recourse.solve import METHODS, solve
from app.recourse.surrogate.boundary import SamplerParams, sample_boundary, survey
from benchmarks.dice_library import dice
from benchmarks.lenders import EPOCHS, FAMILIES, Lender, german_records, lender
from benchmarks.tables import show

PEOPLE = 20
COUNT = 3
CERTIFICATE = CertificateParams()

Asked = Callable[[RecourseProblem], np.ndarray]
"""From a question to the raw rows of an answer."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The members of one answer that are legal and accepted, and what is known of them together."""

    proposed: int
    rows_raw: np.ndarray
    problem: RecourseProblem
    plan: PlanCertificate | None
    ms: float

    @property
    def actions(self) -> ActionSet:
        """What the applicant can change."""
        return self.problem.action_set

    @property
    def overlap(self) -> float:
        """Mean over the members of their largest overlap with another."""
        members = moved(self.actions, self.rows_raw)
        among = overlaps(members, members)
        np.fill_diagonal(among, 0.0)
        return float(among.max(axis=1).mean())


def table() -> None:
    """Plans for people and the paper's, single answers and DiCE's library on German Credit, and the price of validity.

    The future models are bootstraps of the lender's recipe that no search has asked.
    """
    data = german_records()
    if data is None:
        print("No German Credit data: RECOURSE_DATA says where the data sets are.\n")
        return
    columns = (
        "answer", "people", "legal and accepted", "L1 cost", "dearest member", "features changed", "overlap",
        "diversity", "proximity", "future validity of a member", "of all", "of at least one", "L*", "processor ms",
    )  # fmt: skip
    with lender(data, FAMILIES["network"](EPOCHS["german"])) as asked:
        show(f"Ways for {PEOPLE} people, {asked.name}, {COUNT} members", columns, _rows(asked))
        head = ("plan of copa", "L1 cost", "features changed", "L*", "future validity of all", "of at least one")
        show(f"The price of validity, {PEOPLE} people, {asked.name}, {COUNT} members", head, _prices(asked))


def _rows(asked: Lender) -> Iterable[Sequence[str]]:
    yield _row("robust_mpm, one answer", _answers(asked, _by("robust_mpm")))
    yield _row("robust_mpm, several ways", _answers(asked, _by("robust_mpm", several=COUNT)))
    for name in ("copa", "dice"):
        for objective in ("people", "paper"):
            plans = _answers(asked, _by(name, count=COUNT, objective=objective))
            yield _row(f"{name}, {objective}", plans)
    if find_spec("dice_ml") is None:
        print("DiCE's library is left out: dice_ml is not installed.\n")
        return
    for way in ("random", "genetic"):
        yield _row(f"dice-ml, {way}", _answers(asked, _library(asked, way)))


def _prices(asked: Lender) -> Iterable[Sequence[str]]:
    settings: list[tuple[str, dict[str, Any]]] = [
        *((f"people, validity_weight {w:g}", {"objective": "people", "validity_weight": w}) for w in (0, 4, 8, 16, 32)),
        *((f"people, margin {m:g}", {"objective": "people", "margin": m}) for m in (1.0,)),
        *((f"paper, validity_weight {w:g}", {"objective": "paper", "validity_weight": w}) for w in (0, 0.1, 0.5, 2)),
        ("paper, diversity_weight 1", {"objective": "paper", "diversity_weight": 1.0}),
        ("paper, diversity_weight 0.1", {"objective": "paper", "diversity_weight": 0.1}),
    ]
    for title, params in settings:
        found = _answers(asked, _by("copa", count=COUNT, **params))
        plans = [one.plan for one in found if one.plan]
        yield (
            title, f"{_cost(found):.2f}", f"{np.median(_changes(found)):.0f}",
            f"{np.mean([one.lower for one in plans]):.2f}", *_together(plans),
        )  # fmt: skip


def _row(title: str, found: list[Measured]) -> Sequence[str]:
    some = [one for one in found if len(one.rows_raw)]
    plans = [one.plan for one in some if one.plan]
    dearest = np.mean([one.actions.cost(one.rows_raw).max() for one in some])
    shares = [one.problem.held_back.accept(one.rows_raw).mean() for one in some]
    kept, proposed = sum(len(one.rows_raw) for one in found), sum(one.proposed for one in found)
    return (
        title, f"{len(some)} of {len(found)}", f"{kept} of {proposed}", f"{_cost(some):.2f}", f"{dearest:.2f}",
        f"{np.median(_changes(some)):.0f}", f"{np.mean([one.overlap for one in some]):.2f}",
        f"{np.mean([plan.diversity for plan in plans]):.2f}", f"{np.mean([plan.proximity for plan in plans]):.2f}",
        f"{np.mean(shares):.2f}", *_together(plans), f"{np.mean([plan.lower for plan in plans]):.2f}",
        f"{np.median([one.ms for one in found]):.0f}",
    )  # fmt: skip


def _cost(found: list[Measured]) -> float:
    return float(np.mean([one.actions.cost(one.rows_raw).mean() for one in found]))


def _changes(found: list[Measured]) -> list[int]:
    return [int(n) for one in found for n in one.actions.changed(one.rows_raw)]


def _together(plans: list[PlanCertificate]) -> tuple[str, str]:
    every = np.mean([plan.future.all for plan in plans if plan.future])
    some = np.mean([plan.future.any for plan in plans if plan.future])
    return f"{every:.2f}", f"{some:.2f}"


def _answers(asked: Lender, ask: Asked) -> list[Measured]:
    return [_measured(asked, ask, row_raw) for row_raw in asked.applicants_raw[:PEOPLE]]


def _measured(asked: Lender, ask: Asked, row_raw: np.ndarray) -> Measured:
    problem = RecourseProblem(
        black_box=asked.loaded.black_box,
        reference=asked.loaded.reference,
        action_set=action_set(asked.loaded.black_box.space, row_raw, rules=asked.loaded.rules),
        futures=asked.futures,
    )
    began = time.process_time()  # other work on the machine does not count
    rows_raw = ask(problem)
    ms = 1e3 * (time.process_time() - began)
    good = rows_raw[problem.action_set.contains(rows_raw)]
    good = good[problem.black_box.score_raw(good) >= 0.0] if len(good) else good
    plan = None
    if len(good):
        meter, sampler = Meter(problem.black_box), SamplerParams()
        sample = sample_boundary(problem, meter, sampler, survey(problem, meter, sampler))
        plan = certify_plan(problem, shift_of(problem, sample, CERTIFICATE), good, math.inf)
    return Measured(proposed=len(rows_raw), rows_raw=good, problem=problem, plan=plan, ms=ms)


def _by(name: str, *, several: int = 1, **params: Any) -> Asked:
    """Answers of one of the methods."""
    method = METHODS[name]

    def ask(problem: RecourseProblem) -> np.ndarray:
        found = solve(replace(problem, count=several), method, method.params(**params)).counterfactuals
        return np.array([one.row_raw for one in found]).reshape(-1, problem.action_set.space.p)

    return ask


def _library(asked: Lender, way: str) -> Asked:
    """Answers of DiCE's library: its random or its genetic search, on the same model, records and freedoms."""
    ask = dice(asked.loaded.black_box, asked.loaded.reference, way, COUNT)
    return lambda problem: ask(problem.action_set)
