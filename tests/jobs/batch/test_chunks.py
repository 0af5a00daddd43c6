"""The chunks of a batch in the database."""

import json
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from app.jobs.batch import chunks as module
from app.jobs.batch.chunks import CHUNK, LEAST, SHARES, Chunks
from app.jobs.batch.lines import GROUP, refusal, refused
from app.store.engine import open_engine
from tests.store.conftest import url

__all__ = ["url"]


@pytest.fixture
def chunks(url: str) -> Iterator[Chunks]:
    engine = open_engine(url)
    found = Chunks(engine)
    found.create()
    yield found
    engine.dispose()


@pytest.mark.parametrize("children", [1, 3, 16])
@pytest.mark.parametrize("count", [1, LEAST, LEAST + 1, CHUNK, 4 * CHUNK, 4 * CHUNK + 1, 1234, 5000])
def test_chunks_are_all_rows_in_order_and_small_towards_the_end(chunks: Chunks, count: int, children: int) -> None:
    rows = [{"reference": str(i)} for i in range(count)]
    chunks.add("another", rows)
    number = chunks.add("job", iter(rows), children=children)
    taken = [chunks.take("job", i) for i in range(number)]
    assert [row for chunk in taken for row in chunk.rows] == rows
    for chunk, after in pairwise([*taken, None]):
        assert chunk is not None
        assert chunk.rows[0]["reference"] == str(chunk.first)
        # A child that has just begun it is not waited for longer than for a fair share of what was left.
        fair = (count - chunk.first) / children / SHARES
        assert len(chunk.rows) <= min(max(LEAST, fair + GROUP), CHUNK)
        assert after is None or LEAST <= len(chunk.rows) >= len(after.rows)
    assert number == chunks.count("job")
    assert chunks.progress(["job"]) == {"job": (0, count)}


def test_every_child_has_a_chunk_where_there_are_rows_enough(chunks: Chunks) -> None:
    assert chunks.add("job", [{}] * (16 * LEAST), children=16) == 16


def test_rows_that_fail_on_the_way_leave_nothing(chunks: Chunks) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield from [{}] * (5 * CHUNK)
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        chunks.add("job", rows())
    assert chunks.count("job") == 0


def test_others_write_while_the_rows_are_being_read(chunks: Chunks) -> None:
    chunks.add("another", [{}])

    def rows() -> Iterator[dict[str, str]]:
        yield from [{}] * (5 * CHUNK)
        chunks.delete(["another"])
        yield {"reference": "é\u2028"}

    number = chunks.add("job", rows())
    assert chunks.count("another") == 0
    assert chunks.progress(["job"]) == {"job": (0, 5 * CHUNK + 1)}
    assert chunks.take("job", number - 1).rows[-1] == {"reference": "é\u2028"}


def test_who_stored_first_has_decided(chunks: Chunks) -> None:
    chunks.add("job", [{}, {}])
    assert chunks.store("job", 0, ["a", "b"]) == ["a", "b"]
    assert chunks.store("job", 0, ["c", "d"]) == ["a", "b"]
    assert chunks.take("job", 0).lines == ["a", "b"]


LINES = [json.dumps({"id": f"rec_{name}", "applicant": name}, separators=(",", ":")) for name in "abc"]


def test_who_is_erased_is_neither_in_the_lines_nor_in_the_rows(chunks: Chunks) -> None:
    chunks.add("job", [{"applicant": name, "reference": name} for name in "abc"])
    chunks.store("job", 0, LINES)
    assert chunks.erase("job", "rec_b")
    # Cancelled before it was finished: the rows are still there.
    chunk = chunks.take("job", 0)
    assert [row.get("applicant") for row in chunk.rows] == ["a", None, "c"]
    assert [row.get("reference") for row in chunk.rows] == ["a", None, "c"]
    assert chunk.lines is not None
    assert [chunk.lines[0], chunk.lines[2]] == [LINES[0], LINES[2]]
    told = refusal(chunk.lines[1])
    assert told is not None
    assert told[0].code == "erased"
    chunks.finish("job", 0)
    assert chunks.erase("job", "rec_c")
    assert chunks.take("job", 0).rows == []
    assert not chunks.erase("another", "rec_a")


def test_two_erasures_at_once_are_both_kept(chunks: Chunks, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks.add("job", [{}] * 3)
    chunks.store("job", 0, LINES)
    other = threading.Thread(target=lambda: chunks.erase("job", "rec_c"))

    def refused_meanwhile(*asked: Any) -> str:
        if not other.ident:
            other.start()
            # The other one has all this time to come in between, unless it has to wait.
            other.join(0.5)
        return refused(*asked)

    monkeypatch.setattr(module, "refused", refused_meanwhile)
    chunks.erase("job", "rec_a")
    other.join(30)
    assert [refusal(line) is None for line in chunks.take("job", 0).lines or []] == [False, True, False]
