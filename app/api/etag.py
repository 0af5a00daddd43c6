"""Responses that a client may cache and revalidate."""

import hashlib
import re
from typing import Annotated, Any

from fastapi import Header
from starlette.responses import JSONResponse, Response

IfNoneMatch = Annotated[
    str | None, Header(description="The `ETag` of an answer that the client has: 304 if it is still the same.")
]

UNCHANGED: dict[int | str, dict[str, Any]] = {
    304: {
        "description": "What the client has is still the same.",
        "headers": {"ETag": {"description": "Names this answer.", "schema": {"type": "string"}}},
    }
}
"""The `responses` of a route that answers with `if_changed`."""

_TAG = re.compile(r'(?:W/)?("[^"]*")')


def if_changed(content: Any, if_none_match: str | None) -> Response:
    """The response with `content` and a strong `ETag`; or 304 if the client already has this content.

    `if_none_match` is the request's header `If-None-Match`.
    """
    response = JSONResponse(content)
    tag = f'"{hashlib.sha256(response.body).hexdigest()[:32]}"'
    # Kept by the client alone, and asked for again each time.
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if if_none_match is not None and (if_none_match.strip() == "*" or tag in _TAG.findall(if_none_match)):
        return Response(status_code=304, headers=headers)
    response.headers.update(headers)
    return response
