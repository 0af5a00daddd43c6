"""Clients that generators make of openapi.json, without flags, ask a live server what its examples ask."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from app.api.examples import RECOURSE_EXAMPLES
from tests.conftest import Running

pytestmark = pytest.mark.release
"""`tests/api/test_contract.py` holds answers against openapi.json at every change."""

HERE = Path(__file__).parent
DESCRIPTION = str(HERE.parents[1] / "openapi.json")
TOOLS = Path(sys.prefix) / "generators" / "bin"
"""Apart from the service's own packages, as the generators ask for other versions of some of them."""

# The arguments that generate a Python client into a directory, and the script that asks with it.
TO_PYTHON = {
    "openapi-python-client": (
        ["generate", "--path", DESCRIPTION, "--overwrite", "--output-path"], ".",
        "generated_by_openapi_python_client.py",
    ),
    "openapi-generator-cli": (
        ["generate", "-i", DESCRIPTION, "-g", "python", "-o"], ".", "generated_by_openapi_generator.py"
    ),
    "datamodel-codegen": (
        ["--input", DESCRIPTION, "--input-file-type", "openapi", "--output"], "generated.py",
        "generated_by_datamodel_codegen.py",
    ),
}  # fmt: skip

Generated = Callable[[str], tuple[Path, str]]

NEEDS_JAVA = ("openapi-generator-cli",)


def generate(tool: str, *arguments: str | Path) -> str:
    """What a generator says that has ended well."""
    if not (TOOLS / tool).exists():
        pytest.skip(f"{tool} is not installed; `make generators` installs it")
    if tool in NEEDS_JAVA and shutil.which("java") is None:
        pytest.skip(f"{tool} needs Java")
    return run(TOOLS / tool, *arguments)


def run(*command: str | Path, generated: Path | None = None) -> str:
    path = f"{TOOLS}:/usr/local/bin:/usr/bin:/bin"  # openapi-python-client looks for ruff there
    env = {"PATH": path, "PYTHONPATH": str(generated or "")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Generated:
    """Where the client of a generator is, which is made once, and what the generator said."""

    @cache
    def of(tool: str) -> tuple[Path, str]:
        arguments, output, _ = TO_PYTHON[tool]
        folder = tmp_path_factory.mktemp("generated")
        return folder, generate(tool, *arguments, folder / output)

    return of


@pytest.mark.parametrize("tool", TO_PYTHON)
def test_a_generated_client_asks_for_recourse(tool: str, demo: Running, generated: Generated) -> None:
    folder, _ = generated(tool)
    script = TO_PYTHON[tool][2]
    for name in ("simple", "constrained", "plan", "noisy"):
        request = json.dumps(RECOURSE_EXAMPLES[name]["value"])
        said = run(TOOLS / "python", HERE / script, demo.url, request, generated=folder)
        assert said.splitlines()[0] == "found", name


def test_no_operation_is_left_out(generated: Generated) -> None:
    """What openapi-python-client cannot read it leaves out, with a warning: here bodies that may be JSON as well."""
    folder, said = generated("openapi-python-client")
    warnings = {line for line in said.splitlines() if line.startswith("WARNING")}
    assert warnings == {"WARNING parsing POST /recourse/batch within recourse."}
    paths = json.loads(Path(DESCRIPTION).read_text(encoding="utf-8"))["paths"]
    operations = {operation["operationId"] for item in paths.values() for operation in item.values()}
    assert operations <= {path.stem for path in folder.glob("recourse_client/api/*/*.py")}


@pytest.mark.parametrize(("language", "suffix"), [("java", "java"), ("typescript-fetch", "ts")])
def test_other_languages_are_generated(language: str, suffix: str, tmp_path: Path) -> None:
    """The generator validates the description first, as no flag turns that off."""
    generate("openapi-generator-cli", "generate", "-i", DESCRIPTION, "-g", language, "-o", tmp_path)
    assert {"RecourseApi", "RecourseRequest", "RecourseAnswer"} <= {path.stem for path in tmp_path.rglob(f"*.{suffix}")}
