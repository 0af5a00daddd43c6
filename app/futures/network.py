"""Future networks: all of a block are trained at once, in numpy and single precision.

Every layer of a block is one array with a leading axis of models, so a step of training is a few batched products.
PyTorch is not needed: initial weights are drawn as `torch.nn.Linear` draws them, and the optimiser is Adam with
PyTorch's default rate, on minibatches that are shuffled for each pass and each model.

No manifest says how long a network was trained. That is found out: pilots are trained until their loss on their own
training records is as low as that of today's model on the reference records, and then trained `LONGER`, since networks
that are trained for too short a time agree with one another too much.

References
----------
Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize

from app.errors import RehearsalFailed
from app.futures.recipe import Encoded, RecipeOfOneManifest, Tuned, encoded, log_loss
from app.futures.records import MOST_DRAWN, Records, Sample
from app.recourse.models.score import LOGIT_LIMIT, sigmoid
from app.registry.adapters.optional_import import library
from app.registry.adapters.torch_model import ACTIVATIONS
from app.registry.artifact import Activation, Architecture
from app.registry.manifest import Manifest
from app.registry.version import LoadedModel

RATE, DECAY_1, DECAY_2, EPSILON = 1e-3, 0.9, 0.999, 1e-8
"""Adam's learning rate, decay rates and smallest denominator: PyTorch's defaults."""

BATCH = (32, 256)
"""Smallest and largest minibatch; between them, a hundredth of the records."""

LONGER = 1.15
"""Models are trained for so many times the steps of the pilots."""

LEAST_PASSES, MOST_PASSES, MOST_STEPS = 2, 500, 30_000
"""Passes over the records, and steps, between which the length of training is found."""

BETWEEN_CHECKS = 1.08
"""The loss of pilots is looked at whenever the number of steps has grown by this factor."""

PATIENCE, GAIN = 1.6, 0.01
"""Pilots stop where so many times the steps have brought the loss down by less than this share."""

MODELS_AT_ONCE = 20
"""Models of a block: enough to hide the cost of a call, few enough for the processor's cache."""

Batch = tuple[np.ndarray, np.ndarray]
"""Points (k, b, d) and targets (k, b) of a step."""


