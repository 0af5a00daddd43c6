"""What bodies made to be large in memory cost the server, measured on a server of the test's own."""

import json
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from app.api.bodies import MOST_VALUES
from tests.conftest import NO_TLS
from tests.jobs.serving import Server
from tests.servers import Start, on_sqlite

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")

MB = 1_000_000

DEPTH = 150

LISTS = b",".join([b"[" * DEPTH + b"]" * DEPTH] * (MOST_VALUES // (DEPTH + 2)))
OBJECTS = b",".join([b'{"a":' * DEPTH + b"1" + b"}" * DEPTH] * (MOST_VALUES // (DEPTH + 2)))
NUMBERS = b",".join([b"1.5"] * (MOST_VALUES - 10))
HUGE = b",".join([b"[" * DEPTH + b"]" * DEPTH] * 190_000)
"""57 MB."""

WIDE = json.dumps({"applicant": {f"k{i}": i for i in range(9900)}}).encode()


def peak_bytes(server: Server) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])


@pytest.mark.release
@linux
@on_sqlite
def test_bodies_that_are_large_in_memory_cost_little(start: Start) -> None:
    server = start(RECOURSE_RUN_JOBS="false").ready()
    waits, ended = [0.0], threading.Event()

    def look() -> None:
        with httpx.Client(base_url=server.client.base_url, verify=NO_TLS, timeout=60) as client:
            while not ended.is_set():
                began = time.monotonic()
                assert client.get("/health/live").status_code == 200
                waits.append(time.monotonic() - began)
                time.sleep(0.01)

    def post(path: str, body: bytes, kind: str = "json") -> int:
        headers = {"content-type": f"application/{kind}"}
        return httpx.post(
            server.client.base_url.join(path), content=body, headers=headers, verify=NO_TLS, timeout=120
        ).status_code

    began = peak_bytes(server)
    with ThreadPoolExecutor(9) as pool:
        looking = pool.submit(look)
        try:
            for values in (LISTS, OBJECTS, NUMBERS, HUGE):
                batch = b'{"model":"loan","applicants":[' + values + b"]}"
                predict = b'{"records":[' + values + b"]}"
                sent = [("/recourse/batch", batch)] * 2 + [("/models/loan/predict", predict)] * 2
                assert {status.result() for status in [pool.submit(post, *one) for one in sent]} <= {202, 413, 422}
            assert peak_bytes(server) - began < 150 * MB
            lines = b'{"model":"loan"}\n' + b"\n".join([WIDE] * 400)
            assert len(lines) > 50 * MB
            sent = [("/recourse/batch", lines, "x-ndjson")] * 2
            assert {status.result() for status in [pool.submit(post, *one) for one in sent]} == {202}
        finally:
            ended.set()
        looking.result()
    assert peak_bytes(server) - began < 700 * MB
    assert max(waits) < 5.0
