"""``calibration.json`` of a version: the correction of what is told about future models, from earlier versions.

It is beside the manifest of the version that answers, so that a question reads it without the ledger. It is replaced in
one step, and may be missing: then nothing is corrected.
"""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, Self

from annotated_types import Interval, Len
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError, model_validator

from app.observability import log
from app.recourse.models.calibration import Calibration
from app.registry.files import Stamp, read_regular, stamp, write_atomic
from app.registry.manifest import CALIBRATION

Shares = Annotated[tuple[Annotated[float, Interval(ge=0, le=1)], ...], Len(1, 1000)]


class Correction(BaseModel):
    """What `Calibration` says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    told: Shares
    by: Shares
    promises: NonNegativeInt
    retrainings: NonNegativeInt

    @classmethod
    def of(cls, calibration: Calibration) -> Self:
        """The same, to be kept."""
        return cls(**{name: getattr(calibration, name) for name in cls.model_fields})

    @property
    def calibration(self) -> Calibration:
        """The same, to be applied."""
        return Calibration(**self.model_dump())

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if len(self.told) != len(self.by) or any(b <= a for a, b in zip(self.told, self.told[1:], strict=False)):
            raise ValueError("told must be ascending and as long as by")
        return self


class CalibrationRecord(BaseModel):
    """Contents of ``calibration.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    correction: Correction | None
    """None where earlier retrainings broke no more than was told, or too few promises were checked."""


def read_calibration(directory: Path) -> Calibration | None:
    """The correction for answers of a version; None where there is none, or it is damaged, which is logged."""
    found = stamp(directory / CALIBRATION)
    return None if found is None else _read(directory, found)


@lru_cache(maxsize=256)
def _read(directory: Path, of: Stamp) -> Calibration | None:  # noqa: ARG001
    try:
        record = CalibrationRecord.model_validate_json(read_regular(directory / CALIBRATION))
    except (OSError, ValidationError):
        name = f"{directory.parent.name}@{directory.name}"
        log.error("calibration-unusable", model=name, detail=f"{CALIBRATION} is damaged")
        return None
    return None if record.correction is None else record.correction.calibration


def write_calibration(directory: Path, calibration: Calibration | None) -> None:
    """Let this be the correction for answers of a version; nothing is written where it is already. Raises `OSError`."""
    correction = None if calibration is None else Correction.of(calibration)
    content = CalibrationRecord(correction=correction).model_dump_json(indent=2).encode() + b"\n"
    path = directory / CALIBRATION
    if (read_regular(path) if path.exists() else None) != content:
        write_atomic(path, content)
