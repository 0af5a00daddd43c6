"""Validity under retraining, measured: the share of the held-back future models that accept a record."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr

from app.recourse.counterfactual import (
    Counterfactual,
    CurvePoint,
    FutureCertificate,
    MeasuredFuture,
    StressedFuture,
)
from app.recourse.models.committee import ROUNDING, Futures, StressedModels, quantiles
from app.recourse.models.in_step import joined
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.models.score import favourable
from app.recourse.problem import RecourseProblem, Under
from app.recourse.promise import ways_text
from app.recourse.result import PlanFutureCertificate
from app.recourse.robustness.kept_before import kept_before
from app.recourse.robustness.share_interval import share_interval
from app.recourse.robustness.validity import bounds_of

HOLDS = 0.9
"""Share of models up to which a record is said to hold where the request asks for none."""

FEWER_WARNING = (
    "{} of {} future models that the search did not ask accept {}: fewer than the {:g}% that were asked for. "
    "Count on what the answer promises, and on no more."
)
GIVEN_UP = 0.05
"""Share of models from which on it is said that less is withstood than without asking for anything."""
GIVEN_UP_WARNING = (
    "The method's own answer, which asks for nothing, costs {:.3g}; of models of applicants {} {:.0f}% accept it, and "
    "{:.0f}% accept this one. {}"
)
FEWER_PROMISED = (
    "{:.0f}% of future models can be expected to accept {}: fewer than the {:g}% that were asked for. Count on what "
    "the answer promises, and on no more."
)
"""Where less is promised than the share of the models that accept."""
KEPT_UNDER_STRESS = "Asking `under: stress` keeps that margin."
NOT_KEPT = "No record was found that costs little more and keeps that margin."
STRESS_WARNING = (
    "If applicants change as much as was rehearsed, only {:.0f}% of future models accept {}, not the {:g}% asked for; "
    "{}.{}"
)
DEARER = " {:.0f}% accept another record that was found, at {:.2g} times the cost."


def future_certificates(
    problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"]
) -> list[FutureCertificate] | list[None]:
    """For each raw row, the certificate that the held-back future models give it; None without future models."""
    if problem.futures is None or not len(rows_raw):
        return [None] * len(rows_raw)
    futures = problem.futures
    promised, ends = joined(_Promised(futures), problem.held_back.scores(rows_raw))
    stressed = _stressed(problem, rows_raw, promised)
    found = zip(promised.tolist(), map(tuple, ends.tolist()), stressed, strict=True)
    return [_certificate(problem, *one) for one in found]


@dataclass(frozen=True)
class _Promised:
    """What can be promised of records, row by row, from the scores that the held-back models give them."""

    futures: Futures

    def __call__(self, scores: Float[np.ndarray, "n k"]) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n 2"]]:
        """The share that is promised of each record, and its interval."""
        return self.futures.promised(scores), _intervals(self.futures, scores)


def _certificate(
    problem: RecourseProblem, probability: float, interval: tuple[float, float], under_stress: StressedFuture | None
) -> FutureCertificate:
    """What is reported of a record of which so much is promised."""
    assert problem.futures is not None
    futures, asked = problem.futures, problem.future_validity
    under: Under | None = None
    if asked is not None and under_stress is not None:
        under = "stress" if problem.under_stress else "same"
    return FutureCertificate(
        probability=probability,
        interval=interval,
        models=futures.held_back.count,
        source=futures.source,
        records=futures.records,
        recipe=futures.recipe,
        asked=asked,
        under=under,
        measured=_measured(futures, probability),
        stressed=under_stress,
        kept_before=kept_before(futures.backtest, asked, under, probability, interval[0]),
    )


def _intervals(futures: Futures, scores: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n 2"]:
    """The interval of what is promised of each record that the held-back models give these scores."""
    models, lowered = futures.held_back.count, futures.lowered
    held = None if lowered is None else quantiles(scores)
    counts = favourable(scores).sum(axis=1) if held is None else np.rint(models * ndtr(held)).astype(int)
    counted = [share_interval(count, models, futures.records, futures.apart or 0.0) for count in counts.tolist()]
    ends = np.array(counted).reshape(-1, 2)
    return ends if lowered is None or held is None else lowered.interval(held, ends)


@dataclass(frozen=True)
class _Held:
    """How far records hold if applicants change, row by row, from the scores of the models that were stressed."""

    futures: Futures

    def __call__(
        self, scores: Float[np.ndarray, "n k"], promised: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n t"], Int[np.ndarray, "n"], Int[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """The least share up to each strength; and of the least of all, stress, strength and how many models accept."""
        stress = self.futures.stressed
        assert stress is not None
        accepted = stress.accepted(scores)
        shares = accepted / stress.counted
        lowest = np.minimum.accumulate(np.minimum(shares.min(axis=1), promised[:, None]), axis=1)
        # Of equal ones the first stress, at its greatest strength.
        which, back = np.divmod(shares[:, :, ::-1].reshape(len(scores), -1).argmin(axis=1), shares.shape[2])
        at = shares.shape[2] - 1 - back
        return lowest, which, at, accepted[np.arange(len(scores)), which, at]


def _stressed(
    problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"], promised: Float[np.ndarray, "n"]
) -> list[StressedFuture] | list[None]:
    """How far each raw row holds, of which so much is promised if applicants stay as they are."""
    futures = problem.futures
    assert futures is not None
    if futures.stressed is None:
        return [None] * len(rows_raw)
    found = joined(_Held(futures), problem.stressed.scores(rows_raw), promised)
    asked = HOLDS if problem.future_validity is None else problem.future_validity
    each = zip(promised.tolist(), *(part.tolist() for part in found), strict=True)
    return [_how_far(futures, futures.stressed, asked, *one) for one in each]


def _measured(futures: Futures, probability: float) -> MeasuredFuture | None:
    """What later versions kept of promises like this one, where that is less."""
    calibration = futures.calibration
    if calibration is None or (share := calibration.corrected(probability)) >= probability:
        return None
    return MeasuredFuture(share=share, promises=calibration.promises, retrainings=calibration.retrainings)


def _how_far(
    futures: Futures,
    stress: StressedModels,
    asked: float,
    plain: float,
    lowest: Sequence[float],
    which: int,
    at: int,
    accepting: int,
) -> StressedFuture:
    models = int(stress.counted[at])
    held = [s for s, least in zip(stress.strengths, lowest, strict=True) if least >= asked - ROUNDING]
    return StressedFuture(
        lowest=accepting / models,
        interval=share_interval(accepting, models, futures.records, futures.apart or 0.0),
        column=stress.stresses[which].column,
        direction=stress.stresses[which].direction,
        strength=stress.strengths[at],
        holds_up_to=max(held, default=None),
        curve=(
            CurvePoint(strength=0.0, share=plain),
            *(CurvePoint(strength=s, share=y) for s, y in zip(stress.strengths, lowest, strict=True)),
        ),
        models=models,
    )


def certify_future(problem: RecourseProblem, found: Sequence[Counterfactual]) -> list[Counterfactual]:
    """The counterfactuals, each completed by the certificate that the held-back future models give it."""
    rows_raw = np.array([one.row_raw for one in found]).reshape(-1, problem.action_set.space.p)
    return [replace(one, future=f) for one, f in zip(found, future_certificates(problem, rows_raw), strict=True)]


def fewer_than_asked(
    problem: RecourseProblem, found: Sequence[Counterfactual], dearer: Counterfactual | None = None
) -> list[str]:
    """Warnings, at most two: that the share of future models, or of models under stress, is smaller than asked for.

    Parameters
    ----------
    found : the answer, with certificates
    dearer : a record, without certificates, that costs more than the answer and may withstand more stress; the warning
        says at what price
    """
    futures = [one.future for one in found if one.future is not None and one.future.asked is not None]
    record, warnings = "this record" if len(found) == 1 else "one of these records", list[str]()
    least = min(futures, key=lambda future: future.probability, default=None)
    if least is not None and least.asked is not None and least.probability < least.asked - ROUNDING:
        if problem.futures is not None and problem.futures.lowered is not None:
            warnings.append(FEWER_PROMISED.format(100.0 * least.probability, record, 100.0 * least.asked))
        else:
            accepting = round(least.probability * least.models)
            warnings.append(FEWER_WARNING.format(accepting, least.models, record, 100.0 * least.asked))
    stressed = [one for one in futures if one.under == "stress" and one.stressed is not None]
    for one in sorted(stressed, key=lambda one: one.stressed.lowest if one.stressed else 1.0)[:1]:
        if one.stressed is not None and one.asked is not None and one.stressed.lowest < one.asked - ROUNDING:
            limit = one.stressed.holds_up_to
            up_to = "nor do they at a lesser strength" if limit is None else f"up to a strength of {limit:g} they do"
            at_price = _at_price(problem, found, dearer, one.stressed.lowest)
            told = (100.0 * one.stressed.lowest, record, 100.0 * one.asked, up_to, at_price)
            warnings.append(STRESS_WARNING.format(*told))
    return warnings


def _at_price(
    problem: RecourseProblem, found: Sequence[Counterfactual], dearer: Counterfactual | None, lowest: float
) -> str:
    """What share a dearer record has under stress where the answer has `lowest`; empty where it has little more."""
    if dearer is None or len(found) != 1:
        return ""
    (other,) = future_certificates(problem, dearer.row_raw[None])
    more = other.stressed.lowest if other is not None and other.stressed is not None else 0.0
    return DEARER.format(100.0 * more, dearer.cost / found[0].cost) if more > lowest + GIVEN_UP else ""


def given_up(problem: RecourseProblem, found: Sequence[Counterfactual], default: Sequence[Counterfactual]) -> list[str]:
    """A warning if the answer withstands less than the answer to the same request without `future_validity`.

    The list is empty if no stresses were rehearsed, because then nothing says how much either answer withstands.

    Parameters
    ----------
    found : the answer, with certificates
    default : the method's answer without `future_validity`
    """
    if len(found) != 1 or len(default) != 1 or found[0].future is None or found[0].future.stressed is None:
        return []
    (own,) = certify_future(problem, default)
    assert own.future is not None
    pairs = [(found[0].future.probability, own.future.probability, "that stay as they are")]
    if own.future.stressed is not None:
        pairs.append((found[0].future.stressed.lowest, own.future.stressed.lowest, "that change"))
    lost = [(mine, theirs, words) for mine, theirs, words in pairs if mine < theirs - GIVEN_UP]
    if not lost:
        return []
    mine, theirs, words = max(lost, key=lambda one: one[1] - one[0])
    remedy = NOT_KEPT if problem.under_stress else KEPT_UNDER_STRESS
    return [GIVEN_UP_WARNING.format(own.cost, words, 100.0 * theirs, 100.0 * mine, remedy)]


def reaches(problem: RecourseProblem, row_raw: Float[np.ndarray, "p"], share: float) -> bool:
    """Whether so many of the future models that take part in searches accept a raw row that `share` can be promised.

    The held-back models are not asked: if they helped to choose the record, too many of
    them would accept it.
    """
    assert problem.futures is not None
    futures = problem.futures
    return float(futures.promised(futures.search.scores_raw(row_raw[None]))[0]) >= share - ROUNDING


def least_share(problem: RecourseProblem, row_raw: Float[np.ndarray, "p"]) -> float:
    """The share of search models that accept a raw row, under the stress for which this share is smallest.

    Search models are the future models that take part in searches. The share for a stress counts the models that were
    made under it, at every strength.
    """
    assert problem.futures is not None
    stress = problem.futures.stressed_search
    assert stress is not None
    accepted = stress.accepted(stress.models.scores_raw(row_raw[None]))[0, :, -1]
    return float(accepted.min() / stress.counted[-1])


def plan_future(problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"]) -> PlanFutureCertificate | None:
    """The joint certificate that the held-back future models give several raw rows; None without future models.

    The rows are the members of a plan, or several ways for one person.
    """
    if problem.futures is None:
        return None
    futures, scores = problem.futures, problem.held_back.scores(rows_raw)
    # A missing score is a refusal: of all rows it makes the least, of any it counts as if the row were not there.
    joint = np.array([np.minimum.reduce(scores), np.fmax.reduce(scores)])
    every, some = futures.promised(joint).tolist()
    every_interval, some_interval = map(tuple, _intervals(futures, joint).tolist())
    plan = PlanFutureCertificate(
        all=every,
        all_interval=every_interval,
        any=some,
        any_interval=some_interval,
        stressed_all=_stressed_share(problem, rows_raw, np.all),
        stressed_any=_stressed_share(problem, rows_raw, np.any),
        models=futures.held_back.count,
        source=futures.source,
        records=futures.records,
        asked=problem.future_validity,
    )
    return replace(plan, promise=ways_text(plan.by_name(), len(rows_raw)))


def _stressed_share(
    problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"], joint: Callable[..., Any]
) -> float | None:
    """Smallest share over the stresses of held-back models that accept all raw rows, or any; None without stresses."""
    assert problem.futures is not None
    stress = problem.futures.stressed
    if stress is None:
        return None
    together = np.where(joint(problem.stressed.accept(rows_raw), axis=0), 1.0, -1.0)
    return float((stress.accepted(together[None])[0] / stress.counted).min())


def future_bounds(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    points: Float[np.ndarray, "n m"],
    scale: float,
    radius: float,
) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
    """Bounds on the validity of each raw row, from the scores that the held-back models give it.

    The bounds follow from mean and standard deviation of these scores, which are taken to be bell-shaped. As that may
    be wrong, the bounds are never narrower than the reported interval of the share, which assumes nothing. A missing
    score counts as 0.

    Parameters
    ----------
    points : the rows, homogeneous
    scale : length of today's weights; scores are divided by it, because the radius is in units of weights of length 1

    Returns
    -------
    lower, upper : in [0, 1]
    exact : whether both bounds follow from the scores alone, so that the interval of the share widens neither
    """
    assert problem.futures is not None
    scores, lengths = problem.held_back.scores(rows_raw), scale * np.linalg.norm(points, axis=1)
    return joined(_Bounds(problem.futures), scores, lengths, np.full(len(scores), radius))


@dataclass(frozen=True)
class _Bounds:
    """The bounds of `future_bounds`, row by row."""

    futures: Futures

    def __call__(
        self, scores: Float[np.ndarray, "n k"], lengths: Float[np.ndarray, "n"], radius: Float[np.ndarray, "n"]
    ) -> tuple[Float[np.ndarray, "n"], Float[np.ndarray, "n"], Bool[np.ndarray, "n"]]:
        """Lower and upper bound, and whether both follow from the scores alone; `lengths` as `scale`, times points'."""
        known = _counted(scores)
        mean, deviation = known.mean(axis=1) / lengths, known.std(axis=1, ddof=1) / lengths
        lower, upper = bounds_of(mean, deviation, radius, bell=True)
        low, high = _intervals(self.futures, scores).T
        return np.minimum(lower, low), np.maximum(upper, high), (lower <= low) & (upper >= high)


