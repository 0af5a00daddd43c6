"""The command line as people use it: in a process of its own.

`run` forks one that has imported everything (`tests.forks`); `run_afresh` and `start` take the long way.
"""

import json
import math
import os
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import httpx
import pytest

from app.jobs.ids import new_id
from app.ledger.entries import entry_of
from app.ledger.ledger import Ledger
from app.questions.frame import Frame, identity
from app.questions.question import Question, request_of
from app.questions.use_cases import answer as answer_of
from app.recourse.actions.constraints import Constraints
from app.recourse.certificate_params import CertificateParams
from app.recourse.solve import METHODS
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from app.registry.trust import Trust
from app.remote_hosts import RemoteHost
from app.store.engine import open_engine
from tests.api.asking import APPLICANT
from tests.conftest import until
from tests.forks import forks
from tests.ledger.records import new_record
from tests.registry.drafting.lender import TRAINED, lender
from tests.registry.loan import ModelDirectory, make_linear
from tests.remote.serving import make_remote, shared

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
        return forks().run("app.cli", *arguments, env=environment | variables, strict=True)

    return command


@pytest.fixture
def run_afresh(environment: dict[str, str]) -> Run:
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


def children_s() -> float:
    """Computing time of the processes that have been waited for, which other work on the machine does not lengthen."""
    times = os.times()
    return times.children_user + times.children_system


def test_help_is_quick_and_names_the_commands(run_afresh: Run) -> None:
    code = (
        "import sys, app.cli.commands\n"
        "heavy = {'numpy', 'scipy', 'cvxpy', 'torch', 'sklearn', 'fastapi', 'uvicorn', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    before = children_s()
    done = run_afresh("--help")
    assert children_s() - before < 0.5
    assert done.returncode == 0
    for command in ("serve", "demo", "models", "verify", "replay", "notice", "db", "openapi"):
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
    assert re.match(r"Registered loan@1: accepts \d+ of 200 reference records\.\n", done.stdout)
    assert "compared with no scores of your own" in done.stdout
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


@pytest.mark.slow
def test_a_table_that_is_piped_has_a_line_for_each_row(run: Run, source: ModelDirectory) -> None:
    title = "A title that is rather long, as those of lenders tend to be, and longer than a line of a terminal is"
    run("models", "register", source.write(id="consumer-loan-of-the-second-kind", title=title))
    listed = run("models", "list", COLUMNS="60").stdout
    assert re.search(
        rf"consumer-loan-of-the-second-kind@1 +{title} +linear +\d{{4}}-\d\d-\d\d \d\d:\d\d +active", listed
    )


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


@pytest.mark.slow
def test_future_models_are_made_without_a_server(run: Run, source: ModelDirectory) -> None:
    source.label()
    done = run("models", "register", source.write())
    assert done.stderr == "To measure what its next training changes: recourse models rehearse loan@1\n"
    assert "futures:      none" in run("models", "show", "loan").stdout
    done = run("models", "rehearse", "loan", "--search", "4", "--held-back", "3")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("loan@1 has 4 future models for searches and 3 held back (retrained, linear)")
    assert "futures:      4 for searches and 3 held back, retrained" in run("models", "show", "loan").stdout
    stressed = ("models", "rehearse", "loan", "--search", "4", "--held-back", "3", "--stress")
    said = run(*stressed, "income=down").stdout
    assert "more are for the stress income=down" in said
    curve = re.search(r"in 100 if applicants stay as they are, and if they change, by strength: (.*) \(hardest", said)
    assert curve is not None, said
    shares = [float(point.split(": ")[1]) for point in curve[1].split(", ")]
    assert shares == sorted(shares, reverse=True)
    assert all(0.0 <= share <= 100.0 for share in shares)
    assert "retrained, and under the stress income=down" in run("models", "show", "loan").stdout
    assert "COLUMN=up or COLUMN=down" in run(*stressed, "income").stderr
    assert 'no stress along "housing", only along one of age, income' in refused(run(*stressed, "housing=up"))
    assert "The command must contain" in refused(run("models", "rehearse", "loan", "--command", "true"))
    assert "at most one of" in run("models", "rehearse", "loan", "--command", "x", "--source", "auto").stderr
    assert run("models", "rehearse", "other").returncode == 1


@pytest.mark.slow
def test_a_pickle_needs_trust(run: Run, source: ModelDirectory) -> None:
    import pickle

    from sklearn.tree import DecisionTreeClassifier

    fitted = DecisionTreeClassifier().fit([[float(i)] * 8 for i in (-1, 1)], [0, 1])
    source.set_artifact(pickle.dumps(fitted), format="sklearn", path="m.pkl")
    assert "--trust-pickle" in refused(run("models", "register", source.write()))
    done = run("models", "register", source.path, "--trust-pickle")
    assert done.returncode == 0
    assert "Servers and workers load it only with RECOURSE_TRUST_PICKLE=true." in done.stderr


@pytest.mark.slow
def test_a_broken_version_is_listed_as_such(run_afresh: Run, source: ModelDirectory, tmp_path: Path) -> None:
    run_afresh("models", "register", source.write())
    (tmp_path / "store" / "loan" / "1" / "model.yaml").write_text("id: [")
    done = run_afresh("models", "list")
    assert re.search(r"loan@1 .* unusable *$", done.stdout, re.M)
    assert "loan@1 cannot be used: its manifest has faults" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["models", "register", "/nowhere"],
            "/nowhere has no model.yaml, the manifest; recourse models draft writes one",
        ),
        (["models", "show", "../x"], 'The model "../x" is not registered; there is no model in /'),
        (["models", "retire", "x"], 'The model "x" is not registered; there is no model in /'),
        (["openapi", "--output", "/nowhere/openapi.json"], "No such file or directory: /nowhere/openapi.json"),
        (["serve", "--host", "192.0.2.1"], "(Cannot assign requested address); name an address"),
        (["demo"], "The demo needs consumer-loan, which is not in"),
    ],
)
def test_what_a_user_can_cause_is_one_sentence(run: Run, arguments: list[str], sentence: str) -> None:
    assert sentence in refused(run(*arguments))


