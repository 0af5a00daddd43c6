"""The store of models: register, activate, find, list, retire.

Every call looks at the disk, so that models registered by other processes are seen immediately; a version is read again
only if its files have changed.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from app.errors import ModelRefused, ModelUnusable, UnknownModel
from app.observability import log
from app.registry.files import Stamp, stamp, write_atomic
from app.registry.install import install
from app.registry.lender_scores import TOLERANCE
from app.registry.manifest import ID, INACTIVE, MANIFEST, REGISTRATION, RELEASED, STATUS, UNTIL_READY, VERSION
from app.registry.trust import Trust
from app.registry.version import RegisteredModel, activate, read_registration, read_version

_ID = re.compile(ID)
_VERSION = re.compile(VERSION)

UNLISTED = "?"
"""Name of the version that stands for those of a model that cannot be listed."""

Stamps: TypeAlias = tuple[Stamp | None, ...]
"""Stamps of the files that describe a version; they differ iff a file has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenVersion:
    """A version in the store that cannot be used, and the error that says why."""

    id: str
    version: str
    directory: Path
    registered_at: datetime
    """Time of its registration; if that is unreadable, of the last change of its file, or of the directory."""
    retired: bool
    waiting: bool
    error: ModelUnusable
    """Why it is unusable."""

    @property
    def name(self) -> str:
        """The name `id@version`."""
        return f"{self.id}@{self.version}"

    @property
    def active(self) -> bool:
        """Whether the version may answer applicants: it is not retired, and does not wait to be activated."""
        return not (self.retired or self.waiting)


Version: TypeAlias = RegisteredModel | BrokenVersion


