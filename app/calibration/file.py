"""``calibration.json`` of a version: the correction of promised shares of future models, from earlier versions.

It is beside the manifest of the version that answers, so that a question reads it without the ledger. It is replaced in
one step, and may be missing: then nothing is corrected.
"""

from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from app.observability import log
from app.recourse.models.calibration import Calibration
from app.registry.files import Stamp, read_regular, stamp, write_atomic
from app.registry.manifest import CALIBRATION


class CalibrationRecord(BaseModel):
    """The contents of a file ``calibration.json``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    correction: Calibration | None
    """None where earlier retrainings broke no more than was promised, or too few promises were checked."""


def read_calibration(directory: Path) -> Calibration | None:
    """The correction that is stored for a version; None if its directory has no such file, or the file is damaged.

    A damaged file is logged.
    """
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
    return record.correction


def write_calibration(directory: Path, calibration: Calibration | None) -> None:
    """Store the correction of a version in its directory, unless the same is stored already. Raises `OSError`."""
    content = CalibrationRecord(correction=calibration).model_dump_json(indent=2).encode() + b"\n"
    path = directory / CALIBRATION
    if (read_regular(path) if path.exists() else None) != content:
        write_atomic(path, content)