@pytest.mark.parametrize("arguments", [["db", "verify"], ["keys", "list"]])
def test_a_database_that_cannot_be_reached_is_one_sentence(run: Run, arguments: list[str]) -> None:
    nowhere = "postgresql://me:secret@127.0.0.1:1/none"
    sentence = refused(run(*arguments, RECOURSE_DATABASE_URL=nowhere))
    assert "cannot be used: " in sentence
    assert "secret" not in sentence


def test_a_state_that_cannot_be_kept_is_told_before_anything_starts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    told = refused(run("serve", RECOURSE_STATE_DIR=str(tmp_path / "file" / "state")))
    assert "RECOURSE_STATE_DIR" in told
    assert "Not a directory" in told


def test_a_wrong_setting_is_named(run: Run) -> None:
    told = refused(run("serve", RECOURSE_PORT="high", RECOURSE_LANES_SYNC="0", RECOURSE_CORS_ORIGINS="a.example"))
    assert told.splitlines() == [
        "RECOURSE_PORT: must be a whole number",
        "RECOURSE_LANES_SYNC: must be at least 1",
        'RECOURSE_CORS_ORIGINS: "a.example" must be of the form https://host or https://host:port in lower case, or *',
    ]
    assert "RECOURSE_NOTICE_REGIME" in refused(run("serve", RECOURSE_NOTICE_REGIME="atlantis"))
    assert "RECOURSE_NOTICE_DIR" in refused(run("serve", RECOURSE_NOTICE_DIR="/nowhere"))


# --- the ledger ------------------------------------------------------------------------------------------------------


def promise(
    environment: dict[str, str], source: ModelDirectory, seeds: range, hosts: tuple[RemoteHost, ...] = ()
) -> list[str]:
    """Record recourse as the service does, by the model `loan@1`; the ids. Those of even seeds have expired."""
    store = Store(root=environment["RECOURSE_MODELS_STORE"], trust=Trust(hosts=hosts))
    model = Registry(Path(store.root), Trust(hosts=hosts)).register(source.write())
    engine = open_engine(f"sqlite:///{environment['RECOURSE_STATE_DIR']}/ledger.sqlite")
    method, ids = METHODS["robust_mpm"], []
    for seed in seeds:
        question = Question(
            factual_raw=model.space.read(APPLICANT), constraints=Constraints(), cost_weights={}, method=method.name,
            params=method.params(), certificate=CertificateParams(), seed=seed,
        )  # fmt: skip
        frame = Frame(
            id=new_id("rec"), reference=f"case {seed}", seed=seed, stored=True, method={}, model=identity(model),
            created_at="2026-01-01T00:00:00.000Z", expires_at=f"20{26 + 20 * (seed % 2)}-04-01T00:00:00.000Z",
        )  # fmt: skip
        answer = answer_of(ModelRef.of(store, model), "recourse", question, frame, math.inf, deadline_s=30.0)
        Ledger(engine).append([entry_of(answer, request_of(model.space, question, 1000))])
        ids.append(answer["id"])
    engine.dispose()
    return ids


