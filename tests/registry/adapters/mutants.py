"""Damaged copies of an artifact, each loaded and asked: ``python -m tests.registry.adapters.mutants DIRECTORY``.

Run in a process of its own, because compiled readers of damaged files may end it. Prints how many copies were refused
and how many were not; those give finite scores.
"""

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from app.errors import ModelOutputInvalid, ModelRefused
from app.recourse.features import FeatureSpace, ModelColumns, ModelSpace, fit_encoding
from app.recourse.models.black_box import Input
from app.registry.adapters import ADAPTERS
from app.registry.artifact import Format
from app.registry.parsed_manifest import read_manifest
from app.registry.trust import Trust

NUMBERS = ("-1", "-2", "0", "1", "7", "8", "1000000", "2147483647", "-2147483648", "4294967295", "1e39", "nan", "x", "")


def mutants(content: bytes, rng: np.random.Generator) -> Iterator[bytes]:
    """Cut off, with bits turned, with numbers replaced, with lines or stretches lost or doubled."""
    for stop in rng.integers(0, len(content), 40):
        yield content[:stop]
    for _ in range(150):
        damaged = bytearray(content)
        for at in rng.integers(0, len(content), rng.integers(1, 4)):
            damaged[at] ^= 1 << int(rng.integers(8))
        yield bytes(damaged)
    spans = [match.span() for match in re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?", content)]
    for _ in range(300):
        start, stop = spans[rng.integers(len(spans))]
        yield content[:start] + str(rng.choice(NUMBERS)).encode() + content[stop:]
    for _ in range(60):
        start, stop = np.sort(rng.integers(0, len(content), 2))
        yield content[:start] + content[stop:]
        yield content[:stop] + content[start:]


def main(directory: Path) -> None:
    """Try every mutant of the artifact of the model in `directory`."""
    manifest = read_manifest((directory / "model.yaml").read_bytes()).manifest
    assert manifest
    path = directory / manifest.file.path
    space = FeatureSpace(fit_encoding(manifest.features, np.zeros((1, len(manifest.features))), "none"))
    load = ADAPTERS[manifest.artifact.format].load
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, space.d))
    if manifest.input is Input.RAW:
        X = ModelColumns(space, ModelSpace(space.features)).rows(space.decode(X))
    counts = {"refused": 0, "taken": 0}
    for content in mutants(path.read_bytes(), rng):
        path.write_bytes(content)
        artifact = manifest.file.model_copy(update={"sha256": hashlib.sha256(content).hexdigest()})
        try:
            black_box = load(manifest.model_copy(update={"artifact": artifact}), directory, space, Trust())
        except ModelRefused as error:
            counts["refused"] += bool(error.faults)
            continue
        try:
            finite = np.isfinite(black_box.score_of(np.asarray(black_box.predict(X), dtype=float))).all()
        except ModelOutputInvalid:
            finite = False
        # A graph may be sound and still divide by zero; registration refuses it because of its scores.
        assert finite or manifest.file.format is Format.ONNX
        counts["taken" if finite else "refused"] += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
