"""Splits by categories in a file of XGBoost, and the names of the categories."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from app.recourse.features import FeatureSpace
from app.registry.adapters.artifact import refused
from app.registry.adapters.tree_input import code_text, most_codes
from app.registry.adapters.trees import Tree

Count = Annotated[int, Field(ge=0, lt=2**32)]


class TreeWithCategories(BaseModel):
    """The arrays of one tree that say how it splits by categories."""

    model_config = ConfigDict(frozen=True)

    split_type: list[int] = []
    """1 for a split by categories."""
    categories: list[Count] = []
    """Those that go right, of one node after the other."""
    categories_nodes: list[Count] = []
    categories_segments: list[Count] = []
    """Where those of each node begin."""
    categories_sizes: list[Count] = []


class EncodedCategories(BaseModel):
    """The categories of one column: texts, one after the other in UTF-8, or numbers; none of a column of numbers."""

    model_config = ConfigDict(frozen=True)

    offsets: list[int] | None = None
    values: list[Annotated[float, Field(ge=-(2.0**63), le=2.0**63)]] = []


def named_categories(encoded: Sequence[EncodedCategories]) -> dict[int, list[str]]:
    """The categories of each column that has some."""
    found: dict[int, list[str]] = {}
    for j, part in enumerate(encoded):
        if not part.values:
            continue
        if part.offsets is None:
            found[j] = [code_text(value) for value in part.values]
            continue
        try:
            text = bytes(int(value) % 256 for value in part.values)
            sides = zip(part.offsets, part.offsets[1:], strict=False)
            found[j] = [text[start:stop].decode() for start, stop in sides]
        except UnicodeDecodeError as error:
            raise refused("is no list of texts", f"/learner/gradient_booster/model/cats/enc/{j}") from error
    return found


def splits_of(part: TreeWithCategories) -> dict[int, list[int]]:
    """The categories that go right at each node that splits by them. Raises `ValueError` if the file has no such."""
    found: dict[int, list[int]] = {}
    for node, start, size in zip(part.categories_nodes, part.categories_segments, part.categories_sizes, strict=True):
        if size < 1 or start < 0 or start + size > len(part.categories) or node in found:
            raise ValueError
        found[node] = part.categories[start : start + size]
    return found


def category_faults(
    parts: Sequence[TreeWithCategories], trees: Sequence[Tree], space: FeatureSpace
) -> tuple[set[int], list[int]]:
    """The columns that are split by categories, and the trees that split by others than there are."""
    asked: set[int] = set()
    unsound: list[int] = []
    most = [most_codes(space, j) for j in range(space.p)]
    for i, (part, tree) in enumerate(zip(parts, trees, strict=True)):
        kinds = np.array(part.split_type or [0] * len(tree.left))
        try:
            splits = splits_of(part)
            nodes = np.flatnonzero((kinds != 0) & (tree.left >= 0)) if len(kinds) == len(tree.left) else None
            sound = nodes is not None and set(nodes.tolist()) <= splits.keys() and bool(np.isin(kinds, (0, 1)).all())
            own = {int(node): int(tree.feature[node]) for node in nodes} if sound and nodes is not None else {}
            sound = sound and all(0 <= code < most[j] for node, j in own.items() for code in splits[node])
        except ValueError:
            sound, own = False, {}
        asked.update(own.values())
        if not sound:
            unsound.append(i)
    return asked, unsound
