"""The examples: what they write registers, decides sanely, and is what the repository ships."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter

from app.recourse.actions.action_set import action_set
from app.recourse.features import Feature, FeatureType
from app.recourse.models.black_box import BlackBox
from app.recourse.models.score import favourable, sigmoid
from app.recourse.problem import RecourseProblem
from app.recourse.solve import METHODS, solve
from app.registry.registry import Registry
from app.registry.version import LoadedModel
from examples import own_model
from examples.consumer_loan.applicants import FEATURES, applicants
from examples.consumer_loan.train import FRESH, FRESH_SEED, REFERENCE, SEED, STATED_AUC, THRESHOLD, TRAINING
from examples.german_credit import german
from examples.german_credit import train as german_train
from examples.training import FEATURE, auc, probability, standardised, train_mlp, write_model, write_records
from tests.by_hand import encode_by_hand, forward
from tests.conftest import DEMO_STORE, Running
from tests.jobs.serving import Server
from tests.servers import starting

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "models_store" / "consumer-loan" / "1"


# --- the demo --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def consumer_loan() -> BlackBox:
    return Registry(ROOT / "models_store").find("consumer-loan@1").load().black_box


@pytest.fixture(scope="module")
def fresh() -> tuple[np.ndarray, np.ndarray]:
    return applicants(FRESH, FRESH_SEED)


def moved(consumer_loan: BlackBox, rows_raw: np.ndarray, name: str, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """The rows in which a feature can move by `delta` inside its limits, before and after."""
    j = consumer_loan.space.index(name)
    after = rows_raw.copy()
    after[:, j] = after[:, j] + delta
    low, high = consumer_loan.space.features[j].range_raw
    legal = (after[:, j] >= low) & (after[:, j] <= high)
    return rows_raw[legal], after[legal]


def test_the_shipped_reference_is_what_the_generator_makes(tmp_path: Path) -> None:
    rows_raw, repaid = applicants(TRAINING, SEED)
    space = standardised(FEATURES, rows_raw)
    write_records(tmp_path / "reference.csv", space, rows_raw[:REFERENCE], ("repaid", repaid[:REFERENCE]))
    assert (tmp_path / "reference.csv").read_bytes() == (DEMO / "reference.csv").read_bytes()


@pytest.mark.slow
def test_the_shipped_manifest_is_what_the_trainer_writes(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "examples/consumer_loan/train.py", "--output", tmp_path / "model"]
    subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    written, shipped = (yaml.safe_load((d / "model.yaml").read_text()) for d in (tmp_path / "model", DEMO))
    # The last bits of trained weights differ between processors.
    del written["artifact"]["sha256"], shipped["artifact"]["sha256"]
    assert written == shipped
    assert Registry(tmp_path / "store").register(tmp_path / "model")


def test_the_stated_auc_holds_on_new_applicants(consumer_loan: BlackBox, fresh: tuple[np.ndarray, np.ndarray]) -> None:
    rows_raw, repaid = fresh
    description = yaml.safe_load((DEMO / "model.yaml").read_text())["description"]
    assert float(re.search(r"AUC (0\.\d+)", description)[1]) == STATED_AUC
    assert round(auc(consumer_loan.score_raw(rows_raw), repaid), 2) >= STATED_AUC
    assert 0.6 < favourable(consumer_loan.score_raw(rows_raw)).mean() < 0.7


def test_who_is_accepted_defaults_far_less(consumer_loan: BlackBox, fresh: tuple[np.ndarray, np.ndarray]) -> None:
    rows_raw, repaid = fresh
    accepted = favourable(consumer_loan.score_raw(rows_raw))
    assert repaid[accepted].mean() > 0.9
    assert repaid[~accepted].mean() < 0.6


def test_probabilities_are_calibrated(consumer_loan: BlackBox, fresh: tuple[np.ndarray, np.ndarray]) -> None:
    rows_raw, repaid = fresh
    chance = consumer_loan.probability(consumer_loan.score_raw(rows_raw))
    order = np.argsort(chance)
    for tenth in np.array_split(order, 10):
        assert abs(chance[tenth].mean() - repaid[tenth].mean()) < 0.06


@pytest.mark.parametrize(
    ("name", "delta"),
    [
        ("monthly_income", 500),
        ("monthly_debt", -150),
        ("card_utilisation", -20),
        ("late_payments", -1),
        ("amount", -2000),
        ("employment", 1),
        ("savings", 1),
        ("guarantor", 1),
    ],
)
def test_what_a_credit_officer_would_advise_helps_nearly_everyone(
    consumer_loan: BlackBox, fresh: tuple[np.ndarray, np.ndarray], name: str, delta: float
) -> None:
    before, after = moved(consumer_loan, fresh[0], name, delta)
    gain = consumer_loan.score_raw(after) - consumer_loan.score_raw(before)
    assert gain.mean() > 0.1
    assert (gain > 0.0).mean() > 0.97


def test_a_longer_term_cuts_both_ways(consumer_loan: BlackBox, fresh: tuple[np.ndarray, np.ndarray]) -> None:
    before, after = moved(consumer_loan, fresh[0], "term", 12)
    scores = consumer_loan.score_raw(before)
    gain = consumer_loan.score_raw(after) - scores
    assert 0.2 < (gain > 0.0).mean() < 0.8
    assert gain[~favourable(scores)].mean() > 0.0  # it eases the burden of those who cannot carry it


def test_most_rejected_applicants_have_something_to_do(
    consumer_loan: BlackBox, fresh: tuple[np.ndarray, np.ndarray]
) -> None:
    rejected = fresh[0][~favourable(consumer_loan.score_raw(fresh[0]))]
    amount, term, guarantor = (consumer_loan.space.index(name) for name in ("amount", "term", "guarantor"))
    smaller = rejected.copy()
    smaller[:, amount] = np.maximum(500, 100 * np.floor(smaller[:, amount] / 200))
    backed = rejected.copy()
    backed[:, [term, guarantor]] = np.column_stack([np.minimum(84, rejected[:, term] + 12), np.ones(len(rejected))])
    helped = favourable(consumer_loan.score_raw(smaller)) | favourable(consumer_loan.score_raw(backed))
    assert helped.mean() > 0.3
    certain = rejected[:, consumer_loan.space.index("late_payments")] >= 4
    assert helped[certain].mean() < helped[~certain].mean()  # a bad record is not mended by a smaller loan


def test_the_demo_has_every_type_of_feature_and_is_small() -> None:
    assert {feature.type for feature in FEATURES} == set(FeatureType)
    assert sum(path.stat().st_size for path in DEMO.rglob("*")) < 800_000  # half of it are models of stressed records


def test_the_demo_scores_as_its_file_says(consumer_loan: BlackBox, fresh: tuple[np.ndarray, np.ndarray]) -> None:
    rows_raw = fresh[0][:500]
    X = encode_by_hand(DEMO, consumer_loan.space, rows_raw)
    np.testing.assert_allclose(
        consumer_loan.probability(consumer_loan.score_raw(rows_raw)), sigmoid(forward(DEMO, X)), rtol=0, atol=1e-6
    )
    assert consumer_loan.threshold == THRESHOLD


def test_applicants_are_reproducible_and_differ_by_seed() -> None:
    first, repaid = applicants(50, 1)
    again, repaid_again = applicants(50, 1)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(repaid, repaid_again)
    assert (first != applicants(50, 2)[0]).any()


def test_a_rule_between_features_registers(tmp_path: Path) -> None:
    rows_raw, repaid = applicants(400, 3)
    space = standardised(FEATURES, rows_raw)
    write_model(
        tmp_path / "model",
        identity={"id": "ruled", "version": "1", "title": "Nobody pays more than they earn",
                  "rules": ["monthly_debt <= monthly_income"]},
        space=space,
        network=train_mlp(space.encode(rows_raw), repaid, 0, hidden=(8,), epochs=2),
        threshold=0.8,
        reference_raw=rows_raw,
    )  # fmt: skip
    registry = Registry(tmp_path / "store")
    registry.register(tmp_path / "model")
    (rule,) = registry.find("ruled").rules
    assert rule.holds(rows_raw).all()
    pays_double = rows_raw.copy()
    pays_double[:, 2] = 2 * pays_double[:, 1]
    assert not rule.holds(pays_double).any()


# --- a lender's own model ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("adult", [True, False], ids=["Adult", "synthetic"])
def test_a_lenders_own_model_is_drafted_registered_and_asked(
    adult: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = Path(os.environ.get("RECOURSE_DATA") or ROOT.parent / "shared" / "data")
    if adult and not (data / own_model.ADULT).exists():
        pytest.skip(f"Adult is not here; set RECOURSE_DATA to the directory that holds {own_model.ADULT}")
    own_model.main(["--data", str(data if adult else tmp_path), "--output", str(tmp_path / "out")])
    said = capsys.readouterr().out
    assert ("synthetic applicants are used" in said) != adult
    assert "The scores are the lender's: 3,000 compared" in said
    assert re.search(r"The model then says yes with probability 0\.[5-9]", said)
    assert "# age: protected" in (tmp_path / "out" / "own-model" / "model.yaml").read_text()


# --- German Credit ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def present() -> Path:
    """The data are not shipped: RECOURSE_DATA names the directory that has them."""
    path = Path(os.environ.get("RECOURSE_DATA") or ROOT.parent / "shared" / "data") / "german" / "present.csv"
    if not path.exists():
        pytest.skip("German Credit is not here; set RECOURSE_DATA to the directory that holds german/present.csv")
    return path


@pytest.fixture(scope="module", params=["all", "four", "lender"])
def trained(request: pytest.FixtureRequest, present: Path) -> tuple[str, german_train.Trained]:
    return request.param, german_train.train(present, request.param, seed=0)


@pytest.fixture(scope="module")
def registered(
    trained: tuple[str, german_train.Trained], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, LoadedModel]:
    """The directory that the script writes, and the model as the service loads it."""
    name, result = trained
    folder = tmp_path_factory.mktemp("german")
    german_train.write(result, folder / "model", name)
    registry = Registry(folder / "store")
    registry.register(folder / "model")
    return folder / "model", registry.find(german_train.IDS[name]).load()


def test_the_labels_of_german_credit_read_inside_a_sentence() -> None:
    """ "Increase the time at present residence, class from 2 to 3" does not."""
    assert not [feature.label for feature in german.ALL if feature.label and "," in feature.label]


def test_english_words_are_those_of_every_country_with_letters_in_english() -> None:
    """The same words stand in letters of the United States, the United Kingdom and the Union."""
    bureau = (ROOT / "examples/bureau_loan/features.yaml").read_text(encoding="utf-8")
    demo = (DEMO / "model.yaml").read_text(encoding="utf-8")
    for words in (bureau, demo, json.dumps([FEATURE.dump_python(one, mode="json") for one in german.ALL])):
        assert not re.search(r"[Cc](hecking|urrent) account|[Ii]nstall?ment ", words)


def test_advice_about_the_loan_itself_is_a_wish_and_the_loan_pays_no_debt() -> None:
    """Readers filed a second application, thought of repaying a loan before they had it, or of paying cards with it."""
    terms, debts = [german.SENTENCES[name] for name in german.TERMS], []
    for file in (ROOT / "examples/bureau_loan/features.yaml", DEMO / "model.yaml"):
        features = yaml.safe_load(file.read_text(encoding="utf-8"))["features"]
        for one in TypeAdapter(tuple[Feature, ...]).validate_python(features):
            said = (one.sentence, one.words["de"].sentence) if "de" in one.words else None
            terms += [said] if one.terms else []
            debts += [said] if one.sentence.decrease and re.search("debts|limits in use", one.label or "") else []
    assert (len(terms), len(debts)) == (6, 4)
    for english, german_words in terms:
        assert (english.decrease or english.any).startswith("When you write to us, ask ")
        assert (german_words.decrease or german_words.any).startswith("Wenn Sie uns schreiben, um ")
    for english, german_words in debts:
        assert "not with this loan" in english.decrease
        assert "nicht mit diesem Kredit" in german_words.decrease


def test_german_credit_has_the_columns_of_the_papers(present: Path) -> None:
    for name, columns in (("all", 61), ("four", 7), ("lender", 60)):
        rows_raw, labels = german.load(present, german.FEATURES[name])
        assert standardised(german.FEATURES[name], rows_raw).d == columns
        assert len(labels) == 1000
        assert labels.sum() == 700


def test_what_cannot_change_is_stated() -> None:
    change = {feature.name: str(feature.change) for feature in german.ALL if feature.change != "any"}
    assert change == {"personal_status_sex": "none", "foreign_worker": "none", "age": "increase"}


def test_applicants_are_not_advised_to_undo_their_past(registered: tuple[Path, LoadedModel]) -> None:
    _, model = registered
    method, never = METHODS["robust_mpm"], german.FIXED | {"personal_status_sex", "foreign_worker"}
    refused = model.reference.rows_raw[~favourable(model.reference.scores)][:10]
    found = 0
    for row_raw in refused:
        actions = action_set(model.black_box.space, row_raw)
        problem = RecourseProblem(black_box=model.black_box, reference=model.reference, action_set=actions)
        for one in solve(problem, method, method.params()).counterfactuals:
            found += 1
            before, after = (model.black_box.space.record(row) for row in (row_raw, one.row_raw))
            changed = {key: after[key] for key in after if after[key] != before[key]}
            assert not changed.keys() & never
            assert all(value in german.ADVISED.get(key, (value,)) for key, value in changed.items())
    assert found > 0.5 * len(refused)


def test_every_code_is_explained() -> None:
    groups = {feature.name: feature.categories for feature in german.ALL if feature.is_group}
    assert {name: tuple(words) for name, words in german.CODES.items()} == groups


def test_training_on_german_credit_is_sane(trained: tuple[str, german_train.Trained]) -> None:
    name, result = trained
    expected_accuracy, expected_auc = {"all": (0.71, 0.73), "four": (0.68, 0.62), "lender": (0.71, 0.73)}[name]
    assert result.test_accuracy > expected_accuracy
    assert result.test_auc > expected_auc
    chance = probability(result.network, result.space.encode(result.training_raw))
    fit = ((chance >= german_train.THRESHOLD) == result.training_labels).mean()
    assert fit < 0.9  # not learnt by heart


def test_german_credit_registers_and_scores_as_its_file_says(
    trained: tuple[str, german_train.Trained], registered: tuple[Path, LoadedModel]
) -> None:
    (_, result), (directory, model) = trained, registered
    black_box = model.black_box
    X = encode_by_hand(directory, black_box.space, result.test_raw)
    scores = black_box.score_raw(result.test_raw)
    np.testing.assert_allclose(scores, forward(directory, X), rtol=0, atol=1e-4)
    accepted = favourable(scores)
    assert 0.6 < accepted.mean() < 0.99
    assert result.test_labels[accepted].mean() > result.test_labels[~accepted].mean() + 0.1


@pytest.mark.release
def test_the_german_credit_script_runs_as_the_readme_of_its_module_says(present: Path, tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "examples/german_credit/train.py", "--data", present, "--features", "four"]
    command += ["--output", tmp_path / "model", "--register", tmp_path / "store"]
    done = subprocess.run(command, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "accuracy 0.7" in done.stdout
    assert (tmp_path / "store" / "german-credit-four" / "1" / "model.yaml").exists()


def test_the_same_seed_gives_the_same_network() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), rng.integers(0, 2, 60)
    first, again, other = (probability(train_mlp(X, y, seed, epochs=2), X) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_a_value_outside_the_schema_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("duration,amount,personal_status_sex,age,label\n12,900,A95,30,1\n")
    with pytest.raises(ValueError, match="record 1: personal_status_sex must be one of"):
        german.load(tmp_path / "bad.csv", german.FOUR)
    with pytest.raises(ValueError, match="no column status"):
        german.load(tmp_path / "bad.csv")


def test_auc_counts_ties_as_half() -> None:
    assert auc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([0, 0, 1, 1])) == pytest.approx(0.875)


# --- the client ------------------------------------------------------------------------------------------------------

DEMO_REQUEST: dict[str, Any] = json.loads((ROOT / "examples/consumer_loan/request.json").read_text())


@pytest.fixture(scope="module")
def computing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server process with the demo model that computes jobs."""
    with starting("sqlite", DEMO_STORE, tmp_path_factory.mktemp("computing")) as start:
        yield start().ready()


