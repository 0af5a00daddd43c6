"""Branch and bound over ensembles of trees against a list of every legal row, each sent down every tree."""

import random
from typing import TypeAlias

import numpy as np
import pytest

import app.recourse.proofs.forest_branching as module
from app.errors import SolverFailed
from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.features import FeatureSpace
from app.recourse.models.forest import Forest
from app.recourse.models.tree_leaves import Splits
from app.recourse.proofs.forest_branching import ForestBranching
from tests.recourse.random_rules import domain, factual, legal_rows, rule_sets

Node: TypeAlias = tuple[int, float, "Node", "Node"] | float


def grown(draw: random.Random, space: FeatureSpace, X: np.ndarray, depth: int) -> Node:
    """A random tree; splits lie between values of the points, or on one."""
    if depth == 0 or draw.random() < 0.1:
        return draw.gauss(0.0, 1.0)
    j = draw.randrange(space.d)
    values = np.unique(X[:, j])
    k = draw.randrange(len(values))
    edge = float(values[k] if draw.random() < 0.3 or k + 1 == len(values) else 0.5 * (values[k] + values[k + 1]))
    return j, edge, grown(draw, space, X, depth - 1), grown(draw, space, X, depth - 1)


def walked(node: Node, x: np.ndarray) -> float:
    while not isinstance(node, float):
        j, edge, left, right = node
        node = left if x[j] <= edge else right
    return node


def forest_of(trees: list[Node], space: FeatureSpace) -> Forest:
    found = []
    for tree in trees:
        feature, number, left, right = list[int](), list[float](), list[int](), list[int]()

        def add(node: Node, to: tuple[list[int], list[float], list[int], list[int]]) -> int:
            k = len(to[0])
            for part, value in zip(to, (0, 0.0, -1, -1), strict=True):
                part.append(value)  # type: ignore[arg-type]
            if isinstance(node, float):
                to[1][k] = node
            else:
                to[0][k], to[1][k] = node[0], node[1]
                to[2][k], to[3][k] = add(node[2], to), add(node[3], to)
            return k

        add(tree, (feature, number, left, right))
        edge = np.array(number)
        splits = Splits(feature=np.array(feature), edge=edge, left=np.array(left), right=np.array(right))
        found.append((splits, edge))
    return Forest.of_trees(found, lambda X: X, space.d)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_what_can_be_reached_is_what_some_row_has(sign: float) -> None:
    none = some = 0
    for seed in range(12):
        draw = random.Random(seed)
        one = domain(draw)
        cap = draw.choice([None, 1, 2])
        actions = action_set(one.space, factual(draw, one), constraints=Constraints(max_changes=cap))
        rows = legal_rows(one, [])
        rows = rows[actions.changed(rows) <= (cap or 9)]
        X = one.space.encode(rows)
        trees = [grown(draw, one.space, one.space.encode(legal_rows(one, [])), 3) for _ in range(6)]
        margins = sign * np.array([sum(walked(tree, x) for tree in trees) for x in X])
        forest = forest_of(trees, one.space)
        assert forest.margin(X[:50]) == pytest.approx(sign * margins[:50])
        search = ForestBranching(forest, one.space.encode, actions, sign)
        for least in (float(np.median(margins)), float(margins.max()) - 1e-6, float(margins.max()) + 1e-6):
            found = search.accepted(least)
            if (margins >= least).any():
                assert found is not None
                (place,) = np.flatnonzero((rows == found).all(axis=1))
                assert margins[place] >= least
                some += 1
            else:
                assert found is None
                none += 1
    assert none == 12
    assert some == 24


def test_effort_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(0)
    one = domain(draw)
    actions = action_set(one.space, factual(draw, one))
    rows = legal_rows(one, [])
    trees = [grown(draw, one.space, one.space.encode(rows), 3) for _ in range(6)]
    search = ForestBranching(forest_of(trees, one.space), one.space.encode, actions)
    margins = forest_of(trees, one.space).margin(one.space.encode(rows[actions.contains(rows)]))
    # One box is looked at, and its bound alone says nothing.
    monkeypatch.setattr(module, "MOST_WORK", 0.0)
    with pytest.raises(SolverFailed, match="too many"):
        search.accepted(float(margins.max()))


def test_rules_leave_nothing_proven_that_is_not_so() -> None:
    """Bounds do not know rules: a record that breaks one is no answer, and nothing is proven by it."""
    proven = found = lost = 0
    for seed in range(20):
        for draw, one, rules, meanings in rule_sets(seed, 1):
            actions = action_set(one.space, factual(draw, one), rules=rules)
            rows = legal_rows(one, meanings)
            everything = one.space.encode(legal_rows(one, []))
            trees = [grown(draw, one.space, everything, 2) for _ in range(3)]
            margins = np.array([sum(walked(tree, x) for tree in trees) for x in one.space.encode(rows)])
            least = draw.uniform(0.0, 3.0)
            try:
                row_raw = ForestBranching(forest_of(trees, one.space), one.space.encode, actions).accepted(least)
            except SolverFailed:
                lost += 1
                continue
            assert (row_raw is not None) == bool((margins >= least).any())
            proven, found = proven + (row_raw is None), found + (row_raw is not None)
    assert min(proven, found) > 3