@pytest.mark.slow
def test_the_life_of_a_ledger(run: Run, environment: dict[str, str], source: ModelDirectory, tmp_path: Path) -> None:
    assert run("db", "upgrade").stdout == "The ledger is now at 0008.\n"
    with closing(sqlite3.connect(tmp_path / "state" / "jobs.sqlite")) as database:
        made = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    assert made >= {"workflow_status", "jobs", "job_parts", "job_workers"}
    assert run("db", "upgrade").stdout == "The ledger is up to date (0008).\n"
    expired, running = promise(environment, source, range(2))
    proven = run("db", "verify").stdout
    assert proven.startswith("The chain holds: 2 entries, 0 of them erasures. Head: ")
    head = proven.split()[-1]
    same = f"{running} has the same answer, byte for byte, apart from id, times and timings.\n"
    assert run("replay", running).stdout == same
    doubted = run("db", "sweep", RECOURSE_RETENTION_DAYS="1")
    assert doubted.returncode == 1
    assert "more than a week ahead of the newest entry" in doubted.stderr
    swept = run("db", "sweep", "--trust-clock", RECOURSE_RETENTION_DAYS="1")
    assert swept.stdout.splitlines()[-1] == "Erased 1."
    assert "has been erased" in refused(run("replay", expired))
    assert run("db", "verify", "--head", head).stdout.startswith("The chain holds: 3 entries, 1 of them erasures.")
    assert "no entry of it has the hash f00" in refused(run("db", "verify", "--head", "f00"))
    with closing(sqlite3.connect(tmp_path / "state" / "ledger.sqlite")) as database, database:
        database.execute("update ledger_entries set version = '2' where number = 2")
    assert refused(run("db", "verify")) == f"Entry 2 ({running}) is not as it was written.\n"


@pytest.mark.slow
def test_a_letter_is_written_from_the_ledger(
    run: Run, environment: dict[str, str], source: ModelDirectory, tmp_path: Path
) -> None:
    run("db", "upgrade")
    (promised,) = promise(environment, source, range(1, 2))
    lender = {"RECOURSE_LENDER_NAME": "Northbank", "RECOURSE_LENDER_ADDRESS": "1 High Street; London"}
    assert "RECOURSE_LENDER_CONTACT" in refused(run("notice", promised, **lender))
    assert "DRAFT, NOT TO BE SENT" in run("notice", promised, "--draft", **lender).stdout
    lender["RECOURSE_LENDER_CONTACT"] = "credit@northbank.example"
    letter = run("notice", promised, **lender).stdout
    assert letter.startswith("Northbank\n1 High Street\nLondon\n\n1 January 2026\nReference: case 1, " + promised)
    assert "too high" in letter  # a reason that the answer does not state
    assert run("notice", promised, **lender).stdout == letter
    about = ("--addressee", "Ada Example; 1 Street", "--applied-on", "2026-03-01")
    addressed = run("notice", promised, *about, **lender).stdout
    assert "Ada Example\n1 Street\n" in addressed
    assert "Application of 1 March 2026" in addressed
    assert "words.de of" in refused(run("notice", promised, "--lang", "de", **lender)), "the model speaks English"
    assert run("notice", promised, "--lang", "de", "--draft", "--format", "html", **lender).stdout.startswith(
        '<!doctype html>\n<html lang="de"'
    )
    assert refused(run("notice", promised, "--lang", "xx")) == "--lang must be one of de, en\n"
    assert "no recourse with this id" in refused(run("notice", "rec_01KAHQ0W3MZC9Y7T5X2V8RDB4E"))
    (tmp_path / "general.en.txt").write_text("Dear {{nmae}}")
    faulty = refused(run("notice", promised, RECOURSE_NOTICE_DIR=str(tmp_path)))
    assert faulty.startswith("general.en.txt: line 1 names nmae; there are ")
    # A line of the log about an old Python may come first.
    (*_, last) = refused(run("serve", "--port", "0", RECOURSE_NOTICE_DIR=str(tmp_path))).splitlines(keepends=True)
    assert last == faulty


