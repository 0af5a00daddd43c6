"""The jobs in the database: their parts, and how they end."""

import json
import random
import threading
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
import sqlalchemy as sa

from app.errors import InvalidRecord
from app.jobs import records as module
from app.jobs.database import migrate
from app.jobs.ids import _named, new_id
from app.jobs.job import BATCH, JobStatus
from app.jobs.lines import GROUP, refusal, refused
from app.jobs.records import CHUNK, LEAST, SHARES, Part, Records
from app.jobs.tables import jobs, metadata
from app.store.engine import open_engine
from tests.databases import url

__all__ = ["url"]


queued: list[tuple[str, int, str | None, bool]] = []
"""What was put into the queue since the test began."""


@pytest.fixture
def records(url: str) -> Iterator[Records]:
    engine = open_engine(url)
    metadata.create_all(engine)
    queued.clear()
    yield Records(engine, lambda _connection, *part: queued.append(part))
    engine.dispose()


def add(records: Records, rows: Iterable[dict[str, Any]] | None, *, children: int = 1, **columns: Any) -> str:
    """The id of a new batch, or without rows of a single job."""
    job: dict[str, Any] = {
        "id": new_id("job"), "kind": BATCH, "payload": {}, "timeout_s": 1.0 if rows is None else None, "detail": "full",
        "key": None, **columns,
    }  # fmt: skip
    records.submit(job, rows, children=children)
    return str(job["id"])


def taken(records: Records, job: str, number: int = 0) -> Part:
    part = records.take(job, number)
    assert part is not None
    return part


def progress(records: Records, job: str) -> tuple[int, int]:
    (found,) = records.load([job])
    return found.done, found.total


def test_a_closed_job_without_rows_ends_with_its_last_part(records: Records) -> None:
    job = {
        "id": new_id("job"), "kind": BATCH, "payload": {}, "timeout_s": None, "detail": "full", "key": None,
    }  # fmt: skip
    records.submit(job, [], closed=True)
    assert queued == [(job["id"], 0, None, False)]
    assert taken(records, str(job["id"])).rows == []
    records.store(str(job["id"]), 0, ["{}"])
    ended = records.finish(str(job["id"]), 0)
    assert ended is not None
    assert ended.status is JobStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("count", "children"),
    [(1, 3), (LEAST, 1), (LEAST + 1, 3), (CHUNK, 16), (4 * CHUNK, 1), (4 * CHUNK + 1, 3), (1234, 3), (5000, 16)],
)
def test_chunks_are_all_rows_in_order_and_small_towards_the_end(records: Records, count: int, children: int) -> None:
    rows = [{"reference": str(i)} for i in range(count)]
    add(records, rows)
    job = add(records, iter(rows), children=children)
    (found,) = records.load([job])
    parts = [taken(records, job, number) for number in range(found.parts)]
    assert [row for part in parts for row in part.rows] == rows
    for chunk, after in pairwise([*parts, None]):
        assert chunk is not None
        assert chunk.rows[0]["reference"] == str(chunk.first)
        # A child that has just begun it is not waited for longer than for a fair share of what was left.
        fair = (count - chunk.first) / children / SHARES
        assert len(chunk.rows) <= min(max(LEAST, fair + GROUP), CHUNK)
        assert after is None or LEAST <= len(chunk.rows) >= len(after.rows)
    assert queued[-found.parts :] == [(job, number, None, False) for number in range(found.parts)]
    assert progress(records, job) == (0, count)


def test_every_child_has_a_chunk_where_there_are_rows_enough(records: Records) -> None:
    (found,) = records.load([add(records, [{}] * (16 * LEAST), children=16)])
    assert found.parts == 16


def test_rows_that_fail_on_the_way_leave_nothing(records: Records) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield from [{}] * (5 * CHUNK)
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        add(records, rows())
    assert records.newest(10) == []
    assert queued == []