class Registry:
    """The models in one directory, `{root}/{id}/{version}/`.

    A name is `id@version`, or `id` for the newest active version. Safe to use from several threads and processes.

    Parameters
    ----------
    root : the directory, which the first registration creates
    trust : what the operator trusts; nothing when None
    """

    def __init__(self, root: Path, trust: Trust | None = None) -> None:
        self.root = root
        self.trust = trust or Trust()
        self._known: dict[str, tuple[Stamps, Version]] = {}
        self._logged: dict[str, str] = {}
        """What the log says of each version or model that is broken: not again at every look."""

    def register(
        self, source: Path, *, active: bool = True, scores: Path | None = None, tolerance: float = TOLERANCE
    ) -> RegisteredModel:
        """Copy the model directory `source` into the store as a new version, and return the version.

        The lender's own scores of the reference records are in the file `scores`, or in a column of the reference. They
        must not differ from the model's outputs by more than `tolerance`.

        Raises `ModelExists` where the store has a version of this name; `ModelRefused` with every fault that could be
        found; `OSError` where the store cannot be written.
        """
        directory = install(
            source, self.root, trust=self.trust, registered_at=self._now(), active=active, scores=scores,
            tolerance=tolerance,
        )  # fmt: skip
        return read_version(directory, trust=self.trust)

    def list(self) -> list[RegisteredModel]:
        """Every usable version, active or not, sorted by model id and then by time of registration."""
        return [version for version in self._all() if isinstance(version, RegisteredModel)]

    def broken(self) -> tuple[BrokenVersion, ...]:
        """The versions in the store that cannot be used."""
        return tuple(version for version in self._all() if isinstance(version, BrokenVersion))

    def find(self, name: str, *, include_inactive: bool = False) -> RegisteredModel:
        """The version called `name`: an id stands for the newest active version, `id@version` for this one.

        An inactive version is found only by its full name, and only with `include_inactive`.

        Raises `UnknownModel`, whose sentence lists the active models; `ModelUnusable` where the version is broken. The
        newest version remains the newest if it is broken: recourse from an older version might not hold for the model
        in use.
        """
        version = self._find(name, include_inactive=include_inactive)
        if isinstance(version, BrokenVersion):
            raise version.error
        return version

    def retire(self, name: str) -> str:
        """Retire a version permanently, broken or not; returns its full name. Idempotent.

        Raises `UnknownModel`.
        """
        version = self._find(name, include_inactive=True)
        if not version.retired:
            status = f'{{"schema_version": 1, "retired_at": "{datetime.now(UTC).isoformat()}"}}\n'
            write_atomic(version.directory / STATUS, status.encode())
        return version.name

    def activate(self, name: str) -> str:
        """Activate a version that was registered as inactive; returns its full name. Idempotent.

        Raises `UnknownModel`; `ModelRefused` where the version is retired, which is permanent.
        """
        version = self._find(name, include_inactive=True)
        if version.retired:
            raise ModelRefused(f"{version.name} is retired permanently; register it as another version.")
        activate(version.directory)
        return version.name

    def activate_when_ready(self, name: str) -> str:
        """Let an inactive version become active as soon as its future models are ready; returns its full name.

        Raises `UnknownModel`.
        """
        version = self._find(name, include_inactive=True)
        write_atomic(version.directory / INACTIVE, UNTIL_READY)
        return version.name

    def discard(self, name: str) -> None:
        """Delete a version that has never been active. Raises `UnknownModel`; `ModelRefused` for any other version."""
        version = self._find(name, include_inactive=True)
        if not version.waiting:
            raise ModelRefused(f"{version.name} is active, so it is kept; retire it.")
        shutil.rmtree(version.directory)

    def release(self, name: str) -> str:
        """End the quarantine of a version in all running servers; returns its full name.

        Raises `UnknownModel`.
        """
        version = self._find(name, include_inactive=True)
        write_atomic(version.directory / RELEASED, f'{{"at": "{datetime.now(UTC).isoformat()}"}}\n'.encode())
        return version.name

    def released(self, name: str) -> int:
        """The time of the last release of `id@version` from quarantine, in ns since 1970; 0 if there was none."""
        model, _, version = name.partition("@")
        found = stamp(f"{self.root}/{model}/{version}/{RELEASED}")
        return 0 if found is None else found[2]

    # --- looking at the disk ---

    def _find(self, name: str, *, include_inactive: bool) -> Version:
        model, at, version = name.partition("@")
        if not _ID.fullmatch(model) or (at and not _VERSION.fullmatch(version)):
            raise self._unknown(name)
        versions = self._versions(model)
        found = [v for v in versions if (include_inactive and at) or v.active]
        if at:
            found = [v for v in found if v.version == version]
        if not found:
            reasons = ["is retired" if v.retired else "is not active yet" for v in versions if v.version == version]
            raise self._unknown(name, *reasons)
        return found[-1]

    def _unknown(self, name: str, reason: str = "is not registered") -> UnknownModel:
        known = list(self._all())
        active = [version.name for version in known if version.active]
        if active:
            there = f"the active models are {', '.join(active)}"
        else:
            there = "no model is active" if known else f"there is no model in {self.root.absolute()}"
        return UnknownModel(f'The model "{name[:100]}" {reason}; {there}.', known=active)

    def _all(self) -> Iterator[Version]:
        for model in sorted(_names(self.root, _ID)):
            try:
                yield from self._versions(model)
            except ModelUnusable as error:
                # It must not hide the other models.
                yield _broken(self.root / model / UNLISTED, error)

    def _versions(self, model: str) -> tuple[Version, ...]:
        """Every version of one model, by time of registration. Raises `ModelUnusable` where they cannot be listed."""
        parent = f"{self.root}/{model}"
        try:
            names = _names(parent, _VERSION)
        except OSError as error:
            detail = f"{model} cannot be used: its versions cannot be listed: {error.strerror}"
            self._log(model, detail)
            raise ModelUnusable(detail, model=model) from error
        self._logged.pop(model, None)
        versions = [self._version(f"{parent}/{version}") for version in names]
        return tuple(sorted(versions, key=lambda version: (version.registered_at, version.version)))

    def _version(self, directory: str) -> Version:
        stamps = tuple(stamp(f"{directory}/{name}") for name in (REGISTRATION, MANIFEST, STATUS, INACTIVE))
        known = self._known.get(directory)
        if known is None or known[0] != stamps:
            version = self._read(Path(directory))
            if isinstance(version, RegisteredModel):
                self._logged.pop(version.name, None)
            if not (isinstance(version, BrokenVersion) and _is_temporary(version.error)):
                self._known[directory] = stamps, version
            return version
        return known[1]

    def _read(self, directory: Path) -> Version:
        try:
            return read_version(directory, trust=self.trust)
        except ModelUnusable as error:
            self._log(f"{directory.parent.name}@{directory.name}", error.detail)
            return _broken(directory, error)

    def _log(self, name: str, detail: str) -> None:
        if self._logged.get(name) != detail:
            self._logged[name] = detail
            log.error("model-broken", model=name, detail=detail)

    def _now(self) -> datetime:
        """The time, but later than every registration: a clock set back must not make a new version look old."""
        newest = max((version.registered_at for version in self._all()), default=datetime.min.replace(tzinfo=UTC))
        return max(datetime.now(UTC), newest + timedelta(microseconds=1))


def _broken(directory: Path, error: ModelUnusable) -> BrokenVersion:
    return BrokenVersion(
        id=directory.parent.name,
        version=directory.name,
        directory=directory,
        registered_at=_registered_at(directory),
        # Not `Path.exists`, which raises where the directory is locked.
        retired=os.path.exists(directory / STATUS),
        waiting=os.path.exists(directory / INACTIVE),
        error=error,
    )


def _is_temporary(error: ModelUnusable) -> bool:
    """Whether the error is temporary, such as a lack of file descriptors, which leaves no trace in the stamp."""
    return isinstance(error.__cause__, OSError) and not isinstance(error.__cause__, FileNotFoundError)


def _names(directory: str | Path, pattern: re.Pattern[str]) -> Iterable[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if pattern.fullmatch(entry.name) and _may_be_directory(entry)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _may_be_directory(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as a loop of links: reading it says so
        return True


def _registered_at(directory: Path) -> datetime:
    try:
        return read_registration(directory).registered_at
    except ModelUnusable:
        # Never rewritten, unlike its directory.
        written = stamp(directory / REGISTRATION) or stamp(directory)
        return datetime.fromtimestamp(0.0 if written is None else written[2] / 1e9, UTC)
