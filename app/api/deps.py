"""Dependencies of routes."""

from typing import Annotated, cast

from fastapi import Depends, Path, Request

from app.service import Service


def service_of(request: Request) -> Service:
    """The service that answers a request."""
    return cast(Service, request.app.state.service)


async def _service(request: Request) -> Service:
    return service_of(request)


ServiceDep = Annotated[Service, Depends(_service)]

RECOURSE_EXAMPLE = "/recourse/rec_01KAHQ0W3MZC9Y7T5X2V8RDB4E"
"""An address in the description."""

RecourseId = Annotated[
    str, Path(alias="id", openapi_examples={"recourse": {"value": RECOURSE_EXAMPLE.rpartition("/")[2]}})
]

ModelId = Annotated[
    str,
    Path(
        alias="id",
        description="Name of the model, without a version.",
        openapi_examples={"demo": {"value": "consumer-loan"}},
    ),
]

ModelName = Annotated[
    str,
    Path(
        alias="id",
        description="`id` for the newest active version, or `id@version`.",
        openapi_examples={"demo": {"value": "consumer-loan"}},
    ),
]
