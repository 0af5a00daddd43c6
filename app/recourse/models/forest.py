"""An ensemble of decision trees: its margin is the sum over the trees of the value of the leaf that a row is in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from app.recourse.models.tree_leaves import Leaves, Splits, leaves_of


@dataclass(frozen=True, eq=False)
class Forest:
    """The leaves of several decision trees. A row is in one leaf of each tree."""

    leaves: Leaves
    values: Float[np.ndarray, "m"]
    """What a leaf adds to the margin."""
    matrix: Callable[[np.ndarray], Float[np.ndarray, "n d"]]
    """Maps the input of the black box, (n, …), to the columns of the trees; each is a function of one feature."""

    @classmethod
    def of_trees(
        cls,
        trees: Sequence[tuple[Splits, Float[np.ndarray, "_"]]],
        matrix: Callable[[np.ndarray], np.ndarray],
        columns: int,
        codes: dict[int, int] | None = None,
    ) -> "Forest":
        """The forest of several trees, each with the values of its nodes, of which those of leaves count.

        `codes` has the number of codes of each column that trees split by codes.
        """
        leaves = leaves_of([splits for splits, _ in trees], columns, codes)
        starts = np.cumsum([0, *(len(values) for _, values in trees)])
        return cls(leaves, np.concatenate([values for _, values in trees])[starts[leaves.tree] + leaves.node], matrix)

    def margin(self, rows: np.ndarray) -> Float[np.ndarray, "n"]:
        """The margin of each row of the black box's input."""
        inside = np.ones((len(self.values), len(rows)), dtype=bool)
        for j, numbers in enumerate(self.matrix(rows).T):
            inside &= self.leaves.hold(j, numbers)
        return np.asarray(self.values @ inside)
