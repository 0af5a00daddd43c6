"""Silence of compiled code: shared by threads, and over when the last one leaves."""

import os
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from app.recourse.numerics.standard_output import silent


def test_nothing_is_written_meanwhile_and_all_of_it_afterwards(capfd: pytest.CaptureFixture[str]) -> None:
    together = Barrier(8)

    def write(line: bytes) -> None:
        with silent():
            together.wait()
            os.write(1, line)
            together.wait()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, [b"meanwhile\n"] * 8))
    os.write(1, b"afterwards\n")
    assert capfd.readouterr().out == "afterwards\n"


def test_a_process_without_standard_output_goes_on() -> None:
    usual = os.dup(1)
    os.close(1)
    try:
        with silent():
            pass
    finally:
        os.dup2(usual, 1)
        os.close(usual)
