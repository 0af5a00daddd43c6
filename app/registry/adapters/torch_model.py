"""A dense network, stored as a PyTorch state dict and described by its manifest; no code of the file ever runs.

The forward pass is numpy in the precision of the weights. For networks of this size it is as fast as PyTorch on large
batches and three times as fast on single records, and a child that reads safetensors never imports PyTorch. The tests
compare it with `torch.nn.Sequential` and autograd.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from app.errors import Fault, ModelRefused
from app.recourse.features import FeatureSpace, escape
from app.recourse.models.black_box import BlackBox
from app.recourse.models.relu_network import ReluNetwork
from app.recourse.models.score import Output, sigmoid
from app.registry.adapters.artifact import UNREADABLE, black_box_of, read_artifact, refused, unreadable
from app.registry.adapters.optional_import import library
from app.registry.artifact import Activation, Architecture
from app.registry.manifest import Manifest
from app.registry.trust import Trust

Layer: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Weights (inputs, outputs) and biases (outputs,)."""

Elementwise: TypeAlias = Callable[[np.ndarray], np.ndarray]


def load(manifest: Manifest, directory: Path, space: FeatureSpace, trust: Trust) -> BlackBox:  # noqa: ARG001
    """The black box of a dense network, with gradients.

    Raises `ModelRefused` where the file cannot be read or holds another network than the manifest describes;
    `ModelUnusable` where the library for this file format is not installed.
    """
    network = read_network(manifest, read_artifact(manifest, directory), space)
    predict = network.probability if manifest.output is Output.PROBABILITY else network.logit
    linear = network.activation in LEAKS
    return black_box_of(
        manifest, space, predict, gradient=network.gradient, piecewise_linear=linear, network=network.relu()
    )


def read_network(manifest: Manifest, content: bytes, space: FeatureSpace) -> "Network":
    """The network in the bytes of an artifact.

    Raises `ModelRefused` where the bytes cannot be read, or hold another network than the manifest describes.
    """
    architecture = manifest.file.architecture
    if architecture is None:
        raise refused("is missing", "/architecture")
    state = read_state(content, manifest.file.path)
    faults = _state_faults(architecture, state)
    if architecture.layers[0] != space.d:
        detail = f"begins with {architecture.layers[0]} inputs, but the features have {space.d} encoded columns"
        faults = [Fault("/artifact/architecture/layers", detail), *faults]
    if faults:
        raise ModelRefused(faults=faults)
    return Network(_layers(architecture, state, favourable=int(manifest.favourable)), architecture.activation)


