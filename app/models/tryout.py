"""Tries a model directory without registering it: the checks of a registration, then a few questions about recourse.

Registration and answers are those of the service, in a store that is thrown away.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Bool

from app.models import tasks
from app.models.helping_lines import helping_lines
from app.models.oddities import Asked, oddities
from app.questions.answers import Frame, Json, identity
from app.questions.question import Question
from app.questions.use_cases import RECOURSE, answer
from app.recourse.actions.timing import DAYS_PER_MONTH
from app.recourse.features import FeatureSpace
from app.recourse.problem import Reference
from app.recourse.reasons import ReasonsParams
from app.recourse.result import Status
from app.recourse.solve import DEFAULT_METHOD, METHODS
from app.registry.lender_scores import TOLERANCE
from app.registry.ref import ModelRef, Store
from app.registry.reference import read_reference
from app.registry.version import RegisteredModel, Registration
from app.settings import Settings

QUESTIONS = 5
"""Rejected records that are asked about, unless more are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tryout:
    """What trying a model showed."""

    name: str
    features: int
    registration: Registration
    threshold: float | None
    """The least probability that the model accepts; None where it gives none."""
    asked: tuple[Asked, ...]
    findings: tuple[str, ...]
    """What looks odd about the answers, in sentences."""

    @property
    def sound(self) -> bool:
        """Whether anything was asked, and anything found."""
        return any(one.changes for one in self.asked)


def attempt(
    directory: Path,
    settings: Settings,
    *,
    scores: Path | None = None,
    tolerance: float = TOLERANCE,
    count: int = QUESTIONS,
) -> Tryout:
    """Register a directory in a store of its own, and ask about `count` of the reference records that it rejects.

    Errors as in `app.registry.install.install`.
    """
    with TemporaryDirectory(prefix="recourse-") as place:
        store = replace(Store.of(settings), root=str(Path(place) / "store"))
        model = store.open().register(directory, scores=scores, tolerance=tolerance)
        ref = ModelRef.of(store, model)
        reference = tasks.load(ref).reference
        tasks.ready(ref)
        labels = _labels(model)
        asked = tuple(_ask(ref, settings, reference, i) for i in _rejected(reference, count))
        loaded = tasks.load(ref)
        without = [one.record for one in asked if not one.changes]
        lines = helping_lines(
            loaded.black_box, reference, loaded.rules, without, settings.valid_days / DAYS_PER_MONTH
        )  # fmt: skip
        findings = [*oddities(reference, asked, labels), *lines]
    return Tryout(
        name=model.name,
        features=len(model.manifest.features),
        registration=model.registration,
        threshold=model.manifest.least_probability,
        asked=asked,
        findings=tuple(findings),
    )


def _rejected(reference: Reference, count: int) -> list[int]:
    """Rejected records, from the most hopeless tenth to the nearest one."""
    rejected = np.flatnonzero(reference.scores < 0.0)
    order = rejected[np.argsort(reference.scores[rejected], kind="stable")]
    if not len(order):
        return []
    places = np.linspace(0.1, 0.9, count) * (len(order) - 1)
    return list(dict.fromkeys(int(order[round(place)]) for place in places))


def _ask(ref: ModelRef, settings: Settings, reference: Reference, record: int) -> Asked:
    method = METHODS[DEFAULT_METHOD]
    created = datetime.now(UTC)
    registered = tasks.load(ref).registered
    frame = Frame(
        model=identity(registered), points=registered.manifest.points, method={"name": method.name}, seed=0,
        created_at=created.isoformat(), expires_at=(created + timedelta(days=settings.valid_days)).isoformat(),
    )  # fmt: skip
    question = Question(
        method=method.name, params=method.params(), factual_raw=reference.rows_raw[record],
        valid_months=settings.valid_days / DAYS_PER_MONTH, reasons=ReasonsParams(),
    )  # fmt: skip
    began = time.perf_counter()
    found = answer(
        ref, RECOURSE, question, frame, settings.plan_budget_ms / 1e3, deadline_s=settings.default_deadline_ms / 1e3
    )
    return _asked(record, reference.space, found, time.perf_counter() - began)


def _asked(record: int, space: FeatureSpace, found: Json, elapsed_s: float) -> Asked:
    best = found["counterfactuals"][0] if found["status"] == Status.FOUND else None
    return Asked(
        record=record,
        before=found["factual"],
        after=best and best["validity"]["current"],
        changes=tuple((change["feature"], change["text"]) for change in best["changes"] if not change["by_time"])
        if best
        else (),
        detail="" if best else " ".join(filter(None, [found["detail"], (found["relax"] or {}).get("text")])),
        moved=_moved(space, best["changes"]) if best else {},
        elapsed_s=elapsed_s,
        reasons=tuple((one["feature"], one["direction"]) for one in (found["reasons"] or {"reasons": ()})["reasons"]),
    )


def _moved(space: FeatureSpace, changes: Sequence[Json]) -> dict[str, tuple[float, float]]:
    """The changes that take doing, as raw values; one of a missing number has no value before."""
    given = {change["feature"]: change for change in changes if not change["by_time"]}
    return {
        feature.name: (
            math.nan if given[feature.name]["from"] is None else feature.parse(given[feature.name]["from"]),
            feature.parse(given[feature.name]["to"]),
        )
        for feature in space.features
        if feature.name in given
    }


def _labels(model: RegisteredModel) -> Bool[np.ndarray, "n"] | None:
    """Whether each reference record had the favourable outcome; None where the manifest names no label."""
    if model.manifest.label is None:
        return None
    column, _ = read_reference(model.directory / model.manifest.reference, [], model.manifest.label)
    return None if column is None else column[:, 0] == 1.0
