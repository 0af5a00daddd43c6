"""Tries a model directory without registering it: the checks of a registration, then a few questions about recourse.

Registration and answers are those of the service, in a store that is thrown away.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from app.compute import tasks
from app.compute.answers import Frame, Json, identity
from app.compute.messages import ModelRef, Question, Store
from app.compute.use_cases import RECOURSE, answer
from app.recourse.actions.timing import DAYS_PER_MONTH
from app.recourse.features import Change, FeatureSpace, FeatureType, Takes
from app.recourse.problem import Reference
from app.recourse.result import Status
from app.recourse.solve import DEFAULT_METHOD, METHODS
from app.registry.lender_scores import TOLERANCE
from app.registry.version import Registration
from app.settings import Settings

QUESTIONS = 5
"""Rejected records that are asked about."""

DOMINANT = 0.7
"""Share of the squared distances between records beyond which one feature decides who is near."""

NAMED = 8
"""Features that a sentence lists."""

LEAP = 4
"""Levels; a rise by so many at once is rare."""

ALIKE = 3
"""Fewest answers of which something can be said together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One question and its answer."""

    record: int
    """Line of the reference, counted from 0 without its header."""
    before: Json
    """The model's decision on it."""
    after: Json | None
    """The same after the changes; None where nothing was found."""
    changes: tuple[tuple[str, str], ...]
    """Feature and sentence of each change; empty where nothing was found."""
    detail: str
    """Why nothing was found; empty where something was."""
    raised: Mapping[str, float]
    """By how many levels each ordinal feature moves that needs no time for it."""
    elapsed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tryout:
    """What trying a model showed."""

    name: str
    features: int
    registration: Registration
    asked: tuple[Asked, ...]
    findings: tuple[str, ...]
    """What looks odd about the answers, in sentences."""

    @property
    def sound(self) -> bool:
        """Whether anything was asked, and anything found."""
        return any(one.changes for one in self.asked)


def attempt(directory: Path, settings: Settings, *, scores: Path | None = None, tolerance: float = TOLERANCE) -> Tryout:
    """Register a directory in a store of its own, and ask about some of the reference records that it rejects.

    Errors as in `app.registry.install.install`.
    """
    with TemporaryDirectory(prefix="recourse-") as place:
        store = replace(Store.of(settings), root=str(Path(place) / "store"))
        model = store.open().register(directory, scores=scores, tolerance=tolerance)
        ref = ModelRef.of(store, model)
        reference = tasks.load(ref).reference
        tasks.ready(ref)
        asked = tuple(_ask(ref, settings, reference, i) for i in _rejected(reference))
    return Tryout(
        name=model.name,
        features=len(model.manifest.features),
        registration=model.registration,
        asked=asked,
        findings=tuple(_findings(reference, asked)),
    )


def _rejected(reference: Reference) -> list[int]:
    """Rejected records, from the most hopeless tenth to the nearest one."""
    rejected = np.flatnonzero(reference.scores < 0.0)
    order = rejected[np.argsort(reference.scores[rejected], kind="stable")]
    if not len(order):
        return []
    places = np.linspace(0.1, 0.9, QUESTIONS) * (len(order) - 1)
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
        valid_months=settings.valid_days / DAYS_PER_MONTH,
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
        raised=_raised(space, best["changes"]) if best else {},
        elapsed_s=elapsed_s,
    )


def _raised(space: FeatureSpace, changes: Sequence[Json]) -> dict[str, float]:
    moved = {change["feature"]: (change["from"], change["to"]) for change in changes}
    return {
        feature.name: abs(feature.parse(moved[feature.name][1]) - feature.parse(moved[feature.name][0]))
        for feature in space.features
        if feature.name in moved and feature.type is FeatureType.ORDINAL and feature.takes == Takes()
    }


def _findings(reference: Reference, asked: Sequence[Asked]) -> Iterator[str]:
    """What looks odd."""
    if not asked:
        yield "No reference record is rejected, so there was nothing to ask about"
    found = [one for one in asked if one.changes]
    if 2 * len(found) < len(asked):
        many = f"{len(asked) - len(found)} of {len(asked)} records" if found else "any record"
        yield (
            f"Nothing was found for {many}: do change, advice, takes and protected leave enough that people can do?"
            + _kept(reference)
        )
    needed = [{feature for feature, _ in one.changes} for one in found]
    common = set.intersection(*needed) if len(needed) >= ALIKE else set()
    if common:
        most = Counter(feature for one in found for feature, _ in one.changes)
        alone = "only " if all(len(one) == 1 for one in needed) else ""
        names = " and ".join(sorted(common, key=lambda name: -most[name]))
        yield (
            f"Every answer changes {alone}{names}: can people do that? A limit (advice, max_change), a higher cost or "
            "change: none would show other ways"
        )
    leaps = Counter(name for one in found for name, levels in one.raised.items() if levels >= LEAP)
    for name, count in leaps.items():
        yield (
            f"{count} of {len(found)} answers move {name} by {LEAP} levels or more at once: "
            "takes: {months_per_level: …} says how long that takes"
        )
    yield from _dominant(reference)


def _kept(reference: Reference) -> str:
    """The features that advice leaves alone and that are not protected, as a further sentence."""
    kept = [f.name for f in reference.space.features if f.change is Change.NONE and not f.protected]
    more = f" and {len(kept) - NAMED} more" if len(kept) > NAMED else ""
    return f" Fixed by change: none are {', '.join(kept[:NAMED])}{more}" if kept else ""


def _dominant(reference: Reference) -> Iterator[str]:
    """A feature that decides alone which records are near each other."""
    space = reference.space
    variance = np.var(reference.X, axis=0)
    total = float(variance.sum())
    if space.p < ALIKE or not total or not math.isfinite(total):
        return
    for j, name in enumerate(space.names):
        share = float(variance[space.feature_of_column == j].sum()) / total
        if share > DOMINANT:
            yield (
                f"Distances are {share:.0%} those of {name}: a few very large values of it outweigh all else. A larger "
                "spread of it, or the logarithm as a feature, would change that"
            )
