"""Branch and bound over ReLU networks against a list of every legal row, or many, scored by the network itself."""

import random
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from app.errors import DeadlineExceeded, SolverFailed
from app.recourse.actions.action_set import action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.timing import Timing
from app.recourse.features import Advice, Feature, FeatureSpace, FeatureType, MaxChange, Takes
from app.recourse.models.relu_network import ReluNetwork
from app.recourse.proofs import network_branching as module
from app.recourse.proofs.network_branching import NetworkBranching
from tests.recourse.random_rules import domain, factual, legal_rows, rule_sets

SIZES = [(), (5,), (6, 4), (8, 6, 3)]


def network(rng: np.random.Generator, d: int, hidden: tuple[int, ...], leak: float = 0.0) -> ReluNetwork:
    sizes = (d, *hidden, 1)
    layers = tuple(
        (rng.normal(0.0, 1.2, (i, o)) / np.sqrt(i) * 2.0, rng.normal(0.0, 0.7, o)) for i, o in pairwise(sizes)
    )
    return ReluNetwork(layers, leak)


@pytest.mark.parametrize("hidden", SIZES, ids=lambda hidden: "-".join(map(str, hidden)) or "linear")
@pytest.mark.parametrize("leak", [0.0, 0.01])
def test_what_is_found_is_what_some_row_has_and_the_cheapest_is_cheapest(hidden: tuple[int, ...], leak: float) -> None:
    none = some = 0
    for seed in range(12):
        draw, rng = random.Random(seed), np.random.default_rng(seed)
        one = domain(draw)
        cap = draw.choice([None, 1, 2])
        actions = action_set(one.space, factual(draw, one), constraints=Constraints(max_changes=cap))
        rows = legal_rows(one, [])
        rows = rows[actions.changed(rows) <= (cap or 9)]
        stated, offset = network(rng, one.space.d, hidden, leak), float(rng.normal())
        scores = stated.logit(one.space.encode(rows)) - offset
        search = NetworkBranching(stated, offset, actions)
        levels = np.unique(np.append(np.quantile(scores, [0.5, 0.9]), scores.max()))
        for least in (*(float(level) - 1e-9 for level in levels), float(scores.max()) + 1e-9):
            found, cheapest = search.accepted(least), search.accepted(least, cheapest=True)
            reached = scores >= least
            if not reached.any():
                assert found is None
                assert cheapest is None
                none += 1
                continue
            assert found is not None
            assert cheapest is not None
            (place,) = np.flatnonzero((rows == found).all(axis=1))
            assert reached[place]
            assert reached[(rows == cheapest).all(axis=1)].all()
            assert actions.cost(cheapest[None])[0] <= actions.cost(rows[reached]).min() / module.ENOUGH
            some += 1
    assert none == 12
    assert some > 24


def test_what_is_found_keeps_rules_and_what_breaks_them_is_no_proof() -> None:
    none = some = 0
    for seed in range(40):
        for draw, one, rules, meanings in rule_sets(seed, 1):
            actions = action_set(one.space, factual(draw, one), rules=rules)
            rows, rng = legal_rows(one, meanings), np.random.default_rng(seed)
            stated = network(rng, one.space.d, (6, 4))
            scores = stated.logit(one.space.encode(rows))
            least = float(np.quantile(stated.logit(one.space.encode(legal_rows(one, []))), draw.uniform(0.5, 1.0)))
            found = NetworkBranching(stated, 0.0, actions).accepted(least)
            assert (found is not None) == bool((scores >= least).any())
            assert found is None or (rows == found).all(axis=1).any()
            none, some = none + (found is None), some + (found is not None)
    assert min(none, some) > 5


def numbers(time_s: float = 0.0) -> FeatureSpace:
    """Four numbers without a lattice, and a category of which one level is not proposed."""
    takes = Takes(months=time_s)
    return FeatureSpace(
        [
            *(
                Feature(name=name, type=FeatureType.CONTINUOUS, min=-2, max=2, center=0.0, scale=0.5, takes=takes)
                for name in "abcd"
            ),
            Feature(
                name="e", type=FeatureType.CATEGORICAL, categories=("x", "y", "z"), advice=Advice(categories=("x", "z"))
            ),
        ]
    )


