"""Writes a drafted manifest: short lines, with comments that ask a person or say why."""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from app.errors import ModelRefused
from app.registry.drafting.features import FeatureDraft

WIDTH = 100

LONGEST = 110
"""Length of a line and its comment beyond which the comment stands above it."""

NUMBER = re.compile(r"[-+]?[0-9][0-9.]*[eE][-+]?[0-9]+")

HEAD = "# Drafted from the records and the model. Comments that end with ? ask for a decision; the rest can stay."


def manifest_text(head: Mapping[str, Any], comments: Mapping[str, str], features: Sequence[FeatureDraft]) -> str:
    """The text of a manifest: first the keys of `head`, with their comments in `comments`, then the features."""
    lines = [HEAD]
    for key, value in head.items():
        line, comment = f"{key}: {_flow(value)}", comments.get(key)
        if comment is None:
            lines.append(line)
        elif len(line) + len(comment) <= LONGEST and "\n" not in line:
            lines.append(f"{line}  # {comment}")
        else:
            lines += [f"# {key}: {comment}", line]
    lines.append("features:")
    for feature in features:
        lines += [f"  # {feature.name}: {comment}" for comment in feature.comments]
        first, *others = _flow(feature.keys).split("\n")
        lines += [f"  - {first}", *(f"     {line.strip()}" for line in others)]
    return "\n".join(lines) + "\n"


@contextmanager
def whole(directory: Path, names: Iterable[str]) -> Iterator[None]:
    """Context manager: after an error in its body, remove the files that the body wrote, and a new directory.

    `names` are the names of all files that the body may write. The directory is removed only if it did not exist
    before.

    Raises `ModelRefused` where a file cannot be written, such as on a full disk.
    """
    there = directory.exists()
    new = [path for name in names if not (path := directory / name).exists()]
    try:
        yield
    except BaseException as error:
        for path in new:
            path.unlink(missing_ok=True)
        if not there:
            with suppress(OSError):  # it was not made, or its parent is gone
                directory.rmdir()
        if isinstance(error, OSError):
            raise ModelRefused(f"{error.filename or directory} cannot be written: {error.strerror}") from error
        raise


class _Dumper(yaml.SafeDumper):
    """Quotes texts such as 1e5, which some readers of YAML take for numbers."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if NUMBER.fullmatch(text) else None)


_Dumper.add_representer(str, _text)


def _flow(value: Any) -> str:
    """A value in one line, or few lines where it is long."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=WIDTH
    )
    return text.removesuffix("...\n").strip()


def write_reference(path: Path, columns: Mapping[str, Sequence[str]]) -> None:
    """Write a table as CSV; `columns` has the cells of each column as texts.

    All cells get quotation marks if one of them begins or ends with a space.
    """
    with path.open("w", encoding="utf-8", newline="") as file:
        blank = [set(texts) for texts in columns.values() if re.search(r"\s", "".join(texts))]
        spaced = any(text != text.strip() for texts in blank for text in texts)
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if spaced else csv.QUOTE_MINIMAL)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
