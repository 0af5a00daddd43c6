"""Processor time of single answers for wide schemas, and of the slowest answers of ordinary ones."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.recourse.actions.action_set import action_set
from app.recourse.actions.advice_ranges import LEAST_SHARE
from app.recourse.certificate_params import CertificateParams
from app.recourse.features import Feature, FeatureType
from app.recourse.models.score import favourable
from app.recourse.problem import RecourseProblem
from app.recourse.result import RecourseResult, Status
from app.recourse.solve import METHODS, solve
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from app.settings import Settings
from benchmarks.lenders import EPOCHS, FAMILIES, Records, german_records, written
from benchmarks.tables import show
from benchmarks.tasks import ROOT
from examples.training import standardised

PEOPLE = 200
REPEATS = 3
"""Answers per person, of which the fastest counts: other work on the machine slows single ones."""
TRAINING = 3_000
COLUMNS, LEVELS, BESIDE = 500, 3_000, 10
"""Numbers of the one schema; levels of the other, and numbers beside them."""
EPOCHS_WIDE = 10
LONGEST_S = 60.0
"""Deadline by the clock, which other work on the machine shares; late is whose processor time exceeds the default."""
CERTIFICATE = CertificateParams()
METHOD = METHODS["robust_mpm"]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A model and the people whom it refuses."""

    name: str
    loaded: LoadedModel
    applicants_raw: np.ndarray


HEAD = (
    "model", "people", "found", "L1 cost", "changed", "late", "median ms", "99 % ms", "slowest ms", "99 % / median",
)  # fmt: skip


def wide() -> None:
    """Cost, changes and processor time for people of wide schemas, by kind of model."""
    asked = ((data, family) for data in (numbers(), levels()) for family in FAMILIES)
    show(f"Wide schemas, up to {PEOPLE} people each", HEAD, (_row(_trained(*one)) for one in asked))


def slowest() -> None:
    """The same for German Credit and the demo."""
    show("Slowest answers of ordinary schemas", HEAD, (_row(make()) for make in (_german, _demo)))


def numbers() -> Records:
    """Records of `COLUMNS` numbers, of which a fifth counts."""
    rng = np.random.default_rng(0)
    rows_raw = rng.normal(50.0, 15.0, size=(TRAINING + 10 * PEOPLE, COLUMNS)).clip(0.0, 100.0).round(2)
    weights = rng.normal(size=COLUMNS) * (rng.random(COLUMNS) < 0.2)
    features = tuple(_number(f"n{j}") for j in range(COLUMNS))
    return _labelled(f"{COLUMNS} numbers", features, rows_raw, (rows_raw - 50.0) @ weights / 15.0, rng)


def levels() -> Records:
    """Records of one feature with `LEVELS` levels, some of which are common, and `BESIDE` numbers."""
    rng = np.random.default_rng(1)
    n = TRAINING + 10 * PEOPLE
    common = 1.0 / np.arange(1, LEVELS + 1)
    level = rng.choice(LEVELS, size=n, p=common / common.sum())
    rows_raw = np.column_stack([level, rng.normal(50.0, 15.0, size=(n, BESIDE)).clip(0.0, 100.0).round(2)])
    names = tuple(f"level {k}" for k in range(LEVELS))
    features = (
        Feature(name="level", type=FeatureType.CATEGORICAL, categories=names),
        *(_number(f"n{j}") for j in range(BESIDE)),
    )
    score = rng.normal(size=LEVELS)[level] + (rows_raw[:, 1:] - 50.0) @ rng.normal(size=BESIDE) / 15.0
    return _labelled(f"{LEVELS:,} levels, {BESIDE} numbers", features, rows_raw, score, rng)


def _number(name: str) -> Feature:
    return Feature(name=name, type=FeatureType.CONTINUOUS, min=0.0, max=100.0, decimals=2)


def _labelled(
    name: str, features: tuple[Feature, ...], rows_raw: np.ndarray, score: np.ndarray, rng: np.random.Generator
) -> Records:
    noisy = score / score.std() + 0.5 * rng.logistic(size=len(score))
    return Records(name=name, features=features, rows_raw=rows_raw, labels=(noisy > 0.3).astype(int), training=TRAINING)


def _trained(data: Records, family: str, epochs: int = EPOCHS_WIDE, refused_of: slice = slice(TRAINING, None)) -> Asked:
    kind, training = FAMILIES[family](epochs), np.arange(data.training)
    space = standardised(data.features, data.rows_raw[training])
    model = kind.train(space.encode(data.rows_raw[training]), data.labels[training], 0)
    with tempfile.TemporaryDirectory() as folder:
        directory = written(Path(folder), data, space, kind, model, training)
        loaded = Registry(Path(folder) / "store").register(directory).load()
    others = data.rows_raw[refused_of]
    refused = others[~favourable(loaded.black_box.score_raw(others))]
    return Asked(name=f"{data.name}: {kind.name}", loaded=loaded, applicants_raw=refused[:PEOPLE])


def _german() -> Asked:
    data = german_records()
    assert data is not None, "No German Credit data: RECOURSE_DATA says where the data sets are."
    return _trained(data, "network", EPOCHS["german"], slice(None))


def _demo() -> Asked:
    loaded = Registry(ROOT / "models_store").find("consumer-loan").load()
    refused = loaded.reference.rows_raw[~favourable(loaded.reference.scores)]
    return Asked(name="consumer-loan", loaded=loaded, applicants_raw=refused[: 5 * PEOPLE])


def _row(asked: Asked) -> Sequence[str]:
    answers = list(answered(asked))
    found = [one.counterfactuals[0] for one, _ in answers if one.status is Status.FOUND]
    ms = np.array([each for _, each in answers])
    median, slow = float(np.median(ms)), float(np.percentile(ms, 99))
    return (
        asked.name, f"{len(answers)}", f"{len(found) / len(answers):.1%}",
        f"{np.mean([one.cost for one in found]):.3f}", f"{np.mean([len(one.changed) for one in found]):.2f}",
        f"{(ms > Settings().default_deadline_ms).sum()}", f"{median:.1f}", f"{slow:.1f}", f"{ms.max():.1f}",
        f"{slow / median:.1f}",
    )  # fmt: skip


def answered(asked: Asked) -> Iterator[tuple[RecourseResult, float]]:
    """The answer of each person, as the service gives it, and its processor time in ms: the least of `REPEATS`."""
    for row_raw in asked.applicants_raw:
        result, times = None, list[float]()
        for _ in range(REPEATS):
            began = time.process_time()
            result = _answer(asked.loaded, row_raw)
            times.append(1e3 * (time.process_time() - began))
        assert result is not None
        yield result, min(times)


def _answer(loaded: LoadedModel, row_raw: np.ndarray) -> RecourseResult:
    problem = RecourseProblem(
        black_box=loaded.black_box,
        reference=loaded.reference,
        action_set=action_set(loaded.black_box.space, row_raw, rules=loaded.rules, least_share=LEAST_SHARE),
        deadline=time.monotonic() + LONGEST_S,
    )
    return solve(problem, METHOD, METHOD.params(), CERTIFICATE, plan_s=0.0)
