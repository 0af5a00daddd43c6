"""The committee's search, against brute force over every record of small lattices."""

from itertools import product
from statistics import NormalDist

import numpy as np
import pytest

from app.recourse.actions.action_set import ActionSet, Constraints, action_set
from app.recourse.features import Change, Feature, FeatureSpace, FeatureType
from app.recourse.models.linear import LinearModel
from app.recourse.problem import AskedOnce
from app.recourse.search.committee import CommitteeSearch
from app.recourse.search.levels import Levels

MODELS = 20
EMPTY = np.empty((0, 4))
SPACE = FeatureSpace(
    [
        Feature(name=name, type=FeatureType.INTEGER, min=0, max=8, change=Change.ANY, center=0.0, scale=scale)
        for name, scale in (("a", 2.0), ("b", 2.0), ("c", 4.0))
    ]
    + [Feature(name="kind", type=FeatureType.CATEGORICAL, categories=("x", "y", "z"), change=Change.ANY)]
)
FACTUAL = np.array([2.0, 3.0, 1.0, 0.0])


def committee(seed: int) -> list[LinearModel]:
    """Today's model and future ones, each a noisy copy."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=SPACE.d)
    models = [LinearModel(w=w + 0.35 * rng.normal(size=SPACE.d), c=0.0) for _ in range(1 + MODELS)]
    start = SPACE.encode(FACTUAL[None])
    return [LinearModel(w=m.w, c=-float(m.score(start)[0]) - 1.2 - 0.2 * rng.random()) for m in models]


def scores_of(models: list[LinearModel]):
    return lambda rows: np.column_stack([model.score(SPACE.encode(rows)) for model in models])


def every_record(actions: ActionSet) -> np.ndarray:
    rows = np.array(list(product(range(9), range(9), range(9), range(3))), dtype=float)
    return rows[actions.contains(rows)]


def least_cost(actions: ActionSet, models: list[LinearModel], share: float) -> float:
    rows = every_record(actions)
    scores = scores_of(models)(rows)
    good = (scores[:, 0] >= 0) & ((scores[:, 1:] >= 0).mean(axis=1) >= share - 1e-9)
    return float(actions.cost(rows[good]).min(initial=np.inf))


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("seed", range(8))
def test_as_cheap_as_brute_force(seed: int, share: float) -> None:
    actions, models = action_set(SPACE, FACTUAL), committee(seed)
    best = least_cost(actions, models, share)
    found = CommitteeSearch(actions, scores_of(models), Levels(share)).run(EMPTY)
    if np.isinf(best):
        assert found is None
        return
    assert found is not None
    scores = scores_of(models)(found.row_raw[None])[0]
    assert scores[0] >= 0
    assert (scores[1:] >= 0).mean() >= share
    assert found.share == (scores[1:] >= 0).mean()
    assert actions.contains(found.row_raw[None])[0]
    assert best - 1e-9 <= found.value <= 1.15 * best


@pytest.mark.parametrize("share", [1.0, np.inf])
@pytest.mark.parametrize("seed", range(6))
def test_a_mean_far_above_0_counts_as_so_many_models(seed: int, share: float) -> None:
    """Three stresses of four models each, of which one asks for fewer; by brute force, rule by rule.

    With an infinite share no number of models suffices, only their mean.
    """
    actions, models, plain = action_set(SPACE, FACTUAL), committee(seed), 8
    stressed = [(slice(9, 13), 3), (slice(13, 17), 3), (slice(17, 21), 4)]
    rows = every_record(actions)
    good = []
    for scores in scores_of(models)(rows):
        own, spread = scores[1 : 1 + plain], scores[1 : 1 + plain].std()
        enough = (own >= 0).mean() >= share or ((own >= 0).mean() >= 0.5 and own.mean() >= 1.0 * spread)
        for columns, needed in stressed:
            few = scores[columns]
            far = NormalDist().inv_cdf({3: 0.75, 4: 0.875}[needed])
            enough &= (few >= 0).sum() >= needed or few.mean() >= far * spread
        good.append(enough and scores[0] >= 0)
    best = float(actions.cost(rows[np.array(good)]).min(initial=np.inf))
    search = CommitteeSearch(
        actions, scores_of(models), Levels(share, plain=plain, bell=True, sure=(0.5, 1.0), stressed=stressed)
    )
    found = search.run(EMPTY)
    assert (found is None) == np.isinf(best)
    if found is not None:
        assert best - 1e-9 <= found.value <= 1.15 * best
        signs = CommitteeSearch(actions, scores_of(models), Levels(1.0, plain=plain, stressed=stressed)).run(EMPTY)
        assert signs is None or share == np.inf or found.value <= signs.value + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_respects_a_cap_on_changes(seed: int) -> None:
    actions, models = action_set(SPACE, FACTUAL, constraints=Constraints(max_changes=1)), committee(seed)
    best = least_cost(actions, models, 0.8)
    found = CommitteeSearch(actions, scores_of(models), Levels(0.8)).run(EMPTY)
    assert (found is None) == np.isinf(best)
    if found is not None:
        assert (found.row_raw != FACTUAL).sum() == 1
        assert found.value <= 1.15 * best


def test_where_the_share_is_out_of_reach_the_record_of_the_largest_share_is_nearest() -> None:
    actions, models = action_set(SPACE, FACTUAL), committee(0)
    # Half of the future models accept nothing at all.
    models = [models[0], *(LinearModel(w=m.w, c=m.c - 100.0 * (i % 2)) for i, m in enumerate(models[1:]))]
    search = CommitteeSearch(actions, scores_of(models), Levels(0.9))
    assert search.run(EMPTY) is None
    assert search.nearest is not None
    rows = every_record(actions)
    scores = scores_of(models)(rows)
    reachable = (scores[scores[:, 0] >= 0, 1:] >= 0).mean(axis=1).max()
    assert search.nearest.own_score >= 0
    assert search.nearest.share == pytest.approx(reachable, abs=0.101)


def test_a_share_is_never_had_for_more_than_a_larger_one() -> None:
    actions, models = action_set(SPACE, FACTUAL), committee(3)
    values = []
    for share in (0.5, 0.7, 0.9):
        found = CommitteeSearch(actions, scores_of(models), Levels(share)).run(EMPTY)
        assert found is not None
        values.append(found.value)
    assert values == sorted(values)


def test_records_that_may_not_be_answered_are_not() -> None:
    actions, models = action_set(SPACE, FACTUAL), committee(1)
    free = CommitteeSearch(actions, scores_of(models), Levels(0.8)).run(EMPTY)
    assert free is not None
    moved = int(np.flatnonzero(free.row_raw != FACTUAL)[0])
    search = CommitteeSearch(
        actions, scores_of(models), Levels(0.8), admits=lambda rows: rows[:, moved] != free.row_raw[moved]
    )
    found = search.run(EMPTY)
    assert found is None or found.row_raw[moved] != free.row_raw[moved]


def test_a_margin_is_kept_by_todays_model() -> None:
    actions, models = action_set(SPACE, FACTUAL), committee(2)
    found = CommitteeSearch(actions, scores_of(models), Levels(0.5, own_margin=0.7)).run(EMPTY)
    assert found is not None
    assert models[0].score(SPACE.encode(found.row_raw[None]))[0] >= 0.7


def test_a_rule_that_ties_numbers_is_kept() -> None:
    from app.recourse.actions.rules import LinearRule

    rule = LinearRule(coefficients_raw=(1.0, 1.0, 0.0, 0.0), limit=5.0, equality=True, text="a + b = 5")
    actions, models = action_set(SPACE, FACTUAL, rules=[rule]), committee(4)
    best = least_cost(actions, models, 0.6)
    found = CommitteeSearch(actions, scores_of(models), Levels(0.6)).run(EMPTY)
    assert (found is None) == np.isinf(best)
    if found is not None:
        assert found.row_raw[0] + found.row_raw[1] == 5.0
        assert found.value <= 1.15 * best


SMOOTH = FeatureSpace(
    [
        Feature(name=name, type=FeatureType.CONTINUOUS, min=0, max=8, change=Change.ANY, center=0.0, scale=scale)
        for name, scale in (("a", 2.0), ("b", 2.0), ("c", 4.0))
    ]
)


@pytest.mark.parametrize("case", [8, 10, 18, 22, 27])
def test_one_change_is_not_two_where_it_costs_a_tenth_more_at_most(case: int) -> None:
    """Against every single change on a fine grid."""
    rng, fact = np.random.default_rng(case), FACTUAL[:3]
    w = rng.normal(size=3)
    models = [LinearModel(w=w + 0.2 * rng.normal(size=3), c=0.0) for _ in range(1 + MODELS)]
    start = SMOOTH.encode(fact[None])
    models = [LinearModel(w=m.w, c=-float(m.score(start)[0]) - 0.8) for m in models]

    def scores(rows: np.ndarray) -> np.ndarray:
        return np.column_stack([model.score(SMOOTH.encode(rows)) for model in models])

    actions = action_set(SMOOTH, fact)
    search = CommitteeSearch(actions, scores, Levels(0.8), tidy=0.1)
    found = search.run(EMPTY[:, :3])
    assert found is not None
    assert search.best is not None
    if (found.row_raw != fact).sum() == 1:
        return
    single = np.repeat(fact[None], 3 * 2001, axis=0)
    single[np.arange(len(single)), np.repeat(np.arange(3), 2001)] = np.tile(np.linspace(0.0, 8.0, 2001), 3)
    near = actions.cost(single) <= 1.09 * search.best.value
    good = (scores(single)[:, 0] >= 0) & ((scores(single)[:, 1:] >= 0).mean(axis=1) >= 0.8)
    assert not (near & good).any()


@pytest.mark.parametrize("seed", range(4))
def test_a_search_goes_on_from_what_an_earlier_one_asked(seed: int) -> None:
    actions, models, asked = action_set(SPACE, FACTUAL), committee(seed), list[np.ndarray]()

    def ask(rows: np.ndarray) -> np.ndarray:
        asked.append(rows)
        return scores_of(models)(rows)

    scored = AskedOnce(ask)
    strict = CommitteeSearch(actions, scored.scores, Levels(0.95)).run(EMPTY)
    lax = CommitteeSearch(actions, scored.scores, Levels(0.5)).run(scored.rows_raw)
    rows, best = np.concatenate(asked), least_cost(actions, models, 0.5)
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert lax is not None
    assert best - 1e-9 <= lax.value <= 1.15 * best
    assert strict is None or lax.value <= strict.value


def test_patience_ends_a_search_that_accepts_nothing() -> None:
    actions, models = action_set(SPACE, FACTUAL), committee(0)
    never = scores_of([LinearModel(w=m.w, c=m.c - 1e3) for m in models])
    rows = {rounds: AskedOnce(never) for rounds in (1, 6)}
    for rounds, scored in rows.items():
        assert CommitteeSearch(actions, scored.scores, Levels(0.5), patience=rounds).run(EMPTY) is None
    assert len(rows[1].rows_raw) < len(rows[6].rows_raw)


@pytest.mark.parametrize("seed", range(4))
def test_no_accepted_record_costs_more_than_most(seed: int) -> None:
    actions, models = action_set(SPACE, FACTUAL), committee(seed)
    free = CommitteeSearch(actions, scores_of(models), Levels(0.5)).run(EMPTY)
    assert free is not None
    search = CommitteeSearch(actions, scores_of(models), Levels(0.95), most=1.05 * free.value)
    found, best = search.run(EMPTY), least_cost(actions, models, 0.95)
    assert found is None if best > 1.05 * free.value else found is not None and found.value <= 1.05 * free.value
    rows = every_record(actions)
    scores = scores_of(models)(rows)
    good = (scores[:, 0] >= 0) & ((scores[:, 1:] >= 0).mean(axis=1) >= 0.95) & (actions.cost(rows) <= 1.05 * free.value)
    assert (search.accepts(rows) == good).all()
