"""The commands of docs/operations/recovery.md, as they are written there, on a service that was killed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.ledger.ledger import Ledger
from tests.api.asking import ask
from tests.jobs.serving import ROOT, database
from tests.ledger.test_servers import database_of
from tests.servers import Start

BLOCKS = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/operations/recovery.md").read_text(), re.M | re.S)

Shell = Callable[..., str]


@pytest.fixture
def shell(tmp_path: Path, loan_store: Path) -> Shell:
    """Runs the blocks that contain a text in a shell, in the directory of the service; what they print."""
    (tmp_path / "state").mkdir()
    (tmp_path / "var").symlink_to("state")
    shutil.copytree(loan_store, tmp_path / "models_store")
    paths = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    plain = {name: value for name, value in os.environ.items() if not name.startswith("RECOURSE_")}

    def run(text: str, *, port: int = 0, **variables: str) -> str:
        (block,) = (block for block in BLOCKS if text in block)
        done = subprocess.run(
            ["bash", "-euc", block.replace(":8000", f":{port}") + '\nfor v in backup old; do echo "$v=${!v-}"; done'],
            cwd=tmp_path, env=plain | {"PATH": paths} | variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    for tool in ("sqlite3", "curl", "bash"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return run


def said(name: str, output: str) -> str:
    """The value of a variable of the shell at the end."""
    (value,) = re.findall(rf"^{name}=(.*)$", output, re.M)
    return str(value)


@pytest.mark.parametrize("start", ["sqlite"], indirect=True)
@pytest.mark.parametrize("way", [pytest.param("sqlite3 -readonly", marks=pytest.mark.release), "python -c"])
def test_a_restored_ledger_holds_what_it_held_and_what_was_erased_is_erased_again(
    start: Start, shell: Shell, tmp_path: Path, way: str
) -> None:
    server = start().ready()
    kept, erased = ask(server.client)["id"], ask(server.client)["id"]
    backup = said("backup", shell("mkdir -p"))
    for _ in range(2):  # once more on the same day
        shell("mkdir -p")
        shell(way, backup=backup)
    with database_of(server) as engine:
        head = Ledger(engine).prove().head
    assert sorted(path.name for path in (tmp_path / backup).iterdir()) == ["ledger.sqlite", "models_store.tar"]
    assert server.client.delete(f"/recourse/{erased}").status_code == 200
    later = ask(server.client)["id"]
    server.kill()
    assert (tmp_path / "var" / "ledger.sqlite-wal").stat().st_size > 0, "the log of the old ledger is still there"

    shutil.rmtree(tmp_path / "models_store" / "loan")
    assert "loan@1" in shell("models list", backup=backup)
    restored = shell("mktemp", backup=backup, head=head)
    assert "The chain holds: 2 entries" in restored
    server = start().ready()
    assert [server.client.get(f"/recourse/{one}").status_code for one in (kept, erased, later)] == [200, 200, 404]
    shell("curl", backup=backup, old=said("old", restored), KEY="none", port=server.client.base_url.port or 0)
    assert [server.client.get(f"/recourse/{one}").status_code for one in (kept, erased)] == [200, 410]


@pytest.mark.parametrize("start", ["postgres"], indirect=True)
def test_a_database_of_postgresql_is_restored(start: Start, shell: Shell, tmp_path: Path) -> None:
    if shutil.which("pg_dump") is None:
        pytest.skip("pg_dump is not installed")
    server = start().ready()
    given = ask(server.client)["id"]
    shell("pg_dump", backup=str(tmp_path), RECOURSE_DATABASE_URL=server.database)
    server.stop()
    with database() as empty:
        told = shell("pg_restore", backup=str(tmp_path), RECOURSE_DATABASE_URL=empty)
        assert "The chain holds: 1 entries" in told
        again = start(RECOURSE_DATABASE_URL=empty).ready()
        assert again.client.get(f"/recourse/{given}").status_code == 200
        again.stop()
