"""Whether promises are too large although nothing changes: answers of one half of the records, judged by the other.

A search asks models that are trained on the records, and held-back models measure its answers that are trained on the
same records. Where all of them err alike, a search finds just these points, above all with trees of few noisy records:
answers that 95 of 100 models accept are then accepted by 85 of 100 models of other records.

So the records are halved at random several times. Each half trains a model and future models of it, answers people
whom this model refuses, and the model of the other half scores the answers. It is to them what the next model is to
answers of today: trained in the same way, on as many other records. A score tells far more than a decision, of which
most agree: at each answer the future models have a mean score and a standard deviation, and a share ``Phi(mean /
deviation)`` of them accepts. If the promise is true, the other half's score has that mean; where it is lower, the
quantile of what is kept is smaller by as many deviations. In these quantiles, as much is lost with all records as with
half of them (`reliability` in benchmarks/future_models.py): both the error of today's records and the deviation shrink.
"""

import math

import numpy as np
from jaxtyping import Float

from app.futures.records import LEAST
from app.futures.spec import Choices
from app.futures.store import Halves, Kept
from app.futures.windows import Windows, answered, reference_of, rows_of
from app.recourse.models.committee import Futures

FIRST = 3_000_000
"""Index of the first sample; no other model of a rehearsal has it."""
FEW, HALVINGS = 4, 12
"""Halvings, at least and at most."""
EXACT = 0.1
"""Standard error of a quantile with which no more halvings are made; two points of a share of 90 %."""
SEARCH, HELD_BACK = 20, 10
"""Future models of a half; where the rehearsal makes fewer, nothing is halved."""
PEOPLE = 12
"""Whom the model of a half answers, at most."""
TOTAL = 2 * HALVINGS * (1 + SEARCH + HELD_BACK)
"""Models of all halves, at most."""
ASKED = 0.9
"""Share of future models that is asked for."""


def is_halved(choices: Choices) -> bool:
    """Whether as many future models are made as a half has."""
    return choices.search >= SEARCH and choices.held_back >= HELD_BACK


def halved(windows: Windows) -> Halves | None:
    """What models of one half of the records keep of answers that the other half promises.

    None where a half has too few records or too few answers.

    Raises
    ------
    RehearsalFailed, ModelRefused, ModelUnusable : the recipe fails on a half
    SolverFailed, ModelOutputInvalid : a solver ends without an answer, or a model gives an output outside its range
    """
    favourable, choices, loaded = windows.records.favourable, windows.choices, windows.loaded
    n, answers = len(favourable), 0
    quantiles: dict[float | None, list[tuple[float, float]]] = {None: [], ASKED: []}
    for number in range(HALVINGS):
        order = np.random.default_rng([choices.seed, FIRST, number]).permutation(n)
        halves = [np.sort(order[: n // 2]), np.sort(order[n // 2 :])]
        if any(min(favourable[half].sum(), (~favourable[half]).sum()) < LEAST for half in halves):
            return None
        names = [f"{number}-{side}" for side in range(2)]
        models = [
            windows.model(f"{name}-model", half, 2 * number + side, 2 * number + side)
            for side, (name, half) in enumerate(zip(names, halves, strict=True))
        ]
        for side, (name, half) in enumerate(zip(names, halves, strict=True)):
            search, held_back = (
                windows.trained(f"{name}-{of}", windows.drawn(f"{name}-{of}", half, count))
                for of, count in (("search", SEARCH), ("held-back", HELD_BACK))
            )
            futures = Futures(search=search, held_back=held_back, source="retrained", records=choices.records)
            own = reference_of(loaded, models[side], windows.records.rows_raw[half])
            seed = [choices.seed, FIRST, number, side]
            for asked, found in quantiles.items():
                answer = answered(loaded, models[side], own, PEOPLE, seed, futures=futures, asked=asked)
                rows_raw = rows_of(loaded, answer)
                scores = np.nan_to_num(held_back.scores_raw(rows_raw))
                known = in_deviations(scores, models[1 - side].score_raw(rows_raw))
                if known is not None:
                    found.append(known)
                    answers += len(answer)
        if number + 1 >= FEW and min(map(len, quantiles.values())) >= FEW and _kept(quantiles[ASKED]).error <= EXACT:
            break
    if min(map(len, quantiles.values())) < FEW:
        return None
    return Halves(answers=answers, default=_kept(quantiles[None]), asked=_kept(quantiles[ASKED]))


def in_deviations(scores: Float[np.ndarray, "n k"], judged: Float[np.ndarray, "n"]) -> tuple[float, float] | None:
    """Mean of what is promised and kept of answers, in deviations between models; None where models do not differ.

    Parameters
    ----------
    scores : of each answer, by the future models
    judged : of each answer, by the model of the other half
    """
    deviations = float(scores.std(axis=1, ddof=1).sum())
    return (float(scores.mean(axis=1).sum()) / deviations, float(judged.sum()) / deviations) if deviations else None


def _kept(quantiles: list[tuple[float, float]]) -> Kept:
    """The mean over halves, which are taken to be independent."""
    promised, kept = np.array(quantiles).T
    error = float((promised - kept).std(ddof=1)) / math.sqrt(len(quantiles))
    return Kept(promised=float(promised.mean()), kept=float(kept.mean()), error=error)
