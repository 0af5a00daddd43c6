"""The program of a ReLU network against a list of every legal row, scored by the network itself."""

import random
from itertools import pairwise

import numpy as np
import pytest

from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.models.relu_network import ReluNetwork
from app.recourse.search.mixed_integer import ActionProgram
from app.recourse.search.network_program import NetworkProgram
from tests.recourse.random_rules import domain, factual, legal_rows

SIZES = [(), (5,), (6, 4), (8, 6, 3)]


def network(rng: np.random.Generator, d: int, hidden: tuple[int, ...], leak: float) -> ReluNetwork:
    sizes = (d, *hidden, 1)
    layers = tuple(
        (rng.normal(0.0, 1.2, (i, o)) / np.sqrt(i) * 2.0, rng.normal(0.0, 0.7, o)) for i, o in pairwise(sizes)
    )
    return ReluNetwork(layers, leak)


@pytest.mark.parametrize("hidden", SIZES, ids=lambda hidden: "-".join(map(str, hidden)) or "linear")
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_the_cheapest_actions_are_those_of_all_rows(hidden: tuple[int, ...], leak: float) -> None:
    none = some = 0
    for seed in range(12):
        draw, rng = random.Random(seed), np.random.default_rng(seed)
        one = domain(draw)
        cap = draw.choice([None, 1, 2])
        actions = action_set(one.space, factual(draw, one), constraints=Constraints(max_changes=cap))
        rows = legal_rows(one, [])
        rows = rows[actions.changed(rows) <= (cap or 9)]
        stated = network(rng, one.space.d, hidden, leak)
        offset = float(rng.normal())
        scores = stated.logit(one.space.encode(rows)) - offset
        program = NetworkProgram(ActionProgram(actions, reach=np.inf), stated, offset)
        assert scores.max() <= program.most + 1e-9
        assert program.error < 5e-3
        # Between two scores, so that nothing depends on the last digits; and beyond the largest.
        levels = np.unique(np.append(np.quantile(scores, [0.5, 0.9]), scores.max()))
        between = [0.5 * (level + scores[scores > level].min(initial=level + 2.0)) for level in levels]
        for least in between:
            reached = scores >= least
            found = program.cheapest(float(least))
            if not reached.any():
                assert found is None
                none += 1
                continue
            assert found is not None
            assert found.value == pytest.approx(actions.cost(rows[reached]).min(), abs=1e-5)
            assert stated.logit(one.space.encode(found.row_raw[None]))[0] - offset >= least - 1e-5
            assert (rows == found.row_raw).all(axis=1).any()
            some += 1
    assert none > 5
    assert some > 5


def test_units_that_are_always_on_or_off_need_no_variables() -> None:
    draw = random.Random(3)
    one = domain(draw)
    actions = action_set(one.space, factual(draw, one))
    base, d = ActionProgram(actions, reach=np.inf), one.space.d
    weights = np.random.default_rng(0).normal(size=(d, 4))
    settled = ReluNetwork(((weights, np.array([99.0, -99.0, 99.0, -99.0])), (np.ones((4, 1)), np.zeros(1))))
    program = NetworkProgram(base, settled, 0.0)
    assert program.score.slope.shape == (1, base.size)
    on = weights[:, [0, 2]].sum(axis=1)
    assert program.score.slope[0] == pytest.approx(on @ base.effect)
