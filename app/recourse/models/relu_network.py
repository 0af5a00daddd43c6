"""A dense network with ReLU between its layers, as numbers that a program can state."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from app.recourse.features import ModelColumns


@dataclass(frozen=True, eq=False, slots=True)
class ReluNetwork:
    """The layers of a network that maps encoded points to one logit, in double precision.

    `leak` is the slope of the activation below zero; it is 0 for ReLU.
    """

    layers: tuple[tuple[Float[np.ndarray, "_ _"], Float[np.ndarray, "_"]], ...]
    """Weights (inputs, outputs) and biases; the last layer has one output."""
    leak: float = 0.0

    def logit(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """Logit of each point."""
        H = X
        for weights, bias in self.layers[:-1]:
            H = H @ weights + bias
            H = np.where(H > 0.0, H, self.leak * H)
        weights, bias = self.layers[-1]
        return np.asarray(H @ weights[:, 0] + bias[0])

    def of_columns(self, columns: ModelColumns) -> "ReluNetwork":
        """The same network as one that takes encoded points of ``columns.space``; only if ``columns.affine``."""
        (weights, bias), *rest = self.layers
        origin = columns.points(np.zeros((1, columns.space.d)))
        per_column = columns.points(np.eye(columns.space.d)) - origin
        return ReluNetwork(((per_column @ weights, bias + (origin @ weights)[0]), *rest), self.leak)
