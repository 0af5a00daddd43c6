"""The command line as people use it: in a process of its own."""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.registry.loan import ModelDirectory, make_linear

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-W", "error", "-m", "app.cli"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A store and a port of its own, and one child process."""
    settings = {
        "RECOURSE_MODELS_STORE": str(tmp_path / "store"),
        "RECOURSE_PORT": "0",
        "RECOURSE_LANES_SYNC": "1",
        "RECOURSE_STATE_DIR": str(tmp_path / "state"),
    }
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("RECOURSE_")}
    return inherited | settings | {"COLUMNS": "200"}


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def command(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, *map(str, arguments)], cwd=ROOT, env=environment | variables, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip

    return command


@pytest.fixture
def source(tmp_path: Path) -> ModelDirectory:
    return make_linear(tmp_path / "source")


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The sentence with which a command ended."""
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


# --- help ------------------------------------------------------------------------------------------------------------


def test_help_is_quick_and_names_the_commands(run: Run) -> None:
    code = (
        "import sys, app.cli\n"
        "heavy = {'numpy', 'scipy', 'cvxpy', 'torch', 'sklearn', 'fastapi', 'uvicorn', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    elapsed = []
    for _ in range(3):
        start = time.perf_counter()
        done = run("--help")
        elapsed.append(time.perf_counter() - start)
    assert min(elapsed) < 0.5
    assert done.returncode == 0
    for command in ("serve", "demo", "models", "openapi"):
        assert re.search(rf"^  {command} ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("arguments", [["models"], ["models", "register", "--help"], ["serve", "--help"], []])
def test_every_command_explains_itself(run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode in (0, 2)
    assert "Usage" in done.stdout + done.stderr


# --- models ----------------------------------------------------------------------------------------------------------


def test_a_models_life(run: Run, source: ModelDirectory) -> None:
    assert "No model is registered" in run("models", "list").stdout
    done = run("models", "register", source.write(title="Loan [bold]42[/bold]"))
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"Registered loan@1: accepts \d+ of 200 reference records\.\n", done.stdout)
    run("models", "register", source.write(version="2", rules=["amount <= 9 * income"]))
    listed = run("models", "list").stdout
    assert re.search(r"loan@1 +Loan \[bold\]42\[/bold\] +linear +\d{4}-\d\d-\d\d \d\d:\d\d +active *$", listed, re.M)
    assert re.search(r"loan@2 .* active, newest *$", listed, re.M)
    shown = run("models", "show", "loan").stdout
    assert "loan@2" in shown
    assert re.search(r"^ *age +integer +18 to 100 +years +increase *$", shown, re.M)
    assert "rule:         amount <= 9 * income" in shown
    assert run("models", "retire", "loan").stdout == "Retired loan@2.\n"
    assert re.search(r"loan@2 .* retired *$", run("models", "list").stdout, re.M)
    assert "(retired)" in run("models", "show", "loan@2").stdout
    assert "active models are loan@1" in refused(run("models", "show", "loan@3"))


def test_a_bad_model_is_refused_with_all_its_faults(run: Run, source: ModelDirectory, tmp_path: Path) -> None:
    source.records[3]["age"] = 12
    said = refused(run("models", "register", source.write(title=None, rules=["age <= wealth"])))
    for pointer in ("/title: is missing", "/rules/0: names wealth", "/reference/3/age: line 5: must be at least 18"):
        assert f"\n  {pointer}" in said
    assert not list((tmp_path / "store").iterdir())


def test_a_warning_is_told_but_the_model_is_registered(run: Run, source: ModelDirectory) -> None:
    done = run("models", "register", source.write(threshold=0.999999))
    assert done.returncode == 0
    assert done.stderr.startswith("Warning: The model accepts none of its reference records")


def test_a_pickle_needs_trust(run: Run, source: ModelDirectory) -> None:
    import pickle

    from sklearn.tree import DecisionTreeClassifier

    fitted = DecisionTreeClassifier().fit([[float(i)] * 8 for i in (-1, 1)], [0, 1])
    source.set_artifact(pickle.dumps(fitted), format="sklearn", path="m.pkl")
    assert "--trust-pickle" in refused(run("models", "register", source.write()))
    assert run("models", "register", source.path, "--trust-pickle").returncode == 0


def test_a_broken_version_is_listed_as_such(run: Run, source: ModelDirectory, tmp_path: Path) -> None:
    run("models", "register", source.write())
    (tmp_path / "store" / "loan" / "1" / "model.yaml").write_text("id: [")
    done = run("models", "list")
    assert re.search(r"loan@1 .* unusable *$", done.stdout, re.M)
    assert "loan@1 cannot be used: its manifest has faults" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["models", "register", "/nowhere"], "/nowhere/model.yaml cannot be read: No such file or directory"),
        (["models", "show", "../x"], 'The model "../x" is not registered; no model is active.'),
        (["models", "retire", "x"], 'The model "x" is not registered; no model is active.'),
        (["openapi", "--output", "/nowhere/openapi.json"], "No such file or directory: /nowhere/openapi.json"),
        (["serve", "--host", "192.0.2.1"], "192.0.2.1:0 cannot be listened on"),
        (["demo"], "The demo asks consumer-loan, which is not in"),
    ],
)
def test_what_a_user_can_cause_is_one_sentence(run: Run, arguments: list[str], sentence: str) -> None:
    assert sentence in refused(run(*arguments))


def test_a_state_that_cannot_be_kept_is_told_before_anything_starts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = refused(run("serve", RECOURSE_STATE_DIR=str(tmp_path / "file" / "state")))
    assert "RECOURSE_STATE_DIR" in told
    assert "Not a directory" in told


def test_a_wrong_setting_is_named(run: Run) -> None:
    assert refused(run("serve", RECOURSE_PORT="high")).startswith("RECOURSE_PORT: ")


# --- the service -----------------------------------------------------------------------------------------------------


def test_openapi_is_written(run: Run, tmp_path: Path) -> None:
    printed = run("openapi").stdout
    assert run("openapi", "--output", tmp_path / "openapi.json").stdout == ""
    assert (tmp_path / "openapi.json").read_text() == printed
    assert "/recourse" in json.loads(printed)["paths"]


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts commands that go on, and ends them."""
    started: list[subprocess.Popen[str]] = []

    def command(*arguments: str, **variables: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [*COMMAND, *arguments], cwd=ROOT, env=environment | variables, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )  # fmt: skip
        return started[-1]

    yield command
    for process in started:
        process.kill()
        process.communicate()