def test_others_write_while_the_rows_are_being_read(records: Records) -> None:
    another = add(records, [{}])

    def rows() -> Iterator[dict[str, str]]:
        yield from [{}] * (5 * CHUNK)
        records.delete([another])
        yield {"reference": "é\u2028"}

    job = add(records, rows())
    assert [found.id for found in records.newest(10)] == [job]
    assert progress(records, job) == (0, 5 * CHUNK + 1)
    (found,) = records.load([job])
    assert taken(records, job, found.parts - 1).rows[-1] == {"reference": "é\u2028"}


def test_who_stored_first_has_decided(records: Records) -> None:
    job = add(records, [{}, {}])
    assert records.store(job, 0, ["a", "b"]) == ["a", "b"]
    assert records.store(job, 0, ["c", "d"]) == ["a", "b"]
    assert taken(records, job).lines == ["a", "b"]
    assert records.finish(job, 0) is not None
    assert records.store(job, 0, ["c", "d"]) is None
    assert records.lines(job, 0) == "a\nb\n"


def test_a_part_counts_once_and_the_last_one_ends_the_job(records: Records) -> None:
    job = add(records, [{}] * (2 * LEAST), children=2)
    assert records.finish(job, 0) is None, "nothing is stored"
    for number in range(2):
        assert taken(records, job, number).attempts == 1
        records.store(job, number, ["{}"] * LEAST)
    assert records.finish(job, 1, 3) is None
    assert records.finish(job, 1, 3) is None
    assert progress(records, job) == (LEAST, 2 * LEAST)
    ended = records.finish(job, 0, 4)
    assert ended is not None
    assert (ended.status, ended.done, ended.refused, ended.error) == (JobStatus.SUCCEEDED, 2 * LEAST, 7, None)
    assert records.take(job, 0) is None
    assert (records.fail(job, InvalidRecord()), records.cancel(job)) == (None, None)


def test_a_batch_without_any_answer_has_failed(records: Records) -> None:
    job = add(records, [{}] * 2)
    records.store(job, 0, ["{}"] * 2)
    ended = records.finish(job, 0, 2)
    assert ended is not None
    assert (ended.status, ended.outcome, ended.refused) == (JobStatus.FAILED, "no-row-answered", 2)


@pytest.mark.parametrize("end", [Records.cancel, lambda records, job: records.fail(job, InvalidRecord())])
def test_nothing_is_stored_of_a_job_that_has_ended(records: Records, end: Any) -> None:
    job = add(records, [{}] * 2)
    assert taken(records, job).attempts == 1
    assert end(records, job) is not None
    assert records.take(job, 0) is None
    assert records.store(job, 0, ["a", "b"]) is None
    assert records.unfinished_parts(job) == [0]


def test_a_single_job_is_a_batch_of_one_part(records: Records) -> None:
    job = add(records, None, payload={"a": "é\u0000"}, key="mine")
    assert queued == [(job, 0, "mine", True)]
    part = taken(records, job)
    assert (part.rows, part.payload, part.timeout_s) == ([], {"a": "é\u0000"}, 1.0)
    records.note_progress(job, 2, 5)
    assert progress(records, job) == (2, 5)
    assert [taken(records, job).attempts for _ in range(3)] == [2, 3, 4]
    records.store(job, 0, ["{}"])
    ended = records.finish(job, 0)
    assert ended is not None
    assert (ended.done, ended.total, ended.refused) == (5, 5, None)


def test_who_submits_the_same_id_again_changes_nothing(records: Records) -> None:
    job = add(records, [{}, {}])
    (before,) = records.load([job])
    add(records, [{}] * 3, id=job)
    assert records.load([job]) == [before]
    assert len(queued) == 1


LINES = [json.dumps({"id": f"rec_{name}", "applicant": name}, separators=(",", ":")) for name in "abc"]


