"""Builds and runs the service."""

import asyncio
import os
import platform
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress

import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI

from app import __version__
from app.api.middleware import LARGEST_HEAD
from app.api.openapi import http_api, worker_api
from app.errors import StateUnusable
from app.jobs.kinds import JOB_KINDS, JobKind
from app.keys.access import refuse_open
from app.keys.keys import Keys
from app.observability import configure_logging, log
from app.service import Service
from app.settings import Settings, unknown_settings
from app.store.migrate import opened
from app.store.state import require_state
from app.tracing import send_spans

STARTUP_FAILED = 3
"""Exit code, as uvicorn has it."""

IDLE_S = 60
"""A connection that is idle for so long between two requests is closed; longer than a proxy keeps it."""

COOKIES_MENDED = {11: (3, 11, 10), 12: (3, 12, 6)}
"""The first releases of Python whose parser of cookies is not quadratic (CVE-2024-7592), by their minor version."""

OTHER_FILES = 256
"""Open files that are no connections: the databases, child processes, the log."""


def create_app(settings: Settings | None = None, kinds: Mapping[str, JobKind] = JOB_KINDS) -> FastAPI:
    """The HTTP application of the service; its child processes start and end with it."""
    service = Service(settings or Settings(), kinds)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.close()

    return http_api(service, lifespan)


class Server(uvicorn.Server):
    """A uvicorn server whose shutdown ends all requests that wait for a job; they would delay the shutdown."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the requests that wait for a job, then stop."""
        self._service.jobs.stop_waiting()
        await super().shutdown(sockets)


def outdated_python(version: tuple[int, int, int]) -> tuple[int, int, int] | None:
    """The release to which Python should be updated; None if `version` needs no update.

    An outdated release needs quadratic time to parse cookies.
    """
    mended = COOKIES_MENDED.get(version[1])
    return mended if mended is not None and version < mended else None


def begin(settings: Settings) -> None:
    """Prepare the process: log, warnings about settings and Python, state directory, and tracing."""
    configure_logging(settings.log_level)
    for name in unknown_settings(os.environ):
        log.warning("unknown-setting", variable=name)
    if (needed := outdated_python(sys.version_info[:3])) is not None:
        release = ".".join(map(str, needed))
        log.warning("python-outdated", python=platform.python_version(), needed=release, detail="CVE-2024-7592")
    require_state(settings)
    if settings.traces_url is not None:
        send_spans(settings.traces_url, __version__)


def serve(settings: Settings) -> None:
    """Run the service until it receives a signal to stop.

    Raises `StateUnusable`; `Open` if other machines could use the service without a key.
    """
    begin(settings)
    refuse_open(settings, lambda: _any_key(settings))
    run(create_app(settings), settings)


def _any_key(settings: Settings) -> bool:
    try:
        with opened(settings) as engine:
            return bool(Keys(engine).list())
    except sa.exc.OperationalError:
        # The database is away; no request is authenticated until the keys can be read.
        return True
    except sa.exc.DBAPIError as error:
        raise StateUnusable(
            f"The API keys cannot be read: {error.orig}. Restore a backup of the database, or name another one with "
            "RECOURSE_STATE_DIR or RECOURSE_DATABASE_URL."
        ) from error


def run(app: FastAPI, settings: Settings) -> None:
    """Serve an application that `create_app` made; exit with `STARTUP_FAILED` if it does not start."""
    server = Server(server_config(app, settings), app.state.service)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILED)


def server_config(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """The configuration of uvicorn for an application that `create_app` made."""
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,  # replaced by our own line, without the query
        server_header=False,
        timeout_graceful_shutdown=settings.shutdown_s,
        # httptools collects a header of any length, and takes the trailers of a body for headers.
        http="h11",
        h11_max_incomplete_event_size=LARGEST_HEAD,
        ws="none",
        limit_concurrency=_affordable(settings.max_connections),
        timeout_keep_alive=IDLE_S,
    )


def _affordable(connections: int) -> int:
    """As many connections as this process may have open, once its own limit is raised as far as it may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OTHER_FILES
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    affordable = max(1, wanted - OTHER_FILES)
    if affordable < connections:
        log.warning("connections-lowered", connections=affordable, setting=connections, open_files=wanted)
    return affordable


def work(settings: Settings, kinds: Mapping[str, JobKind] = JOB_KINDS) -> None:
    """Compute jobs until the process receives a signal to stop.

    Raises `StateUnusable`. With a worker port, raises `Open` if other machines could use that port without a key.
    """
    begin(settings)
    if settings.worker_port is not None:
        refuse_open(settings, lambda: _any_key(settings))
    asyncio.run(_work(Service(settings.model_copy(update={"run_jobs": True, "port": settings.worker_port}), kinds)))


async def _work(service: Service) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    service.start(answers=False)
    async with _reporting(service):
        await stopping.wait()
    await service.close()
    log.info("worker-stopped")


@asynccontextmanager
async def _reporting(service: Service) -> AsyncIterator[None]:
    """Answers ``/health`` and ``/metrics`` of a worker, where it has a port."""
    if service.settings.worker_port is None:
        yield
        return
    server = _Reporter(server_config(worker_api(service), service.settings), service)
    serving = asyncio.get_running_loop().create_task(server.serve())
    try:
        yield
    finally:
        server.should_exit = True
        await serving


class _Reporter(Server):
    """Leaves signals to the worker."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers; the worker has its own."""
        yield
