"""Proofs that nobody's way exists, against all legal records of small sets and random ones of large sets."""

import itertools
import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.errors import DeadlineExceeded
from app.models import tasks
from app.portfolio import preclusion as module
from app.portfolio.answered import Asked, answers
from app.portfolio.preclusion import preclusion
from app.questions.question import Question
from app.questions.recourse import with_proof
from app.questions.use_cases import actions_of, problem
from app.recourse.actions.action_set import ActionSet, action_set
from app.recourse.actions.constraints import Bounds, Constraints
from app.recourse.certificate_params import CertificateParams
from app.recourse.fallback import FALLBACK_WARNING
from app.recourse.features import MaxChange
from app.recourse.models.black_box import BlackBox
from app.recourse.models.relu_network import ReluNetwork
from app.recourse.models.score import Output
from app.recourse.models.tree_boxes import Boxes
from app.recourse.problem import RecourseProblem
from app.recourse.result import Status
from app.recourse.search.mixed_integer import ActionProgram, Solved
from app.recourse.search.rule_branching import solve_program
from app.recourse.solve import METHODS, solve
from app.recourse.verdict import Reason
from app.registry.ref import ModelRef, Store
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from tests.conftest import DEMO_STORE
from tests.jobs.serving import Server
from tests.optional import library
from tests.registry.adapters.card import by_hand as by_points
from tests.registry.adapters.card import carded
from tests.registry.adapters.table import SAVINGS, frame, make, outcomes, records
from tests.registry.loan import ModelDirectory, loan_records, make_linear
from tests.servers import starting

CHOICES = [("none", "some", "much"), (False, True), ("rented", "owned", "free")]
YEARS = 6
"""How much older a person may get here: with the other choices 126 records."""


@pytest.fixture(scope="module")
def loaded(loans: Path) -> LoadedModel:
    return Registry(loans).find("loan@2", include_inactive=True).load()


def small(loaded: LoadedModel, record: dict[str, Any], **more: Any) -> ActionSet:
    """All that a person can do here: savings, guarantor, housing, and up to six years."""
    limits = {"immutable": ("income", "amount"), "bounds": {"age": Bounds(max=float(min(record["age"] + YEARS, 100)))}}
    space = loaded.black_box.space
    return action_set(space, space.read(record), constraints=Constraints(**{**limits, **more}))


def by_hand(black_box: BlackBox, record: dict[str, Any]) -> bool:
    """Whether any record of `small` is accepted, each written out."""
    return best_by_hand(black_box, record) >= 1e-9


def best_by_hand(black_box: BlackBox, record: dict[str, Any]) -> float:
    ages = range(record["age"], min(record["age"] + YEARS, 100) + 1)
    every = [
        {**record, "age": age, "savings": s, "guarantor": g, "housing": h}
        for age, s, g, h in itertools.product(ages, *CHOICES)
    ]
    return float(black_box.score_raw(black_box.space.read_many(every, pointer="")).max())


def refused(loaded: LoadedModel, count: int, seed: int) -> list[dict[str, Any]]:
    records = loan_records(count, seed)
    scores = loaded.black_box.score_raw(loaded.black_box.space.read_many(records, pointer=""))
    return [record for record, score in zip(records, scores, strict=True) if score < 0.0]


