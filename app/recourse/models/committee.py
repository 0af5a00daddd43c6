"""Future models: models that the lender might have after its next training.

Two disjoint sets belong to a model. The *search set* helps to find a record; the *held-back set* takes part in no
search, so the share of it that accepts a record is an unbiased estimate, with a binomial interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from app.recourse.answer_part import EXACT, AnswerPart
from app.recourse.features import FeatureSpace, ModelColumns
from app.recourse.input_part import InputPart
from app.recourse.models.black_box import Input, input_of_points, input_of_rows
from app.recourse.models.calibration import Calibration
from app.recourse.models.in_step import joined
from app.recourse.models.score import favourable

ROUNDING = 1e-9
"""Tolerance of a share of models, before it is rounded to a count."""

Drawn: TypeAlias = Literal["fresh", "same"]
"""How many records are drawn for each future model: half as many as there are, so that it varies as much as a model of
new records does (`fresh`), or as many (`same`)."""

Likeness: TypeAlias = Literal["alike", "differs"]
"""Whether today's model looks like one that the recipe of the future models trains."""

ScoreAll: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""From model input, ``(n, d)`` encoded or ``(n, p)`` raw, to scores ``(n, k)`` of k models; NaN where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FutureModels:
    """Several future models that are scored together."""

    space: FeatureSpace
    count: int
    """How many models there are, k."""
    score_all: ScoreAll
    input: Input = Input.ENCODED
    """What `score_all` takes."""
    columns: ModelColumns | None = None
    """What the models take, where that is not `space` itself."""

    def scores(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        """Score of each encoded point by each model: favourable iff >= 0, NaN if the model gives none."""
        return joined(self._scores, X, dear=True)

    def scores_raw(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n k"]:
        """Score of each raw row by each model, exactly as its record would be scored; NaN if the model gives none."""
        return joined(self._scores_raw, rows_raw, dear=True)

    def _scores(self, X: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n k"]:
        return self.score_all(input_of_points(self, X))

    def _scores_raw(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n k"]:
        return self.score_all(input_of_rows(self, rows_raw))

    def shares(self, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
        """Share of the models that accept each raw row, in [0, 1]."""
        return (self.scores_raw(rows_raw) >= 0.0).mean(axis=1)


def models_needed(share: float, models: int) -> int:
    """The smallest number of models, at least 1, that makes up the given share of `models`."""
    return max(1, math.ceil(share * models - ROUNDING))


Direction: TypeAlias = Literal["up", "down"]

OWN_SCORE, BASE_RATE, ANSWERS = "@score", "@label", "@answers"
"""In place of a column: along today's model's own score, weaker applicants or stronger ones; the odds of the favourable
outcome; and people who followed an answer of today's model and failed all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stress(InputPart):
    """A direction in which applicants may change."""

    column: str
    """A number, an ordered category or a yes and no of the schema, or another column of the reference records, of
    numbers or dates; `@score` for the model's own score, `@label` for how many outcomes are favourable."""
    direction: Direction
    """`up`: high values become more frequent; `down`: low ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StressedModels:
    """Future models trained on records that are drawn under stress: several stresses, each in several strengths.

    The models are ordered by stress, then by strength, the weakest first. There are few models per strength. So the
    share for a stress up to some strength counts the models of all weaker strengths too.
    """

    stresses: tuple[Stress, ...]
    strengths: tuple[float, ...]
    """Ascending, in (0, 1]; at 1 half of the records are left out, or odds are doubled or halved."""
    models: FutureModels

    @property
    def each(self) -> int:
        """Number of models for each pair of a stress and a strength."""
        return self.models.count // (len(self.stresses) * len(self.strengths))

    def accepted(self, scores: Float[np.ndarray, "n k"]) -> Int[np.ndarray, "n s t"]:
        """Number of models that accept each row, by stress and strength; a strength counts weaker ones' models, too."""
        yes = (scores >= 0.0).reshape(len(scores), len(self.stresses), len(self.strengths), self.each)
        return np.asarray(yes.sum(axis=3).cumsum(axis=2))

    @property
    def counted(self) -> Int[np.ndarray, "t"]:
        """Number of models of one stress, by strength; the models of weaker strengths count too."""
        return self.each * np.arange(1, len(self.strengths) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest(AnswerPart):
    """What models trained later kept of promises that could have been given at several dates of the reference."""

    asked: float | None = field(metadata=EXACT)
    """The `future_validity` that was asked for; null where nothing was."""
    under: Literal["stress", "same"] | None
    """Whether it was asked for under stress; null where nothing was asked for, or no stress was rehearsed."""
    months: int
    """Months between the models that promised and the models that were asked then."""
    promises: int
    """Answers that were given to people refused at these dates."""
    promised: float
    """Mean share of the future models of that date that accept the answer, in [0, 1]."""
    kept: float
    """Share of the answers that the model trained so many months later accepts, in [0, 1]."""
    interval: tuple[float, float]
    """95 % confidence interval of `kept` among other people and models of these dates. All people of a date share its
    models, and dates share records, so the answers count as far fewer than `promises` where models disagree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """By how much models of other records keep less than is promised, in normal quantiles.

    At a record, the scores of future models have a mean and a standard deviation; its quantile is their ratio ``q``. It
    loses ``amount + part * q``, but not less than nothing and not more than `most`.
    """

    amount: float
    part: float
    """In [0, 1)."""
    most: float
    """At least 0."""

    def kept(self, quantiles: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        """The share of models that is expected to accept records of such quantiles."""
        return np.asarray(ndtr(quantiles - self._lost(quantiles)))

    def needed(self, kept: float) -> float:
        """The quantile of which so much is expected to be kept."""
        quantile = float(ndtri(kept))
        return max(quantile, min((quantile + self.amount) / (1.0 - self.part), quantile + self.most))

    def interval(self, quantiles: Float[np.ndarray, "n"], ends: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
        """The ends of an interval around the share of each quantile, lower by their part of what the quantile loses.

        The interval allows for the error of today's records already. That error has the standard deviation 1 where the
        future models vary by ``sqrt(2)``, and a smaller one at records that a search has chosen.
        """
        return np.asarray(ndtr(ndtri(ends) - self._lost(quantiles)[:, None] / math.sqrt(2.0)))

    def _lost(self, quantiles: Float[np.ndarray, "*n"]) -> Float[np.ndarray, "*n"]:
        return np.clip(self.amount + self.part * np.nan_to_num(quantiles), 0.0, self.most)  # no part times infinity


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Futures:
    """The future models of one registered model; told apart by identity."""

    search: FutureModels
    """Takes part in searches."""
    held_back: FutureModels
    """Takes part in no search; measures the validity of a record."""
    source: str
    """How the models came about: `retrained`, `command`, `supplied` or `stand_in`."""
    records: Drawn | None = None
    """None where it is not known, for supplied models."""
    calibration: Calibration | None = None
    """The promised shares that later versions kept; it changes with them, so no search depends on it."""
    stressed_search: StressedModels | None = None
    """Take part in searches for what withstands stress; None where no stress was rehearsed."""
    stressed: StressedModels | None = None
    """Of the same stresses; take part in no search, and in no share that is about the others."""
    recipe: Likeness | None = None
    """Whether today's model looks like one of them where answers lie; None where this was not compared."""
    apart: float | None = None
    """Where it does not, how far it is from their mean, in their standard deviations; else None."""
    backtest: tuple[Backtest, ...] = ()
    """Of questions like the one that is asked; empty where there was no backtest of such."""
    stress_price: float = 0.15
    """Share of its cost that an answer may cost more in order to withstand stress."""
    lowered: Lowered | None = None
    """By how much promises are lowered, as all these models were trained on the same records; None for not at all."""

    def promised(self, scores: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n"]:
        """What can be promised of records to which k future models give these scores.

        The share of the models that accepts a record. Where promises are lowered, the share of a bell curve of scores:
        almost all models have to accept then, and their number tells little.
        """
        return favourable(scores).mean(axis=1) if self.lowered is None else self.lowered.kept(quantiles(scores))

    def share_for(self, promised: float) -> float:
        """The share of the future models that must accept a record, for so much to be promised."""
        return promised if self.lowered is None else float(ndtr(self.lowered.needed(promised)))


def quantiles(scores: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n"]:
    """Mean of the scores that k models give each record, in their standard deviations; a missing score counts as 0."""
    known = np.nan_to_num(scores)
    mean, deviation = known.mean(axis=1), known.std(axis=1, ddof=1)
    return np.divide(mean, deviation, out=np.copysign(np.inf, mean), where=deviation > 0.0)
