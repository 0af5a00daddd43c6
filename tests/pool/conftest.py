"""A fork server of a test's own."""

import os
import signal

import pytest

from tests.conftest import until
from tests.processes import fork_servers, gone


@pytest.fixture
def own_fork_server() -> None:
    """The next child is a fork of a fork server that starts in this test, with its environment and standard files.

    Services that other tests share in this process lose their children, and replace them.
    """
    for pid in fork_servers(os.getpid()):
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: gone(pid))  # type: ignore[misc]
