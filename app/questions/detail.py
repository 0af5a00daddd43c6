"""Answers in short: without the fields that are declared as `FULL`."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_type_hints

from app.questions.answers import Json
from app.questions.frontier import FrontierAnswer
from app.questions.recourse import RecourseAnswer
from app.questions.use_cases import FRONTIER, RECOURSE
from app.recourse.answer_part import FULL

Detail: TypeAlias = Literal["short", "full"]

SHORTENED: Mapping[str, type[Any]] = {RECOURSE: RecourseAnswer, FRONTIER: FrontierAnswer}
"""Use cases whose answers have a short form; those about records of the caller are nothing but their certificates."""


def shown(use_case: str, answer: Json, detail: str) -> Json:
    """The answer in the detail that was asked for."""
    record = SHORTENED.get(use_case)
    return answer if detail == "full" or record is None else _short(answer, record)


def _short(part: Any, record: Any) -> Any:
    if isinstance(part, list):
        return [_short(one, record) for one in part]
    if part is None:
        return None
    return {
        name: part[name] if inner is None else _short(part[name], inner)
        for name, inner in _kept(record).items()
        if name in part
    }


@cache
def _kept(record: Any) -> Mapping[str, Any]:
    """The fields of a short answer, and of those that are parts of answers themselves the record."""
    hints = get_type_hints(record)
    return {f.name.rstrip("_"): _record(hints[f.name]) for f in fields(record) if f.metadata != FULL}


def _record(annotation: Any) -> Any:
    """The record that a field holds, or a list of which, or None."""
    if is_dataclass(annotation):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _record(inner))), None)
