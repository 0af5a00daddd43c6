"""Dependencies of routes."""

from typing import Annotated, Any, cast

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


def model_path(description: str) -> Any:
    """The path parameter `id` of a route, which names a model; the example in OpenAPI is the model of the demo."""
    return Path(alias="id", description=description, openapi_examples={"demo": {"value": "consumer-loan"}})


ModelId = Annotated[str, model_path("Name of the model, without a version.")]

ModelName = Annotated[str, model_path("`id` for the newest active version, or `id@version`.")]
