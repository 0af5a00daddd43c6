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
    """Mark, before any process begins, that the future models of a version are being made."""
    (model.directory / PARTIAL).mkdir(exist_ok=True)
    (model.directory / PARTIAL / FAILED).unlink(missing_ok=True)


def abandon(model: RegisteredModel) -> None:
    """Take back the mark that `begin` left, unless a rehearsal has written something since."""
    with suppress(OSError):
        (model.directory / PARTIAL).rmdir()


def give_up(model: RegisteredModel, sentence: str) -> None:
    """Note why a rehearsal ended, unless the rehearsal itself has noted a reason; models already made are kept."""
    partial = model.directory / PARTIAL
    if partial.exists() and failure(model) is None:
        noted(partial, RehearsalFailed(sentence))


def noted(partial: Path, error: RecourseError) -> RecourseError:
    """Write an error to the directory of an unfinished rehearsal, and return the error."""
    try:
        partial.mkdir(exist_ok=True)
        write_atomic(partial / FAILED, Failure(detail=error.sentence).model_dump_json().encode())
    except OSError:
        log.error("rehearsal-failed", detail=error.sentence)
    return error


@contextmanager
def alone(model: RegisteredModel) -> Iterator[None]:
    """Context in which no other process can make future models of the version.

    Raises
    ------
    ModelUnusable : the directory of the version cannot be opened
    RehearsalRunning : another process is making future models of the version
    """
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
