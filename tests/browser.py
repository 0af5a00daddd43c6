"""A real browser for the tests of pages; they are skipped, with the reason, where there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.optional import library

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

ARGUMENTS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
"""The browser itself asks nobody for anything."""


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser of this machine, as Playwright drives it; none is ever downloaded."""
    playwright = library("playwright.sync_api")
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        pytest.skip(f"no Chromium here: install one of {', '.join(PROGRAMS)} (Debian: apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()
