"""The leaves of decision trees, each with what a row must have in each column to end in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import Bool, Float, Int


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """One decision tree as arrays over its k nodes: node 0 is the root, and a node is a leaf if its `left` is negative.

    Inner node k sends a row left iff ``x[feature[k]] <= edge[k]``. There are no cycles.
    """

    feature: Int[np.ndarray, "k"]
    edge: Float[np.ndarray, "k"]
    left: Int[np.ndarray, "k"]
    right: Int[np.ndarray, "k"]
    missing_left: Bool[np.ndarray, "k"] | None = None
    """Whether the node sends NaN left; None where there is no NaN."""
    codes_left: Mapping[int, Bool[np.ndarray, "c"]] = field(default_factory=dict)
    """For nodes that split by codes instead: of each code from 0 whether it goes left; all others go right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaves:
    """Leaves of one or several trees, one tree after the other."""

    lower: Float[np.ndarray, "m d"]
    """Lower side of each leaf, which is not in it; -inf without such a side."""
    upper: Float[np.ndarray, "m d"]
    """Upper side of each leaf, which is in it; inf without such a side."""
    missing: Bool[np.ndarray, "m d"]
    """Whether NaN is in the leaf."""
    codes: Mapping[int, Bool[np.ndarray, "m c"]]
    """For columns that are split by codes: whether each code is in the leaf."""
    tree: Int[np.ndarray, "m"]
    """Index of the tree."""
    node: Int[np.ndarray, "m"]
    """Index of the leaf among the nodes of its tree."""

    def __getitem__(self, places: np.ndarray) -> "Leaves":
        """The leaves at some places, or those that a mask selects."""
        return Leaves(
            lower=self.lower[places], upper=self.upper[places], missing=self.missing[places],
            codes={j: table[places] for j, table in self.codes.items()}, tree=self.tree[places], node=self.node[places],
        )  # fmt: skip

    def hold(self, j: int, numbers: Float[np.ndarray, "v"]) -> Bool[np.ndarray, "m v"]:
        """Whether each leaf has each of some numbers in column `j`; NaN is a missing one, as is a negative code."""
        held = (self.lower[:, j, None] < numbers) & (numbers <= self.upper[:, j, None])
        absent = np.isnan(numbers)
        if (table := self.codes.get(j)) is not None:
            absent |= numbers < 0.0
            held &= table[:, np.where(absent, 0.0, numbers).astype(np.intp)]
        return np.where(absent, self.missing[:, j, None], held)


def leaves_of(trees: Sequence[Splits], columns: int, codes: Mapping[int, int] | None = None) -> Leaves:
    """All leaves that any row can reach.

    Parameters
    ----------
    columns : number of columns of the rows
    codes : for each column that trees split by codes, the number of codes
    """
    counts = codes or {}
    roots = np.cumsum([0, *(len(one.feature) for one in trees)])
    feature, edge = (np.concatenate([getattr(one, name) for one in trees]) for name in ("feature", "edge"))
    left, right = (
        np.concatenate([np.where(getattr(one, name) < 0, -1, getattr(one, name) + root)
                        for one, root in zip(trees, roots, strict=False)])
        for name in ("left", "right")
    )  # fmt: skip
    absent = [np.zeros(len(one.feature), dtype=bool) if one.missing_left is None else one.missing_left for one in trees]
    missing_left = np.concatenate(absent)
    sets, place = _sets(trees, roots, counts, feature)
    count = len(trees)
    level = Leaves(
        lower=np.full((count, columns), -np.inf), upper=np.full((count, columns), np.inf),
        missing=np.repeat([[one.missing_left is not None] for one in trees], columns, axis=1),
        codes={j: np.ones((count, size), dtype=bool) for j, size in counts.items()},
        tree=np.arange(count), node=roots[:-1],
    )  # fmt: skip
    found = []
    while len(level.node):
        ends = left[level.node] < 0
        found.append(level[ends])
        level = level[~ends]
        node, rows = level.node, np.arange(len(level.node))
        j, numeric = feature[node], place[node] < 0
        sides = []
        for side, to in ((True, left), (False, right)):
            one = replace(level[rows], node=to[node])
            at = rows[numeric], j[numeric]
            if side:
                one.upper[at] = np.minimum(one.upper[at], edge[node][numeric])
            else:
                one.lower[at] = np.maximum(one.lower[at], edge[node][numeric])
            one.missing[rows, j] &= missing_left[node] == side
            alive = one.lower[rows, j] < one.upper[rows, j]
            for column, table in one.codes.items():
                here = rows[~numeric & (j == column)]
                table[here] &= sets[column][place[node[here]]] == side
                alive[here] &= table[here].any(axis=1)
            sides.append(one[alive | one.missing[rows, j]])
        level = _joined(sides)
    leaves = _joined(found)
    ordered = leaves[np.argsort(leaves.tree, kind="stable")]
    return replace(ordered, node=ordered.node - roots[ordered.tree])


def _sets(
    trees: Sequence[Splits], roots: np.ndarray, counts: Mapping[int, int], feature: np.ndarray
) -> tuple[dict[int, Bool[np.ndarray, "s c"]], Int[np.ndarray, "k"]]:
    """By column the codes that go left at each split by codes, and of each node its place there; -1 of other nodes."""
    sets: dict[int, list[np.ndarray]] = {j: [] for j in counts}
    place = np.full(len(feature), -1)
    for one, root in zip(trees, roots, strict=False):
        for node, goes in one.codes_left.items():
            j = int(feature[root + node])
            known = np.zeros(counts[j], dtype=bool)
            known[: min(len(goes), counts[j])] = goes[: counts[j]]
            place[root + node] = len(sets[j])
            sets[j].append(known)
    return {j: np.array(listed).reshape(len(listed), counts[j]) for j, listed in sets.items()}, place


def _joined(parts: Sequence[Leaves]) -> Leaves:
    def of(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts])

    return Leaves(
        lower=of("lower"), upper=of("upper"), missing=of("missing"), tree=of("tree"), node=of("node"),
        codes={j: np.concatenate([part.codes[j] for part in parts]) for j in parts[0].codes},
    )  # fmt: skip
