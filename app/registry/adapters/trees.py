"""Decision trees as arrays, between the files of boosting libraries and their compiled code.

That code follows node and column indices without checks, so a file is read and checked here first. The library then
receives a new file, written from the checked arrays, never the lender's: other or ambiguous content does not reach it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.forest import Forest
from app.recourse.models.tree_boxes import Boxes
from app.recourse.models.tree_leaves import Splits
from app.registry.adapters.tree_input import TreeInput

LARGEST_BOXES = 5_000_000
"""Largest leaves times columns of a single tree kept as boxes: some 100 MB."""

LARGEST_FOREST = 2_000_000
"""Numbers of eight bytes in the largest leaves of an ensemble that are kept."""

Edges: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Converts thresholds in the file to the largest doubles that still go to the left child."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One binary tree of k nodes, as arrays of length k; node 0 is the root; `left` and `right` of a leaf are -1."""

    feature: Int[np.ndarray, "k"]
    number: Float[np.ndarray, "k"]
    """Threshold of an inner node, as in the file; contribution of a leaf to the margin."""
    left: Int[np.ndarray, "k"]
    right: Int[np.ndarray, "k"]

    def fault(self, columns: int) -> str | None:
        """What is wrong with the tree, as a sentence without subject; None for a sound tree.

        In a sound tree, every path ends in a leaf, and every column index is less than `columns`.
        """
        inner = self.left >= 0
        if ((self.right >= 0) != inner).any():
            return "has nodes with one child"
        children = np.concatenate([self.left[inner], self.right[inner]])
        # No node has two parents and the root has none: then the nodes reachable from the root form a tree.
        if (children < 1).any() or (children >= len(inner)).any() or len(np.unique(children)) < len(children):
            return "has nodes that point outside of it or that two nodes point at"
        if (self.feature[inner] < 0).any() or (self.feature[inner] >= columns).any():
            return f"asks about columns that are none of the {columns} encoded columns"
        return None

    def reached(self) -> Int[np.ndarray, "r"]:
        """The indices of all nodes that paths from the root reach, level by level; siblings are next to each other.

        The tree must be sound.
        """
        levels = [np.zeros(1, dtype=np.int64)]
        while (inner := levels[-1][self.left[levels[-1]] >= 0]).size:
            levels.append(np.stack([self.left[inner], self.right[inner]], axis=1).ravel())
        return np.concatenate(levels)

    def of(self, nodes: Int[np.ndarray, "r"]) -> "Tree":
        """The tree that consists of the nodes with the indices `nodes`; they are numbered anew, in the given order.

        For each inner node in `nodes`, both children must be in `nodes` too.
        """
        number = np.full(len(self.left), -1)
        number[nodes] = np.arange(len(nodes))
        inner = self.left[nodes] >= 0
        left, right = (np.where(inner, number[children[nodes]], -1) for children in (self.left, self.right))
        return Tree(feature=self.feature[nodes], number=self.number[nodes], left=left, right=right)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routes:
    """Where a tree sends what is not compared with a threshold."""

    missing_left: Bool[np.ndarray, "k"]
    """Whether each node sends a missing value left."""
    codes_left: Mapping[int, Bool[np.ndarray, "c"]]
    """For nodes that split by codes, whether each code from 0 goes left; others go right."""


def with_boxes(black_box: BlackBox, tree: Tree, edges: Edges, indices: Int[np.ndarray, "k"] | None = None) -> BlackBox:
    """The black box of a single tree over encoded points, completed by its leaves as boxes.

    The black box is returned unchanged where the tree has too many leaves.

    Parameters
    ----------
    indices : for each column of the tree, the index of its encoded column; None if it takes all encoded columns
    """
    columns = black_box.space.d
    if int((tree.left < 0).sum()) * columns > LARGEST_BOXES:
        return black_box
    feature = tree.feature if indices is None else indices[np.where(tree.left < 0, 0, tree.feature)]
    boxes = Boxes.of_tree(
        feature, edges(tree.number), tree.left, tree.right, columns=columns, score=black_box.score
    )  # fmt: skip
    return replace(black_box, boxes=boxes)


def with_leaves(
    black_box: BlackBox, trees: Sequence[Tree], edges: Edges, taken: TreeInput, routes: Sequence[Routes]
) -> BlackBox:
    """The black box of boosted trees, completed by their leaves: a single tree over encoded points has boxes.

    The black box is returned unchanged where the trees read a number as missing, which a leaf cannot describe, and
    where they have too many leaves. `routes` says of each tree how it sends missing values and codes.
    """
    if taken.missing is not None:
        return black_box
    if len(trees) == 1 and black_box.input is Input.ENCODED:
        return with_boxes(black_box, trees[0], edges, taken.indices)
    known = {j: codes[codes >= 0.0] for j, codes in taken.codes.items()}
    codes = {
        j: int(known[j].max(initial=0.0)) + 1
        for j in {int(tree.feature[k]) for tree, route in zip(trees, routes, strict=True) for k in route.codes_left}
    }
    width = 2 * taken.count + sum(codes.values()) // 8
    if sum(int((tree.left < 0).sum()) for tree in trees) * width > LARGEST_FOREST:
        return black_box
    splits = [
        Splits(
            feature=tree.feature, edge=edges(tree.number), left=tree.left, right=tree.right,
            missing_left=route.missing_left, codes_left=route.codes_left,
        )
        for tree, route in zip(trees, routes, strict=True)
    ]  # fmt: skip
    values = [tree.number for tree in trees]
    return replace(
        black_box,
        forest=Forest.of_trees(list(zip(splits, values, strict=True)), taken.matrix, taken.count, codes),
    )
