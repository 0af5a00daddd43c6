"""The state of a rehearsal as other processes see it: announced, carried out by one process, or ended."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from app.errors import ModelUnusable, RecourseError, RehearsalFailed, RehearsalRunning
from app.futures.store import FAILED, Failure, failure
from app.observability import log
from app.registry.files import write_atomic
from app.registry.manifest import PARTIAL
from app.registry.version import RegisteredModel


def begin(model: RegisteredModel) -> None:
    """Mark that the future models of a version are being made, before any process makes them."""
    (model.directory / PARTIAL).mkdir(exist_ok=True)
    (model.directory / PARTIAL / FAILED).unlink(missing_ok=True)


def abandon(model: RegisteredModel) -> None:
    """Take back the mark that future models are being made, unless something has been made since."""
    with suppress(OSError):
        (model.directory / PARTIAL).rmdir()


def give_up(model: RegisteredModel, sentence: str) -> None:
    """Note why a rehearsal ended, unless it has noted a reason itself; models already made are kept."""
    partial = model.directory / PARTIAL
    if partial.exists() and failure(model) is None:
        noted(partial, RehearsalFailed(sentence))


def noted(partial: Path, error: RecourseError) -> RecourseError:
    """Note an error in the directory of an unfinished rehearsal, and return it."""
    try:
        partial.mkdir(exist_ok=True)
        write_atomic(partial / FAILED, Failure(detail=error.sentence).model_dump_json().encode())
    except OSError:
        log.error("rehearsal-failed", detail=error.sentence)
    return error


@contextmanager
def alone(model: RegisteredModel) -> Iterator[None]:
    """Keep other processes from making future models of the same version, inside this context."""
    try:
        descriptor = os.open(model.directory, os.O_RDONLY)
    except OSError as error:
        raise ModelUnusable(f"{model.name} cannot be used: {error}", model=model.name) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise RehearsalRunning(f"The future models of {model.name} are being made by another process.") from error
    try:
        yield
    finally:
        os.close(descriptor)


def underway(model: RegisteredModel) -> bool:
    """Whether a process is making future models of a version at this moment. Raises `ModelUnusable`."""
    try:
        with alone(model):
            return False
    except RehearsalRunning:
        return True
