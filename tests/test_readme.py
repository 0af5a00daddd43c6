"""The README's commands, run as they stand there, and its answer, compared with the service's."""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

from app.registry.registry import Registry
from app.settings import Settings
from tests.conftest import DEMO_STORE, run

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL) for line in block.splitlines() if line]


def test_it_is_short() -> None:
    assert len(TEXT.splitlines()) <= 120


def test_its_targets_are_in_the_makefile() -> None:
    targets = [shlex.split(line)[1] for line in COMMANDS if line.startswith("make ")]
    assert targets
    for target in targets:
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_its_commands_do_what_it_says(tmp_path: Path) -> None:
    """Ask as it asks, and for twenty others, then train the model of a year later and count what that breaks."""
    store = shutil.copytree(DEMO_STORE, tmp_path / "models_store")
    settings = Settings(models_store=store, state_dir=tmp_path / "var", lanes_sync=1, port=0)
    asked, told = [line for line in COMMANDS if line.startswith("curl ")], []
    others: list[httpx.Response] = []
    for service in run(settings):
        for line in asked:
            words = shlex.split(line.replace("http://127.0.0.1:8000", service.url))
            told.append(json.loads(subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout))
        reference = Registry(store).find("consumer-loan").load().reference
        for row_raw in reference.rows_raw[reference.scores < 0.0][:20]:
            question = {"model": "consumer-loan", "applicant": reference.space.record(row_raw)}
            others.append(httpx.post(f"{service.url}/recourse", json=question, timeout=30).raise_for_status())
    (answer,) = told
    shown = json.loads(re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)[0])
    (counterfactual,) = shown["counterfactuals"]
    same = answer["counterfactuals"][0]
    assert [one["text"] for one in counterfactual["changes"]] == [one["text"] for one in same["changes"]]
    future = counterfactual["validity"]["future"]
    for key in ("promise", "models"):
        assert future[key] == same["validity"]["future"][key]
    assert future["probability"] == pytest.approx(same["validity"]["future"]["probability"], abs=5e-4)

    environment = os.environ | {"RECOURSE_MODELS_STORE": str(store), "RECOURSE_STATE_DIR": str(tmp_path / "var")}
    lines = [line for line in COMMANDS if line.startswith(".venv/bin/")]
    for line in lines:
        words = shlex.split(line.replace("var/consumer-loan", str(tmp_path / "consumer-loan")))
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        # `recourse verify` ends with 1 where a promise is broken.
        assert done.returncode in ((0, 1) if "verify" in words else (0,)), done.stderr
    counted = json.loads(done.stdout)
    assert counted["model"]["version"] == "2"
    assert counted["still_valid"] + counted["broken"] == len([*told, *others])
    assert counted["still_valid"] > 0
    assert counted["broken"] > 0


def test_nothing_is_left_out() -> None:
    known = ("make ", "docker compose ", "curl ", ".venv/bin/")
    assert [line for line in COMMANDS if not line.startswith(known)] == []
