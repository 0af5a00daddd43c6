"""The command `recourse models draft` says what comes next, in commands that run as they stand."""

import re
import shlex
from pathlib import Path

from sklearn.neighbors import KNeighborsClassifier

from tests.forks import forks
from tests.optional import library
from tests.registry.drafting.lender import NUMBERS, lender


def test_what_comes_next_runs_as_it_is_said(tmp_path: Path) -> None:
    """An index of neighbours stays in a pickle, as skops has no safe type for it."""
    records = lender()
    fitted = KNeighborsClassifier(9).fit(records.frame(NUMBERS), records.good)
    library("joblib").dump(fitted, tmp_path / "knn.joblib")
    records.write(tmp_path / "loans.csv")
    env = {"RECOURSE_MODELS_STORE": str(tmp_path / "store"), "PATH": ""}
    draft = f"models draft {tmp_path}/loans.csv --model {tmp_path}/knn.joblib --label outcome --favourable good"
    done = forks().run("app.cli", *draft.split(), "--trust-pickle", "--out", tmp_path / "loan", env=env)
    assert done.returncode == 0, done.stderr
    said = re.search(r"Next: recourse (models try .*), then recourse (models register .*)\n", done.stdout)
    assert said is not None
    assert "would register" in forks().run("app.cli", *shlex.split(said[1]), "--count", 1, env=env).stdout
    registered = forks().run("app.cli", *shlex.split(said[2]), env=env)
    assert registered.returncode == 0, registered.stderr
