"""Writes a drafted manifest: short lines, and a comment only where a person must decide."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from app.registry.drafting.features import FeatureDraft

WIDTH = 100

LONGEST = 110
"""Length of a line and its comment beyond which the comment stands above it."""

HEAD = "# Drafted from the records and the model. Lines that begin with # ask for a decision; the rest can stay."


def manifest_text(head: Mapping[str, Any], comments: Mapping[str, str], features: Sequence[FeatureDraft]) -> str:
    """The manifest as text; `comments` stand behind keys of the head."""
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


def _flow(value: Any) -> str:
    """A value in one line, or few lines where it is long."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text.removesuffix("...\n").strip()


def write_reference(path: Path, columns: Mapping[str, Sequence[str]]) -> None:
    """A CSV of these columns; cells that begin or end in a space keep it."""
    with path.open("w", encoding="utf-8", newline="") as file:
        spaced = any(text != text.strip() for texts in columns.values() for text in texts)
        writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL if spaced else csv.QUOTE_MINIMAL)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
