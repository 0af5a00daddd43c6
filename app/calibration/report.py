"""Whether the next version of a model kept what was promised, by the answers in the ledger."""

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from app.calibration.file import write_calibration
from app.errors import DeadlineExceeded, RecourseError
from app.futures.store import load_futures, read_record
from app.ledger.audits import fitting_row, lowest_share, opened_ledger
from app.ledger.ledger import Ledger
from app.models import tasks
from app.observability import log
from app.questions.answers import Json, plain
from app.recourse.answer_part import AnswerPart
from app.recourse.models.calibration import Calibration, Retraining, calibrate, rank
from app.recourse.models.committee import Backtest
from app.recourse.models.meter import Meter
from app.recourse.robustness.invalidation import clopper_pearson
from app.registry.ref import ModelRef, Store
from app.registry.version import RegisteredModel

MOST_ANSWERS = 5000
"""Answers of the ledger that are read, the newest ones."""

LOADING_SHARE = 0.7
"""Share of the time after which no further version is loaded; loading one cannot be interrupted."""

UNDER: tuple[Literal["stress", "same"] | None, ...] = ("stress", "same", None)
"""What shares are asked for under."""

BINS = 10
"""Bins of the promised share, equally wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(AnswerPart):
    """How many promises the next version of the model keeps."""

    promises: int
    """Counterfactuals that the next version has checked."""
    mean_told: float | None
    """Mean promised share, `validity.future.probability`; null without promises."""
    kept: float | None
    """Share that the next version accepts; null without promises."""
    interval: tuple[float, float] | None
    """95 % interval of `kept`, for this next version alone; null without promises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationBin(AnswerPart):
    """Promises whose promised shares lie in one range."""

    told: tuple[float, float]
    """The upper end belongs to the next bin, except for 1."""
    promises: int
    """Number of promises in this bin."""
    mean_told: float
    """Mean of the shares that were promised."""
    kept: float
    """Share that the next version accepts."""
    interval: tuple[float, float]
    """95 % confidence interval of `kept` (Clopper-Pearson)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodCalibration(Kept):
    """The promises of one method."""

    method: str
    """Name of the method."""
    bins: tuple[CalibrationBin, ...]
    """Its promises, by the share that was promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderCalibration(Kept):
    """The promises whose requests had the same `robustness.under`."""

    under: Literal["stress", "same"] | None
    """`stress` or `same` where a share of future models was asked for and stress was rehearsed; null for others."""
    mean_lowest: float | None
    """Mean smallest share under stress, `validity.future.stressed.lowest`; null where no stress was rehearsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionCalibration(Kept):
    """The promises of one version."""

    version: str
    """The version whose promises these are."""
    next: str | None
    """The version that checked them; null where there is none yet."""
    pending: int
    """Promises without a next version."""
    unchecked: int
    """Promises that the next version was not asked about: it is remote, cannot be loaded, or the time ran out."""
    rank: float | None
    """Where the next version keeps less than the version's held-back future models do, this is small: its rank among
    them, in (0, 1]; null without these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationCorrection(AnswerPart):
    """How far `validity.future.measured` is below `probability`: linear between these points, constant beyond."""

    model: str
    """The version whose answers it corrects."""
    told: tuple[float, ...]
    """Promised shares at which it is known, ascending."""
    by: tuple[float, ...]
    """How much is taken off each of these shares."""
    promises: int
    """Checked promises of earlier versions behind it."""
    retrainings: int
    """Number of later versions that this rests on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationAnswer(Kept):
    """Promised shares of future models against what the next version kept; one promise is one counterfactual."""

    model: str
    """The model whose promises were checked."""
    bins: tuple[CalibrationBin, ...]
    """Ascending, without those that are empty."""
    methods: tuple[MethodCalibration, ...]
    """The same for each method."""
    under: tuple[UnderCalibration, ...]
    """The same for what was asked for under stress, for applicants as they are, and for all others."""
    versions: tuple[VersionCalibration, ...]
    """In the order of registration, those with promises."""
    pending: int
    """Promises without a next version; no share counts them."""
    unchecked: int
    """Promises that no next version was asked about; no share counts them."""
    left_out: int
    """Older answers in the ledger that were not read."""
    correction: CalibrationCorrection | None
    """Of answers of the newest version that answers; null where nothing is corrected."""
    backtest: tuple[Backtest, ...]
    """What models of later dates kept of answers that the recipe's models of earlier dates gave, of the newest version
    that answers; empty where its reference has no dates."""
    backtest_detail: str | None
    """Why there is no backtest, although the manifest names a column of dates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One counterfactual that an applicant was given, and the share of future models promised to accept it."""

    method: str
    promised: float
    applicant: Mapping[str, object]
    under: Literal["stress", "same"] | None = None
    lowest: float | None = None
    """Share under stress."""


@dataclass(slots=True, kw_only=True)
class Checks:
    """The promises of one version, and for each of them whether the next version keeps it."""

    model: RegisteredModel | None
    """None where the version is not registered any more."""
    version: str
    next: RegisteredModel | None
    promises: list[Promise]
    kept: Sequence[bool] | None = None
    """None unless the next version was asked."""
    rivals: Sequence[float] = ()


def calibration(store: Store, model_id: str, *, deadline_s: float) -> Json:
    """The `CalibrationAnswer` of a model, as JSON.

    If there was time for all checks, also stores the correction of each version.

    Raises
    ------
    LedgerUnavailable : the ledger cannot be read
    """
    now = time.monotonic()
    loading, deadline = now + LOADING_SHARE * deadline_s, now + deadline_s
    versions = [model for model in store.open().list() if model.id == model_id]
    with opened_ledger(store) as ledger:
        given, left_out = _given(ledger, model_id)
    checked = [_paired(versions, version, promises) for version, promises in given.items()]
    order = {model.version: i for i, model in enumerate(versions)}
    checked.sort(key=lambda one: (order.get(one.version, -1), one.version))
    # The newest first: they say most about the next retraining.
    done = [_check(store, one, loading, deadline) for one in reversed(checked)]
    corrections = {model.version: _correction(versions[: i + 1], checked) for i, model in enumerate(versions)}
    if all(done):
        for model in versions:
            _keep(model, corrections[model.version])
    answering = [model for model in versions if model.active] or versions
    return plain(_answer(model_id, checked, left_out, answering[-1:], corrections))


# --- promises --------------------------------------------------------------------------------------------------------


def _given(ledger: Ledger, model_id: str) -> tuple[dict[str, list[Promise]], int]:
    """The promises by version, and how many older answers were not read."""
    given: defaultdict[str, list[Promise]] = defaultdict(list)
    read = 0
    for records in ledger.newest_found(model_id, MOST_ANSWERS):
        read += len(records)
        for record in records:
            assert record.personal_data is not None  # only such entries are selected
            given[str(record.entry.version)] += _promises(json.loads(record.personal_data.answer))
    promised = {version: promises for version, promises in given.items() if promises}
    return promised, max(ledger.count_found(model_id) - read, 0)


def _promises(answer: Json) -> Iterable[Promise]:
    for one in answer["counterfactuals"]:
        # Answers of models without future models promise nothing, nor do those of earlier releases.
        if future := one["validity"].get("future"):
            yield Promise(
                method=answer["method"]["name"], promised=future["probability"], applicant=one["applicant"],
                # Promises of earlier releases are plain ones.
                under=future.get("under"), lowest=lowest_share(future),
            )  # fmt: skip


def _paired(versions: Sequence[RegisteredModel], version: str, promises: list[Promise]) -> Checks:
    """The promises of a version with the version after it, which has the same columns."""
    at = next((i for i, model in enumerate(versions) if model.version == version), None)
    if at is None:
        return Checks(model=None, version=version, next=None, promises=promises)
    own = versions[at]
    following = (model for model in versions[at + 1 :] if model.space.same_columns(own.space))
    return Checks(model=own, version=version, next=next(following, None), promises=promises)


# --- the next version ------------------------------------------------------------------------------------------------


def _check(store: Store, checks: Checks, loading: float, deadline: float) -> bool:
    """Ask the next version about all promises of a version; False where only the time was too short.

    Nothing is loaded after `loading`, and nothing computed after `deadline`.
    """
    if checks.model is None or checks.next is None:
        return True
    if time.monotonic() > loading:
        return False
    try:
        black_box = tasks.load_sibling(ModelRef.of(store, checks.next))
        # Every look at the table would be paid for.
        if black_box.remote is not None:
            return True
        checks.kept = _accepted(Meter(black_box, deadline), checks.promises)
        checks.rivals = _rivals(checks.model, checks.promises)
    except DeadlineExceeded:
        return False
    except RecourseError as error:
        log.warning("calibration-unchecked", model=checks.next.name, detail=error.sentence)
    return True


def _rivals(model: RegisteredModel, promises: Sequence[Promise]) -> Sequence[float]:
    """Share of the promises that each held-back future model of their version accepts."""
    futures = load_futures(model)
    if futures is None:
        return ()
    rows_raw = np.array([model.space.read(one.applicant) for one in promises])
    shares: list[float] = (futures.held_back.scores_raw(rows_raw) >= 0.0).mean(axis=0).tolist()
    return shares


def _accepted(meter: Meter, promises: Sequence[Promise]) -> list[bool]:
    """Whether a model accepts each record; one that does not fit its schema is not accepted."""
    rows = [fitting_row(meter.black_box.space, one.applicant) for one in promises]
    fitting = [row for row in rows if row is not None]
    scores = iter((meter.score_raw(np.array(fitting)) >= 0.0).tolist() if fitting else [])
    return [row is not None and next(scores) for row in rows]


# --- the correction --------------------------------------------------------------------------------------------------


def _retraining(checks: Checks) -> Retraining | None:
    if checks.kept is None:
        return None
    promised = np.array([one.promised for one in checks.promises])
    return Retraining(promised=promised, kept=np.array(checks.kept), rivals=np.array(checks.rivals, dtype=float))


def _correction(known: Sequence[RegisteredModel], checked: Sequence[Checks]) -> Calibration | None:
    """The correction of answers of the last of these versions, from retrainings that led up to it."""
    names = {model.version for model in known}
    same = [one for one in checked if one.next is not None and one.next.version in names]
    same = [one for one in same if one.next is not None and one.next.space.same_columns(known[-1].space)]
    return calibrate([found for one in same if (found := _retraining(one)) is not None])


def _keep(model: RegisteredModel, correction: Calibration | None) -> None:
    try:
        write_calibration(model.directory, correction)
    except OSError as error:
        log.warning("calibration-not-written", model=model.name, detail=str(error.strerror))


# --- the table -------------------------------------------------------------------------------------------------------


def _answer(
    model_id: str,
    checked: Sequence[Checks],
    left_out: int,
    answering: Sequence[RegisteredModel],
    corrections: Mapping[str, Calibration | None],
) -> CalibrationAnswer:
    asked = [
        (promise, kept)
        for one in checked
        if one.kept is not None
        for promise, kept in zip(one.promises, one.kept, strict=True)
    ]
    pairs = [(promise.promised, kept) for promise, kept in asked]
    by_method: defaultdict[str, list[tuple[float, bool]]] = defaultdict(list)
    for promise, kept in asked:
        by_method[promise.method].append((promise.promised, kept))
    versions = tuple(_version(one) for one in checked)
    found = [(model.name, corrections[model.version]) for model in answering]
    rehearsed = next((record for model in answering if (record := read_record(model.directory))), None)
    return CalibrationAnswer(
        model=model_id,
        **_kept(pairs),
        bins=_bins(pairs),
        methods=tuple(
            MethodCalibration(method=name, **_kept(own), bins=_bins(own)) for name, own in sorted(by_method.items())
        ),
        under=tuple(
            _under(under, [one for one in asked if one[0].under == under])
            for under in UNDER
            if any(promise.under == under for promise, _ in asked)
        ),
        versions=versions,
        pending=sum(one.pending for one in versions),
        unchecked=sum(one.unchecked for one in versions),
        left_out=left_out,
        correction=next(
            (CalibrationCorrection(model=name, **asdict(one)) for name, one in found if one is not None), None
        ),
        backtest=() if rehearsed is None else rehearsed.backtest,
        backtest_detail=None if rehearsed is None else rehearsed.no_backtest,
    )


def _under(under: Literal["stress", "same"] | None, asked: Sequence[tuple[Promise, bool]]) -> UnderCalibration:
    lowest = [promise.lowest for promise, _ in asked if promise.lowest is not None]
    return UnderCalibration(
        under=under, **_kept([(promise.promised, kept) for promise, kept in asked]),
        mean_lowest=float(np.mean(lowest)) if lowest else None,
    )  # fmt: skip


def _version(checks: Checks) -> VersionCalibration:
    retraining, count = _retraining(checks), len(checks.promises)
    # Those of a version that is not registered any more have no successor that is known.
    pending = count if checks.model is not None and checks.next is None else 0
    pairs = [] if checks.kept is None else zip((one.promised for one in checks.promises), checks.kept, strict=True)
    return VersionCalibration(
        version=checks.version,
        next=None if checks.next is None else checks.next.version,
        **_kept(list(pairs)),
        pending=pending,
        unchecked=count - pending if retraining is None else 0,
        rank=None if retraining is None or not len(retraining.rivals) else rank(retraining),
    )


def _kept(pairs: Sequence[tuple[float, bool]]) -> dict[str, Any]:
    """The fields of `Kept`."""
    if not pairs:
        return {"promises": 0, "mean_told": None, "kept": None, "interval": None}
    promised, kept = np.array(pairs, dtype=float).T
    hits, count = int(kept.sum()), len(pairs)
    interval = clopper_pearson(hits, count)
    return {"promises": count, "mean_told": float(promised.mean()), "kept": hits / count, "interval": interval}


def _bins(pairs: Sequence[tuple[float, bool]]) -> tuple[CalibrationBin, ...]:
    filled: defaultdict[int, list[tuple[float, bool]]] = defaultdict(list)
    for promised, kept in pairs:
        # A share such as 0.3 is not exactly the bound of its bin.
        filled[min(int(promised * BINS + 1e-9), BINS - 1)].append((promised, kept))
    return tuple(
        CalibrationBin(told=(i / BINS, (i + 1) / BINS), **_kept(inside)) for i, inside in sorted(filled.items())
    )