@pytest.mark.parametrize("proof", ["enumerated", "optimised"])
def test_proofs_are_those_of_all_records(loaded: LoadedModel, proof: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if proof == "optimised":
        monkeypatch.setattr(module, "MOST_ROWS", 0)
    people, proven = refused(loaded, 220, seed=11), 0
    for record in people:
        actions = small(loaded, record)
        found = preclusion(loaded.black_box, loaded.reference, actions)
        assert (found.proof == proof) is not by_hand(loaded.black_box, record)
        assert (found.row_raw is None) == (found.proof is not None)
        if found.row_raw is not None:
            assert actions.contains(found.row_raw[None])[0]
            assert loaded.black_box.score_raw(found.row_raw[None])[0] >= 0.0
        proven += found.proof is not None
    assert 10 < proven < len(people) - 10


def test_no_random_legal_record_of_a_proven_person_is_accepted(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With numbers that move freely within limits, which no list of records covers."""
    black_box, asked, proven = loaded.black_box, 0, 0
    monkeypatch.setattr(module, "SAMPLES", 20_000)
    for record in refused(loaded, 150, seed=12):
        within = {"income": MaxChange(absolute=400.0), "amount": MaxChange(absolute=3_000.0)}
        limits = Constraints(immutable=("age", "guarantor"), max_change=within, max_changes=2)
        actions = action_set(black_box.space, black_box.space.read(record), constraints=limits)
        found = preclusion(black_box, loaded.reference, actions)
        assert found.accepted_share_at_most is None, "a linear model leaves nothing open"
        if found.proof is not None:
            rows_raw = module.random_rows(actions, 1, module.SAMPLES)
            assert not black_box.accepts(black_box.score_raw(rows_raw)).any()
            asked, proven = asked + len(rows_raw), proven + 1
    assert proven > 20
    assert asked > 20_000


def test_a_way_is_known_though_there_is_no_time_for_the_cheapest(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def solve_without_cost(program: ActionProgram, cost: np.ndarray, *rows: Any, deadline: float) -> Solved | None:
        if cost.any():
            raise DeadlineExceeded
        return solve_program(program, cost, *rows, deadline=deadline)

    monkeypatch.setattr(module, "MOST_ROWS", 0)
    monkeypatch.setattr(module, "random_rows", lambda *_: pytest.fail("the program found a record"))
    known = []
    for patient in (True, False):
        if not patient:
            monkeypatch.setattr(module, "solve_program", solve_without_cost)
        people = [small(loaded, record) for record in refused(loaded, 60, seed=16)]
        known.append([preclusion(loaded.black_box, loaded.reference, actions) for actions in people])
    assert [one.proof for one in known[0]] == [one.proof for one in known[1]]
    assert [one.row_raw is None for one in known[0]] == [one.row_raw is None for one in known[1]]
    assert 5 < sum(one.row_raw is not None for one in known[1]) < 55


def test_planted_people_without_a_way_are_found(loaded: LoadedModel) -> None:
    everything = tuple(loaded.black_box.space.names)
    for record in refused(loaded, 20, seed=13):
        space = loaded.black_box.space
        actions = action_set(space, space.read(record), constraints=Constraints(immutable=everything))
        assert preclusion(loaded.black_box, loaded.reference, actions).proof == "enumerated"


def test_weights_that_are_not_those_of_the_model_prove_nothing(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 0)
    gradient = loaded.black_box.gradient
    assert gradient is not None
    other = replace(loaded.black_box, gradient=lambda X: 0.9 * gradient(X))
    found = [preclusion(other, loaded.reference, small(loaded, record)) for record in refused(loaded, 60, seed=14)]
    assert all(one.proof is None for one in found)
    assert any(one.accepted_share_at_most is not None for one in found)


def test_a_model_without_a_form_has_a_bound_and_no_proof(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 0)
    closed = replace(loaded.black_box, gradient=None, linear=False)
    for record in refused(loaded, 30, seed=15):
        found = preclusion(closed, loaded.reference, small(loaded, record))
        assert found.proof is None
        if found.row_raw is None:
            assert found.accepted_share_at_most == pytest.approx(1.0 - 0.05 ** (1.0 / module.SAMPLES), rel=0.5)


def test_a_tree_has_a_proof_where_no_favourable_leaf_is_within_reach(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leaves: accepted only with an owned home and an age above the mean."""
    monkeypatch.setattr(module, "MOST_ROWS", 0)
    space = loaded.black_box.space
    age, owned = space.columns.index("age"), space.columns.index("housing=owned")

    def score(X: np.ndarray) -> np.ndarray:
        return np.where((X[:, owned] > 0.5) & (X[:, age] > 0.0), 1.0, -1.0)

    boxes = Boxes.of_tree(
        np.array([owned, -1, age, -1, -1]), np.array([0.5, 0.0, 0.0, 0.0, 0.0]), np.array([1, -1, 3, -1, -1]),
        np.array([2, -1, 4, -1, -1]), columns=space.d, score=score,
    )  # fmt: skip
    tree = replace(loaded.black_box, predict=lambda X: (score(X) + 1.0) / 2.0, gradient=None, linear=False, boxes=boxes)
    reference = replace(loaded.reference, scores=tree.score_raw(loaded.reference.rows_raw))
    proven = 0
    for record in loan_records(80, seed=16):
        if tree.score_raw(space.read(record)[None])[0] >= 0.0:
            continue
        found = preclusion(tree, reference, small(loaded, record, bounds={"age": Bounds(max=record["age"] + 6.0)}))
        assert (found.proof is not None) is not by_hand(tree, record)
        proven += found.proof is not None
    assert proven > 10


def pocket(loaded: LoadedModel, *, wide: float) -> BlackBox:
    """A network that accepts only near one point: an income of about 3,000, much saved, an owned home."""
    space = loaded.black_box.space
    income, savings, owned = (space.columns.index(name) for name in ("income", "savings", "housing=owned"))
    best = space.encode(space.read({**loan_records(1, seed=1)[0], "income": 3_000.0, "savings": "much"})[None])[0]
    first = np.zeros((space.d, 4))
    first[income, 0], first[income, 1], first[savings, 2], first[owned, 3] = 1.0, -1.0, -1.0, -1.0
    bias = np.array([-best[income] - wide, best[income] - wide, best[savings], 1.0])
    network = ReluNetwork(((first, bias), (np.array([[-60.0], [-60.0], [-2.0], [-2.0]]), np.array([1.0]))))
    return replace(
        loaded.black_box, predict=network.logit, gradient=None, linear=False, output=Output.LOGIT, threshold=0.0,
        network=network,
        columns=None,
    )  # fmt: skip


def test_a_network_has_proofs_that_are_those_of_all_records(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ROWS", 0)
    space, rng, proven, found_one = loaded.black_box.space, np.random.default_rng(1), 0, 0
    layers = tuple(
        (rng.normal(0.0, 0.9, size), rng.normal(0.0, 0.5, size[1])) for size in ((space.d, 8), (8, 5), (5, 1))
    )
    network = ReluNetwork(layers)
    middle = float(np.quantile(network.logit(loaded.reference.X), 0.8))
    model = replace(
        loaded.black_box, predict=network.logit, gradient=None, linear=False, output=Output.LOGIT, threshold=middle,
        network=network,
        columns=None,
    )  # fmt: skip
    reference = replace(loaded.reference, scores=model.score_raw(loaded.reference.rows_raw))
    compared: list[int] = []
    gap_of = module._gap
    monkeypatch.setattr(module, "_gap", lambda own, scores: compared.append(len(own)) or gap_of(own, scores))
    for record in loan_records(160, seed=21):
        if model.score_raw(space.read(record)[None])[0] >= 0.0:
            continue
        found, best = preclusion(model, reference, small(loaded, record)), best_by_hand(model, record)
        if abs(best) < module.CLOSE:  # within the error of the solver nothing is proven
            continue
        assert (found.proof is not None) == (best < 0.0)
        assert (found.row_raw is None) == (found.proof is not None)
        proven, found_one = proven + (found.proof is not None), found_one + (found.row_raw is not None)
    assert proven > 10
    assert found_one > 10
    assert compared == [len(reference.scores)], "the layers are compared with the model once"
    # Layers that are not those of the black box prove nothing.
    other = replace(model, network=ReluNetwork((*layers[:2], (1.1 * layers[2][0], layers[2][1]))))
    assert all(
        preclusion(other, reference, small(loaded, record)).proof is None for record in loan_records(20, seed=22)
    )


def test_an_ensemble_of_trees_has_proofs_that_are_those_of_all_records(
    loaded: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of a boosting library, as its file is read; what it says of each record is the library's."""
    xgboost = library("xgboost")
    monkeypatch.setattr(module, "MOST_ROWS", 0)
    space, rng, source = loaded.black_box.space, np.random.default_rng(3), make_linear(tmp_path / "source")
    people = source.records
    wealth = np.array([one["income"] / 900.0 - one["amount"] / 9_000.0 + 2.0 * one["guarantor"] for one in people])
    labels = (wealth + rng.normal(size=len(people)) > np.median(wealth) + 1.0).astype(float)
    booster = xgboost.train(
        {"max_depth": 3, "objective": "binary:logistic", "nthread": 1},
        xgboost.DMatrix(space.encode(space.read_many(people, pointer="")), label=labels), num_boost_round=12,
    )  # fmt: skip
    source.set_artifact(bytes(booster.save_raw("json")), format="xgboost", path="m.json")
    source.write()
    model = Registry(tmp_path / "store").register(source.path).load()
    trees, reference, space = model.black_box, model.reference, model.black_box.space
    assert trees.forest is not None
    proven = found_one = 0
    for record in loan_records(120, seed=32):
        if trees.score_raw(space.read(record)[None])[0] >= 0.0:
            continue
        found, best = preclusion(trees, reference, small(loaded, record)), best_by_hand(trees, record)
        assert (found.proof is not None) == (best < 0.0)
        assert (found.row_raw is not None) == (best >= 0.0)
        proven, found_one = proven + (found.proof is not None), found_one + (found.row_raw is not None)
    assert proven > 5
    assert found_one > 5


def boosted(kind: str, path: Path) -> ModelDirectory:
    """Boosted trees of a table with levels and missing values."""
    module, table = library(kind), frame()
    if kind == "xgboost":
        data = module.DMatrix(table, outcomes(table), enable_categorical=True)
        booster = module.train({"objective": "binary:logistic", "max_depth": 3, "nthread": 1}, data, 20)
        return make(path, bytes(booster.save_raw("json")), {"format": kind, "path": "m.json"})
    data = module.Dataset(table, outcomes(table))
    params = {"objective": "binary", "verbose": -1, "num_threads": 1, "min_data_per_group": 2, "cat_smooth": 1.0}
    booster = module.train({**params, "num_leaves": 7}, data, 20)
    return make(path, booster.model_to_string().encode(), {"format": kind, "path": "m.txt"})


def piped(kind: str, path: Path) -> ModelDirectory:
    """Trees at the end of a pipeline that takes the same table."""
    library("sklearn")
    import skops.io
    from sklearn import compose, ensemble, impute, pipeline, preprocessing

    table = frame()
    columns = compose.make_column_transformer(
        (pipeline.make_pipeline(impute.SimpleImputer(), preprocessing.StandardScaler()), ["income", "months"]),
        (preprocessing.OneHotEncoder(handle_unknown="ignore"), ["housing", "purpose"]),
        (preprocessing.OrdinalEncoder(), ["savings"]),
        remainder="passthrough",
    )
    estimator = pipeline.make_pipeline(
        columns, getattr(ensemble, kind)(n_estimators=15, max_depth=3, random_state=0)
    ).fit(table, outcomes(table))  # fmt: skip
    return make(path, skops.io.dumps(estimator), {"format": "sklearn", "path": "m.skops"})


@pytest.mark.parametrize(
    "kind",
    [
        "xgboost",
        "lightgbm",
        "RandomForestClassifier",
        pytest.param("ExtraTreesClassifier", marks=pytest.mark.release),
        pytest.param("GradientBoostingClassifier", marks=pytest.mark.release),
    ],
)
def test_trees_of_a_table_have_proofs_that_are_those_of_all_records(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the model says of each record is its library's."""
    source = (piped if kind.endswith("Classifier") else boosted)(kind, tmp_path / "source")
    model = Registry(tmp_path / "store").register(source.write()).load()
    space, kept, proven, found_one = model.black_box.space, Constraints(immutable=("income",)), 0, 0
    for record in records(frame(60, seed=4)):
        if model.black_box.score_raw(space.read(record)[None])[0] >= 0.0:
            continue
        actions = action_set(space, space.read(record), constraints=replace(kept, max_changes=2))
        every = preclusion(model.black_box, model.reference, actions)
        assert every.proof == "enumerated" or every.row_raw is not None
        with monkeypatch.context() as patched:
            patched.setattr(module, "MOST_ROWS", 0)
            found = preclusion(model.black_box, model.reference, actions)
        assert found.proof == (None if every.proof is None else "optimised")
        assert (found.row_raw is not None) == (every.row_raw is not None)
        proven, found_one = proven + (found.proof is not None), found_one + (found.row_raw is not None)
    assert proven > 5
    assert found_one > 5


def test_a_record_that_the_search_misses_is_the_answer(loaded: LoadedModel) -> None:
    """Neither a sample nor a reference record comes near to what the model accepts."""
    model = pocket(loaded, wide=1e-4)
    reference = replace(loaded.reference, scores=model.score_raw(loaded.reference.rows_raw))
    assert not (reference.scores >= 0.0).any()
    record = next(
        one
        for one in loan_records(50, seed=23)
        if one["savings"] == "none" and one["income"] < 2_500 and one["housing"] != "owned"
    )
    question = Question(
        method="robust_mpm", params=METHODS["robust_mpm"].params(), factual_raw=model.space.read(record),
        constraints=Constraints(bounds={"income": Bounds(max=9_000.0)}),
    )  # fmt: skip
    asked = RecourseProblem(black_box=model, reference=reference, action_set=actions_of(model.space, question))
    missed = solve(asked, METHODS["robust_mpm"], question.params, CertificateParams())
    assert missed.status is Status.NOT_FOUND
    found, known = with_proof(asked, missed, question, 1.0)
    assert (found.status, known) == (Status.FOUND, None)
    (one,) = found.counterfactuals
    assert model.score_raw(one.row_raw[None])[0] >= 0.0
    assert {model.space.names[j] for j in one.changed} == {"income", "savings", "housing"}
    assert FALLBACK_WARNING in found.warnings
    spent, before = found.diagnostics, missed.diagnostics
    assert (spent.model_calls or 0) > (before.model_calls or 0)
    # Out of reach it does not exist, and that is proven.
    near = replace(question, constraints=Constraints(bounds={"income": Bounds(max=2_600.0)}))
    asked = replace(asked, action_set=actions_of(model.space, near))
    found, known = with_proof(asked, solve(asked, METHODS["robust_mpm"], near.params), near, 1.0)
    assert found.status is Status.NOT_FOUND
    assert known is not None
    assert known.proof == "optimised"


def test_a_record_that_is_hardly_accepted_is_the_answer() -> None:
    """The proof finds one with a score below 0.001, whose numbers move by whole steps, so that half of one is one."""
    store = Store(root=str(DEMO_STORE))
    ref = ModelRef.of(store, store.open().find("consumer-loan"))
    black_box = tasks.load(ref).black_box
    person = {
        "age": 26, "monthly_income": 1709, "monthly_debt": 369, "card_utilisation": 72.7, "late_payments": 3,
        "amount": 8500, "term": 42, "employment": "under 1 year", "savings": "under 1,000 EUR",
        "housing": "mortgaged", "purpose": "car", "guarantor": False,
    }  # fmt: skip
    within = {
        "card_utilisation": MaxChange(absolute=20.0), "amount": MaxChange(relative=0.2),
        "monthly_income": MaxChange(relative=0.05),
    }  # fmt: skip
    question = Question(
        method="robust_mpm", params=METHODS["robust_mpm"].params(), factual_raw=black_box.space.read(person),
        constraints=Constraints(max_change=within), valid_months=3.0,
    )  # fmt: skip
    asked = problem(ref, question, 30.0)
    missed = solve(asked, METHODS["robust_mpm"], question.params, CertificateParams())
    found, known = with_proof(asked, missed, question, 1.0)
    assert (missed.status, found.status, known) == (Status.NOT_FOUND, Status.FOUND, None)
    row_raw = found.counterfactuals[0].row_raw
    assert 0.0 <= black_box.score_raw(row_raw[None])[0] < 0.001
    # It is also the answer in a report, which says that the search has missed it.
    one = answers(ref, question, {"first": 0, "deadline_s": 30.0, "plan_s": 1.0}, {0: question.factual_raw})[0]
    assert isinstance(one, Asked)
    assert one.row_raw is not None
    assert (one.row_raw.tolist(), one.reason) == (row_raw.tolist(), Reason.INFEASIBLE_CONSTRAINTS)


# --- in an answer ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(loans: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with starting("sqlite", loans, tmp_path_factory.mktemp("server")) as begin:
        yield begin().ready()


FIXED = {"immutable": ["age", "income", "amount"]}


def test_an_answer_without_recourse_says_that_none_exists(server: Server, loans: Path) -> None:
    black_box = Registry(loans).find("loan@1").load().black_box
    asked = {"model": "loan@1", "constraints": FIXED, "store": False, "detail": "full"}
    records, proven = loan_records(25, seed=17), 0
    answers = []
    for record in records:
        answer = server.client.post("/recourse", json={**asked, "applicant": record}).raise_for_status().json()
        answers.append(answer)
        if answer["status"] == "not_found":
            every = [{**record, "savings": s, "guarantor": g, "housing": h} for s, g, h in itertools.product(*CHOICES)]
            assert (black_box.score_raw(black_box.space.read_many(every, pointer="")) < 0.0).all()
            known = {"status": "proven", "proof": "enumerated", "accepted_share_at_most": None}
            assert answer["precluded"] == known
            assert re.search("refuses every change that the constraints allow|it is proven", answer["detail"])
            proven += 1
        else:
            assert answer["precluded"] is None
    assert proven > 3
    body = {**asked, "applicants": [{"applicant": one} for one in records]}
    address = server.client.post("/recourse/batch", json=body).raise_for_status().headers["location"]
    assert server.ended(address)["status"] == "succeeded"
    lines = server.client.get(f"{address}/results").text.splitlines()
    assert [json.loads(line)["precluded"] for line in lines] == [answer["precluded"] for answer in answers]


def test_no_time_leaves_no_proof(loaded: LoadedModel) -> None:
    record = refused(loaded, 20, seed=18)[0]
    found = preclusion(loaded.black_box, loaded.reference, small(loaded, record), deadline=time.monotonic())
    assert (found.proof, found.row_raw, found.accepted_share_at_most) == (None, None, None)


def test_people_without_a_value_that_cannot_be_provided_have_proofs_too(tmp_path: Path) -> None:
    model = Registry(tmp_path / "store").register(carded(tmp_path / "source").write()).load()
    space, proven, found_one = model.black_box.space, 0, 0
    for record in (sent for sent in records(frame(400)) if sent["income"] is None):
        alone = [{**record, "savings": s, "guarantor": g} for s, g in itertools.product(SAVINGS, (False, True))]
        if by_points(record) >= 391.5:
            continue
        kept = Constraints(immutable=("housing", "months", "purpose"))
        found = preclusion(model.black_box, model.reference, action_set(space, space.read(record), constraints=kept))
        best = max(map(by_points, alone))
        assert (found.proof == "enumerated") == (best < 391.5)
        assert (found.row_raw is not None) == (best >= 391.5)
        proven, found_one = proven + (found.proof is not None), found_one + (found.row_raw is not None)
    assert proven > 5
    assert found_one > 5
