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
from app.registry.files import copy, flush_directory, inside, read_regular, require_regular, write
from app.registry.form_sentences import readable
from app.registry.lender_scores import SCORE, TOLERANCE, compare, read_scores, scores_in
from app.registry.manifest import INACTIVE, MANIFEST, PROFILE, REGISTRATION, Manifest
from app.registry.parsed_manifest import ParsedManifest, read_manifest
from app.registry.performance import performance
from app.registry.profile import Outcomes, Profile, pack
from app.registry.reference import read_dates, read_reference, size_fault
from app.registry.safe_yaml import LARGEST as LARGEST_YAML
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
    """Copy the model directory `source` into the store `root` as a new version; returns the directory of the version.

    A version that is not `active` can be examined under its full name, but answers no applicants. The lender's own
    scores of the reference records are in the file `scores`, or in a column of the reference. They must not differ from
    the model's outputs by more than `tolerance`.

    Raises `ModelExists` where the store has a version of this name; `ModelRefused` with every fault that could be
    found; `OSError` where the store cannot be written. After an error, nothing is left in the store.
    """
    content = _manifest_bytes(source)
    parsed = read_manifest(content)
    if parsed.manifest:
        _refuse_existing(_target(root, parsed.manifest), parsed.manifest)
    with _incoming(root) as incoming:
        examination = _Examination(source, incoming, parsed, trust, tolerance, faults=list(parsed.faults))
        given = None if scores is None else read_scores(scores)
        examination.digests[MANIFEST] = write(incoming / MANIFEST, content)
        registration = examination.run(given, registered_at)
        if parsed.manifest is None or registration is None or examination.faults:
            faults = readable(examination.faults, parsed.names)
            detail = f"{source} cannot be registered: {len(faults)} {'fault' if len(faults) == 1 else 'faults'}"
            raise ModelRefused(detail, faults=faults)
        write(incoming / REGISTRATION, registration.model_dump_json(indent=2).encode() + b"\n")
        if not active:
            write(incoming / INACTIVE, b'{"schema_version": 1}\n')
        return _move(incoming, _target(root, parsed.manifest), parsed.manifest)


@dataclass(frozen=True, slots=True)
class _Records:
    """The reference records, and what the lender says of each."""

    rows_raw: Float[np.ndarray, "n p"]
    favourable: Bool[np.ndarray, "n"] | None
    """True outcomes, of a model with a label."""
    given: Float[np.ndarray, "n"] | None
    """The lender's own scores."""


