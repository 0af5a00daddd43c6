"""Stresses: which records they draw, what their models say, and that nothing else changes."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm

from app.errors import RehearsalFailed
from app.futures.likeness import answers
from app.futures.records import Records, sample
from app.futures.rehearsal import rehearse
from app.futures.spec import Choices, Material, choices_of
from app.futures.store import load_futures, status
from app.futures.stress import Stress, followed, weights
from app.recourse.actions.action_set import action_set
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.registry.version import RegisteredModel
from tests.futures.models import FITS, registered
from tests.optional import library

FEW = Choices(stress="none", search=6, held_back=20, records="same")

STRESS = 36.4
"""How many times as often the last record is drawn as the first one at strength 0.5."""


def dated(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
    """Loans over 300 days; the later ones of the records are the riskier ones, which no feature says."""
    rng = np.random.default_rng(3)
    days = rng.permutation(len(directory.records))
    for day, record in zip(days.tolist(), directory.records, strict=True):
        record["day"] = (date(2026, 1, 1) + timedelta(days=day)).isoformat()
        logit = (record["income"] - 4_750) / 1_500 + 1.5 - 3.0 * day / len(directory.records)
        record["repaid"] = int(rng.random() < 1.0 / (1.0 + np.exp(-logit)))
    directory.columns.append("day")
    FITS["linear"](directory, X, np.array([record["repaid"] for record in directory.records]), columns)


@pytest.fixture
def loans(tmp_path: Path) -> RegisteredModel:
    return registered(tmp_path, dated, records=1_500)


def reference(model: RegisteredModel) -> Path:
    return model.directory / "reference.csv"


def records_of(model: RegisteredModel, column: str | None = None) -> tuple[Records, np.ndarray]:
    rows_raw = model.load().reference.rows_raw
    at = [feature.name for feature in model.space.features].index(column) if column else 0
    records = Records(
        rows_raw=rows_raw, favourable=np.arange(len(rows_raw)) % 2 == 0, labels="outcomes", of_reference=True
    )
    return records, rows_raw[:, at]


@pytest.mark.parametrize("direction", ["up", "down"])
def test_the_mean_of_a_normal_column_moves_as_the_integral_says(loans: RegisteredModel, direction: Any) -> None:
    records, _ = records_of(loans)
    at = [feature.name for feature in loans.space.features].index("income")
    rng = np.random.default_rng(0)
    records.rows_raw[:, at] = rng.normal(4_000.0, 500.0, len(records.rows_raw))
    sign = 1.0 if direction == "up" else -1.0

    def density(z: float) -> float:
        return float(norm.pdf(z) * STRESS ** (sign * norm.cdf(z)))

    total = integrate.quad(density, -8, 8)[0]
    expected = integrate.quad(lambda z: z * density(z), -8, 8)[0] / total
    assert sign * expected == pytest.approx(0.87, abs=0.005)
    tilt = weights(loans.load(), records, reference(loans), Stress(column="income", direction=direction))
    assert tilt.sum() == pytest.approx(1.0, abs=1e-12)
    assert tilt.max() / tilt.min() == pytest.approx(STRESS, rel=0.01)
    drawn = [sample(records, "same", 0, i, tilt).chosen for i in range(40)]
    moved = (np.mean([records.rows_raw[chosen, at].mean() for chosen in drawn]) - 4_000.0) / 500.0
    assert moved == pytest.approx(expected, abs=0.1)


def test_every_kind_of_column(loans: RegisteredModel) -> None:
    loaded = loans.load()
    for column in ("income", "savings", "guarantor", "age"):
        records, values = records_of(loans, column)
        tilt = weights(loaded, records, reference(loans), Stress(column=column, direction="up"))
        # Equal values have equal weights, larger ones larger weights.
        order = np.argsort(values, kind="stable")
        assert (np.sign(np.diff(tilt[order])) == np.sign(np.diff(values[order]))).all()
    records, _ = records_of(loans)
    lines = reference(loans).read_text().splitlines()
    days = np.array([line.rpartition(",")[2] for line in lines[1:]])
    tilt = weights(loaded, records, reference(loans), Stress(column="day", direction="down"))
    assert (np.diff(tilt[np.argsort(days)]) < 0.0).all()


def test_what_has_no_value_is_drawn_as_the_middle(loans: RegisteredModel) -> None:
    lines = reference(loans).read_text().splitlines()
    table = [line.split(",") for line in lines]
    at = table[0].index("day")
    for row in table[1:11]:
        row[at] = ""
    reference(loans).write_text("\n".join(",".join(row) for row in table) + "\n")
    records, _ = records_of(registered(reference(loans).parent / "other", "linear", records=1_500))
    tilt = weights(loans_loaded(loans), records, reference(loans), Stress(column="day", direction="up"))
    np.testing.assert_allclose(tilt[:10], np.median(tilt[10:]), rtol=0.01)


def loans_loaded(model: RegisteredModel) -> Any:
    class Loaded:
        registered = model

    return Loaded()


@pytest.mark.parametrize("kind", ["xgboost", "linear"])
def test_trees_are_tried_by_people_who_followed_answers_and_failed(tmp_path: Path, kind: str) -> None:
    """Few such people change what trees say of these answers, and little of what they say of the many records."""
    model = registered(tmp_path, kind)
    rehearse(model, Choices(search=12, held_back=12))
    futures, loaded = load_futures(model), model.load()
    assert futures is not None
    assert futures.stressed is not None
    assert len(futures.stressed.stresses) <= 10
    assert (futures.stressed.stresses[-1] == Stress(column="@answers", direction="down")) == (kind == "xgboost")
    if kind == "xgboost":
        rows_raw = answers(loaded, [loaded.black_box], 0, 30)
        many = loaded.reference.rows_favourable_raw

        def strictest(some_raw: np.ndarray) -> float:
            assert futures.stressed is not None
            strongest = futures.stressed.models.scores_raw(some_raw)[:, -futures.stressed.each :]
            return float((strongest >= 0.0).mean())

        assert strictest(rows_raw) < futures.held_back.shares(rows_raw).mean() - 0.1
        assert strictest(many) > futures.held_back.shares(many).mean() - 0.05


def test_failures_are_drawn_as_often_as_is_said(loans: RegisteredModel) -> None:
    records, _ = records_of(loans)
    both, stressed = followed(records, records.rows_raw[:40] + 1.0)
    assert not both.favourable[-40:].any()
    for weight, share in zip(stressed.weights, (0.0125, 0.025, 0.05), strict=True):
        assert weight.sum() == pytest.approx(1.0)
        drawn = np.concatenate([sample(both, "fresh", 0, i, weight).chosen for i in range(40)])
        assert (drawn >= len(records.favourable)).mean() == pytest.approx(share, abs=0.005)


def test_models_of_a_stress_are_those_of_weighted_records(loans: RegisteredModel) -> None:
    """Against scikit-learn's own weighted fit of all records, which draws nothing."""
    plain = rehearse(loans, FEW)
    before = {"search": plain.search.digests, "held_back": plain.held_back.digests}
    stressed = rehearse(loans, choices_of(loans, **STATED, stress={"column": "day", "direction": "up"}))
    # The sets that tell the plain share are the same, byte for byte.
    assert {"search": stressed.search.digests, "held_back": stressed.held_back.digests} == before
    assert stressed.agreement == plain.agreement
    assert stressed.name != plain.name
    assert status(loans)["stress"] == [{"column": "day", "direction": "up"}]

    futures = load_futures(loans)
    assert futures is not None
    assert futures.stressed is not None
    assert futures.stressed.stresses == (Stress(column="day", direction="up"),)
    assert futures.stressed.strengths == (0.25, 0.5, 1.0)
    loaded = loans.load()
    X = loaded.reference.X
    lines = [line.split(",") for line in reference(loans).read_text().splitlines()]
    day = np.array([date.fromisoformat(row[lines[0].index("day")]).toordinal() for row in lines[1:]])
    y = np.array([int(row[lines[0].index("repaid")]) for row in lines[1:]])
    share = np.argsort(np.argsort(day)) / len(day)
    weight = STRESS**share
    weight *= len(weight) / weight.sum()
    C = 1.0 / stressed.tuned["ridge"] if "ridge" in stressed.tuned else 0.1
    fitted = library("sklearn.linear_model").LogisticRegression(C=C, max_iter=5_000).fit(X, y, sample_weight=weight)
    expected = fitted.decision_function(X)
    each = futures.stressed.each
    found = futures.stressed.models.scores(X)[:, each : 2 * each].mean(axis=1)
    unstressed = futures.held_back.scores(X).mean(axis=1)
    assert np.abs(found - expected).mean() < 0.15
    assert (unstressed - expected).mean() > 0.5, "loans of late days are riskier"
    by_strength = futures.stressed.models.scores(X).reshape(len(X), 3, each).mean(axis=(0, 2))
    assert by_strength[0] > by_strength[1] > by_strength[2], "the stronger the stress, the riskier"
    # At full strength the model knows nothing of the earlier half of the records.
    late = np.argsort(np.argsort(day)) >= len(day) / 2
    half = library("sklearn.linear_model").LogisticRegression(C=C, max_iter=5_000).fit(X[late], y[late])
    assert (
        np.abs(futures.stressed.models.scores(X)[:, 2 * each :].mean(axis=1) - half.decision_function(X)).mean() < 0.2
    )


