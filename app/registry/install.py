"""Registration: examine a model directory, and either report all faults or install it.

Files are copied first and the copies examined, so that the installed files are the examined ones. The version appears
in the store by one rename; nothing is visible before that, and nothing is left if a step fails.
"""

import errno
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import get_args

import numpy as np
from jaxtyping import Bool, Float

from app.errors import Fault, ModelExists, ModelOutputInvalid, ModelRefused, ModelUnavailable, ModelUnusable
from app.recourse.features import LARGEST, Encoding, FeatureSpace, ModelColumns, ModelSpace, fit_encoding, fit_spread
from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.score import Output, favourable
from app.registry.adapters import ADAPTERS, load_black_box
from app.registry.adapters.artifact import digest_fault
from app.registry.artifact import Endpoint, Format
from app.registry.files import copy, flush_directory, inside, write
from app.registry.lender_scores import SCORE, TOLERANCE, Comparison, compare, read_scores, scores_in
from app.registry.manifest import INACTIVE, MANIFEST, PROFILE, REGISTRATION, Manifest
from app.registry.parsed_manifest import ParsedManifest, read_manifest
from app.registry.performance import performance
from app.registry.profile import Outcomes, Profile, pack
from app.registry.readable_faults import readable
from app.registry.reference import read_reference
from app.registry.trust import Trust
from app.registry.version import Registration, noted_warnings

INCOMING = ".incoming-"
"""Prefix of temporary directories in the store; no id begins with it."""

UNCOMPARED = (
    f"The model was compared with no scores of your own: a column {SCORE} in the reference, or --scores FILE, shows "
    "whether encoding and order of the columns are those of the training."
)

STALE_S = 24 * 3600
"""Age at which temporary directories of killed registrations are removed."""


def install(
    source: Path,
    root: Path,
    *,
    trust: Trust,
    registered_at: datetime,
    active: bool = True,
    scores: Path | None = None,
    tolerance: float = TOLERANCE,
) -> Path:
    """Install the model directory `source` in the store `root`; returns the directory of the version.

    If not `active`, it can be examined by its full name, but answers no applicants. The lender's own scores of the
    reference records, in the file `scores` or a column of the reference, must agree with the model's to `tolerance`.

    Raises
    ------
    ModelExists : there is a version of this name
    ModelRefused : with every fault that could be found; nothing is left in the store
    OSError : the disk is full, the store cannot be written
    """
    content = _manifest_bytes(source)
    parsed = read_manifest(content)
    if parsed.manifest:
        _refuse_existing(_target(root, parsed.manifest), parsed.manifest)
    with _incoming(root) as incoming:
        examination = _Examination(source, incoming, parsed, list(parsed.faults), tolerance=tolerance)
        examination.given = None if scores is None else read_scores(scores)
        examination.digests[MANIFEST] = write(incoming / MANIFEST, content)
        examination.run(trust)
        manifest, profile = examination.verdict()
        examination.digests[PROFILE] = write(incoming / PROFILE, pack(profile.reference))
        registration = _registration(profile, examination, registered_at)
        write(incoming / REGISTRATION, registration.model_dump_json(indent=2).encode() + b"\n")
        if not active:
            write(incoming / INACTIVE, b'{"schema_version": 1}\n')
        return _move(incoming, _target(root, manifest), manifest)