@pytest.mark.slow
def test_a_case_file_is_written_from_the_ledger(run: Run, environment: dict[str, str], source: ModelDirectory) -> None:
    run("db", "upgrade")
    (promised,) = promise(environment, source, range(1, 2))
    file = json.loads(run("case", promised).stdout)
    assert (file["id"], file["reference"], file["holds"]) == (promised, "case 1", True)
    assert file["reasons"]["reasons"], "the answer does not state them"
    assert file["proof"][0]["hash"] == run("db", "verify").stdout.split()[-1]
    page = run("case", promised, "--format", "html").stdout
    assert page.startswith("<!doctype html>")
    assert "<title>Case case 1</title>" in page
    assert "no recourse with this id" in refused(run("case", "rec_01KAHQ0W3MZC9Y7T5X2V8RDB4E"))


@pytest.mark.parametrize("arguments", [["db", "verify"], ["replay", "rec_none"], ["case", "rec_none"]])
def test_where_there_is_no_ledger_none_is_made(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    """A chain of no entries always holds, wherever it was looked for by mistake."""
    sentence = refused(run(*arguments, RECOURSE_STATE_DIR=str(tmp_path / "elsewhere")))
    assert sentence.startswith(f"There is no ledger at {tmp_path / 'elsewhere' / 'ledger.sqlite'}; RECOURSE_STATE_DIR")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.slow
def test_a_version_is_asked_about_promises_before_it_goes_live(
    run: Run, environment: dict[str, str], source: ModelDirectory, tmp_path: Path
) -> None:
    run("db", "upgrade")
    (promised,) = promise(environment, source, range(1, 2))
    assert run("models", "register", "--inactive", source.write(version="2", threshold=0.9)).returncode == 0
    assert run("models", "register", "--inactive", source.write(version="3", threshold=0.5)).returncode == 0
    assert "inactive" in run("models", "list").stdout
    kept = run("verify", "loan@3")
    assert (kept.returncode, json.loads(kept.stdout)["still_valid"]) == (0, 1)
    broken = run("verify", "loan@2", "--since", "2025-12-31", "--reissue", "--output", tmp_path / "broken.ndjson")
    assert (broken.returncode, json.loads(broken.stdout)["broken"]) == (1, 1)
    (line,) = map(json.loads, (tmp_path / "broken.ndjson").read_text().splitlines())
    assert (line["id"], line["reason"], line["reissue"]["status"]) == (promised, "refused", "found")
    assert json.loads(run("verify", "loan@2", "--until", "2025-12-31").stdout)["promises"] == 0
    one = run("verify", "loan@2", "--id", promised)
    assert (one.returncode, json.loads(one.stdout)["favourable"]) == (1, False)
    assert run("verify", "loan@3", "--id", promised).returncode == 0
    assert run("models", "activate", "loan@3").stdout == "Activated loan@3.\n"
    assert "There is no recourse" in refused(run("verify", "loan@3", "--id", "rec_none"))


def test_what_was_told_is_compared_with_the_next_version(
    run: Run, environment: dict[str, str], source: ModelDirectory, tmp_path: Path
) -> None:
    registry = Registry(Path(environment["RECOURSE_MODELS_STORE"]))
    registry.register(source.write())
    registry.register(source.write(version="2"), active=False)
    reference = registry.find("loan@1").load().reference
    records = [reference.space.record(row) for row in reference.rows_raw]
    assert "There is no ledger" in refused(run("models", "calibration", "loan"))
    run("db", "upgrade")
    engine = open_engine(f"sqlite:///{environment['RECOURSE_STATE_DIR']}/ledger.sqlite")
    for i, score in enumerate(reference.scores[:8] >= 0.0):
        part = {"applicant": records[i], "validity": {"future": {"probability": 0.85 if score else 0.25}}}
        answer = json.dumps({"method": {"name": "probe"}, "counterfactuals": [part]}).encode()
        Ledger(engine).append([new_record(i, answer=answer)])
    engine.dispose()
    done = run("models", "calibration", "loan")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] in (["all"], ["probe"])]
    kept = int((reference.scores[:8] >= 0.0).sum())
    assert [row[:7] for row in rows[:2]] == [
        ["all", "0.2", "to", "0.3", str(8 - kept), "0.250", "0.000"],
        ["all", "0.8", "to", "0.9", str(kept), "0.850", "1.000"],
    ]
    assert [row[0] for row in rows] == ["all", "all", "probe", "probe"]
    assert "Nothing is corrected." in done.stdout
    assert refused(run("models", "calibration", "none")) == "No version of none is registered.\n"


