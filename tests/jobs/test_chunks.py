"""The chunks of a batch in the database."""

from collections.abc import Iterator

import pytest

from app.jobs.chunks import CHUNK, LAST, Chunks
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


@pytest.mark.parametrize("count", [1, LAST, LAST + 1, CHUNK, 2 * CHUNK, 2 * CHUNK + 1, 3 * CHUNK, 1234])
def test_chunks_are_all_rows_in_order_and_small_towards_the_end(chunks: Chunks, count: int) -> None:
    rows = [{"reference": str(i)} for i in range(count)]
    chunks.add("another", rows)
    number = chunks.add("job", iter(rows))
    taken = [chunks.take("job", i) for i in range(number)]
    assert [row for chunk in taken for row in chunk.rows] == rows
    for chunk in taken:
        assert chunk.rows[0]["reference"] == str(chunk.first)
        assert len(chunk.rows) <= (LAST if chunk.first >= count - CHUNK else CHUNK)
    assert number == chunks.count("job") <= count / CHUNK + 2 * CHUNK / LAST
    assert chunks.progress(["job"]) == {"job": (0, count)}


def test_rows_that_fail_on_the_way_leave_nothing(chunks: Chunks) -> None:
    def rows() -> Iterator[dict[str, str]]:
        yield from [{}] * (5 * CHUNK)
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        chunks.add("job", rows())
    assert chunks.count("job") == 0


def test_who_stored_first_has_decided(chunks: Chunks) -> None:
    chunks.add("job", [{}, {}])
    assert chunks.store("job", 0, ["a", "b"]) == ["a", "b"]
    assert chunks.store("job", 0, ["c", "d"]) == ["a", "b"]
    assert chunks.take("job", 0).lines == ["a", "b"]
