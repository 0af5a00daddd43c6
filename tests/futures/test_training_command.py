"""Future models that a training command makes, and everything that a command can do wrong."""

import json
import re
import sys
import time
import tracemalloc
from pathlib import Path

import pytest

from app.errors import RehearsalFailed
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices, Material
from app.futures.store import load_futures, status
from app.registry.version import RegisteredModel
from tests.futures.models import registered

FEW = Choices(stress="none", search=3, held_back=2)

TRAIN = """
import csv, json, pathlib, random, sys
data, seed, directory = sys.argv[1:4]
rows = list(csv.DictReader(open(data)))
assert {"age", "income", "amount", "savings", "guarantor", "housing", "repaid"} <= set(rows[0])
with open(pathlib.Path(sys.argv[4]), "a") as ledger:
    ledger.write(f"{seed} {len(rows)}\\n")
yes = [r for r in rows if r["repaid"] == "1"]
no = [r for r in rows if r["repaid"] == "0"]
def mean(of, name):
    return sum(float(r[name]) for r in of) / len(of)
weights = dict.fromkeys(
    ["age", "savings", "guarantor", "housing=rented", "housing=owned", "housing=free"], 0.0
)
weights["income"] = (mean(yes, "income") - mean(no, "income")) / 1000
weights["amount"] = (mean(yes, "amount") - mean(no, "amount")) / 3000
content = {"intercept": random.Random(int(seed)).gauss(0, 0.1), "weights": weights}
pathlib.Path(directory, "model.json").write_text(json.dumps(content))
"""


@pytest.fixture
def model(tmp_path: Path) -> RegisteredModel:
    return registered(tmp_path, "linear")


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "a script.py"
    path.write_text(text)
    return f"{sys.executable} '{path}' {{data}} {{seed}} {{directory}} '{tmp_path / 'ledger'}'"


def test_a_command_makes_future_models(model: RegisteredModel, tmp_path: Path) -> None:
    record = rehearse(model, FEW, Material(command=script(tmp_path, TRAIN)))
    assert (record.source, record.search.models, record.held_back.models) == ("command", 3, 2)
    runs = [line.split() for line in (tmp_path / "ledger").read_text().splitlines()]
    assert len({seed for seed, _ in runs}) == 5
    assert {count for _, count in runs} == {"150"}
    futures = load_futures(model)
    assert futures is not None
    assert futures.source == "command"
    assert futures.search.scores_raw(model.load().reference.rows_raw).shape == (300, 3)


def test_what_was_made_before_a_failure_is_not_made_again(model: RegisteredModel, tmp_path: Path) -> None:
    failing = TRAIN + "\nif len(open(sys.argv[4]).readlines()) == 3:\n    sys.exit('the disk is full')\n"
    command = script(tmp_path, failing)
    with pytest.raises(RehearsalFailed, match=r"(?s)ended with exit code 1.*the disk is full"):
        rehearse(model, FEW, Material(command=command))
    found = status(model)
    assert found["status"] == "failed"
    assert "the disk is full" in found["detail"]
    model.load()
    rehearse(model, FEW, Material(command=command))
    assert len((tmp_path / "ledger").read_text().splitlines()) == 6  # five models, and the one that failed
    assert status(model)["status"] == "ready"


def test_of_a_flood_of_errors_only_the_end_is_kept(tmp_path: Path) -> None:
    """Neither on disk nor in memory."""
    flood = """
import os, pathlib, sys
for _ in range(1024):
    os.write(2, b"x" * 65536)
left = sum(path.stat().st_size for path in pathlib.Path(sys.argv[1]).parent.rglob("*") if path.is_file())
sys.exit(f"there are {left} bytes in files")
"""
    model = registered(tmp_path, "linear")
    tracemalloc.start()
    try:
        with pytest.raises(RehearsalFailed) as caught:
            rehearse(model, FEW, Material(command=script(tmp_path, flood)))
        assert tracemalloc.get_traced_memory()[1] < 16_000_000
    finally:
        tracemalloc.stop()
    assert len(caught.value.sentence) < 2_000
    left = re.search(r"xxxthere are (\d+) bytes in files$", caught.value.sentence)
    assert left is not None, caught.value.sentence[-100:]
    assert int(left[1]) < 100_000


