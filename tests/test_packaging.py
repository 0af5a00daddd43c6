"""What a stranger meets first: the README's commands, the Makefile, the container, the pinned versions.

Building and starting the container takes minutes; `make test-image` does it.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from app.api.examples import APPLICANT
from app.keys.access import refuse_open
from app.recourse.solve import METHODS
from app.settings import Settings
from tests.conftest import Running

ROOT = Path(__file__).parents[1]
MAKE = shutil.which("make")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines() if line.strip()]

ELSEWHERE = {"docker compose up --build": "tests/image/run"}
"""Commands of the README that this file does not run: where they are run."""


# --- README ----------------------------------------------------------------------------------------------------------


def curl() -> tuple[str, dict[str, str], bytes]:
    """Path, headers and body of the README's question."""
    (command,) = [command for command in COMMANDS if command.startswith("curl ")]
    program, silent, url, header, stated, data, body = shlex.split(command)
    assert (program, silent, header, data) == ("curl", "-s", "-H", "-d")
    name, _, value = stated.partition(": ")
    return url.removeprefix("http://127.0.0.1:8000"), {name: value}, (ROOT / body.removeprefix("@")).read_bytes()


def test_the_question_has_the_answer_that_the_readme_shows(demo: Running) -> None:
    path, headers, body = curl()
    answer = httpx.post(demo.url + path, headers=headers, content=body, timeout=30).json()
    (shown,) = blocks("json")
    assert_part(json.loads(shown), answer)


def assert_part(shown: Any, answer: Any) -> None:
    """What is shown is in the answer; numbers to the digits shown."""
    if isinstance(shown, dict):
        for key, value in shown.items():
            assert_part(value, answer[key])
    elif isinstance(shown, list):
        assert len(shown) == len(answer)
        for value, found in zip(shown, answer, strict=True):
            assert_part(value, found)
    else:
        assert answer == (pytest.approx(shown, abs=5e-4) if isinstance(shown, float) else shown)


def test_the_readme_asks_what_the_interactive_documentation_asks() -> None:
    assert json.loads(curl()[2])["applicant"] == APPLICANT


@pytest.mark.slow
def test_the_demo_needs_only_its_extra() -> None:
    """None of what `make run` leaves out is imported."""
    left_out = ("torch", "sklearn", "joblib", "pandas", "xgboost", "lightgbm", "onnx", "onnxruntime", "cvxpy")
    check = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name in {left_out!r}: raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from app.registry.registry import Registry\n"
        "model = Registry('models_store').find('consumer-loan').load()\n"
        "print(model.black_box.score_raw(model.reference.rows_raw[:1]))"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    extras = PROJECT["optional-dependencies"]
    assert set(extras["demo"]) <= set(extras["torch"])


def test_every_command_of_the_readme_is_tried() -> None:
    tried = ("curl ", ".venv/bin/")  # above
    for command in COMMANDS:
        if command.startswith("make "):
            assert command.split()[1] in targets()
        elif not command.startswith(tried):
            assert command in (ROOT / ELSEWHERE[command]).read_text()


def test_the_documents_list_the_methods() -> None:
    section = README.partition("## Methods")[2].partition("\n## ")[0]
    rows = [row.split("|") for row in section.splitlines() if row.startswith("| `")]
    named = {name: source for _, names, _, source, _ in rows for name in re.findall(r"`(\w+)`", names)}
    assert sorted(named) == sorted(METHODS)
    for name, source in named.items():
        assert METHODS[name].reference in source or "docs/methods.md" in source
        for document in ("docs/methods.md", "docs/choosing.md"):
            text = (ROOT / document).read_text()
            assert re.search(rf"^## {name}$|`{name}`", text, re.MULTILINE), f"{document}: {name}"


