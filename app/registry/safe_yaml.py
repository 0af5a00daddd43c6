"""YAML that a lender wrote, read without surprises: no code, no aliases, no repeated keys, nothing that takes long."""

import re
from collections.abc import Callable, Hashable
from typing import Any

import yaml

LONGEST = 10_000
"""Characters of one value."""

MOST_VALUES = 250_000
"""Keys and values of a file; a feature takes about twenty."""

DEEPEST = 100
"""Lists and mappings inside each other."""

LARGEST = 10_000_000
"""Bytes of a file; a feature takes about a hundred."""

_INT = re.compile(r"[+-]?(?:0|[1-9][0-9]*|0x[0-9a-fA-F]+)")
_FLOAT = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|\.(?:inf|Inf|INF))|\.(?:nan|NaN|NAN)")


def read_yaml(content: bytes, *, texts: bool = False) -> Any:
    """The document in a YAML file.

    With `texts`, every value is the text as written: "No" in `outcome: No` stays "No", and does not become false.

    Raises `ValueError`; its message is the rest of a sentence that begins with the name of the file.
    """
    if len(content) > LARGEST:
        raise ValueError(f"has more than {LARGEST:,} bytes")
    try:
        _refuse_large(content)
        return yaml.load(content, Loader=_Texts if texts else _Loader)  # noqa: S506 - derived from CSafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        lines = content.splitlines()
        own = lines[line - 1] if line <= len(lines) else b""
        tab = "; indent with spaces, not with tabs" if b"\t" in own[: len(own) - len(own.lstrip())] else ""
        raise ValueError(f"is not YAML: line {line}: {error.problem}{tab}") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None


def _refuse_large(content: bytes) -> None:
    """Refuse a document by its events, before anything is built of it."""
    values = depth = 0
    for event in yaml.parse(content, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _fault(event, f"has an alias, *{event.anchor}; write the value out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        values += isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if depth > DEEPEST:
            raise _fault(event, f"lists and mappings are more than {DEEPEST} deep")
        if values > MOST_VALUES:
            raise _fault(event, f"there are more than {MOST_VALUES:,} keys and values")


class _Loader(yaml.CSafeLoader):
    """Safe YAML that refuses what `read_yaml` says."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise _fault(key, "<< merges mappings; write the keys out")
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                # Of two keys the last would be kept.
                raise _fault(key, f'"{key.value}" is given twice')
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if isinstance(node.value, str) and len(node.value) > LONGEST:
            raise _fault(node, f"a value has more than {LONGEST:,} characters")
        return super().construct_scalar(node)


class _Texts(_Loader):
    """Without numbers, dates, booleans and null: each value is a text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own attribute


def _fault(at: Any, sentence: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, sentence, at.start_mark)


def _careful(kind: str, form: re.Pattern[str] | None = None) -> Callable[[Any, yaml.ScalarNode], Any]:
    """PyYAML's constructor of a kind of value, whose errors name the value and its place.

    Values must have the `form`, if there is one: PyYAML also reads 1_000 as 1000, 1:30 as 90 and 010 as 8.
    """
    construct = getattr(yaml.SafeLoader, f"construct_yaml_{kind}")

    def carefully(loader: Any, node: yaml.ScalarNode) -> Any:
        try:
            if form is None or len(node.value) > LONGEST or form.fullmatch(node.value):
                return construct(loader, node)
        except (ValueError, OverflowError, AttributeError, KeyError, IndexError):
            pass
        text = str(node.value)
        shown = text if len(text) <= 50 else f"{text[:50]}…"
        raise _fault(node, f'"{shown}" is no number or date; put a text in quotes')

    return carefully


for _kind, _form in (("int", _INT), ("float", _FLOAT), ("timestamp", None), ("bool", None)):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _careful(_kind, _form))
# 1e5, which PyYAML reads as a text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[+-]?[0-9]+\.?[0-9]*[eE][+-]?[0-9]+$"), list("+-0123456789")
)