@dataclass(slots=True)
class Networks:
    """The parameters of k networks of one architecture, and the state of their optimiser.

    All parameters are in one array; layers are views of it.
    """

    widths: tuple[int, ...]
    activation: Activation
    parameters: Float[np.ndarray, "k q"]
    gradient: Float[np.ndarray, "k q"] = field(init=False)
    moment_1: Float[np.ndarray, "k q"] = field(init=False)
    moment_2: Float[np.ndarray, "k q"] = field(init=False)
    steps: int = 0

    def __post_init__(self) -> None:
        self.gradient = np.zeros_like(self.parameters)
        self.moment_1 = np.zeros_like(self.parameters)
        self.moment_2 = np.zeros_like(self.parameters)

    @classmethod
    def drawn(cls, architecture: Architecture, seeds: Sequence[int]) -> "Networks":
        """Untrained networks, one for each seed.

        Their weights and biases are uniform within +-1 / sqrt(number of the layer's inputs).
        """
        widths = architecture.layers
        bounds = np.concatenate([np.full((i + 1) * o, 1.0 / np.sqrt(i)) for i, o in pairwise(widths)])
        drawn = [np.random.default_rng(seed).uniform(-bounds, bounds) for seed in seeds]
        return cls(widths, architecture.activation, np.array(drawn, dtype=np.float32))

    def layers(self, array: Float[np.ndarray, "k q"]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights (k, inputs, outputs) and biases (k, 1, outputs) of each layer.

        They are views of `array`, which holds all parameters of each network in a row.
        """
        views, at = [], 0
        for inputs, outputs in pairwise(self.widths):
            weights = array[:, at : at + inputs * outputs].reshape(len(array), inputs, outputs)
            at += inputs * outputs
            views.append((weights, array[:, at : at + outputs].reshape(len(array), 1, outputs)))
            at += outputs
        return views

    def logits(self, X: Float[np.ndarray, "k b d"]) -> Float[np.ndarray, "k b"]:
        """Logits of class 1 (k, b): network i is asked about its own b points ``X[i]``."""
        return _logit(self._forward(X)[-1])

    def step(self, batch: Batch) -> None:
        """One step of the optimiser Adam: each network is trained on its own records of the batch.

        The loss is the mean logistic loss.
        """
        values = self._forward(batch[0])
        error = sigmoid(_logit(values[-1])).astype(np.float32) - batch[1]
        error /= batch[1].shape[1]
        # The logit of two outputs is their difference.
        back = error[:, :, None] if self.widths[-1] == 1 else np.stack([-error, error], axis=2)
        slope = ACTIVATIONS[self.activation][1]
        layers, gradients = self.layers(self.parameters), self.layers(self.gradient)
        for i in range(len(layers) - 1, -1, -1):
            np.matmul(values[i].transpose(0, 2, 1), back, out=gradients[i][0])
            np.sum(back, axis=1, keepdims=True, out=gradients[i][1])
            if i:
                back = (back @ layers[i][0].transpose(0, 2, 1)) * slope(values[i])
        self._adam()

    def _forward(self, X: Float[np.ndarray, "k b d"]) -> list[np.ndarray]:
        """What goes into each layer, and what comes out of the last."""
        activate = ACTIVATIONS[self.activation][0]
        values = [X]
        layers = self.layers(self.parameters)
        for i, (weights, biases) in enumerate(layers):
            H = values[-1] @ weights
            H += biases
            values.append(H if i == len(layers) - 1 else activate(H))
        return values

    def _adam(self) -> None:
        self.steps += 1
        g, first, second = self.gradient, self.moment_1, self.moment_2
        first *= DECAY_1
        first += (1.0 - DECAY_1) * g
        second *= DECAY_2
        g *= g
        g *= 1.0 - DECAY_2
        second += g
        np.divide(second, 1.0 - DECAY_2**self.steps, out=g)
        np.sqrt(g, out=g)
        g += EPSILON
        np.divide(first, g, out=g)
        g *= RATE / (1.0 - DECAY_1**self.steps)
        self.parameters -= g


def _logit(outputs: Float[np.ndarray, "k b o"]) -> Float[np.ndarray, "k b"]:
    return outputs[:, :, 0] if outputs.shape[2] == 1 else outputs[:, :, 1] - outputs[:, :, 0]


@dataclass(slots=True)
class Training:
    """k networks in training, each on its own sample of the records."""

    networks: Networks
    X: Float[np.ndarray, "n d"]
    y: Float[np.ndarray, "n"]
    chosen: Int[np.ndarray, "k m"]
    rng: np.random.Generator
    batch: int
    _at: int = 0

    @classmethod
    def of(cls, architecture: Architecture, data: Encoded, samples: Sequence[Sample]) -> "Training":
        """Make an untrained network for each sample, to be trained on the records of this sample."""
        chosen = np.array([sample.chosen for sample in samples])
        seeds = [sample.seed for sample in samples]
        return cls(
            networks=Networks.drawn(architecture, seeds),
            X=data.X.astype(np.float32),
            y=data.y.astype(np.float32),
            chosen=chosen,
            rng=np.random.default_rng(seeds),
            batch=min(max(BATCH[0], chosen.shape[1] // 100), BATCH[1], chosen.shape[1]),
        )

    @property
    def pass_steps(self) -> int:
        """Number of steps in one pass over the records."""
        return -(-self.chosen.shape[1] // self.batch)

    def run(self, steps: int) -> None:
        """Train for a number of further steps."""
        for _ in range(steps):
            if not self._at:
                self.chosen = self.rng.permuted(self.chosen, axis=1)
            rows = self.chosen[:, self._at : self._at + self.batch]
            self.networks.step((self.X[rows], self.y[rows]))
            self._at = (self._at + self.batch) if self._at + self.batch < self.chosen.shape[1] else 0

    def losses(self) -> Float[np.ndarray, "k"]:
        """The mean log-loss of each network on its own training records."""
        found = np.zeros(len(self.chosen))
        for at in range(0, self.chosen.shape[1], 1_000):
            rows = self.chosen[:, at : at + 1_000]
            found += log_loss(self.networks.logits(self.X[rows]), self.y[rows] > 0.5) * rows.shape[1]
        return found / self.chosen.shape[1]


class NetworkRecipe(RecipeOfOneManifest):
    """Makes future models that are networks of the architecture in the manifest.

    Parameters
    ----------
    target : mean log-loss at which a pilot network stops, on its training records; None to stop where its loss on
        unseen records is lowest
    """

    name = "network"
    block = MODELS_AT_ONCE

    def __init__(self, model: LoadedModel, manifest: Manifest, target: float | None) -> None:
        super().__init__(model, manifest)
        self.target = target

    @classmethod
    def of_model(cls, model: LoadedModel, records: Records) -> "NetworkRecipe":
        """The recipe for a registered network; it trains networks until they fit as well as the registered one."""
        return cls(model, model.registered.manifest, model_loss(model, records))

    @property
    def architecture(self) -> Architecture:
        """The architecture that every network of the recipe has."""
        architecture = self.described.file.architecture
        assert architecture is not None
        return architecture

    def tune(self, records: Records, pilots: Sequence[Sample]) -> Tuned:
        """Find how long networks are trained.

        Returns
        -------
        `steps`, the number of steps; `passes`, the same in passes over the records; and `target`, the loss aimed at
        """
        if self.target is not None:
            # A bootstrap repeats records and is fitted sooner: only on all records does a loss compare with today's.
            everything = np.arange(min(len(records.favourable), MOST_DRAWN))
            pilots = [replace(pilot, chosen=everything) for pilot in pilots]
        training = Training.of(self.architecture, encoded(self.model, records, self.described), pilots)
        found = pilot_steps(training, self._measure(training, pilots))
        return {"steps": found, "passes": round(found / training.pass_steps, 2), "target": self.target}

    def make(self, records: Records, samples: Sequence[Sample], tuned: Tuned) -> list[bytes]:
        """Train one network for each sample; returns the content of a safetensors file for each."""
        training = Training.of(self.architecture, encoded(self.model, records, self.described), samples)
        training.run(max(1, math.ceil(tuned["passes"] * training.pass_steps)))
        if not np.isfinite(training.networks.parameters).all():
            raise RehearsalFailed("The training of future networks diverged.")
        return _files(training.networks)

    def _measure(self, training: Training, pilots: Sequence[Sample]) -> Callable[[], tuple[float, bool]]:
        """What pilots should make small, and whether it is small enough."""
        if self.target is not None:
            target = self.target

            def trained() -> tuple[float, bool]:
                loss = float(training.losses().mean())
                return loss, loss <= target

            return trained
        # Few records that no pilot has seen would be left: each has its own.
        unseen = [np.setdiff1d(np.arange(len(training.X)), pilot.chosen)[:5_000] for pilot in pilots]
        width = min(len(rows) for rows in unseen)
        rows = np.array([found[:width] for found in unseen])

        def held_out() -> tuple[float, bool]:
            logits = training.networks.logits(training.X[rows])
            return float(log_loss(logits, training.y[rows] > 0.5).mean()), False

        return held_out


def pilot_steps(training: Training, measure: Callable[[], tuple[float, bool]]) -> int:
    """Train pilot networks, and return the number of steps that each later training takes.

    The number is `LONGER` times the steps after which the pilots' loss is small enough or, if it never is, lowest.

    Parameters
    ----------
    measure : returns the loss of the pilots, and whether it is small enough
    """
    least = LEAST_PASSES * training.pass_steps
    most = max(least, min(MOST_PASSES * training.pass_steps, MOST_STEPS))
    done, best, best_at = 0, np.inf, 0
    while done < most:
        target = min(most, max(least, done + 1, int(done * BETWEEN_CHECKS)))
        training.run(target - done)
        done = target
        loss, enough = measure()
        if enough:
            return min(most, int(np.ceil(done * LONGER)))
        if loss < best * (1.0 - GAIN):
            best, best_at = loss, done
        elif done > PATIENCE * best_at + 10 * training.pass_steps:
            break
    return max(least, min(most, int(np.ceil(best_at * LONGER))))


def model_loss(model: LoadedModel, records: Records) -> float | None:
    """Mean log-loss of today's model on the reference records, after calibration; None without true outcomes.

    Calibration comes first, because the loss of a model that was trained with class weights says little of how well it
    fits. It shifts and shrinks the model's logits, but never stretches them: stretching could bring a model that is
    right about every record to a loss of 0, which no training reaches.
    """
    if records.labels != "outcomes" or not records.of_reference:
        return None
    logits = model.reference.scores[None] + model.black_box.offset
    y = records.favourable[None]

    def loss(line: np.ndarray) -> float:
        return float(log_loss(line[0] * logits + line[1], y)[0])

    start = np.array([1.0, 0.0])
    found = minimize(loss, start, method="L-BFGS-B", bounds=[(0.0, 1.0), (-LOGIT_LIMIT, LOGIT_LIMIT)])
    return min(float(found.fun), loss(start))


def _files(networks: Networks) -> list[bytes]:
    """State dicts as PyTorch names them."""
    with library("torch"):
        from safetensors.numpy import save
    layers = networks.layers(networks.parameters)
    return [
        save(
            {
                f"{2 * i}.{name}": np.ascontiguousarray(array)
                for i, (weights, biases) in enumerate(layers)
                for name, array in (("weight", weights[k].T), ("bias", biases[k, 0]))
            }
        )
        for k in range(len(networks.parameters))
    ]
