"""What is wrong with the form of a value, in words: what it must be, and how it is written."""

import difflib
import re
from collections.abc import Collection, Mapping, Sequence

from pydantic_core import ErrorDetails

from app.errors import Fault

EXAMPLES = {
    "id": "id: credit-risk",
    "version": 'version: "1"',
    "title": "title: Credit risk",
    "artifact": "artifact: {format: sklearn, path: model.skops, sha256: …}",
    "format": "format: sklearn",
    "path": "path: model.skops",
    "sha256": "sha256: …, which sha256sum FILE prints",
    "url": "url: https://host/v2/models/credit/infer",
    "protocol": "protocol: oip-v2",
    "input": "input: raw for a table of records, input: encoded for a matrix",
    "output": "output: probability",
    "features": "features: [{name: income, type: continuous}, …]; recourse models draft writes it",
    "reference": "reference: reference.csv",
    "name": "name: income",
    "type": "type: continuous",
    "architecture": "architecture: {type: mlp, layers: [14, 32, 1], activation: relu}",
    "layers": "layers: [14, 32, 1]",
    "activation": "activation: relu",
}
"""How keys are written that must be there."""

PATTERNS = {
    "id": "must be of lower-case letters, digits, '.', '_' and '-', at most 64 of them, such as credit-risk",
    "version": "must be of letters, digits, '.', '_' and '-', at most 32 of them, such as \"1\"",
    "sha256": "must be 64 hexadecimal digits, which sha256sum FILE prints",
    "secret": "must be the name of an environment variable that begins with RECOURSE_SECRET_",
    "secret_header": "must be the name of a header, such as X-Api-Key",
}
"""What texts of a certain form are."""

SENTENCES = {
    "string_type": "must be a text",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than": "must be above {gt:.15g}",
    "greater_than_equal": "must be at least {ge:.15g}",
    "less_than": "must be below {lt:.15g}",
    "less_than_equal": "must be at most {le:.15g}",
    "finite_number": "must be a finite number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing_size": "must be a smaller number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list, such as [a, b]",
    "list_type": "must be a list, such as [a, b]",
    "dict_type": "must be a mapping, such as {{key: value}}",
    "mapping_type": "must be a mapping, such as {{key: value}}",
    "invalid_key": "must be a text; put it in quotes",
    "model_type": "must be a mapping, such as {{key: value}}",
    "model_attributes_type": "must be a mapping, such as {{key: value}}",
    "dataclass_type": "must be a mapping, such as {{key: value}}",
    "union_tag_invalid": "must be a mapping, such as {{key: value}}",
    "union_tag_not_found": "must be a mapping, such as {{key: value}}",
    "extra_forbidden": "is not a known key",
    "json_invalid": "is no JSON, or cut off",
}
"""The sentence about each type of error of pydantic, with places for its facts."""


def sentence_of(details: ErrorDetails) -> str:
    """The sentence that a fault states for an error of pydantic.

    It is the sentence in `SENTENCES` for this type of error; without one, it is pydantic's own.
    """
    kind, key = details["type"], str(details["loc"][-1]) if details["loc"] else ""
    if kind in ("missing", "missing_keyword_only_argument", "missing_argument"):
        return f"is missing; write {EXAMPLES[key]}" if key in EXAMPLES else "is missing"
    if kind == "string_pattern_mismatch" and key in PATTERNS:
        return PATTERNS[key]
    if kind == "too_short" and details.get("ctx", {}).get("min_length") == 1:
        return "must have at least one entry" + (f"; write {EXAMPLES[key]}" if key in EXAMPLES else "")
    known = SENTENCES.get(kind)
    text = known.format(**details.get("ctx", {})) if known else _plain(details["msg"])
    if kind == "string_type" and isinstance(details["input"], bool | int | float):
        text += "; put it in quotes"
    return text


def unknown_key(what: str, key: str, known: Collection[str]) -> str:
    """The sentence of a fault for an unknown `key` of `what`, such as "a manifest".

    It suggests the most similar key in `known`, if one is similar.
    """
    near = difflib.get_close_matches(key, known, n=1)
    meant = next((one for one in known if one.startswith(f"{key}_")), near[0] if near else None)
    return f"is not a key that {what} has" + (f"; is {meant} meant?" if meant else "")


def _plain(message: str) -> str:
    """A library's sentence without its beginning."""
    return re.sub(r"^Input should be ", "must be ", message.removeprefix("Value error, "))


# --- what is said of many faults --------------------------------------------------------------------------------------

FOLDED = 3
"""Equal sentences up to which each place has a line of its own."""

SHOWN = 3
"""Further places that are named in a folded line; the others are counted."""


def readable(faults: Sequence[Fault], names: Mapping[int, str]) -> list[Fault]:
    """The faults of a manifest; equal faults of several features or records are merged into one fault.

    `names` has the names of the features, by feature index.
    """
    alike: dict[tuple[str, str], list[Fault]] = {}
    for fault in faults:
        place = re.sub(r"/[^/]*$", "", re.sub(r"^/features/\d+", "/features", fault.pointer))
        alike.setdefault((place, fault.detail), []).append(fault)
    return [fault for group in alike.values() for fault in _group(group, names)]


def _group(group: list[Fault], names: Mapping[int, str]) -> list[Fault]:
    if len(group) <= FOLDED:
        return [Fault(fault.pointer, _named(fault, names)) for fault in group]
    first, *others = group
    shown = ", ".join(_short(fault, names) for fault in others[:SHOWN])
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    return [Fault(first.pointer, f"{_named(first, names)} (also {shown}{more})")]


def _name(fault: Fault, names: Mapping[int, str]) -> str | None:
    """The feature that a fault is about."""
    found = re.fullmatch(r"/features/(\d+)(/.*)?", fault.pointer)
    return names.get(int(found[1])) if found else None


def _named(fault: Fault, names: Mapping[int, str]) -> str:
    """The sentence, with the name of the feature where it does not say it."""
    name = _name(fault, names)
    return fault.detail if name is None or f'"{name}"' in fault.detail else f'"{name}": {fault.detail}'


def _short(fault: Fault, names: Mapping[int, str]) -> str:
    last = fault.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")
    return f'"{_name(fault, names) or last}"'
