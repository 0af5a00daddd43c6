"""Requests are taken literally: no unknown fields, no text or truth values where a number belongs, nothing infinite.

`derive` makes such a request schema from a frozen record of the core, so that limits and sentences are written once.
"""

import ast
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from dataclasses import Field as RecordField
from datetime import UTC, date, datetime
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    ModelWrapValidatorHandler,
    StrictBool,
    StringConstraints,
    Tag,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from app.api.errors import MOST_FAULTS

LONGEST_NAME = 100
"""Longest feature name or category in a request."""

MOST_ENTRIES = 1000
"""Most entries of a list or mapping in a request."""

Record = TypeVar("Record")
Request = TypeVar("Request", bound="Strict")


class Strict(BaseModel):
    """Base of the schemas of requests and of parts of requests; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True, use_attribute_docstrings=True)

    @model_validator(mode="wrap")
    @classmethod
    def _name_fields(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """With an unknown field, say which fields there are: pydantic's error does not."""
        _few(value)  # before each member of a hostile body is validated
        try:
            return handler(value)
        except ValidationError as error:
            if error.error_count() > MOST_FAULTS:  # not all are listed, and a hostile body has any number
                raise
            known = {"fields": ", ".join(field.alias or name for name, field in cls.model_fields.items())}
            faults: list[InitErrorDetails] = []
            for found in error.errors(include_url=False):
                what, facts = found["type"], found.get("ctx", {})
                if what == "extra_forbidden" and len(found["loc"]) == 1:
                    what, facts = "unknown_field", known
                kind = PydanticCustomError(what, "is not valid", facts)
                faults.append({"type": kind, "loc": found["loc"], "input": found["input"]})
            raise ValidationError.from_exception_data(cls.__name__, faults) from None


class _Derived(Strict):
    """Made of a record, whose sentences come with it, so pydantic need not search the source for any."""

    model_config = ConfigDict(use_attribute_docstrings=False)


def _number(value: object) -> object:
    if isinstance(value, bool | str):
        raise PydanticCustomError("not_a_number", "must be a number")
    return value


def _few(value: object) -> object:
    if isinstance(value, list | dict) and len(value) > MOST_ENTRIES:
        raise PydanticCustomError("too_many", "must not have more than {most} entries", {"most": MOST_ENTRIES})
    return value


def _text(value: object) -> object:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "must be a text")
    return value


def _utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise PydanticCustomError("not_a_moment", "must be a moment") from None


# Validators stand after the limits, or the limits would be missing from the JSON Schema.
Moment = Annotated[AwareDatetime, AfterValidator(_utc), BeforeValidator(_text)]
"""A time with its zone, as text."""

Day = Annotated[date, BeforeValidator(_text)]
"""A date as text, such as 2030-03-31."""

NUMBER = BeforeValidator(_number)
"""Refuses what pydantic would turn into a number although JSON says that it is none."""

FEW = BeforeValidator(_few)
"""Refuses a long collection before its entries are validated, each of which might be at fault."""


_READERS: dict[type[Any], tuple[TypeAdapter[Any], set[str]]] = {}
"""Of each derived record: what makes it, and the names of its fields."""


def derive(record: type[Any], **more: Any) -> type[Strict]:
    """The request schema made from a frozen record: it has the record's fields, limits, defaults and docstrings.

    `more` are further fields by name; they come first.
    """
    return create_model(record.__name__, __base__=_Derived, __doc__=record.__doc__, **(more | _definitions(record)))


def with_fields_of(*records: type[Any]) -> Callable[[type[Request]], type[Request]]:
    """A decorator that adds the fields of core records to a request schema; fields that the schema has itself stay."""

    def extend(request: type[Request]) -> type[Request]:
        found = {name: one for record in records for name, one in _definitions(record).items()}
        more = {name: one for name, one in found.items() if name not in request.model_fields}
        return create_model(
            request.__name__, __base__=request, __doc__=request.__doc__, __module__=request.__module__, **more
        )

    return extend


def _definitions(record: type[Any]) -> dict[str, Any]:
    """The fields of a record, as `create_model` takes them; `to_record` can make the record from now on."""
    hints = get_type_hints(record, include_extras=True)
    sentences = sentences_of(record)
    # Not when the first request needs it: then several threads may parse Python at once, for the sentences of records,
    # and CPython 3.11 fails in that from time to time.
    _READERS[record] = TypeAdapter(record), {f.name for f in fields(record)}
    return {f.name: (_typed(f, hints[f.name]), Field(description=sentences.get(f.name))) for f in fields(record)}


def optional(schema: Any, default: Callable[[], Any] | None = None) -> Any:
    """The type of a member that may be left out or null; both mean `default()`, or `schema()` without a `default`.

    Generated clients send null for every object that they were not given.
    """
    shared = schema() if default is None else None  # which takes less than to make one for each; requests are frozen
    make = default or (lambda: shared)
    given = AfterValidator(lambda value: make() if value is None else value)
    return Annotated[schema | None, given, Field(default_factory=make)]


