"""The base of what clients are sent as it is declared in the core."""

from typing import ClassVar


class AnswerPart:
    """Part of what clients are sent as it is declared here; its fields and docstrings become the response schema."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"use_attribute_docstrings": True}
