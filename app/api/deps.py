"""Dependencies of routes."""

from typing import Annotated, cast

from fastapi import Depends, Path, Request

from app.service import Service


def service_of(request: Request) -> Service:
    """The service that a request is for."""
    return cast(Service, request.app.state.service)


async def _service(request: Request) -> Service:
    return service_of(request)


ServiceDep = Annotated[Service, Depends(_service)]

ModelName = Annotated[
    str,
    Path(
        alias="id",
        description="`id` for the newest active version, or `id@version`.",
        openapi_examples={"demo": {"value": "consumer-loan"}},
    ),
]