@pytest.mark.slow
def test_a_command_that_hangs_is_killed_with_all_its_children(model: RegisteredModel, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    hanging = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
open({str(pids)!r}, "w").write(f"{{os.getpid()}} {{child.pid}}")
sys.stderr.write("still thinking")
sys.stderr.flush()
time.sleep(1000)
"""
    began = time.monotonic()
    with pytest.raises(RehearsalFailed, match=r"(?s)did not end within 3 s.*still thinking"):
        rehearse(model, FEW, Material(command=script(tmp_path, hanging), timeout_s=3))
    assert time.monotonic() - began < 30
    for pid in pids.read_text().split():
        assert _gone(int(pid))


def _gone(pid: int) -> bool:
    """Whether a process has ended; one that nobody has waited for is a zombie."""
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", 'left no file "model.json"'),
        ("import sys, pathlib; pathlib.Path(sys.argv[3], 'model.json').write_text('rubbish')", "cannot be used"),
        (
            "import sys, pathlib; pathlib.Path(sys.argv[3], 'model.json').write_text('{\"weights\": {\"age\": 1}}')",
            "weights/income",
        ),
        (
            "import sys, os, pathlib; os.symlink('/etc/hostname', pathlib.Path(sys.argv[3], 'model.json'))",
            "left no file",
        ),
        ("raise SystemExit(7)", "ended with exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", "was ended by signal 9"),
    ],
)
def test_rubbish_is_refused(model: RegisteredModel, tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(RehearsalFailed) as caught:
        rehearse(model, FEW, Material(command=script(tmp_path, text)))
    assert sentence in caught.value.sentence
    assert status(model)["status"] == "failed"
    assert load_futures(model) is None
    model.load()


@pytest.mark.parametrize("command", ["", "python train.py", "python 'unclosed {data} {directory}", "python {data}"])
def test_a_command_without_its_places_is_refused(model: RegisteredModel, command: str) -> None:
    with pytest.raises(RehearsalFailed, match="command"):
        rehearse(model, FEW, Material(command=command))


def test_a_command_that_does_not_exist(model: RegisteredModel) -> None:
    with pytest.raises(RehearsalFailed, match="cannot be started"):
        rehearse(model, FEW, Material(command="/no/such/program {data} {directory}"))


def test_no_shell_reads_the_command(model: RegisteredModel, tmp_path: Path) -> None:
    with pytest.raises(RehearsalFailed):
        rehearse(model, FEW, Material(command=f"false {{data}} {{directory}} ; touch {tmp_path / 'owned'}"))
    assert not (tmp_path / "owned").exists()


def test_models_that_are_there_already(model: RegisteredModel, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    own = json.loads((model.directory / "model.json").read_text())

    def write(path: Path, intercept: float) -> None:
        path.write_text(json.dumps(own | {"intercept": intercept}))

    (folder / "own.json").write_bytes((model.directory / "model.json").read_bytes())
    (folder / "notes.txt").write_text("not a model")
    for i in range(3):
        write(folder / f"{i}.json", 0.1 * i)
    with pytest.raises(RehearsalFailed, match="3 models besides"):
        rehearse(model, FEW, Material(folder=folder))
    for i in range(3):
        (folder / f"version{i}").mkdir()
        write(folder / f"version{i}" / "model.json", -0.1 * i - 0.1)
    record = rehearse(model, FEW, Material(folder=folder))
    assert (record.source, record.search.models, record.held_back.models) == ("supplied", 3, 2)
    assert load_futures(model) is not None
