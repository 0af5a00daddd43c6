"""The media type of a body."""

from fastapi import Request
from starlette.datastructures import Headers

from app.api.errors import LONGEST_TOKEN
from app.errors import UnsupportedMediaType

JSON = "application/json"

NDJSON = "application/x-ndjson"

CSV = "text/csv"


def media_type(headers: Headers) -> str:
    """The declared media type of the body, without parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def require_plain(request: Request) -> None:
    """Raise `UnsupportedMediaType` if the body is declared as compressed, or in another encoding than UTF-8."""
    coding = request.headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity"):
        raise UnsupportedMediaType(
            f"The body must not be compressed; its Content-Encoding is {coding[:LONGEST_TOKEN]}."
        )
    parameters = (one.partition("=") for one in request.headers.get("content-type", "").split(";")[1:])
    for name, _, value in parameters:
        charset = value.strip().strip('"').lower()
        if name.strip().lower() == "charset" and charset not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMediaType(f"The body must be in UTF-8; its charset is {charset[:LONGEST_TOKEN]}.")
