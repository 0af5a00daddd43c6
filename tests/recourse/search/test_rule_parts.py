"""Parts, cuts and pieces: no legal record is ever lost."""

import random

import numpy as np
import pytest

from app.recourse.actions.action_set import action_set
from app.recourse.actions.rules import Comparison, LogicRule, parts_of
from app.recourse.search.enclosures import MINUS, Enclosure, Quotient, Unbounded, Variable, constant
from app.recourse.search.mixed_integer import ActionProgram
from app.recourse.search.rule_branching import RuleBranching
from app.recourse.search.rule_parts import Empty, Part, Parts
from tests.recourse.random_rules import Domain, factual, rule_sets


def some_part(draw: random.Random, whole: Part, rows: np.ndarray) -> Part:
    """A box between two random rows."""
    low, high = rows[draw.randrange(len(rows))], rows[draw.randrange(len(rows))]
    numbers = np.array([j not in whole.levels for j in range(len(low))])
    lower = np.where(numbers, np.clip(np.minimum(low, high), whole.lower_raw, whole.upper_raw), whole.lower_raw)
    upper = np.where(numbers, np.clip(np.maximum(low, high), whole.lower_raw, whole.upper_raw), whole.upper_raw)
    levels = {g: own & {int(low[g]), int(high[g])} or own for g, own in whole.levels.items()}
    return Part(lower, upper, levels, whole.conditions)


def inside(part: Part, rows: np.ndarray) -> np.ndarray:
    """Rows of the box."""
    keep = np.ones(len(rows), dtype=bool)
    for j in range(rows.shape[1]):
        if j in part.levels:
            keep &= np.isin(rows[:, j], list(part.levels[j]))
        else:
            keep &= (rows[:, j] >= part.lower_raw[j] - 1e-9) & (rows[:, j] <= part.upper_raw[j] + 1e-9)
    return rows[keep]


def parts_under_rules(
    seed: int, count: int
) -> list[tuple[random.Random, Domain, tuple[LogicRule, ...], Parts, Part, np.ndarray]]:
    found = []
    for draw, domain, rules, _ in rule_sets(seed, count):
        logic = tuple(rule for rule in rules if isinstance(rule, LogicRule))
        actions = action_set(domain.space, factual(draw, domain), rules=rules)
        branching = RuleBranching(ActionProgram(actions))
        rows = domain.rows()
        part = some_part(draw, branching.parts.whole, rows)
        found.append((draw, domain, logic, branching.parts, part, inside(part, rows)))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_excludes_a_row_that_keeps_the_comparison(seed: int) -> None:
    for _, _, rules, parts, part, rows in parts_under_rules(seed, 4):
        for rule in rules:
            for comparison in parts_of(rule.condition):
                if not isinstance(comparison, Comparison):
                    continue
                allowed = rows[comparison.allows(rows)]
                try:
                    cuts = parts.cuts(part, comparison)
                except Empty:
                    assert not len(allowed), rule.text
                    continue
                for cut in cuts:
                    left = np.zeros(len(rows))
                    for variable, slope in cut.slopes.items():
                        values = rows[:, variable.column]
                        left += slope * (np.array(variable.numbers)[values.astype(int)] if variable.numbers else values)
                    keeps = left <= cut.limit + cut.rounding + 1e-9 * (1.0 + np.abs(left))
                    assert keeps[comparison.allows(rows)].all(), rule.text
                    if cut.exact and not cut.strict and len(cuts) == 1:
                        assert (keeps == comparison.allows(rows)).all(), rule.text


@pytest.mark.parametrize("seed", range(60))
def test_a_tightened_part_has_the_same_legal_rows(seed: int) -> None:
    for _, _, rules, parts, part, rows in parts_under_rules(seed, 4):
        legal = rows[np.logical_and.reduce([np.ones(len(rows), dtype=bool), *(rule.holds(rows) for rule in rules)])]
        try:
            tightened = parts.tightened(part)
        except Empty:
            assert not len(legal)
            continue
        assert len(inside(tightened, legal)) == len(legal)
        kept = inside(tightened, rows)
        for condition in tightened.conditions:
            kept = kept[condition.allows(kept)]
        assert sorted(map(tuple, kept)) == sorted(map(tuple, legal))


@pytest.mark.parametrize("seed", range(20))
def test_pieces_of_a_range_have_all_its_values(seed: int) -> None:
    for draw, domain, _, parts, part, rows in parts_under_rules(seed, 4):
        for j, feature in enumerate(domain.own):
            low, high = part.lower_raw[j], part.upper_raw[j]
            if feature.is_group or low == high or not len(rows):
                continue
            at = float(draw.choice(rows)[j])
            pieces = [
                piece for piece in parts.pieces(j, low, high, at, known=draw.random() < 0.5) if piece[0] <= piece[1]
            ]
            values = np.unique(rows[:, j])
            covered = [sum(first <= value <= last for first, last in pieces) for value in values.tolist()]
            assert min(covered) == max(covered) == 1
            assert all(last - first < high - low for first, last in pieces)


X, Y = Variable(0), Variable(1)


def variable(name: Variable, low: float, high: float) -> Quotient:
    return Quotient(Enclosure((low, high), low, {name: (1.0, 1.0)}, max(abs(low), abs(high))))


def test_linear_functions_have_one_slope_each() -> None:
    x, y = variable(X, 1, 3), variable(Y, 0, 5)
    two = Quotient(constant(2.0))
    found = (two * x - y) / two
    over = found.numerator()
    assert over is not None
    assert over.is_linear
    assert over.slopes == {X: (2.0, 2.0), Y: (-1.0, -1.0)}
    assert over.range == (-3.0, 6.0)


def test_a_product_has_the_envelope_of_mccormick() -> None:
    x, y = variable(X, 1, 3), variable(Y, 2, 5)
    assert (x * y).over.slopes in ({X: (2.0, 2.0), Y: (1.0, 3.0)}, {X: (2.0, 5.0), Y: (1.0, 1.0)})
    assert (x * y).over.range == (2.0, 15.0)


def test_a_quotient_is_multiplied_out_where_the_sign_is_known() -> None:
    x = variable(X, 1, 3)
    assert (x / variable(Y, 0, 5)).numerator() == x.over
    assert (x / variable(Y, -5, -1)).numerator() == MINUS * x.over
    assert (x / variable(Y, -5, 0)).numerator() is None
    assert (x / variable(Y, -1, 5)).numerator() is None
    with pytest.raises(Unbounded):
        (x / variable(Y, 0, 5)).number()
    assert (x / variable(Y, 2, 4)).number().range == (0.25, 1.5)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_reciprocal_has_the_steepest_and_the_flattest_secant_from_its_anchor(sign: float) -> None:
    x = Variable(0)
    ends = sorted((2.0 * sign, 4.0 * sign))
    inverse = Enclosure((ends[0], ends[1]), 2.0 * sign, {x: (1.0, 1.0)}, 4.0).reciprocal()
    assert inverse.range == tuple(sorted((0.25 * sign, 0.5 * sign)))
    assert inverse.anchor == 0.5 * sign
    assert inverse.slopes == {x: (-0.25, -0.125)}
    assert inverse.size == 1.0  # 4, times the largest 1/g squared


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.0, 0.0), (-1.0, 1.0)])
def test_what_may_be_zero_has_no_reciprocal(ends: tuple[float, float]) -> None:
    with pytest.raises(Unbounded):
        Enclosure(ends, 0.5, {Variable(0): (1.0, 1.0)}, 1.0).reciprocal()
