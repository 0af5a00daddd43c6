"""A program that has read openapi.json asks a live server all it allows, and much that it does not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.keys.keys import Keys
from app.keys.scopes import Scope
from app.settings import Settings
from app.store.migrate import opened
from tests.conftest import DEMO_STORE, run

EXAMPLES = int(os.environ.get("TEST_CONTRACT_EXAMPLES", "3"))
"""Requests for each operation and check; a nightly run may try more."""

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, str]]:
    """The address of a service that asks for keys, and a key that opens everything."""
    for running in run(Settings(models_store=DEMO_STORE, lanes_sync=1, auth="required", rate_limit=0)):
        with opened(running.service.settings) as engine:
            key = Keys(engine).create("contract", [*Scope], datetime.now(UTC))
        yield running.url, key


@pytest.mark.slow
def test_every_answer_is_one_that_the_description_allows(server: tuple[str, str], tmp_path: Path) -> None:
    url, key = server
    # This server computes no jobs, so the events of one that exists would never end; `test_jobs.py` reads them.
    endless = "/jobs/{id}/events"
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(CONFIGURATION),
        "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {key}", "--checks", "all",
        "--phases", "fuzzing", "--max-examples", str(EXAMPLES), "--seed", "7", "--no-color",
        "--exclude-path", endless,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100 * EXAMPLES)
    assert done.returncode == 0, done.stdout[-5000:]
