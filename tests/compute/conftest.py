"""A template of a test's own."""

from collections.abc import Iterator

import pytest

from app.compute.child_template import template


@pytest.fixture
def own_template() -> Iterator[None]:
    """The next child is a fork of a template that starts in this test, with its environment and standard files."""
    template().end()
    yield
    template().end()
