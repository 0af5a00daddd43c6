"""Random tables whose truth is known: some as tests; `tests.registry.drafting.fuzz` tries as many as one likes."""

import pytest

from tests.registry.drafting.fuzz import attempt


def _tried(tables: range) -> list[str]:
    found = [attempt(seed) for seed in tables]
    assert "wrong" not in found
    return found


def test_no_random_table_registers_wrong_without_a_question() -> None:
    _tried(range(1_000, 1_008))


@pytest.mark.release
def test_few_random_tables_are_refused() -> None:
    found = _tried(range(60))
    assert sum(one.startswith("refused") for one in found) <= 6
