"""Each recipe against the library whose training it imitates."""

import json
from pathlib import Path

import numpy as np
import pytest

from app.futures import boosted, network
from app.futures.boosted import LightgbmRecipe, XgboostRecipe, lightgbm_parameters, xgboost_parameters
from app.futures.linear import LinearRecipe
from app.futures.network import NetworkRecipe, Networks
from app.futures.recipe import PILOT
from app.futures.records import reference_records, samples
from app.registry.artifact import Activation, Architecture
from tests.futures.models import LAYERS, labelled, registered, torch_network
from tests.optional import library

# --- networks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_step_of_training_is_that_of_pytorch(activation: Activation, outputs: int) -> None:
    """Three steps of Adam on the same batches, from the same weights."""
    torch = library("torch")
    modules = {"relu": "ReLU", "leaky_relu": "LeakyReLU", "elu": "ELU", "tanh": "Tanh", "sigmoid": "Sigmoid"}
    architecture = Architecture(type="mlp", layers=(5, 7, 4, outputs), activation=activation)
    networks = Networks.drawn(architecture, [3, 4])
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2, 16, 5)).astype(np.float32), (rng.random((2, 16)) < 0.5).astype(np.float32)
    theirs = []
    for k in range(2):
        act = getattr(torch.nn, modules[activation.value])
        linears = [torch.nn.Linear(a, b) for a, b in ((5, 7), (7, 4), (4, outputs))]
        for linear, (weights, biases) in zip(linears, networks.layers(networks.parameters), strict=True):
            linear.weight.data = torch.tensor(weights[k].T.copy())
            linear.bias.data = torch.tensor(biases[k, 0].copy())
        theirs.append(torch.nn.Sequential(linears[0], act(), linears[1], act(), linears[2]))
    for k, net in enumerate(theirs):
        optimiser = torch.optim.Adam(net.parameters())
        for _ in range(3):
            optimiser.zero_grad()
            out = net(torch.tensor(X[k]))
            if outputs == 1:
                loss = torch.nn.functional.binary_cross_entropy_with_logits(out[:, 0], torch.tensor(y[k]))
            else:
                loss = torch.nn.functional.cross_entropy(out, torch.tensor(y[k]).long())
            loss.backward()
            optimiser.step()
    for _ in range(3):
        networks.step((X, y))
    for k, net in enumerate(theirs):
        with torch.no_grad():
            out = net(torch.tensor(X[k])).numpy()
        expected = out[:, 0] if outputs == 1 else out[:, 1] - out[:, 0]
        np.testing.assert_allclose(networks.logits(X)[k], expected, rtol=1e-4, atol=2e-6)


def test_initial_weights_are_drawn_as_pytorch_draws_them() -> None:
    torch = library("torch")
    networks = Networks.drawn(Architecture(type="mlp", layers=(50, 80, 1), activation=Activation.RELU), range(40))
    weights, biases = networks.layers(networks.parameters)[0]
    torch.manual_seed(0)
    linear = torch.nn.Linear(50, 80)
    assert np.abs(weights).max() == pytest.approx(float(linear.weight.detach().abs().max()), rel=0.01)
    assert weights.std() == pytest.approx(float(linear.weight.detach().std()), rel=0.03)
    assert biases.std() == pytest.approx(float(linear.bias.detach().std()), rel=0.2)


@pytest.mark.release
def test_future_networks_decide_as_those_of_the_lenders_own_training(tmp_path: Path) -> None:
    """Told and true: the share of networks that accept, by this recipe and by PyTorch for the lender's 60 epochs."""
    torch = library("torch")
    loaded = registered(tmp_path, "torch", records=400).load()
    records = reference_records(loaded)
    recipe = NetworkRecipe.of_model(loaded, records)
    tuned = recipe.tune(records, samples(records, "same", 0, range(PILOT, PILOT + 8)))
    files = recipe.make(records, samples(records, "same", 0, range(25)), tuned)
    _, space, X, _ = labelled(tmp_path / "others", 400)
    fresh = np.random.default_rng(5).normal(size=(500, space.d))
    told = np.mean([_accepts(recipe, loaded, content, fresh) for content in files], axis=0)
    drawn = samples(records, "same", 1, range(25))
    y = records.favourable.astype(int)
    true = []
    for sample in drawn:
        net = torch_network(X[sample.chosen], y[sample.chosen], sample.seed, layers=LAYERS, epochs=60)
        with torch.no_grad():
            true.append(net(torch.tensor(fresh, dtype=torch.float32))[:, 0].numpy() >= 0.0)
    share = np.mean(true, axis=0)
    assert abs(float(told.mean() - share.mean())) < 0.02
    # Two sets of forty that the lender trains differ by 0.05 at a point.
    assert float(np.abs(told - share).mean()) < 0.08


def _accepts(recipe: NetworkRecipe, loaded: object, content: bytes, X: np.ndarray) -> np.ndarray:
    from app.registry.adapters.torch_model import read_network

    space = recipe.model.registered.space
    return np.asarray(read_network(recipe.described, content, space).logit(X) >= 0.0)


