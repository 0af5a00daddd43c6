"""Paths that stay inside a directory, bytes that match their digest, writes that survive a crash."""

import errno
import hashlib
import os
import stat
from pathlib import Path, PurePosixPath
from typing import TypeAlias

CHUNK = 1 << 20
"""Bytes that are hashed or copied at a time."""

Stamp: TypeAlias = tuple[int, int, int]
"""Inode, size and time of a file: another one after every change, since changed files are replaced."""


def stamp(path: str | Path) -> Stamp | None:
    """Inode, size and modification time of a file: if none of the three differs, the file is unchanged.

    None if the file cannot be read.
    """
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def inside(directory: Path, path: str) -> Path:
    """The existing file at the relative `path` below `directory`, with symbolic links resolved.

    Raises `ValueError` where `path` is absolute, leads out of `directory` (by ``..`` or a link), or names no file.
    """
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts or "\0" in path:
        raise ValueError(f'"{path}" must be a relative path inside the directory of the model')
    try:
        found = (directory / pure).resolve(strict=True)
    except (FileNotFoundError, NotADirectoryError):
        raise ValueError(f'there is no file "{path}"') from None
    except (OSError, RuntimeError) as error:
        # RuntimeError: a loop of links, before Python 3.13.
        raise ValueError(f'"{path}" cannot be read: {error}') from error
    if not found.is_relative_to(directory.resolve()):
        raise ValueError(f'"{path}" is a link that leaves the directory of the model')
    if not found.is_file():
        raise ValueError(f'"{path}" is not a file')
    return found


def require_regular(path: Path) -> os.stat_result:
    """The `stat` of a regular file. Raises `OSError` for any other, as reading a pipe or a device may never end."""
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe or a device, not a file", str(path))
    return found


def read_regular(path: Path, largest: int | None = None) -> bytes:
    """The content of a regular file of at most `largest` bytes.

    Raises `OSError` where it is larger, cannot be read, or is a directory, a pipe or a device.
    """
    found = require_regular(path)
    if largest is not None and found.st_size > largest:
        raise OSError(errno.EFBIG, f"it has more than {largest:,} bytes", str(path))
    return path.read_bytes()


def digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def copy(source: Path, target: Path) -> str:
    """Copy a file and flush the copy to disk; returns the SHA-256 of the copy, hexadecimal."""
    hashed = hashlib.sha256()
    target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as reader, target.open("xb") as writer:
        while chunk := reader.read(CHUNK):
            hashed.update(chunk)
            writer.write(chunk)
        writer.flush()
        os.fsync(writer.fileno())
    return hashed.hexdigest()


def write(target: Path, content: bytes) -> str:
    """Write a file that does not exist yet, flushed to disk; returns its SHA-256, hexadecimal."""
    with target.open("xb") as writer:
        writer.write(content)
        writer.flush()
        os.fsync(writer.fileno())
    return hashlib.sha256(content).hexdigest()


def write_atomic(target: Path, content: bytes) -> None:
    """Write a file atomically: a reader sees the old content or the new."""
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    try:
        write(draft, content)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    flush_directory(target.parent)


def flush_directory(directory: Path) -> None:
    """Flush the entries of a directory to disk, so that its new files keep their names after a crash."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
