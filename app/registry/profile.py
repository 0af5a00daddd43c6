"""What is computed of a model once, at registration: scores of the reference records, and how far these lie apart."""

import io
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float

from app.errors import Fault, ModelOutputInvalid, ModelRefused
from app.recourse.actionability import LinearRule
from app.recourse.blackbox import BlackBox
from app.recourse.problem import Reference

EXACT_RECORDS = 5_000
"""Up to so many distinct records, the largest distance is that of all pairs."""

BLOCK = 500
"""Records whose distances to all others are held in memory at a time."""

SUBSET_SEED = 0
"""Chooses the records that stand for more than `EXACT_RECORDS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The computed part of a registration."""

    reference: Reference
    exact: bool
    """Whether `reference.largest_distance` is over all pairs; otherwise over a seeded subset, a lower bound."""
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"], rules: tuple[LinearRule, ...]) -> Self:
        """The profile of a model on its reference records.

        Raises
        ------
        ModelRefused : it does not score every record or every category, or all records are equal
        """
        scores = _score(black_box, rows_raw)
        faults = _level_faults(black_box, rows_raw[0])
        if faults:
            raise ModelRefused(faults=faults)
        largest, exact = largest_distance(black_box.space.encode(rows_raw))
        if largest == 0.0:
            raise ModelRefused(faults=[Fault("/reference", "has the same record again and again")])
        reference = Reference(space=black_box.space, rows_raw=rows_raw, scores=scores, largest_distance=largest)
        return cls(reference=reference, exact=exact, warnings=tuple(_warnings(reference, rules)))


def _score(black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n"]:
    try:
        scores = black_box.score_raw(rows_raw)
    except ModelOutputInvalid as error:
        raise ModelRefused(faults=[Fault("/artifact", _reason(error))]) from error
    lost = int(np.isnan(scores).sum())
    if lost:
        detail = f"gives no finite output for {lost} of {len(scores)} reference records"
        raise ModelRefused(faults=[Fault("/artifact", detail)])
    return scores


def _reason(error: ModelOutputInvalid) -> str:
    """What went wrong, with the words of the library, which only the operator gets to read."""
    cause = f": {' '.join(str(error.__cause__).split())[:300]}" if error.__cause__ else ""
    return error.detail + cause


def _level_faults(black_box: BlackBox, row_raw: Float[np.ndarray, "p"]) -> list[Fault]:
    """Categories of the manifest that the model cannot take, such as one that its encoder has never seen."""
    places = [
        (j, k)
        for j, feature in enumerate(black_box.space.features)
        if not feature.is_number
        for k in range(len(feature.levels))
    ]
    probes = np.repeat(row_raw[None], len(places), axis=0)
    for probe, (j, k) in zip(probes, places, strict=True):
        probe[j] = k
    if _unanswered(black_box, probes) is None:
        return []
    features = black_box.space.features
    return [
        Fault(f"/features/{j}", f'the model cannot take "{features[j].levels[k]}": {reason}')
        for probe, (j, k) in zip(probes, places, strict=True)
        if (reason := _unanswered(black_box, probe[None])) is not None
    ]


def _unanswered(black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"]) -> str | None:
    try:
        scores = black_box.score_raw(rows_raw)
    except ModelOutputInvalid as error:
        return _reason(error)
    return "it gives no finite output" if np.isnan(scores).any() else None


def _warnings(reference: Reference, rules: tuple[LinearRule, ...]) -> list[str]:
    found: list[str] = []
    yes, count = len(reference.favourable), len(reference.scores)
    if yes == 0:
        found.append("The model accepts none of its reference records, so most methods will find no way to a yes.")
    if yes == count:
        found.append("The model accepts all of its reference records.")
    for rule in rules:
        broken = count - int(rule.holds(reference.rows_raw).sum())
        if broken:
            found.append(f"The rule {rule.text!r} does not hold in {broken} of {count} reference records.")
    return found


def largest_distance(X: Float[np.ndarray, "n d"]) -> tuple[float, bool]:
    """Largest L2 distance between two encoded points, and whether all pairs were compared.

    Of more than `EXACT_RECORDS` distinct points a seeded subset is compared: a lower bound.
    """
    from scipy.spatial.distance import cdist

    points = np.unique(X, axis=0)
    exact = len(points) <= EXACT_RECORDS
    if not exact:
        chosen = np.random.default_rng(SUBSET_SEED).choice(len(points), EXACT_RECORDS, replace=False)
        points = points[np.sort(chosen)]
    blocks = (points[start : start + BLOCK] for start in range(0, len(points), BLOCK))
    squared = max(float(cdist(block, points, "sqeuclidean").max()) for block in blocks)
    return float(np.sqrt(squared)), exact


def pack(reference: Reference) -> bytes:
    """Rows and scores as the bytes of an `.npz` file."""
    buffer = io.BytesIO()
    np.savez(buffer, rows_raw=reference.rows_raw, scores=reference.scores)
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n"]]:
    """Rows and scores; inverse of `pack`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return arrays["rows_raw"], arrays["scores"]