@dataclass(slots=True)
class _Examination:
    """Copies and examines the files of a model, as far as its faults allow."""

    source: Path
    incoming: Path
    parsed: ParsedManifest
    faults: list[Fault]
    digests: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    favourable: Bool[np.ndarray, "n"] | None = None
    """True outcomes of the reference records, of a model with a label."""
    columns: ModelColumns | None = None
    """The space of distances, and what the model takes."""
    profile: Profile | None = None
    tolerance: float = TOLERANCE
    """Largest difference to the lender's own scores."""
    given: Float[np.ndarray, "n"] | None = None
    """The lender's own scores of the reference records."""
    checks: list[str] = field(default_factory=list)
    """What was found in order, in sentences."""

    def run(self, trust: Trust) -> None:
        """Examine everything."""
        artifact_sound = self._copy_artifact()
        rows_raw = self._read_reference()
        if self.parsed.manifest is None or not artifact_sound:
            return
        self.columns = self._fit(self.parsed.manifest, rows_raw)
        if self.columns is None:
            return
        with noted_warnings() as notes:
            black_box = self._load(self.parsed.manifest, self.columns, trust)
            if black_box is not None and rows_raw is not None:
                self._profile(black_box, rows_raw, self.parsed.manifest)
            if black_box is not None and self.profile is not None and rows_raw is not None:
                self._check(black_box, self.profile.reference.scores, rows_raw, self.parsed.manifest, trust)
        self.notes += notes

    def verdict(self) -> tuple[Manifest, Profile]:
        """The manifest and profile to install.

        Raises
        ------
        ModelRefused : there is any fault
        """
        if self.faults or self.parsed.manifest is None or self.profile is None:
            faults = readable(self.faults, self.parsed.names)
            detail = f"{self.source} cannot be registered: {len(faults)} {'fault' if len(faults) == 1 else 'faults'}"
            raise ModelRefused(detail, faults=faults)
        return self.parsed.manifest, self.profile

    def _copy(self, path: str, pointer: str) -> Path | None:
        try:
            found = inside(self.source, path)
        except ValueError as error:
            self.faults.append(Fault(pointer, str(error)))
            return None
        if (self.incoming / path).exists():
            return None  # two files of one name: reported as a fault of the manifest
        self.digests[path] = copy(found, self.incoming / path)
        return self.incoming / path

    def _copy_artifact(self) -> bool:
        """Whether the artifact, if it is a file, exists with the digest of the manifest."""
        artifact = self.parsed.artifact
        if isinstance(artifact, Endpoint):
            return True
        if artifact is None or self._copy(artifact.path, "/artifact/path") is None:
            return False
        found = self.digests[artifact.path]
        if found != artifact.sha256:
            self.faults.append(digest_fault(found))
            return False
        return True

    def _read_reference(self) -> Float[np.ndarray, "n p"] | None:
        path = self._copy(self.parsed.reference, "/reference") if self.parsed.reference else None
        if path is None or self.parsed.features is None:
            return None
        # Derived columns follow from the others.
        features = tuple(feature for feature in self.parsed.features if feature.derived is None)
        label = self.parsed.label
        table, faults = read_reference(path, features, label)
        self.faults += faults
        if self.given is None:
            self.given, wrong = scores_in(path, [feature.name for feature in self.parsed.features])
            self.faults += wrong
        if table is None or label is None:
            return table
        self.favourable = table[:, -1] == 1.0
        return np.ascontiguousarray(table[:, :-1])

    def _fit(self, manifest: Manifest, rows_raw: Float[np.ndarray, "n p"] | None) -> ModelColumns | None:
        """Center and scale of features; without valid records, provisional ones to examine the artifact."""
        columns = fit_columns(manifest, rows_raw)
        if rows_raw is None:
            return columns
        endless: dict[str, None] = {}
        with np.errstate(over="ignore"):
            for space, X in (
                (columns.space, columns.space.encode(rows_raw)),
                (columns.model, columns.encode(rows_raw)),
            ):
                beyond = np.flatnonzero((np.abs(X) > LARGEST).any(axis=0))
                endless |= dict.fromkeys(space.names[j] for j in space.feature_of_column[beyond])
        self.faults += [Fault("/reference", f'has numbers too large to encode in "{name}"') for name in endless]
        return None if endless else columns

    def _load(self, manifest: Manifest, columns: ModelColumns, trust: Trust) -> BlackBox | None:
        check = ADAPTERS[manifest.artifact.format].check
        try:
            found = load_black_box(manifest, self.incoming, columns, trust)
            faults = check(found) if check else []
            self.faults += faults
            return None if faults else found
        except ModelRefused as error:
            self.faults += error.faults
        except ModelUnusable as error:
            self.faults.append(Fault("/artifact/format", error.detail))
        return None

    def _profile(self, black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"], manifest: Manifest) -> None:
        try:
            outcomes = None
            # For other formats, future models measure the effect of retraining.
            refitted = manifest.artifact.format is Format.LINEAR and manifest.output is not Output.POINTS
            if self.favourable is not None and refitted:
                outcomes = Outcomes(favourable=self.favourable, refits=manifest.refits)
            self.profile = Profile.of(black_box, rows_raw, manifest.parsed_rules(), outcomes)
        except ModelRefused as error:
            self.faults += error.faults
        except ModelUnavailable as error:
            self.faults.append(Fault("/artifact/url", error.detail))

    def _check(
        self,
        black_box: BlackBox,
        scores: Float[np.ndarray, "n"],
        rows_raw: Float[np.ndarray, "n p"],
        manifest: Manifest,
        trust: Trust,
    ) -> None:
        """Hold the scores against the lender's own, and against the true outcomes."""
        if self.given is not None and len(self.given) != len(scores):
            detail = f"there are {len(self.given)} scores for {len(scores)} records; give one for each, in their order"
            self.faults.append(Fault(f"/reference/{SCORE}", detail))
        elif self.given is not None:
            found = compare(black_box, scores, self.given, self.tolerance)
            if found.agrees:
                self.checks.append(found.sentence)
            else:
                reason = found.reason or self._other_scales(found, rows_raw, manifest, trust)
                detail = ". ".join(filter(None, (found.sentence, reason)))
                self.faults.append(Fault(f"/reference/{SCORE}", detail))
        else:
            self.checks.append(UNCOMPARED)
        if self.favourable is None:
            return
        judged = performance(scores, self.favourable, favourable(scores))
        if judged is not None:
            self.checks.append(judged.sentence)
            self.notes += judged.warnings

    def _other_scales(
        self, compared: Comparison, rows_raw: Float[np.ndarray, "n p"], manifest: Manifest, trust: Trust
    ) -> str:
        """The encoding with which scores agree, as advice; empty where there is none."""
        if manifest.input is not Input.ENCODED or isinstance(manifest.artifact, Endpoint):
            return ""
        for continuous in get_args(Encoding):
            encoding = manifest.encoding.model_copy(update={"continuous": continuous})
            other = manifest.model_copy(update={"encoding": encoding})
            columns = fit_columns(other, rows_raw)
            try:
                black_box = load_black_box(other, self.incoming, columns, trust)
                scores = black_box.score_raw(rows_raw)
            except (ModelRefused, ModelUnusable, ModelOutputInvalid):
                continue
            if compare(black_box, scores, compared.given, compared.tolerance).agrees:
                return f"With encoding: {{continuous: {continuous}}} they agree"
        if manifest.encoding.continuous == "none":
            return ""
        return (
            "Are the columns, and the levels of ordinal features, in the order of the training, and are center and "
            "scale of each number those of it?"
        )


def _manifest_bytes(source: Path) -> bytes:
    try:
        return (source / MANIFEST).read_bytes()
    except FileNotFoundError as error:
        raise ModelRefused(f"{source} has no {MANIFEST}, the manifest; recourse models draft writes one") from error
    except OSError as error:
        raise ModelRefused(f"{source / MANIFEST} cannot be read: {error.strerror}") from error


def _registration(profile: Profile, examination: _Examination, registered_at: datetime) -> Registration:
    reference, columns = profile.reference, examination.columns
    assert columns is not None  # there is a profile
    return Registration(
        registered_at=registered_at,
        digests=examination.digests,
        encoding=_fitted(columns.model),
        spread=_fitted(columns.space),
        records=len(reference.scores),
        favourable=len(reference.favourable),
        largest_distance=reference.largest_distance,
        largest_distance_exact=profile.exact,
        warnings=(*profile.warnings, *examination.notes),
        notes=tuple(examination.checks),
    )


def _fitted(space: FeatureSpace) -> dict[str, tuple[float, float]]:
    return {
        feature.name: (feature.center, feature.scale)
        for feature in space.features
        if feature.center is not None and feature.scale is not None
    }


def fit_columns(manifest: Manifest, rows_raw: Float[np.ndarray, "n p"] | None) -> ModelColumns:
    """The space of distances, and what the model takes, fitted on reference records; with scales of 1 without any."""
    features = manifest.features
    if rows_raw is None:
        unscaled = fit_encoding(features, np.zeros((1, len(features))), "none")
        return ModelColumns(FeatureSpace(unscaled), ModelSpace(unscaled))
    spread = {f.name: f for f in fit_spread([f for f in features if f.derived is None], rows_raw)}
    space = FeatureSpace([spread.get(feature.name, feature) for feature in features])
    unscaled = fit_encoding(features, np.zeros((1, len(features))), "none")
    taken = ModelColumns(space, ModelSpace(unscaled)).rows(rows_raw)
    fitted = fit_encoding(features, taken, manifest.encoding.continuous)
    return ModelColumns(FeatureSpace(fitted) if manifest.encoding.spread == "encoding" else space, ModelSpace(fitted))


# --- the store -------------------------------------------------------------------------------------------------------


def _target(root: Path, manifest: Manifest) -> Path:
    return root / manifest.id / manifest.version


def _refuse_existing(target: Path, manifest: Manifest) -> None:
    if target.exists():
        raise ModelExists(f"{manifest.name} is registered already; versions are never overwritten", model=manifest.name)


@contextmanager
def _incoming(root: Path) -> Iterator[Path]:
    """A temporary directory of the store, removed afterwards unless it was moved."""
    root.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    incoming = root / f"{INCOMING}{uuid.uuid4().hex}"
    incoming.mkdir()
    try:
        yield incoming
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def _sweep(root: Path) -> None:
    """Remove temporary directories of killed registrations."""
    for left in root.glob(f"{INCOMING}*"):
        # One in progress may be moved at any moment.
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > STALE_S:
                shutil.rmtree(left, ignore_errors=True)


def _move(incoming: Path, target: Path, manifest: Manifest) -> Path:
    for directory in (incoming, *(path for path in incoming.rglob("*") if path.is_dir())):
        flush_directory(directory)
    target.parent.mkdir(exist_ok=True)
    try:
        incoming.rename(target)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            _refuse_existing(target, manifest)
        raise
    flush_directory(target.parent)
    flush_directory(target.parent.parent)
    return target
