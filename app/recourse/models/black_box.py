"""The black box: the core sees any model as one score per point.

`score` is in logit space, favourable iff it is >= 0: ``logit(p) - logit(threshold)`` for a model that gives
probabilities. A model that gives only labels scores +1 or -1, one that gives points their distance to the threshold.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from app.errors import ModelOutputInvalid
from app.recourse.features import FeatureSpace, ModelColumns
from app.recourse.models.forest import Forest
from app.recourse.models.in_step import joined
from app.recourse.models.relu_network import ReluNetwork
from app.recourse.models.score import LOGIT_LIMIT, Output, PointScale, favourable, logit, sigmoid
from app.recourse.models.tree_boxes import Boxes

Predict: TypeAlias = Callable[[np.ndarray], np.ndarray]

LAST_BITS = 1e-9
"""Scores of a smooth model nearer to 0 than this may change sign when they are computed again."""
FEW = 500
"""Rows of a call that a model in this process is asked with those of other computations, unless it is `rowwise`."""
ROUNDING = 1e-12
"""Tolerance of probabilities outside [0, 1], as averages over an ensemble may be."""


class Input(StrEnum):
    """The kind of input that a model takes: encoded points or raw rows."""

    ENCODED = "encoded"
    RAW = "raw"


@runtime_checkable
class Remote(Protocol):
    """A model that answers over a network: it may be slow, and its requests cost money."""

    @property
    def max_calls(self) -> int:
        """Largest number of requests that one answer may send."""

    @property
    def max_rows(self) -> int:
        """Largest number of records that all requests of one answer may hold."""

    def price(self, rows: int) -> tuple[int, int]:
        """The number of requests, and the total number of records in them, that scoring `rows` records takes."""

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:
        """The model's outputs (n,) for `rows`, in the order of the rows.

        Raises
        ------
        DeadlineExceeded : there is no answer at `deadline`, a `time.monotonic()`
        """


@dataclass(frozen=True)
class Wrapped(Remote):
    """Base of remote models that pass calls on to another remote model and change some of these calls."""

    remote: Remote

    @property
    def max_calls(self) -> int:
        """Largest number of requests that one answer may send to the wrapped model."""
        return self.remote.max_calls

    @property
    def max_rows(self) -> int:
        """Largest number of records that one answer may send to the wrapped model."""
        return self.remote.max_rows

    def price(self, rows: int) -> tuple[int, int]:
        """The number of requests, and the total number of records in them, that scoring `rows` records takes."""
        return self.remote.price(rows)

    def predict_by(self, rows: np.ndarray, deadline: float) -> np.ndarray:
        """The wrapped model's outputs (n,) for `rows`, in the order of the rows.

        Raises
        ------
        DeadlineExceeded : there is no answer at `deadline`, a `time.monotonic()`
        """
        return self.remote.predict_by(rows, deadline)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlackBox:
    """A model behind one function, with inputs in the units of the core.

    `predict` takes encoded points ``(n, d)`` or raw rows ``(n, p)``, as `input` says, and returns outputs ``(n,)``.
    Where `columns` is set, `predict` takes points or rows of the model's own columns. Where the model offers a
    gradient, `gradient` takes encoded points and returns the gradient of the score, ``(n, d)``.
    """

    space: FeatureSpace
    predict: Predict
    input: Input = Input.ENCODED
    output: Output = Output.PROBABILITY
    threshold: float = 0.5
    """Smallest favourable output: a probability in (0, 1), a logit, or points (the largest where fewer are better). Not
    used for labels."""
    points: PointScale | None = None
    """The scale of points, for a model that gives points."""
    gradient: Predict | None = None
    linear: bool = False
    """Whether the score is a linear function of the encoded point, so that its gradient determines it."""
    additive: bool = False
    """Whether the score is a sum with one term for each feature, as that of a scorecard."""
    piecewise_linear: bool = False
    """Whether the gradient is piecewise constant."""
    rowwise: bool = False
    """Whether the output for a row does not depend on the other rows of a call, to the last bit; and of a model behind
    a network, whose calls are dear."""
    boxes: Boxes | None = None
    """The leaves, where the model is a single decision tree over encoded points; their scores are those of `score`."""
    forest: Forest | None = None
    """The leaves, where the model is an ensemble of trees; its score, or its probability, is linear in their sum."""
    network: ReluNetwork | None = None
    """The layers, where the model is a network with ReLU whose logit the score follows."""
    remote: Remote | None = None
    columns: ModelColumns | None = None
    """What the model takes, where that is not `space` itself."""

    def of_columns(self, columns: ModelColumns) -> "BlackBox":
        """This model as a model of encoded points of ``columns.space``, which it converts to its own columns."""
        gradient = self.gradient if columns.affine else None
        return replace(
            self,
            space=columns.space,
            columns=columns,
            gradient=None if gradient is None else lambda X: columns.gradient(gradient(columns.points(X))),
            linear=self.linear and columns.affine,
            additive=self.additive and columns.space.derived is None,
            piecewise_linear=self.piecewise_linear and columns.affine,
            network=None if self.network is None or not columns.affine else self.network.of_columns(columns),
            forest=self.forest if columns.space.derived is None else None,
            boxes=None if self.boxes is None or not columns.invertible else self.boxes.of_limits(columns.limits),
        )

    def by(self, deadline: float) -> "BlackBox":
        """This model, limited in time: a remote model gives up at `deadline`, a value of `time.monotonic()`."""
        remote = self.remote
        return self if remote is None else replace(self, predict=lambda rows: remote.predict_by(rows, deadline))

    @property
    def fractional(self) -> bool:
        """Whether the model can score points that are no legal record, such as half a category."""
        return takes_points(self)

    @property
    def knows_weights(self) -> bool:
        """Whether the weights of the model can be read from it, because it is linear and offers a gradient."""
        return self.linear and self.gradient is not None

    def score(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        """Score of each encoded point; NaN if the model gave no finite output for it."""
        return self._joined(self._score, X)

    def score_raw(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Score of each raw row, exactly as its record would be scored; NaN if the model gave no finite output."""
        return self._joined(self._score_raw, rows_raw)

    def accepts(self, scores: Float[np.ndarray, "n"]) -> Bool[np.ndarray, "n"]:
        """Whether each score is a favourable decision; the decision on a row never depends on the other rows of a call.

        The last bits of a smooth model's scores differ with the number of rows in a call, so such a score just above 0
        is refused.
        """
        settled = self.rowwise or self.gradient is None
        return favourable(scores) if settled else np.asarray(scores >= LAST_BITS)

    def probability(self, scores: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"] | None:
        """Probability of the favourable class for each score.

        The result is None if the model gives labels, margins or points without odds.
        """
        return sigmoid(scores + self.offset) if self._states_probability else None

    def probability_of(self, score: float) -> float | None:
        """Probability of the favourable class for one score.

        The result is None if the score is NaN, or if the model gives labels, margins or points without odds.
        """
        known = self._states_probability and not math.isnan(score)
        return float(sigmoid(score + self.offset)) if known else None

    @property
    def _states_probability(self) -> bool:
        points = self.points is not None and self.points.offset is None
        return not points and self.output not in (Output.LABEL, Output.MARGIN)

    @property
    def offset(self) -> float:
        """Logit of the favourable class at the threshold; 0 for points that state no probability."""
        if self.points is not None:
            return self.points.offset or 0.0
        if self.output is not Output.PROBABILITY:
            return self.threshold
        return math.log(self.threshold) - math.log1p(-self.threshold)

    def _joined(self, score: Predict, rows: np.ndarray) -> Float[np.ndarray, "n"]:
        # A remote model joins what it is sent. Of many rows a network is asked in less time than they are copied in.
        apart = self.remote is not None or (len(rows) > FEW and not self.rowwise)
        return score(rows) if apart else joined(score, rows, dear=True)

    def _score(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n"]:
        return self._to_score(input_of_points(self, X))

    def _score_raw(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        return self._to_score(input_of_rows(self, rows_raw))

    def _to_score(self, model_input: np.ndarray) -> Float[np.ndarray, "n"]:
        return self.score_of(one_each(self.predict(model_input), len(model_input)))

    def score_of(self, output: Float[np.ndarray, "n"]) -> Float[np.ndarray, "n"]:
        """Score for each output of the model; NaN if the output is not finite.

        Raises
        ------
        ModelOutputInvalid : a probability is outside [0, 1]
        """
        low, high = (float(output.min()), float(output.max())) if output.size else (0.5, 0.5)
        finite = None if math.isfinite(low) and math.isfinite(high) else np.isfinite(output)
        if finite is not None:
            output = np.where(finite, output, 0.5)
            low, high = float(output.min()), float(output.max())
        if self.output is Output.LABEL:
            score = np.where(output > 0.5, 1.0, -1.0)
        else:
            if self.output is Output.PROBABILITY:
                if low < -ROUNDING or high > 1.0 + ROUNDING:
                    raise ModelOutputInvalid("the model gave a probability outside [0, 1]")
                within = output if low >= 0.0 and high <= 1.0 else np.minimum(np.maximum(output, 0.0), 1.0)
                score = logit(within)
                score -= self.offset
            else:
                with np.errstate(over="ignore"):
                    beyond = (output - self.threshold) * (1.0 if self.points is None else self.points.slope)
                score = np.minimum(np.maximum(beyond, -LOGIT_LIMIT), LOGIT_LIMIT)
            # Rounding in the logit must not change a decision, so the model's own comparison decides.
            fewer = self.points is not None and self.points.fewer
            accepted = output <= self.threshold if fewer else output >= self.threshold
            turned = (score >= 0.0) != accepted
            if turned.any():
                score[turned] = np.where(accepted[turned], 0.0, -np.finfo(float).tiny)
        if finite is not None:
            score[~finite] = np.nan
        return score


def one_each(output: np.ndarray, rows: int) -> Float[np.ndarray, "n"]:
    """A model's output as an array of one number per row.

    Raises
    ------
    ModelOutputInvalid : the output has any other shape
    """
    output = np.asarray(output, dtype=float)
    if output.shape != (rows,):
        raise ModelOutputInvalid(
            f"the model gave an output of shape {output.shape} for {rows} records; it must give one number per record"
        )
    return output


@runtime_checkable
class TakesInput(Protocol):
    """A model, or several models that are scored together, with the kind of input that they take."""

    @property
    def space(self) -> FeatureSpace:
        """The feature space of the points and rows that are to be scored."""

    @property
    def input(self) -> Input:
        """The kind of input that the model takes."""

    @property
    def columns(self) -> ModelColumns | None:
        """The model's own columns; None if it takes points or rows of `space`."""


def takes_points(model: TakesInput) -> bool:
    """Whether a model can score points that are no legal record, such as half a category."""
    return model.input is Input.ENCODED and (model.columns is None or model.columns.affine)


def input_of_points(model: TakesInput, X: Float[np.ndarray, "n d"]) -> np.ndarray:
    """The model's input for encoded points; a model that takes legal records only gets the nearest legal rows."""
    if not takes_points(model):
        return input_of_rows(model, model.space.decode(X))
    return X if model.columns is None else model.columns.points(X)


def input_of_rows(model: TakesInput, rows_raw: Float[np.ndarray, "n p"]) -> np.ndarray:
    """The model's input for raw rows: encoded points or raw rows, in the model's own columns if it has any."""
    if model.columns is not None:
        return model.columns.encode(rows_raw) if model.input is Input.ENCODED else model.columns.rows(rows_raw)
    return model.space.encode(rows_raw) if model.input is Input.ENCODED else rows_raw
