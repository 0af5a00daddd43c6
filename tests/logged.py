"""What the service logs, for tests that read it."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from app.observability import configure_logging


@contextmanager
def logged(monkeypatch: pytest.MonkeyPatch, *modules: str) -> Iterator[io.StringIO]:
    """What these modules log."""
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    root = logging.getLogger()
    before = root.handlers, root.level
    configure_logging()
    # A logger that was used before keeps its old configuration; take fresh ones.
    for module in modules:
        monkeypatch.setattr(f"{module}.log", structlog.get_logger())
    yield written
    structlog.reset_defaults()
    root.handlers, root.level = before
