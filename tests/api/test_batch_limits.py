"""Batches that would take all of the machine: refused in time, with a sentence, and without other callers waiting."""

import asyncio
import time
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request

from app.api import table_rows
from app.api.bodies import close_spooled, spooled
from app.api.table_rows import MOST_COLUMNS, CsvTable, timely
from app.errors import BodyTooLarge, StateUnusable
from app.main import create_app
from app.settings import Settings
from tests.api.asking import APPLICANT, problem
from tests.conftest import Running, small_files

CSV = {"Content-Type": "text/csv"}
NDJSON = {"Content-Type": "application/x-ndjson"}
PATH = "/recourse/batch?model=loan"


def table(headings: list[str], rows: int = 1) -> bytes:
    cells = {name: str(value) for name, value in APPLICANT.items()}
    lines = [headings] + [[cells.get(name, "1") for name in headings]] * rows
    return "\n".join(",".join(line) for line in lines).encode()


def test_150_000_headings_are_refused_at_once_with_the_limit(client: httpx.Client) -> None:
    """They took 200 seconds of processor time, while the batches of all other callers waited."""
    began = time.process_time()
    response = client.post(PATH, content=table([*APPLICANT, *(f"{i:x}" for i in range(150_000))]), headers=CSV)
    assert "at most 2,000" in problem(response, 422, "invalid-request")["detail"]
    assert time.process_time() - began < 2.0


def test_as_many_columns_as_allowed_are_read_in_time_that_grows_with_them_alone(client: httpx.Client) -> None:
    headings = [*APPLICANT, *(f"x{i}" for i in range(MOST_COLUMNS - len(APPLICANT)))]
    began = time.process_time()
    assert client.post(PATH, content=table(headings, rows=200), headers=CSV).status_code == 202
    assert time.process_time() - began < 5.0
    response = client.post(PATH, content=table([*headings, "one more"]), headers=CSV)
    problem(response, 422, "invalid-request")


def test_lines_are_not_counted_beyond_the_limit(running: Running) -> None:
    read = 0

    class Counted(BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            nonlocal read
            found = super().read1(size)
            read += len(found)
            return found

    file = Counted(table(list(APPLICANT), rows=300_000))

    assert CsvTable(file, running.service.models.find("loan").space.schema, 1000).count == 1001
    assert read < 1_000_000


def test_a_batch_that_takes_too_long_to_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_rows, "READING_S", 0.05)
    with pytest.raises(BodyTooLarge, match="send fewer applicants"):
        for _ in timely(iter(int, 1)):
            pass


@pytest.mark.parametrize("headers", [CSV, NDJSON])
def test_a_disk_that_is_full_is_unavailable_and_says_so(client: httpx.Client, headers: dict[str, str]) -> None:
    path = PATH if headers is CSV else "/recourse/batch"
    with small_files(2_000_000):
        response = client.post(path, content=(b"x" * 99 + b"\n") * 60_000, headers=headers)
    assert "cannot be stored" in problem(response, 503, "state-unusable")["detail"]
    assert client.get("/health/ready").status_code == 200


@pytest.mark.parametrize("size", [1_000, 2_000_500])
def test_the_last_bytes_that_are_written_late_are_no_internal_error(tmp_path: Path, size: int) -> None:
    """Called directly: a server would write its log where no file may become larger."""
    app = create_app(Settings(state_dir=tmp_path))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x" * 99 + b"\n", "more_body": next(left) > 1}

    async def store() -> None:
        request = Request({"type": "http", "app": app, "headers": []}, receive)
        try:
            await spooled(request)
        finally:
            close_spooled(request)

    left = iter(range(size // 100, 0, -1))
    with small_files(max(100, size - 500)), pytest.raises(StateUnusable, match="cannot be stored"):
        asyncio.run(store())
