"""Damaged artifacts of every format, in processes of their own: each is refused or scores finitely.

`RECOURSE_MUTANTS=1000 pytest -m "" tests/registry/adapters/test_damaged_artifacts.py -s` tries about 1,000 of each
format and prints the counts; a run without it tries a few dozen.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.registry.adapters.test_adapters import CASES

MUTANTS = int(os.environ.get("RECOURSE_MUTANTS", "15"))
FULL = 610
"""Mutants of a file at the scale of 1."""

DAMAGED = (
    "scorecard", "linear", "torch, pt", "torch, safetensors", "xgboost", "lightgbm", "sklearn, logistic regression",
    "sklearn, table, forest", "sklearn, table, histograms", "onnx", "onnx, forest", "onnx, columns",
)  # fmt: skip
"""One case of each kind of file. Pickles can run any code, so trusting them includes their damage."""

OFTEN = {"torch, safetensors", "xgboost"}
"""Tried each time, the others before a release."""

NAMES = [pytest.param(name, marks=[pytest.mark.slow if name in OFTEN else pytest.mark.release]) for name in DAMAGED]

MOST_DEATHS = 0
"""Processes that damaged files may end: registration and serving load models in children, but none is needed yet."""


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_artifact_is_refused_or_scores_finitely(name: str, tmp_path: Path) -> None:
    directory = CASES[name](tmp_path / "model").model.write()
    intact = tmp_path / "intact"
    shutil.copytree(directory, intact)
    first, deaths, counts = 0, 0, {"refused": 0, "taken": 0}
    while True:
        run = [sys.executable, "-m", "tests.registry.adapters.mutants", str(directory), str(MUTANTS / FULL), str(first)]
        done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=60 + 2 * MUTANTS)
        counted = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        counts = {key: counts[key] + sum(one[key] for one in counted) for key in counts}
        if done.returncode >= 0:
            break
        # A signal ended it: the others are tried in another process.
        deaths += 1
        first = int((directory / "tried").read_text()) + 1
        shutil.copytree(intact, directory, dirs_exist_ok=True)
    print(f"{name}: {counts['refused']} refused, {counts['taken']} scored, {deaths} processes ended")
    assert done.returncode == 0, done.stderr
    assert sum(counts.values()) >= 0.5 * MUTANTS
    assert counts["refused"] > 0
    assert deaths <= MOST_DEATHS
