"""Artifacts in JSON that say one thing twice."""

import json

from app.registry.adapters.artifact import refused


def refuse_repeated_keys(content: bytes) -> None:
    """Raise `ModelRefused` if an object has a key twice: readers differ in which of the two they take.

    What is not JSON is left to the reader.
    """

    def keys(members: list[tuple[str, object]]) -> None:
        names = [name for name, _ in members]
        if len(set(names)) < len(names):
            repeated = next(name for name in names if names.count(name) > 1)
            raise refused(f'has an object with the key "{repeated[:100]}" twice')

    try:
        json.loads(content, object_pairs_hook=keys)
    except (ValueError, RecursionError):
        return