@dataclass(frozen=True, slots=True)
class _Examination:
    """Copies and examines the files of a model, as far as its faults allow.

    Each step adds what is wrong to `faults`, and returns None where nothing is left for the next one.
    """

    source: Path
    incoming: Path
    parsed: ParsedManifest
    trust: Trust
    tolerance: float
    """Largest difference to the lender's own scores."""
    faults: list[Fault]
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of each file that was copied, by relative path."""

    def run(self, given: Float[np.ndarray, "n"] | None, registered_at: datetime) -> Registration | None:
        """Examine everything and write the profile; returns the registration to be stored, or None after a fault.

        `given` has the lender's own scores from a separate file; None without such a file.
        """
        artifact_sound = self._copy_artifact()
        records = self._read_reference(given)
        manifest = self.parsed.manifest
        if manifest is None or not artifact_sound:
            return None
        columns = self._fit(manifest, records)
        if columns is None:
            return None
        with noted_warnings() as noted:
            black_box = self._load(manifest, columns)
            if black_box is None or records is None:
                return None
            profile = self._profile(black_box, records, manifest)
            if profile is None:
                return None
            scores = profile.reference.scores
            notes = [self._compare(black_box, scores, records, manifest)]
            warnings = list(profile.warnings)
            if records.favourable is not None:
                judged = performance(scores, records.favourable, favourable(scores))
                notes += [judged.sentence] if judged else []
                warnings += judged.warnings if judged else []
        reference = profile.reference
        self.digests[PROFILE] = write(self.incoming / PROFILE, pack(reference))
        return Registration(
            registered_at=registered_at, digests=self.digests, encoding=_fitted(columns.model),
            spread=_fitted(columns.space), records=len(scores), favourable=len(reference.favourable),
            largest_distance=reference.largest_distance, largest_distance_exact=profile.exact,
            warnings=(*warnings, *noted), notes=tuple(notes),
        )  # fmt: skip

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

    def _read_reference(self, given: Float[np.ndarray, "n"] | None) -> _Records | None:
        if self.parsed.reference and (fault := size_fault(self.source / self.parsed.reference)):
            self.faults.append(fault)
            return None
        path = self._copy(self.parsed.reference, "/reference") if self.parsed.reference else None
        if path is None or self.parsed.features is None:
            return None
        # Derived columns follow from the others.
        features = tuple(feature for feature in self.parsed.features if feature.derived is None)
        label = self.parsed.label
        table, faults = read_reference(path, features, label)
        self.faults.extend(faults)
        if given is None:
            given, faults = scores_in(path, [feature.name for feature in self.parsed.features])
            self.faults.extend(faults)
        if table is None:
            return None
        if self.parsed.time is not None:
            self.faults.extend(read_dates(path, self.parsed.time)[1])
        if label is None:
            return _Records(table, None, given)
        return _Records(np.ascontiguousarray(table[:, :-1]), table[:, -1] == 1.0, given)

    def _fit(self, manifest: Manifest, records: _Records | None) -> ModelColumns | None:
        """Center and scale of features; without valid records, provisional ones to examine the artifact."""
        if records is None:
            return fit_columns(manifest, None)
        columns = fit_columns(manifest, records.rows_raw)
        endless: dict[str, None] = {}
        with np.errstate(over="ignore"):
            for space, X in (
                (columns.space, columns.space.encode(records.rows_raw)),
                (columns.model, columns.encode(records.rows_raw)),
            ):
                beyond = np.flatnonzero((np.abs(X) > LARGEST).any(axis=0))
                endless |= dict.fromkeys(space.names[j] for j in space.feature_of_column[beyond])
        self.faults.extend(Fault("/reference", f'has numbers too large to encode in "{name}"') for name in endless)
        return None if endless else columns

    def _load(self, manifest: Manifest, columns: ModelColumns) -> BlackBox | None:
        check = ADAPTERS[manifest.artifact.format].check
        try:
            found = load_black_box(manifest, self.incoming, columns, self.trust)
            faults = check(found) if check else []
            self.faults.extend(faults)
            return None if faults else found
        except ModelRefused as error:
            self.faults.extend(error.faults)
        except ModelUnusable as error:
            self.faults.append(Fault("/artifact/format", error.detail))
        return None

    def _profile(self, black_box: BlackBox, records: _Records, manifest: Manifest) -> Profile | None:
        outcomes = None
        # For other formats, future models measure the effect of retraining.
        refitted = manifest.artifact.format is Format.LINEAR and manifest.output is not Output.POINTS
        if records.favourable is not None and refitted:
            outcomes = Outcomes(favourable=records.favourable, refits=manifest.refits)
        try:
            return Profile.of(black_box, records.rows_raw, manifest.parsed_rules(), outcomes)
        except ModelRefused as error:
            self.faults.extend(error.faults)
        except ModelUnavailable as error:
            self.faults.append(Fault("/artifact/url", error.detail))
        return None

    def _compare(
        self, black_box: BlackBox, scores: Float[np.ndarray, "n"], records: _Records, manifest: Manifest
    ) -> str:
        """What the comparison with the lender's own scores shows, in words; a fault where they differ."""
        given = records.given
        if given is None:
            return UNCOMPARED
        if len(given) != len(scores):
            detail = f"there are {len(given)} scores for {len(scores)} records; give one for each, in their order"
        else:
            found = compare(black_box, scores, given, self.tolerance)
            if found.agrees:
                return found.sentence
            reason = found.reason or self._other_scales(given, records.rows_raw, manifest)
            detail = ". ".join(filter(None, (found.sentence, reason)))
        self.faults.append(Fault(f"/reference/{SCORE}", detail))
        return detail

    def _other_scales(
        self, given: Float[np.ndarray, "n"], rows_raw: Float[np.ndarray, "n p"], manifest: Manifest
    ) -> str:
        """The encoding with which scores agree, as advice; empty where there is none."""
        if manifest.input is not Input.ENCODED or isinstance(manifest.artifact, Endpoint):
            return ""
        for continuous in get_args(Encoding):
            encoding = manifest.encoding.model_copy(update={"continuous": continuous})
            other = manifest.model_copy(update={"encoding": encoding})
            columns = fit_columns(other, rows_raw)
            try:
                black_box = load_black_box(other, self.incoming, columns, self.trust)
                scores = black_box.score_raw(rows_raw)
            except (ModelRefused, ModelUnusable, ModelOutputInvalid):
                continue
            if compare(black_box, scores, given, self.tolerance).agrees:
                return f"With encoding: {{continuous: {continuous}}} they agree"
        if manifest.encoding.continuous == "none":
            return ""
        return (
            "Are the columns, and the levels of ordinal features, in the order of the training, and are center and "
            "scale of each number those of it?"
        )


def _manifest_bytes(source: Path) -> bytes:
    try:
        require_regular(source / MANIFEST)
        if not (source / MANIFEST).resolve().is_relative_to(source.resolve()):
            raise ModelRefused(f"{source / MANIFEST} is a link that leaves the directory of the model")
        return read_regular(source / MANIFEST, LARGEST_YAML)
    except FileNotFoundError as error:
        raise ModelRefused(f"{source} has no {MANIFEST}, the manifest; recourse models draft writes one") from error
    except OSError as error:
        raise ModelRefused(f"{source / MANIFEST} cannot be read: {error.strerror}") from error


def _fitted(space: FeatureSpace) -> dict[str, tuple[float, float]]:
    return {
        feature.name: (feature.center, feature.scale)
        for feature in space.features
        if feature.center is not None and feature.scale is not None
    }


def fit_columns(manifest: Manifest, rows_raw: Float[np.ndarray, "n p"] | None) -> ModelColumns:
    """The spaces of a model: one in which distances are measured, and one of the columns that the model takes.

    The scales of both are fitted to the reference records `rows_raw`. Without records, scales that the manifest does
    not state are 1.
    """
    features = manifest.features
    unscaled = fit_encoding(features, np.zeros((1, len(features))), "none")
    if rows_raw is None:
        return ModelColumns(FeatureSpace(unscaled), ModelSpace(unscaled))
    spread = {f.name: f for f in fit_spread([f for f in features if f.derived is None], rows_raw)}
    space = FeatureSpace([spread.get(feature.name, feature) for feature in features])
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
