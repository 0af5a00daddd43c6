"""Where future models are kept, what is known about them without loading any, and loading them.

In the directory of a version:

* ``futures/futures.json`` says what there is; it is replaced in one step, and names
* ``futures/{name}/search/``, ``held_back/`` and, of stresses, ``stressed_search/`` and ``stressed/``: packed models of
  each set (`stacks`);
* ``futures.partial/`` is a rehearsal on its way: its specification, each model that is made, and, where it failed, why.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, FiniteFloat, ValidationError, model_validator
from scipy.special import ndtr

from app.calibration.file import read_calibration
from app.errors import ModelRefused, ModelUnusable, RecourseError
from app.futures.records import Labels
from app.futures.stacks import STACKS, Kind
from app.kept import kept
from app.observability import log
from app.recourse.models.black_box import Input
from app.recourse.models.committee import (
    Backtest,
    Drawn,
    FutureModels,
    Futures,
    Likeness,
    Lowered,
    Stress,
    StressedModels,
)
from app.recourse.models.score import Output
from app.recourse.shares import percent
from app.registry.artifact import Artifact
from app.registry.files import Stamp, digest, read_regular, stamp
from app.registry.manifest import FUTURES, PARTIAL, Manifest
from app.registry.version import RegisteredModel

RECORD, SPEC, FAILED = "futures.json", "spec.json", "failed.json"

SetName: TypeAlias = Literal["search", "held_back", "stressed_search", "stressed"]

Source: TypeAlias = Literal["retrained", "command", "supplied", "stand_in"]
Json: TypeAlias = dict[str, Any]

SIGNIFICANCE = 0.05
"""Chance of finding that today's model differs from its future models where their recipe is the lender's, at most."""

ADVICE = (
    "Today's model does not look like one that this recipe trains, so intervals are wider. Make the models with the "
    "lender's own training: recourse models rehearse --command, or --from a folder of models that it has trained."
)

SIGNIFICANT = 1.64
"""Standard errors by which promises exceed what is kept, from which on they are lowered; by chance 5 % do."""

LEAST_APART, MOST_PART = 0.25, 0.5
"""Bounds, in normal quantiles, of what tells how losses grow with promises: of the difference of two promises, and of
the part of a promise that is lost."""

LOWERED = (
    "For answers from one half of the records, {promised}% was the promised chance that the next model accepts them; "
    "by the models of the other half it is {kept}%. So promises are lowered; more records would raise them."
)


class Part(BaseModel):
    """Base of the pydantic models that are kept as JSON files."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FutureManifest(Part):
    """The fields of a manifest in which future models may differ from today's model."""

    artifact: Artifact
    input: Input
    output: Output
    favourable: bool | int | str
    threshold: FiniteFloat

    @classmethod
    def of(cls, manifest: Manifest) -> "FutureManifest":
        """Take from a future model's manifest the fields in which it may differ from today's model."""
        return cls(
            artifact=manifest.file,
            input=manifest.input,
            output=manifest.output,
            favourable=manifest.favourable,
            threshold=manifest.threshold,
        )

    def manifest(self, own: Manifest) -> Manifest:
        """The manifest of a future model: `own`, the manifest of today's model, with these fields replaced."""
        return own.model_copy(update={name: getattr(self, name) for name in type(self).model_fields})


class SetRecord(Part):
    """The number of models in one set of future models, and the files that hold them."""

    models: int
    dropped: int
    """Models that were made and are no better than chance."""
    stack: str
    digests: dict[str, str]
    """SHA-256 of each file, by its name."""
    sizes: dict[str, int]
    """Bytes of each file."""


class Kept(Part):
    """What models of one half of the records keep of answers of the other half, in normal quantiles, per half."""

    promised: FiniteFloat
    """Of the share of future models that accept an answer."""
    kept: FiniteFloat
    """Of the share of such models as the other half's."""
    error: FiniteFloat
    """Standard error of the difference of the two."""


class Halves(Part):
    """What models of one half of the records keep of answers that the other half gives (`halves`)."""

    answers: int
    default: Kept
    """Of answers that ask for no share of future models."""
    asked: Kept
    """Of answers that ask for one."""

    @property
    def lowered(self) -> Lowered | None:
        """By how much promises are lowered; None where chance may explain the difference."""
        lost, least = (kept.promised - kept.kept for kept in (self.asked, self.default))
        if lost < SIGNIFICANT * self.asked.error:
            return None
        apart = max(self.asked.promised - self.default.promised, LEAST_APART)
        part = min(max(0.0, (lost - least) / apart), MOST_PART)
        return Lowered(amount=lost - part * self.asked.promised, part=part, most=lost)


