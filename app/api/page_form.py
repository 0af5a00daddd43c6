"""Whether a caller wants an answer as JSON or as a page."""

from typing import Annotated, Literal

from fastapi import Header, Query

from app.letters.regime import preferred

PageForm = Annotated[
    Literal["json", "html"] | None, Query(alias="format", description="The form of the answer; else `Accept` decides.")
]

Accept = Annotated[str, Header(description="`application/json` or `text/html`.")]

FORMS = ("text/html", "application/json", "*/*")


def wants_page(form: str | None, accept: str) -> bool:
    """Whether a client wants an HTML page: `form` decides; where `form` is None, the header ``Accept`` decides."""
    known = [one for one in preferred(accept) if one in FORMS]
    return form == "html" or (form is None and known[:1] == ["text/html"])
