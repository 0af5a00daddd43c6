"""The commands ``recourse serve | worker | openapi``: run the service, and describe it."""

import errno
import socket
from pathlib import Path
from typing import Annotated

import typer

from app.cli.common import CommandError, read_settings

HostOption = Annotated[str | None, typer.Option("--host", help="Address to listen on; default: RECOURSE_HOST.")]
PortOption = Annotated[int | None, typer.Option("--port", help="Port to listen on; default: RECOURSE_PORT.")]


def serve(host: HostOption = None, port: PortOption = None) -> None:
    """Run the HTTP service."""
    settings = read_settings(host=host, port=port)
    refuse_taken(settings.host, settings.port)
    start_children()
    from app.main import serve as run

    run(settings)


def worker() -> None:
    """Run a worker, which computes jobs; any number of workers may share one RECOURSE_DATABASE_URL.

    With RECOURSE_WORKER_PORT the worker answers /health and /metrics.
    """
    settings = read_settings()
    if settings.worker_port is not None:
        refuse_taken(settings.host, settings.worker_port, "RECOURSE_WORKER_PORT")
    start_children()
    from app.main import work

    work(settings)


def refuse_taken(host: str, port: int, setting: str = "--port or RECOURSE_PORT") -> None:
    """Raise `CommandError` if no server can listen on this host and port.

    `setting` is what the message names for choosing another port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            no_address = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
            advice = (
                "name an address of this machine with --host or RECOURSE_HOST"
                if no_address
                else f"another program may be using it: choose a port with {setting}"
            )
            raise CommandError(f"{host}:{port} cannot be listened on ({error.strerror}); {advice}") from error


def start_children() -> None:
    """Start the fork server; it imports what child processes need, while this process imports what itself needs."""
    from app.pool.child import start_fork_server

    start_fork_server()


def openapi(
    output: Annotated[Path | None, typer.Option("--output", help="File to write; default: standard output.")] = None,
) -> None:
    """Write the OpenAPI description of the HTTP interface."""
    from app.api.openapi import render

    if output is None:
        typer.echo(render(), nl=False)
    else:
        output.write_text(render(), encoding="utf-8")
