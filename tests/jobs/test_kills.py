"""Workers and databases that are killed at random moments, and a worker that stands still: no row lost, none twice.

``TEST_KILLS=20 pytest -m release tests/jobs/test_kills.py -s`` prints what happened.
"""

import os
import random
import signal
import time
from pathlib import Path

import pytest

from app.jobs.presence import SILENT_S
from tests.conftest import until
from tests.jobs.serving import Server, Worker, own_postgres
from tests.jobs.test_batches import PATIENCE_S, each_exactly_once, rows, submit
from tests.processes import gone
from tests.servers import Start

pytestmark = pytest.mark.release

KILLS = int(os.environ.get("TEST_KILLS", "5"))

ROWS = 400
"""Of each batch: seconds of work for two processes."""

PAUSE_S = SILENT_S + 5.0


def settings_of(tmp_path: Path, store: Path, ledger: Path, **more: str) -> dict[str, str]:
    return {
        "RECOURSE_MODELS_STORE": str(store), "RECOURSE_LANES_SYNC": "1", "RECOURSE_LANES_BOUNDS": "1",
        "TEST_LEDGER": str(ledger), "RECOURSE_STATE_DIR": str(tmp_path / "state"), **more,
    }  # fmt: skip


def given(server: Server, address: str) -> int:
    """How many recourses the ledger holds of a batch."""
    job, found, cursor = address.rpartition("/")[2], 0, None
    while True:
        asked = {"job": job, "limit": "200"} | ({"cursor": cursor} if cursor else {})
        page = server.client.get("/recourse", params=asked).raise_for_status().json()
        found += len(page["recourse"])
        if (cursor := page["next_cursor"]) is None:
            return found


def finished(server: Server, addresses: list[str]) -> None:
    for address in addresses:
        until(lambda address=address: server.client.get(address).json()["finished_at"], within_s=3 * PATIENCE_S)
        each_exactly_once(server, address, rows(ROWS))
        assert given(server, address) == ROWS, "in the ledger, once each"


def report(what: str, began: float, addresses: list[str], ledger: Path) -> None:
    groups = ledger.read_text().split()[::2]
    print(
        f"\n{what}: {len(addresses) * ROWS} rows in {time.monotonic() - began:.0f} s, 0 lost, 0 stored twice;"
        f" groups computed {len(groups)}, needed {len(addresses) * ROWS // 20}"
    )


def test_a_server_killed_at_random_moments(start: Start, ledger: Path) -> None:
    """Alone on its database: with SQLite, and with PostgreSQL without a name of its own."""
    chance, began = random.Random(1), time.monotonic()
    server, addresses = start(TEST_LEDGER=str(ledger)).ready(), []
    for kills in range(KILLS):
        if kills % 10 == 0:
            addresses.append(submit(server, rows(ROWS)))
        time.sleep(chance.uniform(0.2, 2.5))
        pids = server.children()
        server.kill()
        until(lambda pids=pids: all(gone(pid) for pid in pids))
        server = start(TEST_LEDGER=str(ledger)).ready()
    finished(server, addresses)
    report(f"{KILLS} kills of the only server", began, addresses, ledger)
    server.stop()


def test_workers_killed_at_random_moments_and_one_that_stands_still(
    tmp_path: Path, loan_store: Path, ledger: Path
) -> None:
    """Two workers on a PostgreSQL of the test's own, which is killed as well."""
    chance, began = random.Random(2), time.monotonic()
    with own_postgres() as postgres:
        settings = settings_of(tmp_path, loan_store, ledger, RECOURSE_DATABASE_URL=postgres.address)
        server = Server(tmp_path, {**settings, "RECOURSE_RUN_JOBS": "false"}).ready()
        workers = [Worker(tmp_path, settings) for _ in range(2)]
        addresses = []
        try:
            for kills in range(KILLS):
                if kills % 5 == 0:
                    addresses.append(submit(server, rows(ROWS)))
                time.sleep(chance.uniform(0.2, 2.5))
                which = chance.randrange(2)
                workers[which].kill()
                workers[which] = Worker(tmp_path, settings)
                if kills in (1, 2, 3):
                    time.sleep(chance.uniform(0.2, 1.5))
                    postgres.kill()
                    postgres.run()
                    until(lambda: server.client.get("/jobs").status_code == 200, within_s=PATIENCE_S)
            addresses.append(submit(server, rows(ROWS)))
            # While it computes: others finish what it had begun, and then it wakes up.
            before = len(ledger.read_text().split())
            until(lambda: len(ledger.read_text().split()) > before, within_s=PATIENCE_S)
            os.kill(workers[0].pid, signal.SIGSTOP)
            time.sleep(PAUSE_S)
            os.kill(workers[0].pid, signal.SIGCONT)
            finished(server, addresses)
            report(f"{KILLS} kills of workers, 3 of PostgreSQL, one pause of {PAUSE_S:.0f} s", began, addresses, ledger)
        finally:
            for process in (server, *workers):
                process.end()
