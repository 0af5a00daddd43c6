"""Puts the service together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI

from app.api.openapi import http_api
from app.observability import configure_logging
from app.service import Service
from app.settings import Settings

SHUTDOWN_S = 5
"""Requests in progress may take this much longer after the order to stop."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; its child processes start and end with it."""
    service = Service(settings or Settings())

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.close()

    app = http_api(lifespan, max_body_bytes=service.settings.max_body_bytes)
    app.state.service = service
    return app


def serve(settings: Settings) -> None:
    """Run the service until it is told to stop."""
    configure_logging()
    uvicorn.run(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,  # has its own line, without the query
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
