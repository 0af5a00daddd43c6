"""Puts the service together."""

import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import uvicorn
from fastapi import FastAPI

from app.api.openapi import http_api
from app.jobs.state import require_state
from app.jobs.task import JOB_KINDS, JobKind
from app.observability import configure_logging
from app.service import Service
from app.settings import Settings

SHUTDOWN_S = 5
"""Requests in progress may take this much longer after the order to stop."""

STARTUP_FAILED = 3
"""Exit code, as uvicorn has it."""


def create_app(settings: Settings | None = None, kinds: Mapping[str, JobKind] = JOB_KINDS) -> FastAPI:
    """The application; its child processes start and end with it."""
    service = Service(settings or Settings(), kinds)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.close()

    app = http_api(lifespan, max_body_bytes=service.settings.max_body_bytes)
    app.state.service = service
    return app


class Server(uvicorn.Server):
    """Lets go whoever waits for a job when it is told to stop, or they would hold it up."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        self._service.jobs.stop_waiting()
        await super().shutdown(sockets)


def serve(settings: Settings, kinds: Mapping[str, JobKind] = JOB_KINDS) -> None:
    """Run the service until it is told to stop. Raises `StateUnusable`."""
    configure_logging()
    require_state(settings)
    run(create_app(settings, kinds), settings)


def run(app: FastAPI, settings: Settings) -> None:
    """Serve an application of `create_app`."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,  # has its own line, without the query
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    server = Server(config, app.state.service)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILED)
