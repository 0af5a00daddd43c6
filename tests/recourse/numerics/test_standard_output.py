"""Silence of compiled code, which costs nobody else a line."""

import subprocess
import sys
from textwrap import dedent

PROGRAM = """
import os, threading
from app.recourse.numerics.standard_output import silent

{threads}
with silent():
    os.write(1, b"meanwhile\\n")
os.write(1, b"afterwards\\n")
"""


def written(threads: str) -> str:
    """What a program of its own writes; the tests have threads."""
    program = PROGRAM.format(threads=dedent(threads))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


def test_nothing_is_written_meanwhile_and_all_of_it_afterwards() -> None:
    assert written("") == "afterwards\n"


def test_what_another_thread_may_write_is_not_lost() -> None:
    threads = """
        ready = threading.Event()
        threading.Thread(target=ready.wait, daemon=True).start()
    """
    assert written(threads) == "meanwhile\nafterwards\n"


def test_a_process_without_standard_output_goes_on() -> None:
    assert written("os.close(1); os.write = lambda *_: 0") == ""
