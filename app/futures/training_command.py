"""Future models that the lender's own training command makes, one bootstrap after the other.

The command is split into words as a shell would, and no shell ever sees it. In each word ``{data}`` is replaced by
the path of a CSV with the columns of the reference, ``{seed}`` by a number, and ``{directory}`` by the path of an
empty directory, in which the command must leave the model under the name that the registered one has.
"""

import csv
import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from app.errors import RehearsalFailed
from app.futures.recipe import RecipeOfOneManifest, Tuned
from app.futures.records import Records, Sample
from app.registry.files import inside
from app.registry.reference import Table, read_table
from app.registry.version import LoadedModel

PLACEHOLDERS = ("{data}", "{seed}", "{directory}")

TAIL = 1_500
"""Characters of the command's standard error that are repeated where it fails."""

CHUNK = 1 << 16
"""Bytes of it that are read at a time."""

PATIENCE_S = 1.0
"""Longest wait for what the command wrote last, after it has ended."""

LARGEST = 2 << 30
"""Bytes of a model beyond which it is not read."""


class CommandRecipe(RecipeOfOneManifest):
    """Trains each future model with a command of the operator.

    Parameters
    ----------
    command : contains ``{data}`` and ``{directory}``, and may contain ``{seed}``
    data : CSV of the records that `make` is given, row by row; each run of the command gets a bootstrap of its rows
    timeout_s : seconds for training one model
    """

    name = "command"
    block = 1

    def __init__(self, model: LoadedModel, command: str, data: Path, *, timeout_s: float) -> None:
        super().__init__(model, model.registered.manifest)
        self.words = command_words(command)
        self.data = data
        self.timeout_s = timeout_s
        self._table: Table | None = None

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:  # noqa: ARG002
        """Run the command once for each sample; returns the model file that each run leaves."""
        return [self._made(sample) for sample in samples]

    def _made(self, sample: Sample) -> bytes:
        if self._table is None:
            self._table = read_table(self.data)
        with tempfile.TemporaryDirectory(prefix="recourse-rehearse-") as folder:
            data, directory = Path(folder) / "data.csv", Path(folder) / "model"
            directory.mkdir()
            with data.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(self._table.header)
                writer.writerows(self._table.rows[i] for i in sample.chosen)
            values = dict(zip(PLACEHOLDERS, (str(data), str(sample.seed), str(directory)), strict=True))
            words = [_filled(word, values) for word in self.words]
            errors = run(words, self.timeout_s, f"The command for future model {sample.index}")
            return self._read(directory, errors, sample)

    def _read(self, directory: Path, errors: bytes, sample: Sample) -> bytes:
        name = PurePosixPath(self.described.file.path)
        for path in (name, PurePosixPath(name.name)):
            try:
                found = inside(directory, str(path))
            except ValueError:
                continue
            if found.stat().st_size > LARGEST:
                raise RehearsalFailed(f"The command for future model {sample.index} wrote a file of over 2 GB.")
            return found.read_bytes()
        detail = f'The command for future model {sample.index} left no file "{name}" in its directory'
        raise RehearsalFailed(detail + _tail(errors))


def command_words(command: str) -> list[str]:
    """Split a training command into words, as a shell does.

    Raises
    ------
    RehearsalFailed : the command cannot be split, or lacks ``{data}`` or ``{directory}``
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise RehearsalFailed(f"The command cannot be split into words: {error}") from error
    missing = [place for place in ("{data}", "{directory}") if not any(place in word for word in words)]
    if missing or not words:
        raise RehearsalFailed(f"The command must contain {' and '.join(missing) or 'words'}.")
    return words


def _filled(word: str, values: dict[str, str]) -> str:
    for place, value in values.items():
        word = word.replace(place, value)
    return word


def run(words: Sequence[str], timeout_s: float, subject: str) -> bytes:
    """Run a program, then end its process group; returns the end of what the program wrote to standard error.

    Parameters
    ----------
    words : the program and its arguments
    subject : names the program in error messages

    Raises
    ------
    RehearsalFailed : the program cannot be started, fails, or takes too long; with the end of its standard error
    """
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise RehearsalFailed(f"{subject} cannot be started: {error}") from error
    assert process.stderr is not None
    kept = _End(process.stderr)
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        _end(process)
    errors = kept.bytes()
    if code is None:
        raise RehearsalFailed(f"{subject} did not end within {timeout_s:g} s{_tail(errors)}")
    if code:
        how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise RehearsalFailed(f"{subject} {how}{_tail(errors)}")
    return errors


class _End:
    """The end of what comes through a pipe, read by a thread: a program may write more than memory or disk can hold."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._last = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def bytes(self) -> bytes:
        """The last bytes that came through the pipe; waits at most `PATIENCE_S` seconds for the pipe to close."""
        # A process that left its group may hold the pipe open.
        self._thread.join(PATIENCE_S)
        return self._last

    def _read(self) -> None:
        with self._pipe:
            while chunk := os.read(self._pipe.fileno(), CHUNK):
                self._last = (self._last + chunk)[-4 * TAIL :]


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End the whole process group, also what a command left behind that has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(errors: bytes) -> str:
    text = errors.decode(errors="replace").strip()[-TAIL:]
    return f"; its standard error ends with:\n{text}" if text else "; it wrote nothing to standard error."