@pytest.mark.slow
def test_promises_of_a_remote_model_are_asked_where_it_is(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    server = shared()
    server.behave()
    run("db", "upgrade")
    (promised,) = promise(environment, make_remote(tmp_path / "source", server), range(1, 2), server.hosts)
    allowed = {"RECOURSE_REMOTE_HOSTS": f"http://127.0.0.1:{server.port}=127.0.0.1"}
    kept = run("verify", "loan@1", **allowed)
    assert (kept.returncode, json.loads(kept.stdout)["still_valid"]) == (0, 1), kept.stderr
    assert run("verify", "loan@1", "--id", promised, **allowed).returncode == 0
    assert "same answer" in run("replay", promised, **allowed).stdout
    assert "RECOURSE_REMOTE_HOSTS" in refused(run("replay", promised))


# --- the service -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
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
    assert not [line for line in said.splitlines() if line.startswith("{")]  # no log before the answer
    assert "says yes from a probability of 80%" in said
    assert re.search(r"Net monthly income +[\d,]+ EUR\n", said)
    assert re.search(r"Decision: no \(probability \d+%\)\.", said)
    assert re.search(r"Decision after these changes: yes \(probability \d+%\)\.\n    \w", said)
    curl = shlex.split(next(line for line in said.splitlines() if line.startswith("curl ")))
    assert curl[:2] == ["curl", "-s"]
    assert curl[3:] == ["-H", "Content-Type: application/json", "-d", curl[-1]]
    answer = httpx.post(curl[2], content=curl[-1], headers={"Content-Type": "application/json"}).json()
    assert answer["status"] == "found"
    assert all(change["text"] in said for change in answer["counterfactuals"][0]["changes"])
    assert re.search(r"If .*, at least \d+ in 100 retrained models accept this", said)
    pages = re.findall(r"(?:Open the page|Every request): (\S+)", said)
    assert [httpx.get(page).status_code for page in pages] == [200, 200]
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=20)
    assert demo.returncode == 0


@pytest.mark.release
def test_a_demo_where_everybody_needs_a_key_serves_and_says_so(start: Callable[..., subprocess.Popen[str]]) -> None:
    demo = start("demo", RECOURSE_MODELS_STORE=str(ROOT / "models_store"), RECOURSE_AUTH="required")
    assert demo.stdout
    said = ""
    while "Ctrl-C" not in said:
        line = demo.stdout.readline()
        assert line, demo.communicate()
        said += line
    assert "This service requires an API key" in said
    assert "The demo failed" not in said
    demo.send_signal(signal.SIGINT)
    demo.communicate(timeout=20)
    assert demo.returncode == 0


@pytest.mark.release
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

    def ready() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"{url}/health/ready").status_code == 200
        return False

    until(ready)
    assert httpx.get(f"{url}/models").json()["models"][0]["id"] == "loan"
    answer = httpx.post(f"{url}/models/loan/predict", json={"records": source.records[:2]}).json()
    assert len(answer["predictions"]) == 2
    serve.send_signal(signal.SIGTERM)
    _, log = serve.communicate(timeout=20)
    assert all(json.loads(line) for line in log.splitlines())


# --- API keys --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_key_is_made_listed_and_revoked(run: Run) -> None:
    assert run("keys", "list").stdout == "There is no key.\n"
    key = run("keys", "create", "backend", "--scope", "recourse", "--scope", "models").stdout.strip()
    assert re.fullmatch(r"rk_[0-9a-f]{12}_[A-Za-z0-9_-]{43}", key)
    key_id = key.split("_")[1]
    listed = run("keys", "list").stdout
    assert key_id in listed
    assert "backend" in listed
    assert "models recourse" in listed
    assert key.split("_", 2)[2] not in listed
    renewed = run("keys", "renew", key_id).stdout.strip()
    assert renewed.startswith(f"rk_{key_id}_")
    assert renewed != key
    assert run("keys", "revoke", key_id).stdout == f"Revoked {key_id}.\n"
    assert refused(run("keys", "revoke", "nobody")) == "There is no API key with this id.\n"


