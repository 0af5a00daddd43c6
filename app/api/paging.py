"""Long lists, a page at a time: `limit` entries, and the `next_cursor` with which the next page begins."""

import re
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import Query

from app.errors import Fault, InvalidRequest

Limit = Annotated[int, Query(ge=1, le=200, openapi_examples={"few": {"value": 10}})]

Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.", max_length=100)]

VersionFilter = Annotated[str | None, Query(description="Only those of this version of the `model`.", max_length=200)]

Entry = TypeVar("Entry")


def check(cursor: str | None, given_out: re.Pattern[str]) -> None:
    """Raise `InvalidRequest` for a cursor that the service cannot have given out.

    `given_out` is the pattern that all cursors of the list match. The cursor None, of the first page, is valid.
    """
    if cursor is not None and not given_out.fullmatch(cursor):
        raise InvalidRequest(faults=[Fault("", "the query parameter cursor is not one that was given out")])


def require_model(version: str | None, model: str | None) -> None:
    """Raise `InvalidRequest` where a query names a version but no model."""
    if version is not None and model is None:
        raise InvalidRequest(faults=[Fault("", "the query parameter version needs the parameter model")])


def split(found: Sequence[Entry], limit: int, key: Callable[[Entry], str]) -> tuple[Sequence[Entry], str | None]:
    """One page, which is the first `limit` of the entries `found`, and the cursor of the next page.

    `found` has at most `limit` + 1 entries; with no more than `limit`, this page is the last and the cursor is None.
    """
    page = found[:limit]
    return page, key(page[-1]) if len(found) > limit else None
