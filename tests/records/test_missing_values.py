"""Missing values and special codes, in every format that can have them, with every method."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from app.questions.answers import changes_of
from app.recourse import CertificateParams, RecourseProblem, action_set, solve
from app.recourse.actions.providing import provided
from app.recourse.actions.sentences import changes
from app.recourse.features import Record
from app.recourse.solve import METHODS
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from tests.records.bureau import FEATURES, FORMATS, Model, records


@dataclass
class Registered:
    model: Model
    loaded: LoadedModel
    refused: list[Record]


@pytest.fixture(scope="module")
def registered_as(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Registered]:
    """The model in a format, trained when a test first asks for it."""

    @cache
    def of(format: str) -> Registered:
        table, repaid = records()
        model = FORMATS[format](table, repaid)
        directory = tmp_path_factory.mktemp(format)
        loaded = Registry(directory / "store").register(model.write(directory / "model", table, repaid)).load()
        others, _ = records(seed=1)
        refused = model.score(others) < 0.45
        return Registered(model, loaded, [record for record, no in zip(others, refused, strict=True) if no])

    return of


@pytest.fixture(params=FORMATS)
def registered(request: pytest.FixtureRequest, registered_as: Callable[[str], Registered]) -> Registered:
    pytest.importorskip({"linear": "sklearn"}.get(request.param, request.param))
    return registered_as(request.param)


def test_the_service_scores_what_the_library_scores(registered: Registered) -> None:
    table, _ = records(200, seed=2)
    space = registered.loaded.black_box.space
    rows_raw = space.read_many(table, pointer="")
    black_box = registered.loaded.black_box
    probability = black_box.probability(black_box.score_raw(rows_raw))
    np.testing.assert_allclose(probability, registered.model.score(table), atol=1e-5)
    # Points are what methods score: those of legal records have the same scores.
    np.testing.assert_allclose(black_box.score(space.encode(rows_raw)), black_box.score_raw(rows_raw), atol=1e-6)
    assert [space.record(row_raw) for row_raw in rows_raw] == table


QUICK = {"linear", "xgboost"}
"""With every method: a format with columns that say what is missing, and one that takes NaN. Others with the first."""

CASES = [
    pytest.param(name, method, marks=[] if name in QUICK or method == next(iter(METHODS)) else [pytest.mark.release])
    for name, method in product(FORMATS, METHODS)
]


@pytest.mark.parametrize(("registered", "method"), CASES, indirect=["registered"])
def test_states_stay_and_answers_are_true(registered: Registered, method: str) -> None:
    """A missing value stays missing, a special code stays, and nobody is moved into either."""
    loaded, chosen = registered.loaded, METHODS[method]
    space = loaded.black_box.space
    some = [record for record in registered.refused if None in record.values() or record["utilisation"] in (-9, -8)]
    found = 0
    for record in [*some[:6], *registered.refused[:2]]:
        factual_raw = space.read(record)
        actions = action_set(space, factual_raw)
        problem = RecourseProblem(black_box=loaded.black_box, reference=loaded.reference, action_set=actions)
        result = solve(problem, chosen, chosen.params(), CertificateParams(), plan_s=5.0)
        for one in result.counterfactuals:
            found += 1
            proposed = space.record(one.row_raw)
            assert registered.model.score([proposed])[0] >= 0.5
            for feature in FEATURES:
                name = feature["name"]
                before, after = record[name], proposed[name]
                states = (None, *feature.get("special", ()))
                assert (before in states) <= (after == before)
                assert (before not in states) <= (after not in states)
                if after not in states and name in ("income", "utilisation", "duration"):
                    assert feature["min"] <= after <= feature["max"]
    assert found >= 4


# --- providing a missing value ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def providing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, LoadedModel]:
    pytest.importorskip("xgboost")
    table, repaid = records()
    model = FORMATS["xgboost"](table, repaid)
    model.missing = {
        "income": {"provide": True, "provide_cost": 0.25},
        "housing": {"provide": True, "provide_cost": 0.5},
    }
    directory = tmp_path_factory.mktemp("providing")
    return model, Registry(directory / "store").register(model.write(directory / "model", table, repaid)).load()


def test_a_missing_value_may_be_provided_at_a_cost_of_its_own(providing: tuple[Model, LoadedModel]) -> None:
    model, loaded = providing
    space, method = loaded.black_box.space, METHODS["robust_mpm"]
    others, _ = records(seed=3)
    income, scale = space.names.index("income"), dict(zip(space.numeric.tolist(), space.scale_raw, strict=True))
    center = dict(zip(space.numeric.tolist(), space.center_raw, strict=True))[income]
    kinds: dict[str, int] = {"provided": 0, "kept": 0}
    for record in [one for one in others if one["income"] is None and model.score([one])[0] < 0.45][:25]:
        factual_raw = space.read(record)
        problem = RecourseProblem(
            black_box=loaded.black_box, reference=loaded.reference, action_set=action_set(space, factual_raw)
        )
        result = solve(problem, method, method.params(), CertificateParams(), plan_s=5.0)
        for one in result.counterfactuals:
            proposed = space.record(one.row_raw)
            assert model.score([proposed])[0] >= 0.5
            assert one.changed == tuple(j for j, name in enumerate(space.names) if proposed[name] != record[name])
            told = {change.feature: change for change in changes(
                space.features, factual_raw, one.row_raw, problem.action_set.clock
            )}  # fmt: skip
            assert set(told) == {space.names[j] for j in one.changed}
            if proposed["income"] is None:
                kinds["kept"] += 1
                continue
            kinds["provided"] += 1
            assert told["income"].text.startswith("State the income; ")
            assert told["income"].delta is None
            assert any("provides values that are missing" in warning for warning in result.warnings)
            # The cost, by hand: of providing, from the typical value on, and of the other changes.
            typical = round(center / 50) * 50
            cost = 0.25 + abs(proposed["income"] - typical) / scale[income]
            for name in ("utilisation", "duration", "savings", "guarantor"):
                j = space.names.index(name)
                if one.row_raw[j] != factual_raw[j]:
                    cost += abs(one.row_raw[j] - factual_raw[j]) / scale[j]
            if proposed["housing"] != record["housing"]:
                cost += 0.5 if record["housing"] is None else 1.0
            assert one.cost == pytest.approx(cost)
    assert kinds["provided"] >= 3
    assert kinds["kept"] >= 1


def test_what_may_not_be_provided_stays_missing(registered: Registered) -> None:
    space = registered.loaded.black_box.space
    record = next(one for one in registered.refused if one["income"] is None)
    assert provided(action_set(space, space.read(record))) is None


def test_stating_a_value_takes_no_time(tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    table, repaid = records()
    model = FORMATS["xgboost"](table, repaid)
    model.missing = {"income": {"provide": True, "provide_cost": 0.0, "takes": {"months": 2, "months_per_unit": 0.01}}}
    loaded = Registry(tmp_path / "store").register(model.write(tmp_path / "model", table, repaid)).load()
    space = loaded.black_box.space
    factual_raw = space.read(next(one for one in table if one["income"] is None))
    actions = action_set(space, factual_raw)
    income = space.names.index("income")
    stating = provided(actions)
    assert stating is not None
    (stated,) = changes_of(actions, stating.factual_raw)
    assert (stated.feature, stated.takes_months) == ("income", 0.0)
    higher_raw = stating.factual_raw.copy()
    higher_raw[income] += 100.0
    (raised,) = changes_of(actions, higher_raw)
    assert raised.takes_months == 2.0 + 0.01 * 100.0


def test_a_split_may_ask_only_whether_a_value_is_missing(tmp_path: Path) -> None:
    """LightGBM writes the threshold of such a split as `inf`."""
    pytest.importorskip("lightgbm")
    table, _ = records()
    model = FORMATS["lightgbm"](table, np.array([one["income"] is not None for one in table]))
    assert b"inf" in model.content
    loaded = Registry(tmp_path / "store").register(model.write(tmp_path / "model", table, np.ones(len(table)))).load()
    scored = loaded.black_box.score_raw(loaded.black_box.space.read_many(table, pointer=""))
    np.testing.assert_array_equal(scored >= 0.0, [one["income"] is not None for one in table])
