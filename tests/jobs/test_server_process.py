"""A real server process: what it leaves behind when it ends, however it ends."""

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.asking import APPLICANT, question
from tests.api.odd_model import LOOPS
from tests.conftest import NO_TLS, until
from tests.forks import Fork, forks
from tests.processes import gone, lane_children

pytestmark = pytest.mark.slow

get = partial(httpx.get, timeout=30, verify=NO_TLS)


@pytest.fixture
def server(request: pytest.FixtureRequest, models_store: Path, tmp_path: Path) -> Iterator[tuple[Fork, str]]:
    """A server in a process of its own, ready, and its address; the parameter is the number of its children."""
    lanes = getattr(request, "param", 1)
    environment = os.environ | {
        "RECOURSE_MODELS_STORE": str(models_store), "RECOURSE_TRUST_PICKLE": "true", "RECOURSE_PORT": "0",
        "RECOURSE_LANES_SYNC": str(lanes), "RECOURSE_STATE_DIR": str(tmp_path / "state"),
    }  # fmt: skip
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = forks().start("app.cli", ["serve"], env=environment, stderr=stderr)
    try:
        until(lambda: b"running on" in log.read_bytes())
        (line,) = (line for line in log.read_text().splitlines() if "running on" in line)
        url = json.loads(line)["event"].split()[3]
        until(lambda: get(f"{url}/health/ready").json().get("workers") == lanes)
        yield process, url
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask_for_ever(url: str) -> None:
    """Set a child to work on a question that it will not answer, in native code that holds the interpreter's lock."""
    loaded = question(model="odd", deadline_ms=60_000)
    until(lambda: httpx.post(f"{url}/recourse", json=loaded, timeout=60).status_code == 200)
    body: dict[str, Any] = question(model="odd", applicant={**APPLICANT, "age": LOOPS}, deadline_ms=60_000)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{url}/recourse", json=body, timeout=0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="only the Linux kernel ends children with their parent")
@pytest.mark.parametrize("server", [2], indirect=True)
def test_no_child_survives_a_killed_server(server: tuple[Fork, str]) -> None:
    process, url = server
    ask_for_ever(url)
    # While the other child loads its models, a third one stands by.
    until(lambda: len(lane_children(process.pid)) == 2)
    pids = lane_children(process.pid)
    process.kill()
    until(lambda: all(gone(pid) for pid in pids))


def test_a_server_that_is_told_to_stop_ends_with_its_children(
    server: tuple[Fork, str],
) -> None:
    process, url = server
    pids = lane_children(process.pid)
    assert httpx.post(f"{url}/recourse", json=question(deadline_ms=30_000), timeout=60).json()["status"] == "found"
    process.terminate()
    process.wait(60)
    until(lambda: all(gone(pid) for pid in pids))


def test_requests_in_flight_are_answered_before_the_server_ends(server: tuple[Fork, str]) -> None:
    process, url = server
    body = question(model="odd", applicant={**APPLICANT, "age": LOOPS}, deadline_ms=3_000)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(httpx.post, f"{url}/recourse", json=body, timeout=30)
        until(lambda: 'state="busy"} 1.0' in get(f"{url}/metrics").text)
        process.terminate()
        until(lambda: refused(url))
        assert process.poll() is None
        assert answer.result().json()["reason"] == "deadline"
    assert process.wait(60) == -signal.SIGTERM


def refused(url: str) -> bool:
    """Whether nobody listens there; a connection made while a server closes its door is cut off, which says less."""
    try:
        socket.create_connection((httpx.URL(url).host, httpx.URL(url).port), timeout=30).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_busy_server_stops_too(server: tuple[Fork, str]) -> None:
    process, url = server
    ask_for_ever(url)
    pids = lane_children(process.pid)
    process.terminate()
    process.wait(60)
    until(lambda: all(gone(pid) for pid in pids))


@pytest.mark.parametrize("server", [2], indirect=True)
def test_a_child_killed_at_work_costs_one_answer(server: tuple[Fork, str]) -> None:
    process, url = server
    ask_for_ever(url)
    # One that stood in while the model was loaded ends by itself.
    until(lambda: len(lane_children(process.pid)) == 2)
    before = set(lane_children(process.pid))
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    until(lambda: all(gone(pid) for pid in before))
    until(lambda: get(f"{url}/health/ready").json().get("workers") == 2)
    assert httpx.post(f"{url}/recourse", json=question(deadline_ms=30_000), timeout=60).json()["status"] == "found"
    assert not before & set(lane_children(process.pid))
