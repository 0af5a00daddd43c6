"""Damaged copies of an artifact, each loaded and asked.

``python -m tests.registry.adapters.mutants DIRECTORY [SCALE [FIRST]]``: SCALE times the usual number, after FIRST.
Run in a process of its own, because compiled readers of damaged files may end it. Prints how many copies were refused
and how many were not; those give finite scores.
"""

import hashlib
import io
import json
import re
import sys
import zipfile
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


def mutants(content: bytes, rng: np.random.Generator, scale: float = 1.0) -> Iterator[bytes]:
    """Cut off, with bits turned, with numbers replaced, with lines or stretches lost or doubled."""
    for stop in rng.integers(0, len(content), _count(40, scale)):
        yield content[:stop]
    for _ in range(_count(150, scale)):
        damaged = bytearray(content)
        for at in rng.integers(0, len(content), rng.integers(1, 4)):
            damaged[at] ^= 1 << int(rng.integers(8))
        yield bytes(damaged)
    spans = [match.span() for match in re.finditer(rb"-?\d+(\.\d+)?(e-?\d+)?", content)]
    for _ in range(_count(300, scale) if spans else 0):
        start, stop = spans[rng.integers(len(spans))]
        yield content[:start] + str(rng.choice(NUMBERS)).encode() + content[stop:]
    for _ in range(_count(60, scale)):
        start, stop = np.sort(rng.integers(0, len(content), 2))
        yield content[:start] + content[stop:]
        yield content[:stop] + content[start:]


def _count(usual: int, scale: float) -> int:
    return max(1, round(usual * scale))


def zipped_mutants(content: bytes, rng: np.random.Generator, scale: float) -> Iterator[bytes]:
    """Archives whose members are damaged, so that their checksums are right; half of the mutants are of the archive."""
    yield from mutants(content, rng, scale / 2)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    # The schema says what is built; the others are arrays, hundreds of them in a forest.
    arrays = sorted(members.keys() - {"schema.json"})
    some = rng.permutation(arrays)[: _count(200, scale)].tolist()
    for name, share in [("schema.json", scale / 4), *((array, scale / 4 / len(some)) for array in some)]:
        for damaged in mutants(members[name], rng, share):
            buffer = io.BytesIO()
            with zipfile.ZipFile(buffer, "w") as archive:
                for other, intact in members.items():
                    archive.writestr(other, damaged if other == name else intact)
            yield buffer.getvalue()


def main(directory: Path, scale: float = 1.0, start: int = 0) -> None:
    """Try the mutants of the artifact of the model in `directory`, from one of them on; the count goes to `tried`."""
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
    intact = path.read_bytes()
    made = zipped_mutants(intact, rng, scale) if path.suffix == ".skops" else mutants(intact, rng, scale)
    for k, content in enumerate(made):
        if k < start:
            continue
        (directory / "tried").write_text(str(k))
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
        # A graph may be sound and still divide by zero, an estimator may have NaN among its weights; registration
        # refuses them because of their scores.
        assert finite or manifest.file.format in (Format.ONNX, Format.SKLEARN)
        counts["taken" if finite else "refused"] += 1
    print(json.dumps(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(float, sys.argv[2:3]), *map(int, sys.argv[3:4]))