@dataclass(frozen=True)
class Sent:
    """Annotates a request's field for a record of the core; its JSON has the form that `derive` makes of the record."""

    null: bool = True
    """Whether null is taken, for the record's defaults."""

    def __get_pydantic_core_schema__(self, record: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        read = AfterValidator(lambda sent: _default(record) if sent is None else to_record(record, sent))
        schema = _schema_of(record)
        return handler.generate_schema(Annotated[schema | None if self.null else schema, read])


_schema_of = cache(derive)
"""One for all fields with the same record, so that the description has it once."""


def to_record(record: type[Record], request: BaseModel) -> Record:
    """The `record` of the core with the values of a validated request, whose schema was made by `derive`.

    Parameters
    ----------
    record : class of the record
    """
    adapter, names = _READERS[record]
    if names.isdisjoint(request.model_fields_set):
        # mypy takes no class for hashable.
        default: Record = _default(record)  # type: ignore[arg-type]
        return default
    read: Record = adapter.validate_python(request.model_dump(include=names))
    return read


@cache
def _default(record: type[Any]) -> Any:
    """A record with all its defaults. Requests share it, since it is frozen."""
    return _READERS[record][0].validate_python({})


def sentences_of(record: type[Any]) -> dict[str, str]:
    """The docstrings of a record's fields, by name of the field; inherited fields are included."""
    found: dict[str, str] = {}
    for parent in filter(is_dataclass, reversed(record.__mro__)):
        found |= _sentences(parent.__module__).get(parent.__qualname__, {})
    return found


@cache
def _sentences(module: str) -> dict[str, dict[str, str]]:
    """The docstring of each field of each class of a module, parsed once; pydantic does that at each use of a class."""
    classes = ast.parse(inspect.getsource(sys.modules[module])).body
    return {
        one.name: {
            field.target.id: inspect.cleandoc(said.value.value)
            for field, said in pairwise(one.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant) and isinstance(said.value.value, str)
        }
        for one in classes
        if isinstance(one, ast.ClassDef)
    }


def _typed(field: "RecordField[Any]", annotation: Any) -> Any:
    """What a request may give for a field of a record."""
    schema = _strict(annotation)
    if field.default_factory is not MISSING:
        return optional(schema, field.default_factory)
    return schema if field.default is MISSING else Annotated[schema, Field(default=field.default)]


def _distinguished(members: tuple[Any, ...]) -> Any:
    """A request for one of several records or null, distinguished by the fields that each record requires."""
    required = {
        record.__name__: {f.name for f in fields(record) if f.default is MISSING and f.default_factory is MISSING}
        for record in members
        if isinstance(record, type) and is_dataclass(record)
    }

    def which(value: object) -> str | None:
        if value is None:
            return type(None).__name__
        given = value if isinstance(value, dict) else getattr(value, "model_fields_set", ())
        return next((name for name, needed in required.items() if not needed.isdisjoint(given)), None)

    tagged = tuple(Annotated[_strict(member), Tag(member.__name__)] for member in members)
    names = ", ".join(name for needed in required.values() for name in sorted(needed))
    return Annotated[
        Union[tagged],  # noqa: UP007 - put together at run time
        Discriminator(
            which,
            custom_error_type="none_of",
            custom_error_message="must be an object with one of the fields {names}",
            custom_error_context={"names": names},
        ),
    ]


def _strict(annotation: Any) -> Any:
    """The annotation with every number, text and collection in it taken literally and bounded."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal or annotation is type(None):
        return annotation
    if origin is Annotated:
        return Annotated[inner[0], *inner[1:], *getattr(_strict(inner[0]), "__metadata__", ())]
    if origin in (Union, types.UnionType):
        if sum(map(is_dataclass, inner)) > 1:
            return _distinguished(inner)
        return Union[tuple(_strict(member) for member in inner)]  # noqa: UP007 - put together at run time
    if origin is tuple:
        member = _strict(inner[0])
        return Annotated[tuple[member, ...], Field(max_length=MOST_ENTRIES), FEW]  # type: ignore[valid-type]
    if origin is not None and issubclass(origin, Mapping):
        key, value = _strict(inner[0]), _strict(inner[1])
        return Annotated[dict[key, value], Field(max_length=MOST_ENTRIES), FEW]  # type: ignore[valid-type]
    if annotation is bool:
        return StrictBool
    if annotation in (int, float):
        return Annotated[annotation, NUMBER]
    if annotation is str:
        return Annotated[str, StringConstraints(max_length=LONGEST_NAME)]
    if is_dataclass(annotation) and isinstance(annotation, type):
        return derive(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return annotation
    raise TypeError(f"a request cannot take {annotation} literally")