def future_moments(
    problem: RecourseProblem,
    rows_raw: Float[np.ndarray, "n p"],
    points: Float[np.ndarray, "n m"],
    std: Float[np.ndarray, "d"],
    scale: float,
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]]:
    """Mean and covariance, over the held-back models, of the score of each raw row and of its slopes there.

    After the score follow the slopes along the columns with noise, measured over one standard deviation of the noise.

    Parameters
    ----------
    points : the rows, homogeneous
    std : standard deviation of the noise in each encoded column
    scale : length of today's weights; scores are divided by it
    """
    assert problem.futures is not None
    columns, n = np.flatnonzero(std), len(points)
    moved = points[:, None, :-1] + np.diag(std)[columns]
    held_back = problem.futures.held_back
    away = held_back.scores(moved.reshape(-1, len(std))).reshape(n, len(columns), held_back.count)
    each = np.broadcast_to(scale * std[columns], (n, len(columns)))
    return joined(_slopes, problem.held_back.scores(rows_raw), away, np.full(n, scale), each)


def _slopes(
    scores: Float[np.ndarray, "n q"],
    away: Float[np.ndarray, "n c q"],
    scale: Float[np.ndarray, "n"],
    step: Float[np.ndarray, "n c"],
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k k"]]:
    """The moments of `future_moments`, from scores at each row and one step away from it along each column."""
    own = _counted(scores)[:, None]
    models = np.concatenate([own / scale[:, None, None], (_counted(away) - own) / step[:, :, None]], axis=1)
    mean = models.mean(axis=2)
    models -= mean[:, :, None]
    return mean, models @ models.transpose(0, 2, 1) / (models.shape[2] - 1)


def _counted(scores: Float[np.ndarray, "*n k"]) -> Float[np.ndarray, "*n k"]:
    """Scores with 0 for those that are missing."""
    return np.where(np.isnan(scores), 0.0, scores)


def future_plan_moments(problem: RecourseProblem, rows_raw: Float[np.ndarray, "n p"], scale: float) -> WeightMoments:
    """Mean and covariance of the held-back models, each replaced by a linear model with the same scores on the rows.

    Of all such linear models, the one with the shortest weights is taken. The joint validity of the rows depends only
    on these scores.

    Parameters
    ----------
    scale : length of today's weights; scores are divided by it
    """
    points = homogeneous(problem.action_set.space.encode(rows_raw))
    scores = _counted(problem.held_back.scores(rows_raw))
    thetas = (np.linalg.pinv(points) @ scores).T
    return WeightMoments.of(thetas / scale, "future")
