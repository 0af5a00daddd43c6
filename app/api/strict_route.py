"""Routes that read JSON strictly: a body that is not exactly one JSON value is refused before any validation."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from starlette.routing import BaseRoute
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from app.api.authentication import SCHEME, admit
from app.api.error_docs import GATE, refusals
from app.api.errors import LONGEST_TOKEN, in_body
from app.api.idempotency import HEADER, PARAMETER, answer_once
from app.api.json_body import read_body
from app.api.media_type import JSON, media_type, require_plain
from app.api.spool import close_spooled
from app.errors import InvalidRequest, UnsupportedMediaType
from app.store.scopes import Scope

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Application = Callable[[Connection, Receive, Send], Coroutine[Any, Any, None]]


class StrictRoute(APIRoute):
    """A route that takes no query parameters it does not declare, and a body only in strict JSON.

    Every POST takes an `Idempotency-Key`. `guarded` makes routes that ask for an API key as well.
    """

    scopes: ClassVar[tuple[Scope, ...]] = ()
    """A key must have one of them; without any, no key is asked for."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        described: dict[str, Any] = {**(options.pop("openapi_extra", None) or {})}
        if self.scopes:
            described["security"] = [{SCHEME: [scope]} for scope in self.scopes]
            options["responses"] = {**refusals(path, *GATE), **(options.get("responses") or {})}
        if "POST" in (options.get("methods") or ()):
            described["parameters"] = [*described.get("parameters", []), PARAMETER]
        super().__init__(path, endpoint, openapi_extra=described, **options)

    def handler(self) -> Handler:
        """What is behind our own reading of query and body: the handler of FastAPI."""
        return super().get_route_handler()

    def get_route_handler(self) -> Handler:
        """The handler, behind our own reading of query and body."""
        handle = self.handler()
        declared = {field.alias for field in self.dependant.query_params}
        scopes = self.scopes
        required = self.body_field is not None and self.body_field.field_info.is_required()

        async def handle_strictly(request: Request) -> Response:
            caller = await admit(request, scopes) if scopes else ""
            _refuse_query(request, declared)
            if self.body_field is not None:
                await _refuse_form(request, required=required)
            try:
                if request.method == "POST" and HEADER in request.headers:
                    return await answer_once(request, caller, read_and_handle)
                return await read_and_handle(request)
            finally:
                close_spooled(request)

        async def read_and_handle(request: Request) -> Response:
            # Not before the database was asked for the key, since a value takes far more memory than its text.
            if self.body_field is not None:
                request = _ReadRequest(request, await request.body(), await _value(request, required=required))
            return await handle(request)

        return handle_strictly


class DirectRoute(StrictRoute):
    """A route of which FastAPI makes the description only, since its handler takes longer than all else in the server.

    The endpoint takes the body, and dependencies that need nothing but the request; it returns a `Response`. See
    `directly`.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.answer = self.get_route_handler()

    def handler(self) -> Handler:
        """Validate the body and call the endpoint."""
        endpoint: Callable[..., Awaitable[Response]] = self.endpoint
        ((body, schema),) = [(field.name, field.field_info.annotation) for field in self.dependant.body_params]
        dependencies: dict[str, Any] = {one.name: one.call for one in self.dependant.dependencies if one.name}

        async def handle(request: Request) -> Response:
            found = {body: _validated(schema, await request.json())}
            for name, dependency in dependencies.items():
                found[name] = await dependency(request)
            return await endpoint(**found)

        return handle


def directly(routes: Iterable[BaseRoute], others: Application) -> Application:
    """The routes that are direct without the framework's way to them, which takes longer than to read a request."""
    direct = {route.path: route for route in routes if isinstance(route, DirectRoute)}

    async def app(connection: Connection, receive: Receive, send: Send) -> None:
        posted = connection["type"] == "http" and connection["method"] == "POST"
        if not posted or (route := direct.get(connection["path"])) is None:
            await others(connection, receive, send)
            return
        connection["route"] = route
        response = await route.answer(Request(connection, receive, send))
        await response(connection, receive, send)

    return app


def guarded(*scopes: Scope, kind: type[StrictRoute] = StrictRoute) -> type[StrictRoute]:
    """Routes of a kind for callers whose key has one of the scopes."""
    return type("GuardedRoute", (kind,), {"scopes": scopes})


class _ReadRequest(Request):
    """A request whose body has been read and parsed."""

    def __init__(self, request: Request, body: bytes, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._read = body
        self._value = value

    async def body(self) -> bytes:
        return self._read

    async def json(self) -> Any:
        return self._value


def _validated(schema: Any, value: Any) -> BaseModel:
    """The body as its schema reads it. Raises what FastAPI raises, which has one handler."""
    try:
        read: BaseModel = schema.model_validate(value)
    except ValidationError as error:
        raise RequestValidationError(in_body(error), body=value) from None
    return read


async def _refuse_form(request: Request, *, required: bool) -> None:
    if required or await request.body():
        if media_type(request.headers) != JSON:
            raise UnsupportedMediaType
        require_plain(request)


async def _value(request: Request, *, required: bool) -> Any:
    return await read_body(request) if required or await request.body() else None


def _refuse_query(request: Request, declared: set[str]) -> None:
    if request.scope["query_string"] and (unknown := set(request.query_params) - declared):
        names = ", ".join(sorted({name[:LONGEST_TOKEN] for name in unknown})[:20])
        takes = f"only the query parameters {', '.join(sorted(declared))}" if declared else "no query parameters"
        raise InvalidRequest(f"This address takes {takes}; these were given: {names}.")
