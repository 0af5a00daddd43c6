"""Boosted trees as arrays of nodes, to ask many of them about few records.

A library that walks 6,000 trees for one record waits for memory at each of them. Here all trees take one step at a time
in a few numpy calls, on arrays that are a tenth as large: 0.3 ms in place of 3.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Int

from app.registry.adapters.ubjson import parse


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """The nodes of all trees, tree by tree. Where a value is missing, the trees themselves have to be asked."""

    roots: Int[np.ndarray, "t"]
    """The first node of each tree."""
    first: Int[np.ndarray, "k"]
    """The first tree of each model."""
    depth: int
    """Of the deepest tree."""
    left: Int[np.ndarray, "n"]
    """Left child, counted from the root; the right one is the next. A leaf is its own."""
    column: Int[np.ndarray, "n"]
    """What is compared; one more than there are for a leaf."""
    value: Float[np.ndarray, "n"]
    """A record whose number is smaller goes left; of a leaf, what it adds."""

    @classmethod
    def of_xgboost(cls, content: bytes) -> Self | None:
        """The trees of an ensemble with a class for each model, as UBJSON; None where they split by categories."""
        learner = parse(content)["learner"]
        columns = int(learner["learner_model_param"]["num_feature"])
        booster = learner["gradient_booster"]["model"]
        models = np.array(booster["tree_info"])
        trees: list[dict[str, Any]] = [booster["trees"][i] for i in np.argsort(models, kind="stable")]
        if any(any(tree["split_type"]) for tree in trees):
            return None
        left = [np.array(tree["left_children"]) for tree in trees]
        right = [np.where(one < 0, -1, one + 1) for one in left]
        if any((np.array(tree["right_children"]) != one).any() for tree, one in zip(trees, right, strict=True)):
            return None
        sizes = np.array([len(one) for one in left])
        split = zip(left, trees, strict=True)
        column = np.concatenate([np.where(one < 0, columns, tree["split_indices"]) for one, tree in split])
        own = [np.where(one < 0, np.arange(len(one)), one) for one in left]
        return cls(
            roots=(np.cumsum(sizes) - sizes).astype(np.int32),
            first=np.unique(np.sort(models), return_index=True)[1].astype(np.int32),
            depth=max(_depth(one) for one in left),
            left=np.concatenate(own).astype(_smallest(int(sizes.max()))),
            column=column.astype(_smallest(columns)),
            value=np.concatenate([np.array(tree["split_conditions"], dtype=np.float32) for tree in trees]),
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """As arrays by name; `of_arrays` is the inverse."""
        return {name: np.asarray(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Those that `arrays` gave."""
        found: dict[str, Any] = {**arrays, "depth": int(arrays["depth"])}
        return cls(**found)

    def sums(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """What the trees of each model add up to, for rows without NaN."""
        points = np.column_stack([rows, np.full(len(rows), -np.inf)]).astype(np.float32)
        return np.array([self._sums(point) for point in points]).reshape(len(rows), len(self.first))

    def _sums(self, point: Float[np.ndarray, "d"]) -> Float[np.ndarray, "k"]:
        at = self.roots
        for _ in range(self.depth):
            at = self.roots + self.left.take(at) + (point.take(self.column.take(at)) >= self.value.take(at))
        return np.asarray(np.add.reduceat(self.value.take(at).astype(float), self.first))


def _depth(left: Int[np.ndarray, "n"]) -> int:
    depth, level = 0, np.zeros(1, dtype=np.int64)
    while (inner := level[left[level] >= 0]).size:
        depth, level = depth + 1, np.concatenate([left[inner], left[inner] + 1])
    return depth


def _smallest(largest: int) -> type[np.signedinteger[Any]]:
    return np.int16 if largest <= np.iinfo(np.int16).max else np.int32