def test_a_key_is_limited_to_models_and_to_records_in_a_day(run: Run) -> None:
    run("keys", "create", "branch", "--scope", "recourse", "--model", "loan", "--model", "home", "--model-rows", "5000")
    listed = run("keys", "list").stdout
    assert "home loan" in listed
    assert "5,000" in listed
    sentence = refused(run("keys", "create", "branch", "--scope", "recourse", "--model", "loan@1"))
    assert sentence == "loan@1 is not the id of a model, without a version, such as consumer-loan.\n"


def test_a_scope_that_does_not_exist_is_named(run: Run) -> None:
    sentence = refused(run("keys", "create", "backend", "--scope", "everything"))
    assert sentence == "Unknown scope everything; the scopes are recourse, models, audit, scores, everyone.\n"


@pytest.mark.slow
def test_the_service_refuses_to_start_open_on_a_public_address(run: Run) -> None:
    assert "There is no API key" in run("serve", "--host", "0.0.0.0").stderr
    done = run("serve", "--host", "0.0.0.0", RECOURSE_AUTH="off")
    assert done.returncode == 1
    assert "RECOURSE_AUTH=off" in done.stderr


def test_the_service_does_not_start_on_a_public_address_with_a_damaged_database(run: Run, tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(b"damaged " * 1000)
    sentence = refused(run("serve", "--host", "0.0.0.0", RECOURSE_STATE_DIR=str(tmp_path)))
    assert "file is not a database" in sentence
    assert "Restore a backup" in sentence


# --- drafts ----------------------------------------------------------------------------------------------------------


def test_a_draft_is_written_tried_and_registered(run: Run, tmp_path: Path) -> None:
    trained = TRAINED["linear"]()
    data = trained.lender.write(tmp_path / "loans.csv")
    model = trained.write(tmp_path)
    out = tmp_path / "loan"
    done = run("models", "draft", data, "--model", model, "--label", "outcome", "--favourable", "good", "--out", out)
    untitled = "Warning: Letters in en are refused where they would state what model.yaml has no words for: title\n"
    assert (done.returncode, done.stderr) == (0, untitled), "a draft's title is the id"
    assert "It registers: accepts " in done.stdout
    assert f"Next: recourse models try {out}" in done.stdout
    done = run("models", "try", out)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("loan@1 would register: 4 features; accepts ")
    assert len(re.findall(r"^Record \d+: no \(probability <?\d+%\)\. \(\d\.\d\d s\)$", done.stdout, re.MULTILINE)) == 5
    assert re.search(r"Then, in \d+(\.\d)? months: yes \(probability ", done.stdout)
    own = tmp_path / "scores.csv"
    own.write_text("\n".join(str(score + 0.5 * (i == 3)) for i, score in enumerate(trained.scores)))
    sentence = refused(run("models", "register", out, "--scores", own))
    assert "differ from the model's own in 1 of 1,000 records" in sentence
    done = run("models", "register", out, "--scores", own, "--score-tolerance", "0.6")
    assert done.stdout.startswith("Registered loan@1: accepts ")
    assert "The scores are the lender's: 1,000 compared" in done.stdout


def test_a_draft_without_a_model_says_what_comes_next(run: Run, tmp_path: Path) -> None:
    data = lender().write(tmp_path / "loans.csv")
    done = run("models", "draft", data, "--label", "outcome", "--favourable", "good", "--out", tmp_path / "loan")
    assert done.returncode == 0
    assert "comments in it ask for a decision" in done.stdout
    assert "It registers" not in done.stdout
    assert "Next: the same with --model FILE" in done.stdout
    assert "/artifact/format: must be 'linear'" in refused(run("models", "register", tmp_path / "loan"))
    assert "exists already; say --out" in refused(run("models", "draft", data, "--out", tmp_path / "loan"))


def test_trying_what_cannot_be_answered_fails(run: Run, source: ModelDirectory) -> None:
    done = run("models", "try", source.write(threshold=1e-9))
    assert done.returncode == 1
    assert "What looks odd:" in done.stdout
    assert "/threshold: must be above 0 and below 1" in refused(run("models", "try", source.write(threshold=7)))
