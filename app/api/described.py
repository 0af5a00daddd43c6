"""Response schemas: `describe` makes them from the records that answers are declared as."""

import types
from collections.abc import Mapping
from dataclasses import Field as RecordField
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from app.api.strict import sentences_of
from app.recourse.answer_part import FULL


class Described(BaseModel):
    """Base of the schemas of answers and of parts of answers."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class _Derived(Described):
    """Made of a record, whose docstrings come with it."""

    model_config = ConfigDict(use_attribute_docstrings=False)


@cache
def describe(record: Any, name: str | None = None) -> Any:
    """The response schema of a frozen record: has the record's name, fields and docstrings.

    All fields are required, except those that only full answers have. If requests hold the record as well, give another
    `name` for answers, since the OpenAPI description has one namespace for all schemas.
    """
    hints, sentences = get_type_hints(record, include_extras=True), sentences_of(record)
    definitions: dict[str, Any] = {
        f.name: (_described(hints[f.name]), _field(f, sentences.get(f.name, ""))) for f in fields(record)
    }
    return create_model(name or record.__name__, __base__=_Derived, __doc__=record.__doc__, **definitions)


def _field(field: "RecordField[Any]", sentence: str) -> Any:
    if field.metadata == FULL:
        described = f"{sentence} Only with `detail: full`.".strip()
        return Field(default_factory=lambda: None, alias=_alias(field.name), description=described)
    return Field(alias=_alias(field.name), description=sentence or None)


def _alias(name: str) -> str | None:
    """A field that would be a keyword ends in an underscore."""
    return name.rstrip("_") if name.endswith("_") else None


def _described(annotation: Any) -> Any:
    """The annotation with a schema in place of every record."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and is_dataclass(annotation):
        return describe(annotation)
    if origin in (Union, types.UnionType):
        return _either(inner)
    if origin is tuple and inner[1:] == (...,):
        return list[_described(inner[0])]  # type: ignore[misc]
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[inner[0], _described(inner[1])]  # type: ignore[misc,valid-type]
    return annotation


def _either(members: tuple[Any, ...]) -> Any:
    """One of several types; records are distinguished by their `kind`."""
    records: tuple[Any, ...] = tuple(_described(member) for member in members if is_dataclass(member))
    others = tuple(_described(member) for member in members if not is_dataclass(member))
    if len(records) > 1:
        records = (Annotated[Union[records], Field(discriminator="kind")],)  # noqa: UP007 - made at run time
    return Union[records + others]  # noqa: UP007 - made at run time