def taken_port() -> tuple[socket.socket, int]:
    taken = socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    return taken, taken.getsockname()[1]


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_taken_port_is_named(run: Run, command: str) -> None:
    taken, port = taken_port()
    with taken:
        said = refused(run(command, "--port", port))
    assert said.startswith(f"127.0.0.1:{port} cannot be listened on (Address already in use)")


def test_the_demo_answers_then_keeps_serving_until_interrupted(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    demo = start("demo", RECOURSE_MODELS_STORE=str(ROOT / "models_store"))
    assert demo.stdout
    said = ""
    while "Ctrl-C" not in said:
        line = demo.stdout.readline()
        assert line, demo.communicate()
        said += line
    assert re.search(r"It says no \(probability \d+%\)\.", said)
    assert re.search(r"Asked again, it says yes \(probability \d+%\) after this:\n    \w", said)
    curl = shlex.split(next(line for line in said.splitlines() if line.startswith("curl ")))
    assert curl[:2] == ["curl", "-s"]
    assert curl[3:] == ["-H", "Content-Type: application/json", "-d", curl[-1]]
    answer = httpx.post(curl[2], content=curl[-1], headers={"Content-Type": "application/json"}).json()
    assert answer["status"] == "found"
    assert all(change["text"] in said for change in answer["counterfactuals"][0]["changes"])
    docs = re.search(r"All of it to try out: (\S+/docs)", said)
    assert docs
    assert httpx.get(docs[1]).status_code == 200
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=20)
    assert demo.returncode == 0


def test_a_demo_without_an_answer_ends_with_a_sentence(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "models_store", tmp_path / "store")
    for weights in (tmp_path / "store").rglob("weights.safetensors"):
        weights.write_bytes(b"damaged")
    _, said = start("demo").communicate(timeout=60)
    assert said.splitlines()[-1].startswith("The demo failed: http://127.0.0.1:")
    assert "Traceback" not in said


def test_serve_serves_what_is_registered_meanwhile(
    start: Callable[..., subprocess.Popen[str]], run: Run, source: ModelDirectory
) -> None:
    taken, port = taken_port()
    taken.close()
    serve = start("serve", "--port", str(port))
    run("models", "register", source.write())
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            if httpx.get(f"{url}/health/ready").status_code == 200:
                break
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    assert httpx.get(f"{url}/models").json()["models"][0]["id"] == "loan"
    answer = httpx.post(f"{url}/models/loan/predict", json={"records": source.records[:2]}).json()
    assert len(answer["predictions"]) == 2
    serve.send_signal(signal.SIGTERM)
    _, log = serve.communicate(timeout=20)
    assert all(json.loads(line) for line in log.splitlines())
