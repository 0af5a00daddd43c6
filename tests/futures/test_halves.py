"""Promises of trees of few noisy records: lowered to what models of other records keep."""

from dataclasses import replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from app.futures.halves import in_deviations
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices
from app.futures.store import Halves, Kept, load_futures, status
from app.recourse.actions.action_set import action_set
from app.recourse.counterfactual import Counterfactual
from app.recourse.models.committee import Futures, Lowered, quantiles
from app.recourse.problem import RecourseProblem
from app.recourse.robustness.share_interval import share_interval
from app.recourse.solve import METHODS, solve
from app.registry.version import LoadedModel
from tests.futures.models import registered
from tests.optional import library
from tests.registry.loan import loan_records

RECORDS = 800
CHOICES = Choices(stress="none", search=40, held_back=40)


def outcomes(records: list[dict[str, Any]], seed: int) -> np.ndarray:
    """Whether loans are repaid, which income and amount say little about."""
    income, amount = (np.array([record[name] for record in records]) for name in ("income", "amount"))
    chance = 1.0 / (1.0 + np.exp(-(income - 4_750.0) / 3_000.0 + (amount - 15_250.0) / 11_000.0))
    return np.asarray(np.random.default_rng(seed).random(len(records)) < chance)


def grown(X: np.ndarray, y: np.ndarray) -> Any:
    xgboost = library("xgboost")
    options = {"objective": "binary:logistic", "eta": 0.2, "max_depth": 4, "nthread": 1}
    return xgboost.train(options, xgboost.DMatrix(X, y), num_boost_round=50)