class FuturesRecord(Part):
    """What is known about the future models of a version; the contents of ``futures.json``."""

    schema_version: Literal[1] = 1
    created_at: AwareDatetime
    name: str
    """Directory of the files; follows from their digests."""
    model_sha256: str
    """Digest of today's model."""
    source: Source
    recipe: str
    tuned: Json
    """What the recipe found out before it began."""
    records: Drawn
    """How large the bootstraps are."""
    data_sha256: str | None
    """Digest of newer records that the models were trained on; None where these are the reference records."""
    labels: Labels
    seed: int
    described: FutureManifest
    search: SetRecord
    held_back: SetRecord
    stress: Stress | tuple[Stress, ...] | None = None
    """The stresses. A single one is of an earlier release, which had no models of it for searches; it is not used."""
    strengths: tuple[float, ...] = ()
    """Of each stress, ascending."""
    stressed_search: SetRecord | None = None
    """Models of the stresses for searches, stress by stress and strength by strength; None without any."""
    stressed: SetRecord | None = None
    """Those of them that are held back."""
    backtest: tuple[Backtest, ...] = ()
    """What models of later dates kept of answers of earlier ones; empty where there are no dates."""
    no_backtest: str | None = None
    """Why there is none, although the manifest names a column of dates."""
    rank: FiniteFloat | None = None
    """Of today's model among the held-back ones where answers lie (`likeness`); None where it was not compared."""
    apart: FiniteFloat = 0.0
    """How far it is from their mean there, in their standard deviations."""
    halves: Halves | None = None
    """None where the records were not halved."""
    agreement: FiniteFloat
    """Share of reference records that a future model has not seen and decides as today's does; mean over the models."""
    seconds: FiniteFloat
    """Time that making the models took."""

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_releases(cls, found: Any) -> Any:
        """Rehearsals of earlier releases kept a correction by trials, which is not read any more."""
        return {key: value for key, value in found.items() if key != "trials"} if isinstance(found, dict) else found

    @property
    def sets(self) -> "dict[SetName, SetRecord]":
        """The record of each set of future models, by the name of the set."""
        found: dict[SetName, SetRecord] = {"search": self.search, "held_back": self.held_back}
        if self.stressed_search is not None and self.stressed is not None:
            found |= {"stressed_search": self.stressed_search, "stressed": self.stressed}
        return found

    @property
    def likeness(self) -> Likeness | None:
        """Whether today's model is `alike` the future models, or `differs` from them; None without a comparison."""
        return None if self.rank is None else "differs" if self.rank <= SIGNIFICANCE else "alike"

    @property
    def advice(self) -> str | None:
        """What the lender should know of these models; None where there is nothing to say."""
        said = [ADVICE] if self.likeness == "differs" else []
        if self.halves is not None and self.halves.lowered is not None:
            asked = self.halves.asked
            said.append(LOWERED.format(promised=percent(ndtr(asked.promised)), kept=percent(ndtr(asked.kept))))
        return " ".join(said) or None

    @property
    def stresses(self) -> tuple[Stress, ...]:
        """The stresses under which future models were trained."""
        return self.stress if isinstance(self.stress, tuple) else ()


def can_have_futures(model: RegisteredModel) -> bool:
    """Whether a server may make future models of a version without being asked.

    It may if the version has a label, its manifest wants future models, and its files are trusted.
    """
    manifest = model.manifest
    return manifest.label is not None and manifest.futures.source != "none" and not model.distrusted


READY = (
    "status", "source", "search", "held_back", "agreement", "recipe", "advice", "records", "labels", "stress",
    "strengths", "dropped", "created_at", "detail",
)  # fmt: skip
"""What `status` says of models that are there; null of others, but for status and detail."""


def status(model: RegisteredModel) -> Json:
    """What is known about the future models of a version, without loading any.

    ``status`` is ``none``, ``pending``, ``ready`` or ``failed``; ``detail`` says why the last rehearsal failed.
    ``status`` stays ``ready`` while models that can be used exist, even if others are being made or their rehearsal
    fails.
    """
    found = _found(model)
    if found is not None and not _damage(model, found):
        return {
            "status": "ready",
            "source": found.source,
            "search": found.search.models,
            "held_back": found.held_back.models,
            "agreement": found.agreement,
            "recipe": found.likeness,
            "advice": found.advice,
            "records": found.records,
            "labels": found.labels,
            "stress": [asdict(one) for one in found.stresses],
            "strengths": list(found.strengths),
            "dropped": sum(one.dropped for one in found.sets.values()),
            "created_at": found.created_at.isoformat(),
            "detail": None,
        }
    state, detail = "none", failure(model)
    if detail is not None:
        state = "failed"
    elif (model.directory / PARTIAL).exists():
        state = "pending"
    elif found is not None or _may_exist(model.directory / FUTURES / RECORD):
        state, detail = "failed", "the files of the future models are damaged"
    return {**dict.fromkeys(READY), "status": state, "detail": detail}


def _may_exist(path: Path) -> bool:
    """Whether a file is there, as far as can be seen: the directory may be locked."""
    try:
        return path.exists()
    except OSError:
        return True


