"""An installed version: its description, read cheaply, and the model itself, loaded and checked on demand.

``{root}/{id}/{version}/`` holds the manifest, the artifact and the reference records as they were registered, and

* ``registration.json``: the time, the digest of every file, and the fitted encoding; never rewritten,
* ``profile.npz``: reference rows, their scores and, for a model with a label, the moments of its refits, so that
  loading need not repeat this work,
* ``status.json``: present iff the version is retired,
* ``inactive.json``: present iff it was registered as inactive and has not been activated,
* ``released.json``: when it was last released from quarantine,
* ``calibration.json``: a correction of the promised shares of its future models; may be replaced at any time
  (`app.calibration.file`).
"""

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import AwareDatetime, BaseModel, ConfigDict, FiniteFloat, ValidationError

from app.errors import Fault, ModelOutputInvalid, ModelRefused, ModelUnusable
from app.observability import log
from app.recourse.actions.rules import Rule
from app.recourse.features import Feature, FeatureSpace, ModelColumns, ModelSpace
from app.recourse.models.black_box import BlackBox
from app.recourse.problem import Reference
from app.registry.adapters import ADAPTERS, load_black_box
from app.registry.artifact import Artifact, Endpoint
from app.registry.files import digest, flush_directory, inside, read_regular
from app.registry.manifest import INACTIVE, MANIFEST, PROFILE, REGISTRATION, STATUS, UNTIL_READY, Manifest
from app.registry.parsed_manifest import read_manifest
from app.registry.profile import unpack
from app.registry.scores import scores_match
from app.registry.trust import Trust
from app.remote_hosts import covering

SAMPLE = 64
"""Reference records that are scored again when a model is loaded."""