def noisy(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    repaid = outcomes(directory.records, 0)
    for record, outcome in zip(directory.records, repaid.tolist(), strict=True):
        record["repaid"] = int(outcome)
    directory.set_artifact(bytes(grown(X, repaid).save_raw("json")), format="xgboost")


def futures_of(model: Any) -> Futures:
    futures = load_futures(model)
    assert futures is not None
    return futures


def answers_of(loaded: LoadedModel, futures: Futures, asked: float, *, people: int) -> list[Counterfactual]:
    found: list[Counterfactual] = []
    for row_raw in loaded.reference.rows_raw[loaded.reference.scores < 0.0][:people]:
        problem = RecourseProblem(
            black_box=loaded.black_box, reference=loaded.reference, futures=futures, future_validity=asked,
            action_set=action_set(loaded.black_box.space, row_raw),
        )  # fmt: skip
        found += solve(problem, METHODS["robust_mpm"], METHODS["robust_mpm"].params()).counterfactuals[:1]
    return found


def promised(found: list[Counterfactual]) -> np.ndarray:
    return np.array([one.future.probability for one in found if one.future])


def kept_by_others(loaded: LoadedModel, found: list[Counterfactual]) -> np.ndarray:
    """The share of 30 models of other records, trained without the product, that accept each answer."""
    xgboost, space = library("xgboost"), loaded.black_box.space
    asked, kept = xgboost.DMatrix(space.encode(np.array([one.row_raw for one in found]))), []
    for seed in range(1, 31):
        records = loan_records(RECORDS, seed)
        X = space.encode(np.array([space.read(record) for record in records]))
        kept.append(grown(X, outcomes(records, seed)).predict(asked, output_margin=True) >= 0.0)
    return np.asarray(np.mean(kept, axis=0))


@pytest.mark.release
def test_what_is_promised_of_noisy_trees_is_what_models_of_other_records_keep(tmp_path: Path) -> None:
    model = registered(tmp_path, noisy, records=RECORDS)
    halves = rehearse(model, CHOICES).halves
    assert halves is not None
    asked = halves.asked
    assert norm.cdf(asked.promised) - norm.cdf(asked.kept) > 0.05
    loaded, futures = model.load(), futures_of(model)
    assert futures.lowered is not None

    too_much = answers_of(loaded, replace(futures, lowered=None), 0.8, people=25)
    assert promised(too_much).mean() - kept_by_others(loaded, too_much).mean() > 0.05
    found = answers_of(loaded, futures, 0.8, people=25)
    true = kept_by_others(loaded, found)
    assert -0.2 < promised(found).mean() - true.mean() < 0.03, "all records of one lender err in one direction"
    assert np.mean(true < [one.future.interval[0] for one in found if one.future]) <= 0.05
    assert "So promises are lowered" in status(model)["advice"]


@pytest.mark.slow
def test_what_is_promised_of_a_linear_model_stays(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear", records=RECORDS)
    halves = rehearse(model, CHOICES).halves
    assert halves is not None
    assert norm.cdf(halves.asked.kept) > norm.cdf(halves.asked.promised) - 0.05
    assert (futures_of(model).lowered, status(model)["advice"]) == (None, None)


@pytest.mark.parametrize(
    "choices", [Choices(stress="none", search=19, held_back=40), Choices(stress="none", records="same")]
)
def test_few_models_and_models_of_the_same_records_are_not_halved(tmp_path: Path, choices: Choices) -> None:
    assert rehearse(registered(tmp_path, "linear", records=600), choices).halves is None


def kept(promised: float, kept: float, error: float = 0.1) -> Kept:
    return Kept(promised=promised, kept=kept, error=error)


@pytest.mark.parametrize(
    ("asked", "default", "lowered"),
    [
        (kept(1.7, 1.1), kept(0.5, 0.2), (0.175, 0.25)),
        (kept(1.7, 1.1), kept(0.5, 0.0), (0.6 - 1.7 / 12, 1 / 12)),
        (kept(1.7, 1.1), kept(0.5, -0.4), (0.6, 0.0)),
        (kept(1.7, 1.1), kept(1.6, 1.6), (-0.25, 0.5)),
        (kept(1.7, 1.1, error=0.4), kept(0.5, 0.2), None),
        (kept(1.7, 1.8), kept(0.5, 0.2), None),
    ],
)
def test_promises_are_lowered_by_what_is_lost_where_chance_does_not_explain_it(
    asked: Kept, default: Kept, lowered: tuple[float, float] | None
) -> None:
    found = Halves(answers=192, asked=asked, default=default).lowered
    assert (found is None) == (lowered is None)
    if found is not None and lowered is not None:
        assert (found.amount, found.part) == pytest.approx(lowered)
        assert norm.ppf(found.kept(np.array([2.3]))) == pytest.approx(2.3 - asked.promised + asked.kept)
        assert norm.ppf(found.kept(np.array(asked.promised))) == pytest.approx(asked.kept)
        own = np.linspace(-2.3, 2.3, 99)
        told = found.kept(own)
        assert (told <= norm.cdf(own) + 1e-12).all()
        assert (np.diff(told) > 0.0).all()
        assert [found.needed(share) for share in told] == pytest.approx(own.tolist())


@pytest.mark.parametrize("part", [0.0, 0.2])
def test_none_and_all_of_the_models_stay_none_and_all(part: float) -> None:
    found = Lowered(amount=0.3, part=part, most=0.5)
    assert found.kept(np.array([-np.inf, np.inf])).tolist() == [0.0, 1.0]
    assert [found.needed(0.0), found.needed(1.0)] == [-np.inf, np.inf]


def test_a_quantile_is_the_mean_in_deviations_and_a_missing_score_a_0() -> None:
    found = quantiles(np.array([[1.0, 2.0, 3.0], [-1.0, -1.0, -1.0], [2.0, 2.0, 2.0], [np.nan, 1.0, 2.0]]))
    assert found.tolist() == [2.0, -np.inf, np.inf, 1.0]


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.8])
def test_what_is_lost_is_measured_in_deviations_between_models(shift: float) -> None:
    """Scores of normal models, and a model of the other half that scores less by so many of their deviations."""
    rng = np.random.default_rng(3)
    means, deviations = rng.uniform(0.5, 3.0, 4_000), rng.uniform(0.5, 2.0, 4_000)
    scores = means[:, None] + deviations[:, None] * rng.standard_normal((4_000, 10))
    judged = means + deviations * (rng.standard_normal(4_000) - shift)
    found = in_deviations(scores, judged)
    assert found is not None
    assert found[0] - found[1] == pytest.approx(shift, abs=0.06)
    assert found[0] == pytest.approx(means.mean() / deviations.mean(), rel=0.05)


LOWERED = Lowered(amount=0.3, part=0.2, most=0.6)


def test_an_answer_promises_the_lowered_share_and_asks_for_more(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear", records=600)
    rehearse(model, replace(CHOICES, search=19))  # too few to halve the records
    loaded, plain = model.load(), futures_of(model)
    lowered = replace(plain, lowered=LOWERED)
    cheap, dear = (answers_of(loaded, futures, 0.8, people=20) for futures in (plain, lowered))
    assert sum(one.cost for one in dear) > sum(one.cost for one in cheap)
    for one in dear:
        assert one.future is not None
        scores = plain.held_back.scores_raw(one.row_raw[None])[0]
        own = mean(scores.tolist()) / stdev(scores.tolist())
        lost = min(0.3 + 0.2 * own, 0.6)
        assert own > 0.0
        assert one.future.probability == pytest.approx(norm.cdf(own - lost))
        ends = share_interval(round(40 * norm.cdf(own)), 40, "fresh")
        assert one.future.interval == pytest.approx([norm.cdf(norm.ppf(end) - lost / np.sqrt(2.0)) for end in ends])
    assert np.mean([one.future.probability >= 0.8 for one in dear if one.future]) >= 0.9