STATED = {"search": 6, "held_back": 20, "records": "same"}


def test_an_answer_says_what_a_stress_takes_from_it(loans: RegisteredModel) -> None:
    told = {}
    for direction in ("up", "down"):
        rehearse(loans, choices_of(loans, **STATED, stress={"column": "day", "direction": direction}))
        loaded, futures = loans.load(), load_futures(loans)
        refused = loaded.reference.rows_raw[loaded.reference.scores < 0.0][:8]
        told[direction] = [
            one.future
            for row_raw in refused
            for one in solve(
                RecourseProblem(
                    black_box=loaded.black_box, reference=loaded.reference, futures=futures,
                    action_set=action_set(loaded.black_box.space, row_raw),
                ),
                METHODS["robust_mpm"], METHODS["robust_mpm"].params(),
            ).counterfactuals[:1]
        ]  # fmt: skip
    up, down = told["up"], told["down"]
    assert len(up) == len(down) > 4
    assert [one.probability for one in up] == [one.probability for one in down], "the plain share knows no stress"
    worse = np.array([one.stressed.lowest for one in up])
    better = np.array([one.stressed.lowest for one in down])
    plain = np.array([one.probability for one in up])
    assert worse.mean() < plain.mean() - 0.2
    assert better.mean() > worse.mean() + 0.3
    for one in up:
        low, high = one.stressed.interval
        assert low <= one.stressed.lowest <= high
        assert one.stressed.models in (6, 12, 18)
        assert (one.stressed.column, one.stressed.direction) == ("day", "up")
        curve = [point.share for point in one.stressed.curve]
        assert curve[0] == one.probability
        assert curve == sorted(curve, reverse=True)
        assert curve[-1] <= one.stressed.lowest


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("housing", "only along one of .*age.*constant"),
        ("month", "only along one of .*age.*constant"),
        ("note", "number or a date"),
        ("constant", "same value in all records"),
    ],
)
def test_a_column_that_can_not_be_tilted_along(tmp_path: Path, column: str, reason: str) -> None:
    def odd(directory: Any, X: np.ndarray, y: np.ndarray, columns: tuple[str, ...]) -> None:
        for record in directory.records:
            record |= {"note": "late", "constant": 4}
        directory.columns += ["note", "constant"]
        FITS["linear"](directory, X, y, columns)

    model = registered(tmp_path, odd)
    plain = rehearse(model, FEW)
    with pytest.raises(RehearsalFailed, match=reason):
        rehearse(model, choices_of(model, stress={"column": column, "direction": "up"}))
    assert status(model)["status"] == "ready", "what was there before stays in use"
    assert status(model)["created_at"] == plain.created_at.isoformat()


def test_supplied_models_have_no_stress(tmp_path: Path) -> None:
    model = registered(tmp_path, "linear")
    with pytest.raises(RehearsalFailed, match="under a stress"):
        rehearse(
            model, choices_of(model, stress={"column": "age", "direction": "up"}), Material(folder=tmp_path / "store")
        )


def test_choices_survive_a_job(tmp_path: Path) -> None:
    """As they are kept in the database: as JSON."""
    import json
    from dataclasses import asdict

    choices = Choices(stress=(Stress(column="age", direction="down"),))
    assert Choices(**json.loads(json.dumps(asdict(choices)))) == choices
