"""Base of the dataclasses of the core that callers and lenders write."""

from typing import ClassVar


class InputPart:
    """Base of dataclasses that callers and lenders fill in: unknown keys are refused, docstrings become the schema."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, object]] = {"extra": "forbid", "use_attribute_docstrings": True}
