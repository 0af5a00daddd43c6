"""The client as a stranger has it: installed beside another FastAPI project that has a package `app` of its own."""

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests.api.asking import APPLICANT
from tests.jobs.serving import Server

CLIENT = Path(__file__).parents[2] / "clients" / "python"

PROGRAM = """\
import json
import sys

import app.main
from recourse_client import Client, ProblemError

url, model, applicant = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with Client(url) as client:
    answer = client.recourse({"model": model, "applicant": applicant})
    lines = list(client.batch({"model": model}, [{"applicant": applicant, "reference": "one"}]))
    try:
        client.recourse({"model": model, "applicant": {}})
    except ProblemError as error:
        code = error.code
print(json.dumps([app.main.NAME, answer["status"], [line["reference"] for line in lines], code]))
"""


@pytest.mark.release
def test_it_works_beside_a_project_with_a_package_of_the_same_name(server: Server, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "app").mkdir(parents=True)
    (project / "app" / "__init__.py").touch()
    (project / "app" / "main.py").write_text("NAME = 'another project'\n")
    (project / "ask.py").write_text(PROGRAM)
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(CLIENT)],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    if "No matching distribution found" in installed.stderr or "Connection" in installed.stderr:
        pytest.skip("no package index can be reached")
    assert installed.returncode == 0, installed.stderr
    asked = subprocess.run(
        [python, "ask.py", str(server.client.base_url), "loan", json.dumps(APPLICANT)],
        cwd=project, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout) == ["another project", "found", ["one"], "invalid-record"]


@pytest.mark.slow
def test_its_wheel_has_the_client_alone(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--wheel-dir", str(tmp_path), str(CLIENT)],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    if "No matching distribution found" in built.stderr or "Connection" in built.stderr:
        pytest.skip("no package index can be reached")
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("recourse_client-*.whl")
    entries = zipfile.ZipFile(wheel).infolist()
    assert {entry.filename.split("/")[0] for entry in entries} == {"recourse_client", "recourse_client-0.1.0.dist-info"}
    assert "recourse_client/py.typed" in {entry.filename for entry in entries}
    assert sum(entry.file_size for entry in entries) <= 100_000
