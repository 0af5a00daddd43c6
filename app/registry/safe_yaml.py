"""YAML that a lender wrote, read without surprises: no code, no repeated keys, nothing that grows or takes long."""

from collections.abc import Callable, Hashable
from typing import Any

import yaml

LONGEST = 10_000
"""Characters of one value."""

MOST_KEYS = 10_000
"""Keys of one mapping, with those merged into it."""

LARGEST = 10_000_000
"""Bytes of a file; a feature takes about a hundred."""


def read_yaml(content: bytes, *, aliases: bool = True, texts: bool = False) -> Any:
    """The document in a file. Raises `ValueError` with a sentence that follows its name.

    Parameters
    ----------
    texts : whether every value is the text that is written, as in `outcome: No`; then there are no aliases either
    """
    if len(content) > LARGEST:
        raise ValueError(f"has more than {LARGEST:,} bytes")
    try:
        loader = _Texts if texts else _Loader if aliases else _NoAliases
        return yaml.load(content, Loader=loader)  # noqa: S506 - derived from SafeLoader
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        tab = "; indent with spaces, not with tabs" if "\\t" in (error.problem or "") else ""
        raise ValueError(f"is not YAML: line {line}: {error.problem}{tab}") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"is not YAML: {' '.join(str(error).split())}") from None


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses what `read_yaml` says."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                # Of two keys the last would be kept.
                raise _fault(key, f'"{key.value}" is given twice')
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        if isinstance(node.value, str) and len(node.value) > LONGEST:
            raise _fault(node, f"a value has more than {LONGEST:,} characters")
        return super().construct_scalar(node)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        merged = [value for key, value in node.value if key.tag == "tag:yaml.org,2002:merge"]
        if len(merged) > 1 or any(isinstance(value, yaml.SequenceNode) for value in merged):
            # Lists of lists of them grow without limit.
            raise _fault(node, "only one mapping can be merged into another (<<)")
        super().flatten_mapping(node)
        if len(node.value) > MOST_KEYS:
            raise _fault(node, f"a mapping has more than {MOST_KEYS:,} keys")


class _NoAliases(_Loader):
    """Without aliases, with which a small file can stand for a very large one."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "has an alias", mark)
        return super().compose_node(parent, index)


class _Texts(_NoAliases):
    """Without numbers, dates, booleans and null: each value is a text."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML's own attribute


def _fault(node: yaml.Node, sentence: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, sentence, node.start_mark)


def _careful(construct: Callable[[yaml.SafeLoader, yaml.ScalarNode], Any]) -> Callable[[Any, yaml.ScalarNode], Any]:
    """A constructor whose errors name the value and its place."""

    def carefully(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
        try:
            return construct(loader, node)
        except (ValueError, OverflowError, AttributeError, KeyError, IndexError):
            text = str(node.value)
            shown = text if len(text) <= 50 else f"{text[:50]}…"
            raise _fault(node, f'"{shown}" is no number or date; put a text in quotes') from None

    return carefully


for _kind in ("int", "float", "timestamp", "bool"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_kind}", _careful(getattr(yaml.SafeLoader, f"construct_yaml_{_kind}")))
