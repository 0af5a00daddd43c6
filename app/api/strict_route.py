"""Routes that read JSON strictly: a body that is not exactly one JSON value is refused before any validation."""

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.routing import APIRoute

from app.api.bodies import JSON, close_spooled, media_type, read_body, require_plain
from app.api.error_docs import GATE, refusals
from app.api.errors import LONGEST_TOKEN
from app.errors import InvalidRequest, UnsupportedMediaType
from app.idempotency.header import HEADER, PARAMETER, answer_once
from app.keys.authentication import SCHEME, admit
from app.keys.scopes import Scope

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """A route that refuses query parameters that it does not declare, and bodies that are not strict JSON.

    Every POST takes an `Idempotency-Key`. Routes of a class made by `guarded` ask for an API key as well.
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

    def get_route_handler(self) -> Handler:
        """The handler of the route; it is called after the query and the body were checked."""
        handle = super().get_route_handler()
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


def guarded(*scopes: Scope) -> type[StrictRoute]:
    """The class of routes for callers whose API key has at least one of `scopes`."""
    return type("GuardedRoute", (StrictRoute,), {"scopes": scopes})


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
