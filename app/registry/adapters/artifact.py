"""Reads the bytes of an artifact, and checks them before any use."""

import hashlib
import json
import lzma
import pickle
import re
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, FiniteFloat, ValidationError
from pydantic_core import PydanticKnownError

from app.errors import Fault, ModelRefused
from app.recourse.features import FeatureSpace, escape, number_of_text
from app.recourse.models.black_box import BlackBox, Predict
from app.registry.files import inside
from app.registry.form_sentences import sentence_of
from app.registry.manifest import Manifest


def plain_number(value: Any) -> Any:
    """The number that `value` states as text, such as 1.5 for "1.5".

    Returned unchanged: a value that is neither text nor a boolean, and the texts of NaN and infinity.

    Raises `PydanticKnownError` for true, false and texts that state no plain number, such as "1_000".
    """
    if isinstance(value, bool):
        raise PydanticKnownError("float_type")
    if isinstance(value, str):
        text = value.strip()
        try:
            return number_of_text(text)
        except ValueError:
            if text.lower().lstrip("+-") not in ("nan", "inf", "infinity"):
                raise PydanticKnownError("float_type") from None
    return value


Number: TypeAlias = Annotated[FiniteFloat, BeforeValidator(plain_number)]

FAULTS = 20
"""Largest number of faults listed; a damaged array has one for each of its numbers."""


def read_artifact(manifest: Manifest, directory: Path) -> bytes:
    """The bytes of the manifest's artifact in `directory`, checked against the digest in the manifest.

    Raises `ModelRefused` where the directory has no such file, or the file has another digest.
    """
    try:
        content = inside(directory, manifest.file.path).read_bytes()
    except ValueError as error:
        raise refused(str(error), "/path") from error
    found = hashlib.sha256(content).hexdigest()
    if found != manifest.file.sha256:
        raise ModelRefused(faults=[digest_fault(found)])
    return content


def black_box_of(manifest: Manifest, space: FeatureSpace, predict: Predict, **more: Any) -> BlackBox:
    """A black box that asks `predict`, a function that returns one output per row.

    The manifest says what rows `predict` takes (`input`), and how its outputs become scores (`output`, `threshold`,
    `points`). `more` has further fields of `BlackBox`, by name.
    """
    return BlackBox(
        space=space, predict=predict, input=manifest.input, output=manifest.output, threshold=manifest.threshold,
        points=manifest.points, **more,
    )  # fmt: skip


def refused(detail: str, place: str = "") -> ModelRefused:
    """The error that refuses an artifact.

    `place` is the JSON pointer to the wrong part of the artifact, such as ``/tree/0``; empty for the whole artifact.
    """
    return ModelRefused(faults=[Fault(f"/artifact{place}", detail)])


def digest_fault(found: str) -> Fault:
    """The fault of an artifact whose SHA-256, `found`, differs from the digest in the manifest."""
    return Fault("/artifact/sha256", f"is not the digest of the file, which is {found}")


def form_refusal(error: ValidationError) -> ModelRefused:
    """The error that refuses a file whose content pydantic found invalid.

    The error has at most `FAULTS` faults: the first ones that pydantic reports.
    """
    return ModelRefused(
        faults=[
            Fault("/artifact" + "".join(f"/{escape(str(part))}" for part in details["loc"]), sentence_of(details))
            for details in error.errors()[:FAULTS]
        ]
    )


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
"""Exceptions of torch, skops and joblib for files that are damaged, hostile or of other libraries; each was observed on
files with changed bytes, or is raised by a decompressor."""


OWN_NAME = re.compile(
    r"Can't get attribute '(?P<name>[^']+)' on <module '(?P<module>[^']+)'"
    r"|module '(?P<other_module>[^']+)' has no attribute '(?P<other_name>[^']+)'"
)
"""What pickle says of a function or class that is not where it was."""


def unreadable(error: Exception) -> ModelRefused:
    """The error that refuses a file because a library failed to read it."""
    if isinstance(error, ImportError) and error.name:
        return refused(f"cannot be read: it needs the module {error.name}, which is not installed here")
    if isinstance(error, AttributeError) and (own := OWN_NAME.search(str(error))):
        return refused(
            f"cannot be read: it needs {own['name'] or own['other_name']} of the program that trained it "
            f"({own['module'] or own['other_module']}), which a file does not hold. "
            "Put that into a module that is installed here and train again; or give what it computes as columns of the "
            "records; or serve the model and say --url"
        )
    return refused("cannot be read: it is damaged, cut off, or another kind of file than its name says; save it again")


def refuse_repeated_keys(content: bytes) -> None:
    """Raise `ModelRefused` if a JSON object in `content` has a key twice, as programs differ in which value they use.

    Content that is not JSON raises nothing here; the parser that reads it next refuses it.
    """

    def keys(members: list[tuple[str, object]]) -> None:
        names = [name for name, _ in members]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise refused(f'has an object with the key "{repeated[:100]}" twice')

    try:
        json.loads(content, object_pairs_hook=keys)
    except (ValueError, RecursionError):
        return
