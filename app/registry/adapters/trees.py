"""Decision trees as arrays, between the files of boosting libraries and their compiled code.

That code follows node and column indices without checks, so a file is read and checked here first. The library then
receives a new file, written from the checked arrays, never the lender's: other or ambiguous content does not reach it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from app.recourse.models.black_box import BlackBox, Input
from app.recourse.models.forest import Forest
from app.recourse.models.tree_boxes import Boxes, leaves_of_tree

LARGEST_BOXES = 5_000_000
"""Largest leaves times columns of a single tree kept as boxes: some 100 MB."""

LARGEST_FOREST = 1_000_000
"""Largest leaves times columns of an ensemble kept as boxes: some 16 MB."""


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


def with_boxes(
    black_box: BlackBox,
    trees: Sequence[Tree],
    edges: Callable[[np.ndarray], np.ndarray],
    indices: Int[np.ndarray, "k"] | None = None,
) -> BlackBox:
    """The black box, completed by the leaves of its trees as boxes. A box has one interval for each encoded column.

    The black box is returned unchanged where the model takes raw rows, or the trees have too many leaves.

    Parameters
    ----------
    edges : function that converts thresholds in the file to the largest doubles that still go to the left child
    indices : for each column of the trees, the index of its encoded column; None if the trees take all encoded columns
    """
    columns = black_box.space.d
    size, most = sum(int((tree.left < 0).sum()) for tree in trees), LARGEST_BOXES if len(trees) == 1 else LARGEST_FOREST
    if black_box.input is not Input.ENCODED or not trees or size * columns > most:
        return black_box

    def arrays(tree: Tree) -> tuple[np.ndarray, ...]:
        feature = tree.feature if indices is None else indices[np.where(tree.left < 0, 0, tree.feature)]
        return feature, edges(tree.number), tree.left, tree.right

    if len(trees) == 1:
        return replace(black_box, boxes=Boxes.of_tree(*arrays(trees[0]), columns=columns, score=black_box.score))
    leaves = []
    for tree in trees:
        lower, upper, nodes = leaves_of_tree(*arrays(tree), columns=columns)
        leaves.append((lower, upper, tree.number[nodes]))
    return replace(black_box, forest=Forest.of_trees(leaves))