class Network:
    """A network of dense layers. The last layer gives one number, the logit of the favourable class.

    All other layers are followed by the same activation. All arrays in `layers` have one floating-point type, and the
    network computes in that type.
    """

    def __init__(self, layers: list[Layer], activation: Activation) -> None:
        self.layers = layers
        self.dtype = layers[0][0].dtype
        self.activation = activation
        self.activate, self.slope = ACTIVATIONS[activation]

    def logit(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """The network's logit at each encoded point; not finite where the sums overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            H = np.asarray(X, dtype=self.dtype)
            for weights, bias in self.layers[:-1]:
                H = H @ weights
                H += bias
                H = self.activate(H)
            weights, bias = self.layers[-1]
            return np.asarray(H @ weights[:, 0] + bias[0], dtype=float)

    def probability(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """The sigmoid of the network's logit at each encoded point, in double precision."""
        return sigmoid(self.logit(X))

    def relu(self) -> ReluNetwork | None:
        """The layers as a mixed-integer program takes them; None for an activation other than ReLU and leaky ReLU."""
        if self.activation not in LEAKS:
            return None
        layers = tuple((weights.astype(float), bias.astype(float)) for weights, bias in self.layers)
        return ReluNetwork(layers, LEAKS[self.activation])

    def gradient(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The gradient of the logit at each encoded point.

        The score has the same gradient, also where the manifest's output is a probability.
        """
        H = np.asarray(X, dtype=self.dtype)
        slopes: list[np.ndarray] = []
        for weights, bias in self.layers[:-1]:
            H = self.activate(H @ weights + bias)
            slopes.append(self.slope(H))
        G = np.broadcast_to(self.layers[-1][0][:, 0], (len(H), H.shape[1]))
        for (weights, _), slope in zip(self.layers[-2::-1], slopes[::-1], strict=True):
            G = (G * slope) @ weights.T
        return np.array(G, dtype=float)


_LEAK = 0.01
"""PyTorch's slope of a leaky ReLU below zero."""

LEAKS = {Activation.RELU: 0.0, Activation.LEAKY_RELU: _LEAK}
"""Slopes below zero of the activations that are linear on either side of it."""

ACTIVATIONS: dict[Activation, tuple[Elementwise, Elementwise]] = {
    Activation.RELU: (lambda H: np.maximum(H, 0.0, out=H), lambda value: (value > 0.0).astype(value.dtype)),
    Activation.LEAKY_RELU: (
        lambda H: np.maximum(H, _LEAK * H, out=H), lambda value: np.where(value > 0.0, 1.0, _LEAK).astype(value.dtype),
    ),
    Activation.ELU: (
        lambda H: np.where(H > 0.0, H, np.expm1(np.minimum(H, 0.0))), lambda value: np.minimum(value, 0.0) + 1.0,
    ),
    Activation.TANH: (lambda H: np.tanh(H, out=H), lambda value: 1.0 - value * value),
    Activation.SIGMOID: (lambda H: 0.5 * (np.tanh(0.5 * H) + 1.0), lambda value: value * (1.0 - value)),
}  # fmt: skip
"""Each activation, which may work in place, and its slope as a function of its *value*; a kink has PyTorch's slope."""


# --- from the file ---------------------------------------------------------------------------------------------------


def read_state(content: bytes, path: str) -> dict[str, np.ndarray]:
    """The arrays of a state dict, by name, from a file in the format of safetensors or of torch.

    Raises `ModelRefused` where the file cannot be read.
    """
    # Future models are written as safetensors, under the suffix of the model.
    safe = path.endswith(".safetensors") or content[8:9] == b"{"
    reader = _read_safetensors if safe else _read_pt
    try:
        return reader(content)
    except UNREADABLE as error:
        raise unreadable(error) from error


def _read_safetensors(content: bytes) -> dict[str, np.ndarray]:
    with library("torch"):
        import safetensors
        import safetensors.numpy
    try:
        return dict(safetensors.numpy.load(content))
    except safetensors.SafetensorError as error:
        raise ValueError(str(error)) from error


def _read_pt(content: bytes) -> dict[str, np.ndarray]:
    with library("torch"):
        import torch
    from io import BytesIO

    state = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise refused("is no state dict of tensors; save model.state_dict()")
    # numpy has no bfloat16.
    tensors = {str(key): value.float() if value.dtype == torch.bfloat16 else value for key, value in state.items()}
    return {key: value.detach().numpy() for key, value in tensors.items()}


def _state_faults(architecture: Architecture, state: Mapping[str, np.ndarray]) -> list[Fault]:
    """Faults of a state dict that does not match the described network."""
    expected: dict[str, tuple[int, ...]] = {}
    for i, (width_in, width_out) in enumerate(pairwise(architecture.layers)):
        expected |= {f"{2 * i}.weight": (width_out, width_in), f"{2 * i}.bias": (width_out,)}
    faults = [
        Fault(f"/artifact/{escape(key)}", f"is no part of the described network, which has {', '.join(expected)}")
        for key in state
        if key not in expected
    ]
    for key, shape in expected.items():
        if key not in state:
            faults.append(Fault(f"/artifact/{key}", f"is missing; expected the shape {shape}"))
        elif state[key].shape != shape:
            faults.append(Fault(f"/artifact/{key}", f"has the shape {state[key].shape}, expected {shape}"))
        elif state[key].dtype.kind != "f":
            faults.append(Fault(f"/artifact/{key}", f"has the type {state[key].dtype}, expected floating point"))
        elif not np.isfinite(state[key]).all():
            faults.append(Fault(f"/artifact/{key}", "has values that are not finite"))
    return faults


def _layers(architecture: Architecture, state: Mapping[str, np.ndarray], *, favourable: int) -> list[Layer]:
    """The layers, the last folded into one column: the logit of the favourable class."""
    dtype = np.result_type(np.float32, *(array.dtype for array in state.values()))
    count = len(architecture.layers) - 1
    arrays = [(state[f"{2 * i}.weight"].astype(dtype).T, state[f"{2 * i}.bias"].astype(dtype)) for i in range(count)]
    weights, bias = arrays[-1]
    if architecture.layers[-1] == 2:
        # The logit of a softmax over two outputs is their difference.
        weights, bias = weights[:, favourable] - weights[:, 1 - favourable], bias[favourable] - bias[1 - favourable]
    else:
        sign = dtype.type(1 if favourable else -1)
        weights, bias = sign * weights[:, 0], sign * bias[0]
    arrays[-1] = (weights.reshape(-1, 1), bias.reshape(1))
    return [(np.ascontiguousarray(w), np.ascontiguousarray(b)) for w, b in arrays]