class Registration(BaseModel):
    """The content of ``registration.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    registered_at: AwareDatetime
    digests: dict[str, str]
    """SHA-256 of every other file of the version, by relative path."""
    encoding: dict[str, tuple[FiniteFloat, FiniteFloat]]
    """Center and scale of every feature that is encoded as one number, as the model takes it."""
    spread: dict[str, tuple[FiniteFloat, FiniteFloat]] | None = None
    """Center and scale of the same features in distances, costs and noise; as in `encoding` where it is absent."""
    records: int
    """Number of reference records."""
    favourable: int
    """Number of reference records that the model accepts."""
    largest_distance: FiniteFloat
    """Largest L2 distance between two encoded reference records."""
    largest_distance_exact: bool
    """False if it is a lower bound, from a subset of the records."""
    warnings: tuple[str, ...] = ()
    """Warnings for the operator."""
    notes: tuple[str, ...] = ()
    """What was checked, in sentences for the operator: scores, agreement with the label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredModel:
    """An installed version of a model, described but not loaded."""

    manifest: Manifest
    directory: Path
    registration: Registration
    retired: bool
    waiting: bool
    """Whether it was registered as inactive and is not activated yet."""
    succeeds: bool
    """Whether it is activated by itself once its future models are there; until then the version before answers."""
    space: FeatureSpace
    """The space of distances, costs and noise, in the spread that was fitted at registration."""
    columns: ModelColumns
    """What the model takes; in the encoding that was fitted at registration."""
    rules: tuple[Rule, ...]
    trust: Trust

    @property
    def id(self) -> str:
        """Name of the model."""
        return self.manifest.id

    @property
    def version(self) -> str:
        """Name of the version."""
        return self.manifest.version

    @property
    def name(self) -> str:
        """The name `id@version`."""
        return self.manifest.name

    @property
    def active(self) -> bool:
        """Whether the version answers applicants."""
        return not (self.retired or self.waiting)

    @property
    def registered_at(self) -> datetime:
        """Time of the registration, UTC."""
        return self.registration.registered_at

    @property
    def sha256(self) -> str:
        """SHA-256 of the artifact; for a remote model, SHA-256 of the endpoint's description in the manifest."""
        return self.manifest.artifact.sha256

    @property
    def runs_code(self) -> bool:
        """Whether reading the artifact can run code of the file, which is so for pickles."""
        artifact = self.manifest.artifact
        return isinstance(artifact, Artifact) and artifact.runs_code

    @property
    def distrusted(self) -> str:
        """The sentence that says why the operator's settings forbid loading the model; empty if they allow it."""
        artifact = self.manifest.artifact
        if self.runs_code and not self.trust.pickle:
            return f"{self.name} cannot be used: its file can run any code, which requires RECOURSE_TRUST_PICKLE=true"
        if isinstance(artifact, Endpoint) and covering(self.trust.hosts, *artifact.place) is None:
            scheme, host, port = artifact.place
            return f"{self.name} cannot be used: RECOURSE_REMOTE_HOSTS does not allow {scheme}://{host}:{port}"
        return ""

    def load(self) -> "LoadedModel":
        """Load the model and its reference records; check that files and scores are as they were at registration.

        The scores of a remote model are not checked here, but with every request.

        Raises `ModelUnusable` where the operator's settings forbid the model, a file has changed, a library is missing,
        or the scores differ from those of the registration.
        """
        if self.distrusted:
            raise ModelUnusable(self.distrusted, model=self.name)
        self._check_files()
        with noted_warnings() as notes:
            black_box = self._black_box()
            reference = self._reference()
            pin = ADAPTERS[self.manifest.artifact.format].pin
            if pin is None:
                self._check_scores(black_box, reference)
            else:  # every request checks scores, so loading need not wait for a server or pay for one
                black_box = pin(black_box, reference.rows_raw, reference.scores)
        for note in notes:
            log.warning("model-warning", model=self.name, detail=note)
        return LoadedModel(registered=self, black_box=black_box, reference=reference)

    def _check_files(self) -> None:
        for path, expected in self.registration.digests.items():
            # The adapter checks the artifact, on the bytes that it loads.
            if isinstance(self.manifest.artifact, Artifact) and path == self.manifest.artifact.path:
                continue
            try:
                found = digest(inside(self.directory, path))
            except (ValueError, OSError) as error:
                raise _unusable(self.name, str(error)) from error
            if found != expected:
                raise _unusable(self.name, f"{path} has changed since it was registered")

    def _black_box(self) -> BlackBox:
        try:
            return load_black_box(self.manifest, self.directory, self.columns, self.trust)
        except ModelRefused as error:
            detail = f"{self.name} cannot be loaded any more"
            raise ModelUnusable(detail, faults=error.faults, model=self.name) from error
        except ModelUnusable as error:
            raise ModelUnusable(f"{self.name} cannot be loaded: {error.detail}", model=self.name) from error

    def _reference(self) -> Reference:
        rows_raw, scores, weight_moments = unpack((self.directory / PROFILE).read_bytes())
        return Reference(
            space=self.space,
            rows_raw=rows_raw,
            scores=scores,
            largest_distance=self.registration.largest_distance,
            weight_moments=weight_moments,
        )

    def _check_scores(self, black_box: BlackBox, reference: Reference) -> None:
        """Raise `ModelUnusable` if scores have changed: another release of a library may decide differently."""
        some = np.linspace(0, len(reference.scores) - 1, min(SAMPLE, len(reference.scores))).astype(np.intp)
        expected = reference.scores[some]
        try:
            found = black_box.score_raw(reference.rows_raw[some])
        except ModelOutputInvalid as error:
            raise _unusable(self.name, error.detail) from error
        if (moved := ~scores_match(black_box, found, expected)).any():
            raise _unusable(
                self.name,
                f"{moved.sum()} of {len(some)} reference records are not scored as they were at registration; a "
                "library has changed, or the model is not deterministic",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """A version of a model in memory, with its black box and reference records."""

    registered: RegisteredModel
    black_box: BlackBox
    reference: Reference

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the manifest, which every answer obeys."""
        return self.registered.rules


def _unusable(name: str, why: str, faults: Sequence[Fault] = ()) -> ModelUnusable:
    """The error of a version that cannot be used."""
    return ModelUnusable(f"{name} cannot be used: {why}", faults=faults, model=name)


def read_version(directory: Path, *, trust: Trust) -> RegisteredModel:
    """The version installed in a directory of the store, not loaded.

    Raises `ModelUnusable` where the version is incomplete or changed.
    """
    name = f"{directory.parent.name}@{directory.name}"
    registration = read_registration(directory)
    try:
        content = read_regular(directory / MANIFEST)
    except OSError as error:
        raise _unusable(name, f"{MANIFEST} cannot be read: {error.strerror}") from error
    parsed = read_manifest(content)
    manifest = parsed.manifest
    if manifest is None:
        raise _unusable(name, "its manifest has faults", parsed.faults)
    if hashlib.sha256(content).hexdigest() != registration.digests.get(MANIFEST):
        raise _unusable(name, f"{MANIFEST} has changed since it was registered")
    if manifest.name != name:
        raise _unusable(name, f"the directory holds {manifest.name}")
    columns = _columns(manifest, registration)
    return RegisteredModel(
        manifest=manifest,
        directory=directory,
        registration=registration,
        retired=(directory / STATUS).exists(),
        waiting=(directory / INACTIVE).exists(),
        succeeds=_content(directory / INACTIVE) == UNTIL_READY,
        space=columns.space,
        columns=columns,
        rules=manifest.parsed_rules(),
        trust=trust,
    )


def activate_successor(model: RegisteredModel) -> bool:
    """Activate a version whose future models are now ready; returns whether it was waiting for them.

    A version that was not waiting remains as it is.
    """
    waits = model.directory / INACTIVE
    if _content(waits) != UNTIL_READY:
        return False
    activate(model.directory)
    return True


def activate(directory: Path) -> None:
    """Activate the version in a directory; it cannot become inactive again, only retired. Idempotent."""
    (directory / INACTIVE).unlink(missing_ok=True)
    flush_directory(directory)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def read_registration(directory: Path) -> Registration:
    """The content of an installed version's ``registration.json``.

    Raises `ModelUnusable` where the file is missing, damaged or cannot be read.
    """
    name = f"{directory.parent.name}@{directory.name}"
    try:
        return Registration.model_validate_json(read_regular(directory / REGISTRATION))
    except FileNotFoundError as error:
        raise _unusable(name, "it was not installed by `recourse models register`") from error
    except OSError as error:
        raise _unusable(name, f"{REGISTRATION} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise _unusable(name, f"{REGISTRATION} is damaged") from error


def _columns(manifest: Manifest, registration: Registration) -> ModelColumns:
    """The space of distances, and what the model takes, as they were fitted."""
    spread = registration.encoding if registration.spread is None else registration.spread
    space = FeatureSpace(_scaled(manifest.features, spread))
    return ModelColumns(space, ModelSpace(_scaled(manifest.features, registration.encoding)))


def _scaled(features: Sequence[Feature], fitted: Mapping[str, tuple[float, float]]) -> list[Feature]:
    return [
        replace(feature, center=fitted[feature.name][0], scale=fitted[feature.name][1])
        if feature.name in fitted
        else feature
        for feature in features
    ]


@contextmanager
def noted_warnings() -> Iterator[list[str]]:
    """Context manager: collects the warnings that libraries issue in its body, each once, as texts.

    An example is the warning that a model was saved with another release of the library. The list is filled on exit.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        yield notes
    notes += dict.fromkeys(" ".join(str(warning.message).split())[:300] for warning in caught)
