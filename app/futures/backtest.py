"""A backtest by date: what later models kept of answers that could have been given earlier.

Five dates divide the reference: its end, and three, six, nine and twelve months before it; a shorter reference has
shorter steps, of whole months. At each date the recipe trains, on the records of a window that ends there, the model of
that date and future models of it, as a rehearsal does today. The first four models answer people whom they refuse, and
the models of all later dates are asked about these answers. All windows have the same length, so a model differs from
an earlier one by what has happened since, not by how much it knows.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from app.errors import RecourseError, RehearsalFailed
from app.futures.records import LEAST
from app.futures.stress import STRENGTHS, Stressed
from app.futures.windows import Windows, answered, reference_of, rows_of
from app.recourse.actions.timing import DAYS_PER_MONTH
from app.recourse.models.black_box import BlackBox
from app.recourse.models.committee import Backtest, FutureModels, Futures, StressedModels
from app.recourse.problem import Under
from app.recourse.robustness.kept_before import clustered_interval
from app.registry.reference import read_dates
from app.registry.version import RegisteredModel

STEPS = 4
"""Dates before the end of the records."""
STEP_MONTHS = 3
"""Months between two dates, at most."""
TOLERANCE_MONTHS = 0.5
"""By which the records of whole years may be shorter, as months have 30 days."""

PEOPLE = 30
"""People who are answered at each date, at most; drawn among those refused since the date before."""
LEAST_PEOPLE = 10
"""Answers to a question without which nothing is reported of it."""

ASKED = (None, 0.8, 0.9)
"""Shares of future models that are asked for."""

MOST_MODELS = 40
"""Future models of a date in each set."""

FIRST = 2_000_000
"""Index of the first sample; no other model of a rehearsal has it."""

Given: TypeAlias = tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n"]]
"""Raw rows of answers, and the shares that they were promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dates:
    """The dates of a backtest, and the indices of the records used at each date."""

    step: int
    """Months between two dates."""
    length: float
    """Of a window, in steps."""
    windows: tuple[Int[np.ndarray, "n"], ...]
    """Records that models of each date are trained on, oldest date first."""
    applying: tuple[Int[np.ndarray, "n"], ...]
    """Those of them since the date before."""


def dates_of(days: Float[np.ndarray, "n"], favourable: Bool[np.ndarray, "n"]) -> Dates:
    """Choose the dates of a backtest, and the records on which the models of each date are trained.

    Parameters
    ----------
    days : the date of each record, in days
    favourable : whether the label of each record is favourable

    Raises
    ------
    RehearsalFailed : the records span too few months, or too few of them before some date have one of the two labels
    """
    end, months = days.max() + 1.0, (days.max() + 1.0 - days.min()) / DAYS_PER_MONTH
    step = min(STEP_MONTHS, int((months + TOLERANCE_MONTHS) / (2 * STEPS)))
    if step == 0:
        raise RehearsalFailed(f"The records span {months:.1f} months; a backtest needs {2 * STEPS}.")
    since = DAYS_PER_MONTH * step
    ends = [end - since * k for k in range(STEPS, -1, -1)]
    length = ends[0] - days.min()
    windows = tuple(np.flatnonzero((days >= at - length) & (days < at)) for at in ends)
    fewest = min(int(min(favourable[w].sum(), (~favourable[w]).sum())) for w in windows)
    if fewest < LEAST:
        raise RehearsalFailed(
            f"A backtest needs {LEAST} records of each outcome in {length / DAYS_PER_MONTH:.1f} months; there are "
            f"{fewest} in some of them."
        )
    return Dates(
        step=step, length=length / since, windows=windows,
        applying=tuple(w[days[w] >= at - since] for w, at in zip(windows, ends, strict=True)),
    )  # fmt: skip


def dates_in(model: RegisteredModel, path: Path, favourable: Bool[np.ndarray, "n"]) -> tuple[Dates | None, str | None]:
    """The dates of a backtest on the records in a CSV; None with the reason where the manifest names a column of dates.

    Parameters
    ----------
    favourable : whether the label of each record is favourable
    """
    time = model.manifest.time
    if time is None:
        return None, None
    days, faults = read_dates(path, time.column)
    if faults:
        return None, RecourseError("The dates of the records cannot be read.", faults=faults).sentence
    try:
        return dates_of(days, favourable), None
    except RehearsalFailed as error:
        return None, error.detail


