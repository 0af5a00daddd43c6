"""Access control for guarded routes, before the body of a request is read."""

import math
from collections.abc import Collection, MutableMapping
from typing import Any

from fastapi import Request

from app.api.deps import service_of
from app.errors import KeyRequired, TooManyRequests
from app.keys.access import WINDOW_S, Rate
from app.keys.keys import asking
from app.keys.scopes import Scope
from app.pool.turns import caller

SCHEME = "key"
"""Name of the security scheme in the description."""

SECURITY_SCHEMES = {
    SCHEME: {
        "type": "http",
        "scheme": "bearer",
        "description": "A key made by `recourse keys create`. Needed where the service asks for keys; each operation "
        "lists the scopes of which the key must have one.",
    }
}

Headers = MutableMapping[str, str]


async def admit(request: Request, scopes: Collection[Scope]) -> str:
    """Admit a request before its body is read, and return its caller.

    The caller is a text: ``key`` and the id of the key; empty where the service needs no key.

    Raises
    ------
    KeyRequired, InvalidKey, InsufficientScope, TooManyRequests : the caller may not ask, or not now
    Misdirected : the request needs no key, but names a host that may not be this machine
    NotReady : the keys cannot be read
    """
    access = service_of(request).access
    address = f"address {request.client.host if request.client else ''}"
    try:
        key = await access.identify(_offered(request))
    except KeyRequired:
        # Guesses are counted too.
        _count(request, address)
        raise
    name = address if key is None else f"key {key.id}"
    caller.set(name)
    _count(request, name)
    if key is None:
        arrived_at, _ = request.scope.get("server") or ("", None)
        access.require_own_host(request.headers.getlist("host"), arrived_at)
    access.require(key, scopes)
    asking.set(key)
    request.scope["key_id"] = key and key.id
    await access.rounds.turn(name)
    return "" if key is None else name


def _offered(request: Request) -> str | None:
    scheme, _, offered = request.headers.get("authorization", "").partition(" ")
    return offered.strip() if scheme.lower() == "bearer" else None


def _count(request: Request, caller: str) -> None:
    access = service_of(request).access
    try:
        rate = access.count(caller)
    except TooManyRequests as error:
        _add_rate(request, Rate(limit=error.facts["limit"], left=0, full_s=error.facts["full_s"]))
        raise
    if rate is not None:
        _add_rate(request, rate)


def _add_rate(request: Request, rate: Rate) -> None:
    """Add the headers of the caller's rate, as in draft-ietf-httpapi-ratelimit-headers-10."""
    headers = extra_headers(request.scope)
    headers["RateLimit-Policy"] = f'"default";q={rate.limit};w={WINDOW_S:.0f}'
    headers["RateLimit"] = f'"default";r={rate.left};t={math.ceil(rate.full_s)}'


def extra_headers(scope: MutableMapping[str, Any]) -> Headers:
    """A dict of headers that are added to any response to this request; more headers may be put into the dict."""
    headers: Headers = scope.setdefault("extra_headers", {})
    return headers
