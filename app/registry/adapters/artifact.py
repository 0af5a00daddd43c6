"""The bytes of an artifact: read once, checked, and only then looked at."""

import hashlib
import lzma
import pickle
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

from app.errors import Fault, ModelRefused
from app.registry.files import inside
from app.registry.manifest import Manifest


def read_artifact(manifest: Manifest, directory: Path) -> bytes:
    """The artifact's bytes, which are those that the manifest's digest describes.

    Raises
    ------
    ModelRefused : there is no such file inside the directory, or it is another one
    """
    try:
        content = inside(directory, manifest.file.path).read_bytes()
    except ValueError as error:
        raise ModelRefused(faults=[Fault("/artifact/path", str(error))]) from error
    found = hashlib.sha256(content).hexdigest()
    if found != manifest.file.sha256:
        raise ModelRefused(faults=[digest_fault(found)])
    return content


def digest_fault(found: str) -> Fault:
    """The artifact is not the file that the manifest describes."""
    return Fault("/artifact/sha256", f"is not the digest of the file, which is {found}")


UNREADABLE = (
    pickle.PickleError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    ImportError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""What the readers of torch, skops and joblib raise where a file is damaged, hostile, or of other libraries; each of
these was seen on files with some bytes changed, or is what a decompressor raises."""


def unreadable(error: Exception) -> ModelRefused:
    """The refusal of a file on which a reader gave up."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return ModelRefused(faults=[Fault("/artifact", f"cannot be read: {reason}")])