DOCUMENTS = ["README.md", "benchmarks/RESULTS.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]


def anchors(path: Path) -> set[str]:
    """The headings of a document, as GitHub links to them."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", path.read_text()):
        linked = path.parent / target if target else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor}"


def test_the_index_lists_every_document() -> None:
    index = ROOT / "docs" / "README.md"
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", index.read_text())
    linked = {(index.parent / target).resolve() for target in targets}
    assert {path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"} <= linked | {index}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_prose_is_wrapped(document: str) -> None:
    """At 120 columns, apart from tables, code and pictures."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "[![", "    "))]
    assert [line for line in lines if len(line) > 120] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tables_are_whole(document: str) -> None:
    """Each begins with its heading: a blank line inside ends it, and shows the other rows as text."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert [table for table in tables if not re.match(r".*\n\|(?:\s*:?-+:?\s*\|)+\n", table)] == []


# --- Makefile --------------------------------------------------------------------------------------------------------


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def make(directory: Path, *arguments: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run make where nothing but the programs in `path` can be found."""
    assert MAKE
    return subprocess.run(
        [MAKE, *arguments], cwd=directory, env={"PATH": str(path)}, capture_output=True, text=True, check=False
    )


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A checkout, and beside it `bin` with a shell and no Python."""
    if MAKE is None:
        pytest.skip("make is not installed")
    (tmp_path / "clients" / "python").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "clients/python/pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    for program in ("sh", "touch", "make"):
        found = shutil.which(program)
        assert found
        (tmp_path / "bin" / program).symlink_to(found)
    return tmp_path


def fake_python(bare: Path, script: str) -> None:
    (bare / "bin" / "python3").write_text(f"#!{shutil.which('sh')}\n{script}\n")
    (bare / "bin" / "python3").chmod(0o755)


def test_setup_says_when_python_is_too_old(bare: Path) -> None:
    fake_python(bare, 'if [ "$1" = -V ]; then echo Python 3.9.2; fi; exit 1')
    done = make(bare, "setup", path=bare / "bin")
    assert done.returncode != 0
    assert "recourse needs Python 3.11, 3.12 or 3.13; python3 is Python 3.9.2." in done.stderr


def test_setup_says_when_venv_is_missing(bare: Path) -> None:
    fake_python(bare, 'case "$2" in *ensurepip*) exit 1;; esac')
    done = make(bare, "setup", path=bare / "bin")
    assert done.returncode != 0
    assert "sudo apt-get install python3-venv" in done.stderr


def test_setup_does_nothing_the_second_time(bare: Path) -> None:
    (bare / ".venv").mkdir()
    (bare / ".venv" / ".installed").touch()
    done = make(bare, "setup", path=bare / "bin")
    assert done.returncode == 0, done.stderr
    assert "Nothing to be done" in done.stdout


def test_continuous_integration_runs_the_readme_test_command() -> None:
    assert re.search(r"^make check$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r'^CHECKED := -m "not release" --durations 20$', makefile, re.MULTILINE)
    assert re.search(
        r"^release-check:.*\n\t.* run-time-types\n\t\$\(MAKE\) test ARGS='-m \"\" ", makefile, re.MULTILINE
    )  # nothing is left out
    assert re.search(r"^check:.*\n\t\$\(MAKE\) --jobs 2 linters checked-tests$", makefile, re.MULTILINE)
    assert re.search(r"^checked-tests:.*\n\t\$\(MAKE\) test ARGS='\$\(CHECKED\)'", makefile, re.MULTILINE)


# --- versions --------------------------------------------------------------------------------------------------------


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def test_every_dependency_is_pinned_within_its_range() -> None:
    pinned = constraints()
    extras = PROJECT["optional-dependencies"].values()
    for text in [*PROJECT["dependencies"], *(text for extra in extras for text in extra)]:
        requirement = Requirement(text)
        assert Version(pinned[canonicalize_name(requirement.name)]) in requirement.specifier, text


def test_the_pins_hold_on_every_platform() -> None:
    assert not [name for name, version in constraints().items() if "+" in version or name.startswith("nvidia")]


def test_everything_installs_the_same_torch() -> None:
    pin = f"torch=={constraints()['torch']}"
    assert f"TORCH := {pin}\n" in (ROOT / "Makefile").read_text()
    assert set(re.findall(r"torch==[\d.]+", DOCKERFILE)) == {pin}


# --- container -------------------------------------------------------------------------------------------------------


def test_what_the_image_copies_is_sent_to_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[0] == "*"
    sources = [
        word.split("/")[0]
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
        if not word.startswith("--")
    ]
    assert {f"!{source}" for source in sources} == {line for line in ignored if line.startswith("!")}
    assert all((ROOT / source).exists() for source in sources)


def test_the_container_sets_only_settings_that_exist() -> None:
    names = set(re.findall(r"\b(RECOURSE_[A-Z_]+)=", DOCKERFILE))
    for part in ("recourse", "api", "worker"):
        names |= set(COMPOSE["services"][part]["environment"])
    names.discard("FORWARDED_ALLOW_IPS")  # uvicorn's
    assert names
    assert {name.removeprefix("RECOURSE_").lower() for name in names} <= set(Settings.model_fields)


IN_WORDS = {"lanes_sync", "lanes_bounds", "published_on", "rate_limit"}
"""Settings whose default follows from something else."""


def test_every_setting_is_documented_with_its_name_and_default() -> None:
    text = (ROOT / "docs" / "operations" / "installation.md").read_text()
    documented: dict[str, str] = {}
    for names, defaults in re.findall(r"^\| (`RECOURSE_[^|]+) \| ([^|]*) \|", text, re.MULTILINE):
        found, told = re.findall(r"`RECOURSE_([A-Z_]+)`", names), defaults.replace("`", "")
        each = told.split(", ") if told.count(", ") == len(found) - 1 else [told] * len(found)
        documented |= zip(map(str.lower, found), each, strict=True)
    assert documented.keys() == Settings.model_fields.keys()
    for name in documented.keys() - IN_WORDS:
        default = Settings.model_fields[name].default
        expected = (
            "empty" if default in (None, "", ()) else str(default).lower() if default in (True, False) else default
        )
        assert documented[name] == str(expected), name


def service() -> dict[str, Any]:
    return dict(COMPOSE["services"]["recourse"])


PROXIES = {"recourse": "proxy", "api": "cluster-proxy"}
"""What publishes the port of a service."""


def test_the_containers_are_reachable_through_the_proxy_from_this_machine_only_and_can_do_little() -> None:
    for name, proxy in PROXIES.items():
        one = COMPOSE["services"][proxy]
        assert one["ports"] == ["127.0.0.1:${RECOURSE_PORT:-8000}:8000"]
        assert one["depends_on"] == [name]
        assert "ports" not in COMPOSE["services"][name]
        mounted = one["volumes"][0].split(":")
        assert (ROOT / mounted[0]).is_file()
        assert mounted[1:] == ["/etc/nginx/nginx.conf", "ro"]
        assert one["command"][1:3] == ["-c", mounted[1]]
        for part in (one, COMPOSE["services"][name]):
            assert part["read_only"] is True
            assert part["cap_drop"] == ["ALL"]
    assert COMPOSE["services"]["api"]["networks"]["default"]["aliases"] == ["recourse"]  # as in nginx.conf
    assert re.search(r"^USER 10001", DOCKERFILE, re.MULTILINE)


@pytest.mark.parametrize("part", ["recourse", "api"])
def test_what_publishes_a_port_starts_without_a_key_and_says_where_it_is_published(part: str) -> None:
    one = COMPOSE["services"][part]
    environment = {key.removeprefix("RECOURSE_").lower(): value for key, value in one["environment"].items()}
    assert environment.pop("forwarded_allow_ips") == "*"  # nothing but the proxy reaches it
    environment.pop("database_url", None)  # its password is a variable of compose
    settings = Settings.model_validate(environment)
    refuse_open(settings, lambda: False)
    ports = COMPOSE["services"][PROXIES[part]]["ports"]
    assert all(port.startswith(f"{settings.published_on}:") for port in ports)


def test_the_cluster_is_a_server_and_two_workers_on_one_database() -> None:
    services = COMPOSE["services"]
    assert {name for name, one in services.items() if one.get("profiles") == ["cluster"]} == {
        "db", "api", "worker", "cluster-proxy",
    }  # fmt: skip
    api, worker = services["api"], services["worker"]
    assert (worker["command"], worker["deploy"]["replicas"]) == (["recourse", "worker"], 2)
    assert "ports" not in worker
    assert "ports" not in services["db"]
    assert api["environment"]["RECOURSE_RUN_JOBS"] == "false"
    assert "RECOURSE_EXECUTOR_ID" not in worker["environment"], "replicas would share it"
    for name in ("build", "read_only", "cap_drop", "security_opt", "mem_limit"):
        assert api[name] == worker[name] == service()[name]
    for name in ("RECOURSE_DATABASE_URL", "RECOURSE_LANES_BOUNDS"):
        assert api["environment"][name] == worker["environment"][name]


def test_volumes_are_what_the_image_may_write() -> None:
    mounted = {volume.split(":")[1] for volume in service()["volumes"]}
    declared = re.search(r"^VOLUME (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert declared
    assert mounted == set(json.loads(declared[1]))
