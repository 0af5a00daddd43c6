"""Whether promises are too large although nothing changes: answers of one half of the records, judged by the other.

A search asks models that are trained on the records, and held-back models measure its answers that are trained on the
same records. Where all of them err alike, a search finds just these points, above all with trees of few noisy records:
answers that 95 of 100 models accept are then accepted by 85 of 100 models of other records.

So the records are halved at random several times. Each half trains a model and future models of it, answers people
whom this model refuses, and the model of the other half decides about the answers. It is to them what the next model is
to answers of today: trained in the same way, on as many other records. In quantiles of the standard normal law, what is
kept is the same part of what is promised with all records as with half of them (`reliability` in
benchmarks/future_models.py).
"""

import math

import numpy as np

from app.futures.records import LEAST
from app.futures.spec import Choices
from app.futures.store import Halves
from app.futures.windows import Windows, answered, reference_of, rows_of
from app.recourse.models.committee import Futures

FIRST = 3_000_000
"""Index of the first sample; no other model of a rehearsal has it."""
FEW, ENOUGH, HALVINGS = 4, 8, 16
"""Halvings after which no more are made if as much is kept as was promised, if less is beyond doubt, and anyway."""
DOUBTLESS = 2.5
"""Standard errors by which more is promised than is kept."""
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
    favourable, choices = windows.records.favourable, windows.choices
    n, promised, kept, answers, excess = len(favourable), list[float](), list[float](), 0, 0.0
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
            own = reference_of(windows.loaded, models[side], windows.records.rows_raw[half])
            seed = [choices.seed, FIRST, number, side]
            found = answered(windows.loaded, models[side], own, PEOPLE, seed, futures=futures, asked=ASKED)
            if found:
                promised.append(float(np.mean([one.future.probability for one in found if one.future is not None])))
                kept.append(float((models[1 - side].score_raw(rows_of(windows.loaded, found)) >= 0.0).mean()))
                answers += len(found)
        excess = _excess(promised, kept)
        if (number + 1 >= FEW and excess <= 0.0) or (number + 1 >= ENOUGH and excess >= DOUBTLESS):
            break
    if len(promised) < FEW:
        return None
    return Halves(answers=answers, promised=float(np.mean(promised)), kept=float(np.mean(kept)), excess=excess)


def _excess(promised: list[float], kept: list[float]) -> float:
    """Mean difference of what is promised and kept, in its standard errors; halves are taken to be independent."""
    if len(promised) < 2:
        return 0.0
    difference = np.subtract(promised, kept)
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return float(difference.mean()) / error if error > 0.0 else 0.0
