"""Temporary files: what is told of a disk is true of the disk."""

import errno
from pathlib import Path

import pytest

from app.errors import StateUnusable
from app.store.state import spooling


def test_a_disk_that_is_full_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateUnusable, match="No space left") as refused, spooling(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(tmp_path) in refused.value.detail


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), TimeoutError("late")])
def test_a_connection_that_ends_while_a_file_is_written_is_not_the_disks_fault(error: OSError) -> None:
    with pytest.raises(type(error)) as raised, spooling(None):
        raise error
    assert raised.value is error
