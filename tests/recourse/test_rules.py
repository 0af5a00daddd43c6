"""Answers of every method under random rules: no rule is broken, and nothing is called impossible that is possible."""

import numpy as np
import pytest

from app.recourse.method import Yields
from app.recourse.methods import METHODS
from app.recourse.problem import RecourseProblem
from app.recourse.solve import solve
from tests.recourse.random_rules import factual, legal_rows, rule_sets
from tests.recourse.toys import ask


def questions(seed: int, count: int, *, missing: bool) -> list[tuple[RecourseProblem, np.ndarray]]:
    """Refused applicants, and all that may be answered to each."""
    found: list[tuple[RecourseProblem, np.ndarray]] = []
    for draw, domain, rules, meanings in rule_sets(seed, 3 * count, missing=missing):
        space, rows = domain.space, domain.rows()
        w = np.array([draw.gauss(0, 1) for _ in range(space.d)])
        bent = draw.choice([0.0, 0.5])

        def score(X: np.ndarray, w: np.ndarray = w, bent: float = bent) -> np.ndarray:
            return X @ w + bent * np.abs(X @ w[::-1])

        scores = score(space.encode(rows))
        threshold = float(np.quantile(scores, draw.choice([0.3, 0.6, 0.9]))) + 1e-5
        rng = np.random.default_rng(seed)
        reference = np.concatenate([rows[rng.integers(len(rows), size=120)], rows[[scores.argmax()]]])
        fact = factual(draw, domain)
        problem, _ = ask(
            space, lambda X, score=score, threshold=threshold: score(X) - threshold, fact.tolist(),
            rows_raw=reference, rules=rules, seed=seed,
        )  # fmt: skip
        if problem.black_box.score_raw(fact[None])[0] < 0.0 and len(found) < count:
            legal = legal_rows(domain, meanings)
            legal = legal[problem.action_set.each_is_legal(legal).all(axis=1) & (legal != fact).any(axis=1)]
            found.append((problem, legal[problem.black_box.score_raw(legal) >= 0.0] if len(legal) else legal))
    return found


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("seed", range(20))
def test_answers_keep_the_rules_and_exist_where_they_can(seed: int, name: str, missing: bool) -> None:
    method = METHODS[name]
    count = 1 if method.yields is Yields.PLAN or seed else 2
    for problem, possible in questions(seed, count, missing=missing):
        result = solve(problem, method, method.params())
        if not result.counterfactuals:
            assert not len(possible), [rule.text for rule in problem.action_set.rules]
        for one in result.counterfactuals:
            assert (possible == one.row_raw).all(axis=1).any(), [rule.text for rule in problem.action_set.rules]


def test_the_questions_are_of_both_kinds() -> None:
    found = [len(possible) > 0 for seed in range(4) for _, possible in questions(seed, 3, missing=False)]
    assert any(found)
    assert not all(found)
