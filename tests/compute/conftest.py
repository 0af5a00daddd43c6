"""A template of a test's own."""

from collections.abc import Iterator

import pytest

from app.compute import child_template
from app.compute.child_template import template


@pytest.fixture
def own_template() -> Iterator[None]:
    """The next child is a fork of a template that starts in this test, with its environment and standard files.

    Services that other tests share in this process keep theirs: as long as none of their children ends, none of them
    asks for the one of this test.
    """
    child_template._newest.cache_clear()
    yield
    template().end()