def test_training_stops_where_todays_model_fits_as_well(tmp_path: Path) -> None:
    loaded = registered(tmp_path, "torch").load()
    records = reference_records(loaded)
    target = network.model_loss(loaded, records)
    assert target is not None
    plain = np.logaddexp(0.0, np.where(records.favourable, -loaded.reference.scores, loaded.reference.scores)).mean()
    assert 0.0 < target <= plain + 1e-9
    longer = NetworkRecipe(loaded, loaded.registered.manifest, target * 0.8)
    pilots = samples(records, "fresh", 0, range(PILOT, PILOT + 8))
    steps = NetworkRecipe.of_model(loaded, records).tune(records, pilots)["steps"]
    assert steps < longer.tune(records, pilots)["steps"]


# --- linear models ---------------------------------------------------------------------------------------------------


def test_linear_models_are_those_of_scikit_learn(tmp_path: Path) -> None:
    logistic = library("sklearn.linear_model").LogisticRegression
    loaded = registered(tmp_path, "linear").load()
    records = reference_records(loaded)
    recipe = LinearRecipe(loaded, loaded.registered.manifest)
    tuned = recipe.tune(records, [])
    # The model was fitted with C = 0.1.
    assert tuned["ridge"] == pytest.approx(10.0)
    assert tuned["logits_differ_by"] < 1e-3
    drawn = samples(records, "fresh", 0, range(3))
    X = loaded.registered.space.encode(records.rows_raw)
    for sample, content in zip(drawn, recipe.make(records, drawn, tuned), strict=True):
        found = json.loads(content)
        # Half of the records, each counted twice.
        fitted = logistic(C=0.1, tol=1e-12, max_iter=10_000).fit(
            X[sample.chosen], records.favourable[sample.chosen], sample_weight=np.full(len(sample.chosen), 2.0)
        )
        np.testing.assert_allclose(list(found["weights"].values()), fitted.coef_[0], atol=2e-4)
        assert found["intercept"] == pytest.approx(float(fitted.intercept_[0]), abs=2e-4)


# --- boosted trees ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stated",
    [
        {"eta": 0.3, "lambda": 1.0, "max_depth": 6, "min_child_weight": 1.0},
        {"eta": 0.05, "lambda": 0.0, "max_depth": 3},
        {"eta": 0.2, "lambda": 8.0, "max_depth": 4, "min_child_weight": 2.0, "scale_pos_weight": 3.0},
    ],
)
def test_parameters_of_xgboost_follow_from_its_file(tmp_path: Path, stated: dict[str, float]) -> None:
    xgboost = library("xgboost")
    _, _, X, y = labelled(tmp_path, 1_500)
    booster = xgboost.train(
        {"objective": "binary:logistic", "nthread": 1, **stated}, xgboost.DMatrix(X, y), num_boost_round=20
    )
    found = xgboost_parameters(bytes(booster.save_raw("json")))
    assert found["rounds"] == 20
    for name, value in stated.items():
        assert found[name] == pytest.approx(value, rel=1e-3, abs=1e-3), name


def test_the_same_records_and_parameters_give_todays_trees(tmp_path: Path) -> None:
    """What is read out of a file trains the same model again."""
    xgboost = library("xgboost")
    loaded = registered(tmp_path, "xgboost").load()
    records = reference_records(loaded)
    recipe = XgboostRecipe(loaded, loaded.registered.manifest)
    tuned = recipe.tune(records, [])
    (everything,) = samples(records, "same", 0, [0])
    everything = type(everything)(index=0, chosen=np.arange(300), seed=0)
    (content,) = recipe.make(records, [everything], tuned)
    booster = xgboost.Booster({"nthread": 1})
    booster.load_model(bytearray(content))
    X = loaded.registered.space.encode(records.rows_raw)
    found = booster.predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(found, loaded.reference.scores, atol=1e-3)


def test_lightgbm_states_its_parameters(tmp_path: Path) -> None:
    lightgbm = library("lightgbm")
    loaded = registered(tmp_path, "lightgbm").load()
    records = reference_records(loaded)
    recipe = LightgbmRecipe(loaded, loaded.registered.manifest)
    tuned = recipe.tune(records, [])
    assert (tuned["rounds"], tuned["num_leaves"], tuned["learning_rate"], tuned["bagging_freq"]) == (12, 7, 0.1, 0)
    everything = samples(records, "same", 0, [0])[0]
    everything = type(everything)(index=0, chosen=np.arange(300), seed=0)
    (content,) = recipe.make(records, [everything], tuned)
    X = loaded.registered.space.encode(records.rows_raw)
    found = lightgbm.Booster(model_str=content.decode()).predict(X, raw_score=True)
    np.testing.assert_allclose(found, loaded.reference.scores, atol=1e-6)


def test_a_text_without_parameters_shows_some(tmp_path: Path) -> None:
    text = (registered(tmp_path, "lightgbm").directory / "model.txt").read_text()
    bare = text[: text.index("\nparameters:")]
    found = lightgbm_parameters(bare)
    assert (found["rounds"], found["num_leaves"], found["learning_rate"]) == (12, 7, 0.1)
    assert set(lightgbm_parameters(text)) >= {"min_data_in_leaf", "lambda_l2"}
    assert boosted.SWITCHES < boosted.STATED
