"""nginx in front of a service, as `docs/operations/nginx.conf` says, on a free port of this machine."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

CONFIGURATION = Path(__file__).parents[1] / "docs" / "operations" / "nginx.conf"

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
"""The program; None where it is missing."""


@contextmanager
def proxied(url: str, directory: Path) -> Iterator[str]:
    """The address of the proxy of a service."""
    assert NGINX
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = CONFIGURATION.read_text()
    for theirs, ours in (
        ("server recourse:8000;", f"server {urlsplit(url).netloc};"),
        ("listen 8000 ", f"listen 127.0.0.1:{port} "),
        ("/tmp/nginx", f"{directory}/nginx"),
        ("worker_processes auto;", "worker_processes 1; daemon off; user root;"),
    ):
        assert theirs in text
        text = text.replace(theirs, ours)
    (directory / "nginx.conf").write_text(text)
    log = directory / "error.log"
    with subprocess.Popen([NGINX, "-e", log, "-c", directory / "nginx.conf"], stderr=subprocess.DEVNULL) as process:
        try:
            _wait(port, process, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    while True:
        assert process.poll() is None, log.read_text()
        with socket.socket() as connection:
            if connection.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