def run_client(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "examples/client.py", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)


def test_the_client_prints_the_advice_of_the_demo(demo: Running) -> None:
    done = run_client("--url", demo.url)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "Pay off other debts, not with this loan, until 156 EUR a month is due, not 310 EUR.",
        "Pay down cards and overdrafts, not with this loan, to 0% of their limits, from 72%.",
        "Find a guarantor whom we accept.",
        "The model then says yes with probability 0.92.",
    ]


@pytest.mark.slow
def test_the_client_prints_the_same_from_a_job(computing: Server) -> None:
    assert run_client("--url", computing.client.base_url, "--later").stdout.startswith("Pay off other debts")


def test_the_client_names_every_fault_of_a_request(demo: Running, tmp_path: Path) -> None:
    wrong = DEMO_REQUEST | {"applicant": DEMO_REQUEST["applicant"] | {"age": "old", "housing": "a castle"}}
    (tmp_path / "wrong.json").write_text(json.dumps(wrong))
    done = run_client("--url", demo.url, "--request", tmp_path / "wrong.json")
    assert done.returncode == 1
    assert "/applicant/age: " in done.stderr
    assert "/applicant/housing: " in done.stderr


def test_who_asks_for_several_ways_is_given_the_one_answer_among_them(demo: Running) -> None:
    """A part of its changes, cheaper and accepted only if applicants stay as they are, took its place."""
    body = json.loads((ROOT / "examples" / "consumer_loan" / "request.json").read_text())
    one, three = (
        httpx.post(f"{demo.url}/recourse", json=body | {"count": count}, timeout=60).json()["counterfactuals"]
        for count in (1, 3)
    )
    assert len(three) == 3
    assert one[0]["changes"] in [way["changes"] for way in three]
    assert all(way["validity"]["future"]["stressed"]["lowest"] >= 0.9 for way in three)
