"""What a state dict says: the widths of dense layers, but neither the activation nor the scales of the columns."""

import re
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from app.errors import ModelRefused
from app.registry.adapters.optional_import import library
from app.registry.adapters.torch_model import read_state
from app.registry.artifact import Activation, Format
from app.registry.drafting.facts import ModelFacts

WEIGHTS = "weights.safetensors"


def read(name: str, content: bytes) -> ModelFacts:
    """The facts that a PyTorch state dict states.

    The `content` of the facts is the same state dict with the array names that the service expects.

    Raises `ModelRefused` where the file holds anything but dense layers in one chain.
    """
    layers = _layers(name, read_state(content, name))
    widths = [layers[0][0].shape[1], *(weights.shape[0] for weights, _ in layers)]
    named = {
        f"{2 * i}.{part}": np.ascontiguousarray(array)
        for i, layer in enumerate(layers)
        for part, array in zip(("weight", "bias"), layer, strict=True)
    }
    with library("torch"):
        import safetensors.numpy
    architecture = {"type": "mlp", "layers": widths}
    first = (Activation.RELU,) if len(layers) == 1 else tuple(Activation)
    return ModelFacts(
        format=Format.TORCH, file=WEIGHTS, content=safetensors.numpy.save(named), width=widths[0],
        encodings=("standard", "minmax", "none"),
        choices=tuple({"architecture": architecture | {"activation": activation.value}} for activation in first),
        undecided="the activation between the layers" if len(layers) > 1 else "",
    )  # fmt: skip


def _layers(name: str, state: Mapping[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    keys = sorted(state, key=lambda key: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", key)])
    stems = list(dict.fromkeys(key.rpartition(".")[0] for key in keys))
    known = {f"{stem}.{part}" for stem in stems for part in ("weight", "bias")}
    if set(keys) != known or any(state[f"{stem}.weight"].ndim != 2 for stem in stems):
        others = [key for key in keys if key not in known or (key.endswith("weight") and state[key].ndim != 2)]
        raise ModelRefused(
            f"{name} is no chain of dense layers, each with a weight and a bias (it has {', '.join(others or keys)}); "
            "export the network as ONNX"
        )
    layers = [(state[f"{stem}.weight"], state[f"{stem}.bias"]) for stem in stems]
    if any(before.shape[0] != after.shape[1] for (before, _), (after, _) in pairwise(layers)):
        raise ModelRefused(f"{name} has layers that do not follow each other; export the network as ONNX")
    return layers