def test_who_is_erased_is_neither_in_the_lines_nor_in_the_rows(records: Records) -> None:
    job = add(records, [{"applicant": name, "reference": name} for name in "abc"])
    single = add(records, None, about="rec_b")
    records.store(job, 0, LINES)
    assert set(records.holding("rec_b")) == {job, single}
    assert not records.erase(single, "rec_b")
    assert records.erase(job, "rec_b")
    assert records.holding("rec_b") == [single]
    # Before it was finished: the rows are still there.
    chunk = taken(records, job)
    assert [row.get("applicant") for row in chunk.rows] == ["a", None, "c"]
    assert [row.get("reference") for row in chunk.rows] == ["a", None, "c"]
    assert chunk.lines is not None
    assert [chunk.lines[0], chunk.lines[2]] == [LINES[0], LINES[2]]
    told = refusal(chunk.lines[1])
    assert told is not None
    assert told[0].code == "erased"
    records.finish(job, 0)
    assert records.erase(job, "rec_c")
    assert "rec_c" not in records.lines(job, 0)
    assert records.unfinished_parts(job) == []
    assert not records.erase("another", "rec_a")


def test_two_erasures_at_once_are_both_kept(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    job = add(records, [{}] * 3)
    records.store(job, 0, LINES)
    other = threading.Thread(target=lambda: records.erase(job, "rec_c"))

    def refused_meanwhile(*asked: Any) -> str:
        if not other.ident:
            other.start()
            # The other one has all this time to come in between, unless it has to wait.
            other.join(0.5)
        return refused(*asked)

    monkeypatch.setattr(module, "refused", refused_meanwhile)
    records.erase(job, "rec_a")
    other.join(30)
    assert [refusal(line) is None for line in taken(records, job).lines or []] == [False, True, False]


# --- looking ---------------------------------------------------------------------------------------------------------


def test_every_search_finds_what_a_plain_filter_finds(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of random jobs, some of which were stored long after their ids were made, by random filters."""
    rng = random.Random(5)
    clock = 1_900_000_000_000
    monkeypatch.setattr(module, "_now_ms", lambda: clock)
    for _ in range(60):
        clock += rng.choice([0, 1, 250, 90_000])
        made = clock - rng.choice([0, 0, 3, 200_000])
        job = {"kind": rng.choice(["recourse", "audit"]), "model": rng.choice(["loan", "card", None])}
        job |= {"version": job["model"] and rng.choice("12"), "key": rng.choice(["k1", "k2"])}
        name = add(records, None, id=_named("job", made << 80 | rng.getrandbits(80)), **job)
        if rng.random() < 0.4:
            records.cancel(name)
    every = records.newest(100)
    assert [job.id for job in every] == sorted((job.id for job in every), reverse=True)
    moments = [every[i].created_at + timedelta(milliseconds=ms) for i in (5, 20, 40) for ms in (-0.5, 0, 0.5, 1)]
    choices: dict[str, list[Any]] = {
        "kind": ["recourse", "audit"],
        "status": ["queued", "cancelled"],
        "model": ["loan", "card"],
        "version": ["1", "3"],
        "key": ["k1"],
        "models": [{"loan"}, {"loan", "card"}, set()],
        "since": moments,
        "until": [*moments, datetime(1, 1, 1, tzinfo=UTC)],
        "before": [every[10].id, every[50].id],
    }
    plain = ("kind", "status", "model", "version", "key")
    for _ in range(300):
        asked = {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.3}
        expected = [
            job.id
            for job in every
            if all(getattr(job, name) == asked.get(name, getattr(job, name)) for name in plain)
            and ("models" not in asked or job.model in asked["models"])
            and ("since" not in asked or job.created_at >= asked["since"])
            and ("until" not in asked or job.created_at < asked["until"])
            and ("before" not in asked or job.id < asked["before"])
        ]
        assert [job.id for job in records.newest(7, **asked)] == expected[:7], asked


def test_the_table_of_the_release_before_is_completed(url: str) -> None:
    engine = open_engine(url)
    metadata.create_all(engine)
    with engine.begin() as connection:
        for index in ("jobs_model", "jobs_kind", "jobs_created"):
            connection.execute(sa.text(f"DROP INDEX {index}"))
        connection.execute(sa.text("ALTER TABLE jobs DROP COLUMN version"))
    for _ in range(2):
        migrate(url)
    found = sa.inspect(engine)
    assert "version" in {column["name"] for column in found.get_columns("jobs")}
    assert {index.name for index in jobs.indexes} == {index["name"] for index in found.get_indexes("jobs")}
    engine.dispose()