def failure(model: RegisteredModel) -> str | None:
    """Why the last rehearsal of a version failed; None if it succeeded, or a new one has begun."""
    try:
        content = read_regular(model.directory / PARTIAL / FAILED)
        return Failure.model_validate_json(content).detail
    except (OSError, ValidationError):
        return None


class Failure(Part):
    """Why a rehearsal failed; the contents of ``failed.json``."""

    detail: str


def read_record(directory: Path) -> FuturesRecord | None:
    """Read a version's ``futures.json``; None where this file is absent or damaged."""
    found = stamp(directory / FUTURES / RECORD)
    return None if found is None else _read(directory, found)


@lru_cache(maxsize=256)
def _read(directory: Path, of: Stamp) -> FuturesRecord | None:  # noqa: ARG001
    try:
        return FuturesRecord.model_validate_json(read_regular(directory / FUTURES / RECORD))
    except (OSError, ValidationError):
        log.error(
            "futures-unusable", model=f"{directory.parent.name}@{directory.name}", detail="futures.json is damaged"
        )
        return None


def _found(model: RegisteredModel) -> FuturesRecord | None:
    found = read_record(model.directory)
    return found if found is not None and found.model_sha256 == model.sha256 else None


def _damage(model: RegisteredModel, record: FuturesRecord) -> bool:
    """Whether a file is missing or has another size; digests are compared where files are loaded."""
    where = model.directory / FUTURES / record.name
    for name, found in record.sets.items():
        for file, size in found.sizes.items():
            there = stamp(where / name / file)
            if there is None or there[1] != size:
                return True
    return False


# --- loading ---------------------------------------------------------------------------------------------------------


def load_futures(model: RegisteredModel) -> Futures | None:
    """The future models of a version; None where it has none, or none that can be used, which is then logged.

    Loaded models stay in memory until ``futures.json`` changes, so every question can call this. Shares of these models
    are corrected by the version's present ``calibration.json``.
    """
    found = stamp(model.directory / FUTURES / RECORD)
    futures = None
    if found is not None:
        key = ("futures", model.directory, found)
        futures = kept(key, lambda: _load(model), name=model.name, size=lambda _: _size(model))
    if futures is None or (calibration := read_calibration(model.directory)) is None:
        return futures
    return replace(futures, calibration=calibration)


def _size(model: RegisteredModel) -> int:
    """Bytes of the files, which are numbers in memory as well."""
    record = _found(model)
    return 0 if record is None else sum(size for found in record.sets.values() for size in found.sizes.values())


def _load(model: RegisteredModel) -> Futures | None:
    record = _found(model)
    if record is None:
        return None
    try:
        sets = {name: _set(model, record, name, found) for name, found in record.sets.items()}
    except (RecourseError, OSError, ValueError, KeyError) as error:
        # Whatever is wrong with them, the model itself can be used.
        detail = error.sentence if isinstance(error, RecourseError) else f"{type(error).__name__}: {error}"
        log.error("futures-unusable", model=model.name, detail=detail)
        return None
    stressed: dict[str, StressedModels] = {
        name: StressedModels(stresses=record.stresses, strengths=record.strengths, models=models)
        for name, models in sets.items()
        if name in ("stressed_search", "stressed")
    }
    return Futures(
        search=sets["search"],
        held_back=sets["held_back"],
        stressed_search=stressed.get("stressed_search"),
        stressed=stressed.get("stressed"),
        source=record.source,
        records=None if record.source == "supplied" else record.records,
        recipe=record.likeness,
        apart=record.apart if record.likeness == "differs" else None,
        backtest=record.backtest,
        stress_price=model.manifest.futures.stress_price,
        lowered=None if record.halves is None else record.halves.lowered,
    )


def _set(model: RegisteredModel, record: FuturesRecord, name: SetName, found: SetRecord) -> FutureModels:
    directory = model.directory / FUTURES / record.name / name
    for file, expected in found.digests.items():
        if digest(directory / file) != expected:
            raise ModelUnusable(f"{directory / file} has changed since it was made")
    files = {file: (directory / file).read_bytes() for file in found.digests}
    kind = Kind(manifest=record.described.manifest(model.manifest), space=model.columns.model, trust=model.trust)
    try:
        return open_set(model, kind, found.stack, found.models, directory, files)
    except ModelRefused as error:
        raise ModelUnusable(f"a model in {directory} cannot be loaded", faults=error.faults) from error


def open_set(
    model: RegisteredModel, kind: Kind, stack: str, count: int, directory: Path, files: Mapping[str, bytes]
) -> FutureModels:
    """Open a set of `count` packed future models, whose `files` lie in `directory`.

    Raises
    ------
    ModelRefused : a file is not a model of this kind
    """
    return FutureModels(
        space=model.space, columns=model.columns, count=count,
        score_all=STACKS[stack].open(kind, directory, files), input=kind.manifest.input,
    )  # fmt: skip