@dataclass(kw_only=True)
class Backtester:
    """Trains the models of each date of a backtest, and asks models of later dates about answers of earlier dates."""

    windows: Windows
    stresses: Sequence[Stressed]

    def run(self, dates: Dates) -> tuple[Backtest, ...]:
        """What models of later dates keep of answers from earlier dates.

        There is one item for each share of future models that answers were asked for, and each number of steps between
        the dates.

        Raises
        ------
        RehearsalFailed, ModelRefused, ModelUnusable : the recipe fails on the records of a date
        SolverFailed, ModelOutputInvalid : a solver ends without an answer, or a model gives an output outside its range
        """
        models = [self.windows.model(f"{at}-model", w, at, STEPS + 1 + at) for at, w in enumerate(dates.windows)]
        held_back = [self._set(at, "held-back", window) for at, window in enumerate(dates.windows)]
        given = [self._answers(at, dates, models[at], held_back[at]) for at in range(STEPS)]
        found = (
            self._kept(asked, steps, dates, [one[asked] for one in given[: STEPS + 1 - steps]], models, held_back)
            for asked in ASKED for steps in range(1, STEPS + 1)
        )  # fmt: skip
        return tuple(one for one in found if one is not None)

    # --- one date ---

    def _answers(self, at: int, dates: Dates, model: BlackBox, held_back: FutureModels) -> dict[float | None, Given]:
        """Answers of a date to people whom its model refuses, by the share that was asked for."""
        window, own = dates.windows[at], self.windows
        futures = Futures(
            search=self._set(at, "search", window), held_back=held_back, source="retrained",
            records=own.choices.records, stressed_search=self._stressed(at, window),
        )  # fmt: skip
        reference = reference_of(own.loaded, model, own.records.rows_raw[window])
        applying_raw, seed = own.records.rows_raw[dates.applying[at]], [own.choices.seed, FIRST, at]
        found: dict[float | None, Given] = {}
        for asked in ASKED:
            given = answered(
                own.loaded, model, reference, PEOPLE, seed, among_raw=applying_raw, futures=futures, asked=asked
            )
            promised = [one.future.probability for one in given if one.future is not None]
            found[asked] = rows_of(own.loaded, given), np.array(promised)
        return found

    def _kept(
        self,
        asked: float | None,
        steps: int,
        dates: Dates,
        given: Sequence[Given],
        models: Sequence[BlackBox],
        held_back: Sequence[FutureModels],
    ) -> Backtest | None:
        """What the models so many steps later say of answers, date by date; None where there are too few answers."""
        # Of the records behind two models this part differs, or all of them.
        differing = min(1.0, steps / dates.length)
        # Bootstraps of half the records vary as much as models of other records differ, those of all half as much.
        scale = math.sqrt(differing * (1.0 if self.windows.choices.records == "fresh" else 2.0))
        kept, shares = [], []
        for at, (rows_raw, _) in enumerate(given):
            if len(rows_raw):
                scores = models[at + steps].score_raw(rows_raw)
                others = held_back[at + steps].scores_raw(rows_raw)
                moved = scores[:, None] + scale * (others - others.mean(axis=1, keepdims=True))
                kept.append(scores >= 0.0)
                shares.append((moved >= 0.0).mean(axis=0))
        if sum(map(len, kept)) < LEAST_PEOPLE:
            return None
        under: Under | None = "stress" if asked is not None and self.stresses else None
        return Backtest(
            asked=asked, under=under, months=steps * dates.step, promises=sum(map(len, kept)),
            promised=float(np.concatenate([promised for _, promised in given]).mean()),
            kept=float(np.concatenate(kept).mean()),
            interval=clustered_interval(kept, shares, _remaining(len(kept), min(steps, dates.length))),
        )  # fmt: skip

    # --- models ---

    @property
    def each(self) -> int:
        """Number of stressed models for each date, stress and strength, at least 1.

        All stressed models of a date together are at most as many as a search uses today.
        """
        return max(1, self.windows.choices.search // max(2, len(self.stresses)) // len(STRENGTHS))

    def _count(self, name: str) -> int:
        choices = self.windows.choices
        asked = choices.search if name == "search" else choices.held_back
        return min(MOST_MODELS, asked)

    @property
    def total(self) -> int:
        """Number of models that the whole backtest trains."""
        stressed = len(self.stresses) * len(STRENGTHS) * self.each
        return STEPS * (self._count("search") + stressed) + (STEPS + 1) * (1 + self._count("held-back"))

    def _set(self, at: int, name: str, window: Int[np.ndarray, "n"]) -> FutureModels:
        return self.windows.trained(f"{at}-{name}", self.windows.drawn(f"{at}-{name}", window, self._count(name)))

    def _stressed(self, at: int, window: Int[np.ndarray, "n"]) -> StressedModels | None:
        """Stressed models of a date, of today's stresses that leave enough records of each label in its window."""
        favourable = self.windows.records.favourable[window]
        possible = []
        for stressed in self.stresses:
            weights = stressed.weights[:, window]
            weights = weights / weights.sum(axis=1, keepdims=True)
            rates = weights @ favourable
            if len(window) / 2.0 * min(rates.min(), 1.0 - rates.max()) >= LEAST / 2.0:
                possible.append((stressed.stress, weights))
        if not possible:
            return None
        drawn = [
            one
            for i, (_, weights) in enumerate(possible)
            for j, weight in enumerate(weights)
            for one in self.windows.drawn(f"{at}-stressed-{i}-{j}", window, self.each, weight)
        ]
        return StressedModels(
            stresses=tuple(stress for stress, _ in possible), strengths=STRENGTHS,
            models=self.windows.trained(f"{at}-stressed", drawn),
        )  # fmt: skip


def _remaining(dates: int, steps: float) -> float:
    """Part of the variance of one date that remains in a mean over dates, one step apart.

    What has come and gone between a model and the one so many steps later is in part the same at dates that are nearer.
    """
    apart = np.abs(np.subtract.outer(np.arange(dates), np.arange(dates)))
    return float(np.maximum(0.0, 1.0 - apart / steps).mean())
