"""Networks: against PyTorch itself, and against files that lie."""

import io
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

from app.errors import ModelUnusable
from app.registry.adapters.optional_import import library
from app.registry.adapters.torch_model import Network
from app.registry.artifact import Activation
from app.registry.registry import Registry
from app.registry.trust import Trust
from tests.registry.adapters.evil import Evil
from tests.registry.loan import ModelDirectory

Refusal = Callable[[Path], dict[str, str]]

MODULES: dict[Activation, Callable[[], torch.nn.Module]] = {
    Activation.RELU: torch.nn.ReLU,
    Activation.LEAKY_RELU: torch.nn.LeakyReLU,
    Activation.ELU: torch.nn.ELU,
    Activation.TANH: torch.nn.Tanh,
    Activation.SIGMOID: torch.nn.Sigmoid,
}


def sequential(layers: list[int], activation: Activation = Activation.RELU) -> torch.nn.Sequential:
    torch.manual_seed(0)
    modules = [part for a, b in pairwise(layers) for part in (torch.nn.Linear(a, b), MODULES[activation]())]
    return torch.nn.Sequential(*modules[:-1])


def saved(state: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


@pytest.fixture
def network(model: ModelDirectory) -> ModelDirectory:
    """The loan model as a small network."""
    architecture = {"type": "mlp", "layers": [8, 4, 1], "activation": "relu"}
    model.set_artifact(
        safetensors.torch.save(sequential([8, 4, 1]).state_dict()),
        format="torch", path="m.safetensors", architecture=architecture,
    )  # fmt: skip
    return model


# --- against PyTorch -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", list(Activation))
@pytest.mark.parametrize("layers", [[7, 1], [7, 5, 1], [7, 20, 50, 20, 1]])
def test_forward_and_gradient_are_pytorchs(activation: Activation, layers: list[int]) -> None:
    net = sequential(layers, activation).double()
    linear = [module for module in net if isinstance(module, torch.nn.Linear)]
    ours = Network(
        [(part.weight.detach().numpy().T.copy(), part.bias.detach().numpy().copy()) for part in linear], activation
    )
    X = 3.0 * np.random.default_rng(0).normal(size=(200, 7))
    points = torch.tensor(X, requires_grad=True)
    logits = net(points)[:, 0]
    logits.sum().backward()
    assert points.grad is not None
    np.testing.assert_allclose(ours.logit(X), logits.detach().numpy(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.gradient(X), points.grad.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", [Activation.RELU, Activation.LEAKY_RELU, Activation.ELU])
def test_kinks_have_pytorchs_slope(activation: Activation) -> None:
    ours = Network([(np.ones((1, 1)), np.zeros(1)), (np.ones((1, 1)), np.zeros(1))], activation)
    points = torch.zeros((1, 1), dtype=torch.float64, requires_grad=True)
    MODULES[activation]()(points).sum().backward()
    assert points.grad is not None
    assert ours.gradient(np.zeros((1, 1)))[0, 0] == points.grad.item()


def test_numbers_beyond_single_precision_give_no_score_and_no_warning(network: ModelDirectory, store: Registry) -> None:
    black_box = store.register(network.write()).load().black_box
    scores = black_box.score(np.full((2, 8), [[1e300], [0.0]]))
    assert np.isnan(scores).tolist() == [True, False]


def test_half_precision_is_read_exactly(network: ModelDirectory, tmp_path: Path) -> None:
    for dtype, suffix in [(torch.bfloat16, "pt"), (torch.float16, "pt"), (torch.float16, "safetensors")]:
        net = sequential([8, 4, 1]).to(dtype)
        state = net.state_dict()
        content = saved(state) if suffix == "pt" else safetensors.torch.save(state)
        network.set_artifact(content, path=f"m.{suffix}")
        loaded = Registry(tmp_path / f"{dtype}{suffix}").register(network.write()).load()
        with torch.no_grad():
            expected = net.float()(torch.tensor(loaded.reference.X, dtype=torch.float32))[:, 0].numpy()
        np.testing.assert_allclose(loaded.reference.scores, expected, rtol=1e-4, atol=1e-5)


def test_safetensors_need_no_pytorch_and_threads_stay_as_they_are(network: ModelDirectory, store: Registry) -> None:
    store.register(network.write())
    code = (
        "import os, pathlib, sys, app.registry.registry as r\n"
        "loaded = r.Registry(pathlib.Path(sys.argv[1])).find('loan').load()\n"
        "before = len(os.listdir('/proc/self/task')) if os.path.isdir('/proc/self/task') else 0\n"
        "loaded.black_box.score(loaded.reference.X)\n"
        "after = len(os.listdir('/proc/self/task')) if before else 0\n"
        "assert 'torch' not in sys.modules and before == after, (before, after)\n"
    )
    subprocess.run([sys.executable, "-c", code, store.root], check=True, cwd=Path.cwd(), env={**os.environ})


# --- files that lie --------------------------------------------------------------------------------------------------


def test_shapes_that_differ_are_named_with_both(network: ModelDirectory, refusal: Refusal) -> None:
    network.set_artifact(safetensors.torch.save(sequential([8, 5, 1]).state_dict()))
    assert refusal(network.write()) == {
        "/artifact/0.weight": "has the shape (5, 8), expected (4, 8)",
        "/artifact/0.bias": "has the shape (5,), expected (4,)",
        "/artifact/2.weight": "has the shape (1, 5), expected (1, 4)",
    }


def test_keys_that_differ_are_named(network: ModelDirectory, refusal: Refusal) -> None:
    state = sequential([8, 4, 1]).state_dict()
    state["net.0.weight"] = state.pop("0.weight")
    network.set_artifact(safetensors.torch.save(state))
    faults = refusal(network.write())
    assert faults["/artifact/0.weight"] == "is missing; expected the shape (4, 8)"
    assert "0.weight, 0.bias, 2.weight, 2.bias" in faults["/artifact/net.0.weight"]


def test_a_network_must_take_the_encoded_columns(network: ModelDirectory, refusal: Refusal) -> None:
    network.manifest["artifact"]["architecture"]["layers"] = [9, 4, 1]
    network.set_artifact(safetensors.torch.save(sequential([9, 4, 1]).state_dict()))
    assert refusal(network.write()) == {
        "/artifact/architecture/layers": "begins with 9 inputs, but the features have 8 encoded columns"
    }


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (torch.full((1,), torch.nan), "not finite"),
        (torch.zeros(1, dtype=torch.int64), "has the type int64"),
        (torch.zeros(1, dtype=torch.complex64), "has the type complex64"),
    ],
)
def test_values_must_be_finite_floats(
    network: ModelDirectory, refusal: Refusal, value: torch.Tensor, sentence: str
) -> None:
    network.set_artifact(saved(sequential([8, 4, 1]).state_dict() | {"2.bias": value}), path="m.pt")
    assert sentence in refusal(network.write())["/artifact/2.bias"]


@pytest.mark.parametrize("suffix", ["pt", "safetensors"])
@pytest.mark.parametrize("content", [b"", b"junk" * 100, b"PK\x03\x04" + b"\0" * 100, b"\xff" * 64, b"\x80\x02."])
def test_damaged_files_are_refused(network: ModelDirectory, refusal: Refusal, suffix: str, content: bytes) -> None:
    network.set_artifact(content, path=f"m.{suffix}")
    assert "cannot be read" in refusal(network.write())["/artifact"]


@pytest.mark.parametrize("size", [100, 1_000, 2_000])
def test_a_truncated_file_is_refused(network: ModelDirectory, refusal: Refusal, size: int) -> None:
    network.set_artifact(saved(sequential([8, 4, 1]).state_dict())[:size], path="m.pt")
    assert "cannot be read" in refusal(network.write())["/artifact"]


@pytest.mark.parametrize("state", [[1, 2], {"0.weight": [1.0]}, torch.zeros(3)])
def test_other_contents_are_refused(network: ModelDirectory, refusal: Refusal, state: Any) -> None:
    network.set_artifact(saved(state), path="m.pt")
    assert "is no state dict of tensors" in refusal(network.write())["/artifact"]


@pytest.mark.parametrize("trusted", [False, True])
def test_code_in_a_file_never_runs(network: ModelDirectory, tmp_path: Path, trusted: bool) -> None:
    marker = tmp_path / "executed"
    registry = Registry(tmp_path / "trusting", Trust(pickle=trusted))
    for content in (saved({"0.weight": Evil(marker)}), pickle.dumps(Evil(marker)), saved(sequential([8, 4, 1]))):
        network.set_artifact(content, path="m.pt")
        network.write()
        with pytest.raises(Exception, match="cannot be read"):
            registry.register(network.path)
    assert not marker.exists()


def test_a_library_that_is_installed_and_finds_no_memory_is_not_to_be_installed() -> None:
    with pytest.raises(ModelUnusable, match=r"cannot be loaded \(failed to map segment"), library("torch"):
        raise ImportError("failed to map segment from shared object", name="_safetensors_rust")
