"""Wide schemas: a part of levels and features is fitted and searched, what is legal stays the same."""

import math
from dataclasses import replace

import numpy as np
import pytest

from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.constraints import Constraints
from app.recourse.actions.wishes import Wishes
from app.recourse.features import Feature, FeatureSpace, FeatureType
from app.recourse.features.feature_options import MaxChange
from app.recourse.models.black_box import BlackBox
from app.recourse.models.score import Output
from app.recourse.problem import RecourseProblem, Reference
from app.recourse.result import Status
from app.recourse.search.local_moves import SingleMoves
from app.recourse.solve import METHODS, solve
from app.recourse.surrogate import limits
from app.recourse.verdict import LIMITED, Reason
from app.recourse.verification import single

METHOD = METHODS["robust_mpm"]


class Lender:
    """A linear model of numbers and of one feature with many levels, of which few are common."""

    def __init__(self, levels: int, columns: int, n: int = 1500) -> None:
        rng = np.random.default_rng(levels + columns)
        number = Feature(name="x", type=FeatureType.CONTINUOUS, min=-8, max=8, center=0.0, scale=1.0)
        names = tuple(f"job {k}" for k in range(levels))
        features = [replace(number, name=f"x{j}") for j in range(columns)]
        self.space = FeatureSpace([*features, Feature(name="job", type=FeatureType.CATEGORICAL, categories=names)])
        share = 1.0 / (1.0 + np.arange(levels)) ** 0.8
        jobs = rng.choice(levels, n, p=share / share.sum())
        self.rows_raw = np.column_stack([rng.normal(size=(n, columns)), jobs]).astype(float)
        w = rng.normal(size=self.space.d)
        w[self.space.numeric_columns] /= math.sqrt(columns)
        X = self.space.encode(self.rows_raw)
        cut = float(np.quantile(X @ w, 0.6))
        self.black_box = BlackBox(
            space=self.space, predict=lambda X: X @ w - cut, output=Output.LOGIT, threshold=0.0, linear=True,
            gradient=lambda X: np.repeat(w[None], len(X), 0),
        )  # fmt: skip
        scores = self.black_box.score_raw(self.rows_raw)
        far = float(np.linalg.norm(X[:200, None] - X[None, :200], axis=2).max())
        self.reference = Reference(space=self.space, rows_raw=self.rows_raw, scores=scores, largest_distance=far)

    def problem(self, k: int, constraints: Constraints | None = None, wishes: Wishes | None = None) -> RecourseProblem:
        """The question of the k-th refused person."""
        row_raw = self.rows_raw[self.reference.scores < 0.0][k]
        actions = action_set(self.space, row_raw, constraints=constraints, wishes=wishes)
        return RecourseProblem(black_box=self.black_box, reference=self.reference, action_set=actions)


@pytest.fixture(scope="module")
def lender() -> Lender:
    return Lender(levels=300, columns=5)


def test_a_schema_that_is_not_wide_has_no_limits() -> None:
    problem = Lender(levels=40, columns=5).problem(0)
    assert limits.limits_of(problem, problem.x0[None]) is None


def test_the_commonest_accepted_levels_those_of_neighbours_and_ones_own_are_searched(lender: Lender) -> None:
    problem = lender.problem(0)
    job = lender.space.p - 1
    near = lender.space.encode(np.where(np.arange(lender.space.p) == job, 271.0, problem.factual_raw)[None])
    found = limits.limits_of(problem, near)
    assert found is not None
    searched = set(found.of(problem.action_set).levels(job))
    accepted = lender.rows_raw[lender.reference.scores >= 0.0, job].astype(int)
    common = np.argsort(-np.bincount(accepted, minlength=300), kind="stable")[: limits.MOST_LEVELS]
    assert searched == {*common.tolist(), 271, int(problem.factual_raw[job])}


def test_answers_are_legal_and_about_as_cheap_as_without_limits(
    lender: Lender, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the model itself; the search without limits is that of all other schemas."""
    people = range(8)
    limited = [solve(lender.problem(k), METHOD, METHOD.params()) for k in people]
    monkeypatch.setattr(limits, "MOST_COLUMNS", 10**9)
    free = [solve(lender.problem(k), METHOD, METHOD.params()) for k in people]
    for k, result in enumerate(limited):
        (one,) = result.counterfactuals
        assert not result.fallback
        assert lender.problem(k).action_set.contains(one.row_raw[None])[0]
        assert lender.black_box.score_raw(one.row_raw[None])[0] >= 0.0
    costs = [[result.counterfactuals[0].cost for result in results] for results in (limited, free)]
    assert np.mean(costs[0]) <= 1.1 * np.mean(costs[1])


def test_many_features_are_searched_by_what_they_promise() -> None:
    lender = Lender(levels=4, columns=150)
    results = [solve(lender.problem(k), METHOD, METHOD.params()) for k in range(4)]
    assert all(result.status is Status.FOUND and not result.fallback for result in results)
    still = limits.limits_of(lender.problem(0), lender.problem(0).x0[None])
    assert still is not None
    assert len(still.still) == lender.space.p - limits.MOST_FEATURES
    name = lender.space.features[still.still[0]].name
    problem = lender.problem(0, wishes=Wishes(must_include=(name,)))
    wished = limits.limits_of(problem, problem.x0[None])
    assert wished is not None
    assert still.still[0] not in wished.still, "what the person does anyway is searched"


def test_cheaper_records_nearby_move_what_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two moves of thousands of numbers are millions of records: of 60, the 20 most promising are moved."""
    asked: list[int] = []

    class Seen(SingleMoves):
        def __init__(self, actions: ActionSet, *, swaps: bool = False) -> None:
            asked.append(int(actions.movable.sum()))
            super().__init__(actions, swaps=swaps)

    monkeypatch.setattr(single, "SingleMoves", Seen)
    monkeypatch.setattr(limits, "MOST_COLUMNS", 40)
    monkeypatch.setattr(limits, "MOST_FEATURES", 20)
    method = METHODS["growing_spheres"]
    result = solve(Lender(levels=4, columns=60).problem(0), method, method.params())
    assert result.status is Status.FOUND
    assert set(asked) == {limits.MOST_FEATURES}


def test_nothing_found_in_a_part_is_no_proof() -> None:
    """Of 150 numbers, each may change by a little; all of them might be enough, and not all are searched."""
    lender = Lender(levels=4, columns=150)
    little = {feature.name: MaxChange(absolute=1e-3) for feature in lender.space.features[:-1]}
    constraints = Constraints(immutable=("job",), max_change=little)
    result = solve(lender.problem(0, constraints), METHOD, METHOD.params())
    assert result.status is Status.NOT_FOUND
    assert result.verdict is not None
    assert result.verdict.reason is Reason.INFEASIBLE_CONSTRAINTS
    assert result.verdict.sentence == LIMITED