def largest(search: NetworkBranching) -> tuple[float, float, np.ndarray]:
    """A score that is reached, a slightly higher one that none reaches, and the record of the first."""
    low, high, best = -200.0, 200.0, search.actions.factual_raw
    while high - low > 0.5:
        least = 0.5 * (low + high)
        found = search.accepted(least)
        low, high, best = (low, least, best) if found is None else (least, high, found)
    return low, high, best


@pytest.mark.parametrize("limits", ["none", "changes", "time", "least change"])
def test_numbers_without_a_lattice_are_divided_until_it_is_known(limits: str) -> None:
    """Largest scores, found by halving, against many random records and the best of their neighbours."""
    months = 6.0
    space = numbers(4.0 if limits == "time" else 0.0)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        stated = network(rng, space.d, (8, 6))
        own = np.append(rng.uniform(-1.0, 1.0, 4), rng.integers(3))
        constraints = Constraints(
            max_changes=2 if limits == "changes" else None,
            max_change={name: MaxChange(absolute=0.8) for name in "abcd"},
        )
        timing = Timing(horizon_months=months, sequential=True) if limits == "time" else Timing()
        actions = action_set(space, own, constraints=constraints, timing=timing,
                             least_share=0.5 if limits == "least change" else 0.0)  # fmt: skip
        assert actions.has_gaps == (limits == "least change")
        assert actions.clock.is_shared == (limits == "time")
        low, high, best = largest(NetworkBranching(stated, 0.0, actions))
        assert actions.contains(best[None])[0]
        tried = np.tile(own, (100_000, 1))
        tried[:, :4] += np.where(rng.random((len(tried), 4)) < 0.5, rng.uniform(-0.8, 0.8, (len(tried), 4)), 0.0)
        tried[:, 4] = np.where(rng.random(len(tried)) < 0.5, tried[:, 4], rng.integers(3, size=len(tried)))
        beside = np.tile(best, (20_000, 1))
        moved = beside[:, :4] != own[:4]
        beside[:, :4] += np.where(moved, rng.normal(0.0, 0.05, moved.shape), 0.0)
        legal = actions.snap(np.concatenate([tried, beside]))
        legal = legal[actions.contains(legal)]
        assert len(legal) > 5_000
        most = float(stated.logit(space.encode(legal)).max())
        assert most <= high
        assert most > low - 0.5


def test_a_search_ends_with_its_effort_or_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    space, rng = numbers(), np.random.default_rng(3)
    stated = network(rng, space.d, (8, 6))
    actions = action_set(space, np.array([0.0, 0.0, 0.0, 0.0, 1.0]))
    search = NetworkBranching(stated, 0.0, actions)
    low, high, _ = largest(search)
    monkeypatch.setattr(module, "MOST_WORK", 1e4)
    with pytest.raises(SolverFailed, match="too many"):
        search.accepted(high)
    with pytest.raises(DeadlineExceeded):
        search.accepted(high, deadline=time.monotonic())
    # Once a record is known, the effort for the cheapest may end before it is found.
    least = 0.5 * (float(stated.logit(actions.x0[None])[0]) + low)
    dear = search.accepted(least, cheapest=True)
    monkeypatch.setattr(module, "MOST_WORK", 1e6)
    cheap = search.accepted(least, cheapest=True)
    assert dear is not None
    assert cheap is not None
    assert actions.cost(cheap[None])[0] < actions.cost(dear[None])[0]


def test_what_stays_as_it_is_costs_no_columns() -> None:
    space = numbers()
    actions = action_set(space, np.array([0.5, -0.5, 0.0, 1.0, 2.0]), constraints=Constraints(immutable=("a", "e")))
    stated = network(np.random.default_rng(4), space.d, (7,))
    search = NetworkBranching(stated, 0.25, actions)
    assert search.layers[0][0].shape == (3, 7)
    moved = np.tile(actions.factual_raw, (5, 1))
    moved[:, 1:4] = np.random.default_rng(5).uniform(-2.0, 2.0, (5, 3))
    same = replace(stated, layers=search.layers).logit(search.points(moved)) - search.offset
    assert same == pytest.approx(stated.logit(space.encode(moved)) - 0.25)
