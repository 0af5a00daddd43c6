"""Tries a model directory without registering it: the checks of a registration, then a few questions about recourse.

Registration and answers are those of the service, in a store that is thrown away.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from jaxtyping import Bool, Float

from app.futures.spec import outlook
from app.models import tasks
from app.models.oddities import FIXED, USUAL, Asked, oddities
from app.questions.answers import Json
from app.questions.frame import Frame, identity
from app.questions.question import Question
from app.questions.use_cases import RECOURSE, answer
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.rules import Rule
from app.recourse.actions.timing import months_for_changes
from app.recourse.features import Change, Feature, FeatureSpace
from app.recourse.models.black_box import BlackBox
from app.recourse.problem import Reference
from app.recourse.reasons import ReasonsParams
from app.recourse.result import Status
from app.recourse.solve import DEFAULT_METHOD, HORIZON, METHODS
from app.registry.drafting.hints import hint_of
from app.registry.lender_scores import TOLERANCE
from app.registry.ref import ModelRef, Store
from app.registry.reference import read_reference
from app.registry.version import RegisteredModel, Registration
from app.settings import Settings
from app.store.timestamps import expiry

ROWS = 128
"""Records that are tried for each person and line."""

LEAST = 0.2
"""Share of the people that a line must help to be named."""

NAMED = 3
"""Lines that are named."""


def helping_lines(
    black_box: BlackBox, reference: Reference, rules: Sequence[Rule], records: Sequence[int], valid_months: float
) -> Iterator[str]:
    """A sentence on the manifest lines without which the model would accept many of `records`.

    No sentence where no line changes the decision on many records, or where the model is remote.

    Parameters
    ----------
    records : indices of the reference records for which no answer was found
    """
    features = reference.space.features
    lines = {j: line for j, feature in enumerate(features) if (line := _line(feature))}
    if not records or not lines or black_box.remote is not None:
        return
    rng = np.random.default_rng(0)
    helped = dict.fromkeys(lines, 0)
    for record in records:
        row = reference.rows_raw[record]
        actions = action_set(reference.space, row, rules=rules, valid_months=valid_months)
        tried = _within(actions, reference, rng)
        for j in lines:
            rows = tried.copy()
            rows[:, j] = _beyond(features[j], reference, row[j], j, rng)
            rows = rows[actions.keeps_rules(rows)]
            helped[j] += bool(len(rows)) and bool(black_box.accepts(black_box.score_raw(rows)).any())
    best = sorted((j for j in helped if helped[j] > LEAST * len(records)), key=lambda j: -helped[j])[:NAMED]
    if best:
        said = ", ".join(f"{helped[j]} without {lines[j]}" for j in best)
        yield f"Of the records without an answer ({len(records)}) the model would accept {said}"


def _line(feature: Feature) -> str:
    """The line that keeps a feature from moving far, or at all; none of what by its name cannot be changed."""
    if feature.protected or feature.moves_with_time is not None:
        return ""
    if feature.change is Change.NONE:
        hint = hint_of(feature.name, feature.type.value)
        fixed = hint is not None and any(hint.keys.items() >= said.items() for said in FIXED.values())
        return "" if fixed else f"the change: none of {feature.name}"
    return f"the max_change of {feature.name}" if feature.max_change is not None else ""


def _within(actions: ActionSet, reference: Reference, rng: np.random.Generator) -> Float[np.ndarray, "n p"]:
    """Records of one person with some features moved as the manifest allows, to their ends or between them."""
    own = np.tile(actions.factual_raw, (ROWS, 1))
    people = np.vstack([reference.rows_raw, actions.factual_raw])
    low = np.fmax(actions.lower_raw, np.fmin.reduce(people))
    high = np.fmin(actions.upper_raw, np.fmax.reduce(people))
    share = rng.choice([0.0, 1.0, -1.0], own.shape)
    share = np.where(share < 0.0, rng.random(own.shape), share)
    moved = actions.snap(low + share * (high - low))
    return np.where(actions.movable & (rng.random(own.shape) < 0.7), moved, own)


def _beyond(
    feature: Feature, reference: Reference, own: float, j: int, rng: np.random.Generator
) -> Float[np.ndarray, "n"]:
    """Values that people have, in the direction in which this one may move."""
    known = reference.rows_raw[~reference.space.in_state(reference.rows_raw)[:, j], j]
    if feature.is_number:
        low, high = np.quantile(known, USUAL)
        known = known[(known >= low) & (known <= high)]
    if feature.change is Change.INCREASE:
        known = known[known > own]
    if feature.change is Change.DECREASE:
        known = known[known < own]
    return rng.choice(known, ROWS) if len(known) else np.full(ROWS, own)


QUESTIONS = 5
"""Rejected records that are asked about, unless more are asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tryout:
    """The result of trying a model: its registration, some answers, and what looks odd about them."""

    name: str
    features: int
    registration: Registration
    threshold: float | None
    """The least probability that the model accepts; None where it gives none."""
    futures: str
    """Which future models a server would make of it, in a sentence."""
    asked: tuple[Asked, ...]
    findings: tuple[str, ...]
    """What looks odd about the answers, in sentences."""
    model: RegisteredModel

    @property
    def sound(self) -> bool:
        """Whether changes were found for at least one of the refused records that were tried."""
        return any(one.changes for one in self.asked)


def attempt(
    directory: Path,
    settings: Settings,
    *,
    scores: Path | None = None,
    tolerance: float = TOLERANCE,
    count: int = QUESTIONS,
) -> Tryout:
    """Register a model directory in a temporary store, and ask about `count` reference records that the model refuses.

    Raises `ModelRefused` with every fault that could be found.
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
            loaded.black_box, reference, loaded.rules, without, months_for_changes(settings.valid_days)
        )
        findings = [*oddities(reference, asked, labels), *lines]
        futures = outlook(loaded)
    return Tryout(
        name=model.name,
        features=len(model.manifest.features),
        registration=model.registration,
        threshold=model.manifest.least_probability,
        futures=futures,
        asked=asked,
        findings=tuple(findings),
        model=model,
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
        created_at=created.isoformat(), expires_at=expiry(created, settings.valid_days),
    )  # fmt: skip
    question = Question(
        method=method.name, params=method.params(), factual_raw=reference.rows_raw[record],
        valid_months=months_for_changes(settings.valid_days), reasons=ReasonsParams(),
    )  # fmt: skip
    began = time.perf_counter()
    found = answer(
        ref, RECOURSE, question, frame, settings.plan_budget_ms / 1e3, deadline_s=settings.default_deadline_ms / 1e3
    )
    return _asked(record, reference.space, found, time.perf_counter() - began)


def _asked(record: int, space: FeatureSpace, found: Json, elapsed_s: float) -> Asked:
    best = found["counterfactuals"][0] if found["status"] == Status.FOUND else None
    relax = found["relax"] or {}
    return Asked(
        record=record,
        before=found["factual"],
        after=best and best["validity"]["current"],
        changes=tuple((change["feature"], change["text"]) for change in best["changes"] if not change["by_time"])
        if best
        else (),
        detail="" if best else " ".join(filter(None, [found["detail"], relax.get("text")])),
        moved=_moved(space, best["changes"]) if best else {},
        elapsed_s=elapsed_s,
        takes_months=best["takes_months"] if best else 0.0,
        longer=best is None and relax.get("constraint") == HORIZON and relax["sufficient"],
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
