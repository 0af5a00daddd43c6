"""Missing values and special codes, in every format that can have them, with every method."""

from dataclasses import dataclass

import numpy as np
import pytest

from app.recourse import CertificateParams, RecourseProblem, action_set, solve
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


@pytest.fixture(scope="module", params=FORMATS)
def registered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Registered:
    pytest.importorskip({"linear": "sklearn"}.get(request.param, request.param))
    table, repaid = records()
    model = FORMATS[request.param](table, repaid)
    directory = tmp_path_factory.mktemp(request.param)
    loaded = Registry(directory / "store").register(model.write(directory / "model", table, repaid)).load()
    others, _ = records(seed=1)
    return Registered(model, loaded, [record for record in others if model.score([record])[0] < 0.45])


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


@pytest.mark.parametrize("method", METHODS)
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
