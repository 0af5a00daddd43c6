"""The command `recourse models draft` says what comes next, in commands that run as they stand."""

import re
import shlex
from pathlib import Path

import pytest
from sklearn.neighbors import KNeighborsClassifier
from typer.testing import CliRunner

from app.cli.commands import cli
from tests.optional import library
from tests.registry.drafting.lender import NUMBERS, lender


def test_what_comes_next_runs_as_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of neighbours stays in a pickle, as skops has no safe type for it."""
    monkeypatch.chdir(tmp_path)
    records = lender()
    fitted = KNeighborsClassifier(9).fit(records.frame(NUMBERS), records.good)
    library("joblib").dump(fitted, "knn.joblib")
    records.write(tmp_path / "loans.csv")
    draft = "models draft loans.csv --model knn.joblib --label outcome --favourable good --trust-pickle --out loan"
    done = CliRunner().invoke(cli, shlex.split(draft))
    assert done.exit_code == 0, done.output
    said = re.search(r"Next: recourse (models try .*), then recourse (models register .*)\n", done.output)
    assert said is not None
    assert "would register" in CliRunner().invoke(cli, [*shlex.split(said[1]), "--count", "1"]).output
    registered = CliRunner().invoke(cli, shlex.split(said[2]))
    assert registered.exit_code == 0, registered.output
