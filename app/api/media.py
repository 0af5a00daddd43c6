"""What a body is said to be."""

from fastapi import Request

JSON = "application/json"

NDJSON = "application/x-ndjson"


def media_type(request: Request) -> str:
    """What the body is said to be, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
