"""The computed part of a registration.

Scores of the reference records, their largest distance and, where the true outcomes are known, the moments of the
model under retraining.
"""

import io
import json
from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Bool, Float

from app.errors import DegenerateSurrogate, Fault, ModelOutputInvalid, ModelRefused, SolverFailed
from app.recourse.actions.rules import Rule
from app.recourse.features import FeatureSpace, RawValue
from app.recourse.models.black_box import BlackBox
from app.recourse.models.linear import WeightMoments, homogeneous
from app.recourse.models.score import Output, favourable, sigmoid
from app.recourse.numerics.linalg import unique_rows
from app.recourse.problem import Reference
from app.recourse.surrogate.refits import LEAST, refit_moments
from app.registry.lender_scores import outputs_of
from app.registry.printable import listed
from app.registry.special_codes import codes_among

FEW = 10
"""Records below which a column may well be the same in all of them."""

AGREEMENT = 0.75
"""Share of the reference records on which the model and its refits should agree; less raises a warning."""

EXTREME = 1e-6
"""Distance from 0 and 1 within which a probability is one of them."""

SCALED = 0.01
"""Distance of mean and standard deviation from 0 and 1 within which numbers have been scaled."""


def odd(black_box: BlackBox, reference: Reference) -> list[str]:
    """Warnings about a suspicious model or reference.

    Examples are a model that decides all records alike, outputs or columns that look wrong, and features of which none
    may change.
    """
    found = [*_odd_outputs(black_box, reference)]
    space, rows_raw = reference.space, reference.rows_raw
    if len(rows_raw) >= FEW:
        found += _odd_columns(space, rows_raw)
    if all(feature.is_fixed for feature in space.features):
        found.append(
            "No feature may change, so that nothing can be advised: which can people change (change, protected)?"
        )
    return found


def _odd_outputs(black_box: BlackBox, reference: Reference) -> list[str]:
    found: list[str] = []
    yes, count = len(reference.favourable), len(reference.scores)
    if yes == 0:
        found.append(
            "The model accepts none of its reference records, so most methods will find no way to a yes"
            + _outputs_beside(black_box, reference)
        )
    if yes == count:
        found.append("The model accepts all of its reference records" + _outputs_beside(black_box, reference))
    if black_box.output is Output.LOGIT and black_box.threshold == 0.5:
        found.append(
            f"The threshold 0.5 of a logit is a probability of {sigmoid(0.5):.0%}; a logit of 0 is one of 50%. "
            "Which is meant?"
        )
    if black_box.output is Output.PROBABILITY and black_box.boxes is None:  # leaves of a full-grown tree are pure
        outputs = outputs_of(black_box, reference.scores)
        extreme = float(np.mean((outputs < EXTREME) | (outputs > 1.0 - EXTREME)))
        if extreme > 0.5 and count >= FEW:
            found.append(
                f"{extreme:.0%} of the model's probabilities are 0 or 1: are these labels (output: label), or does the "
                "model take other numbers than in its training (encoding, center and scale)?"
            )
    return found


def _odd_columns(space: FeatureSpace, rows_raw: Float[np.ndarray, "n p"]) -> list[str]:
    """Warnings of columns that say nothing, are scaled already, or have codes among their numbers."""
    constant, scaled, coded = list[str](), list[str](), list[str]()
    for j, feature in enumerate(space.features):
        column, name = rows_raw[:, j], feature.name
        if (column == column[0]).all():
            constant.append(name)
        if not feature.is_number or feature.derived is not None:
            continue
        known = column[~space.in_state(rows_raw)[:, j]]
        if len(known) and abs(known.mean()) < SCALED and abs(known.std() - 1.0) < SCALED:
            scaled.append(name)
        coded += [
            f'"{name}" is {code:g} in {np.mean(column == code):.0%} of the reference records, apart from all its other '
            f'numbers: if that is a code, say special: {{{code:g}: "what it means"}}'
            for code in codes_among(known)
        ]
    found = list[str]()
    if constant:
        found.append(
            f"The same in all reference records, so that nothing is known about it: {listed(constant, quote='')}."
        )
    if scaled:
        found.append(
            f"These have a mean of 0 and a standard deviation of 1, as if they were scaled: {listed(scaled, quote='')}."
            " Give the records in their own units, or advice is in these; center and scale say what the model takes."
        )
    return found + coded


def _outputs_beside(black_box: BlackBox, reference: Reference) -> str:
    """The range of the outputs beside the threshold, as the end of a sentence."""
    if black_box.output is Output.LABEL:
        return ": are favourable and the labels of the model written alike?"
    outputs = outputs_of(black_box, reference.scores)
    return (
        f": its outputs lie between {outputs.min():.3g} and {outputs.max():.3g}, the threshold is "
        f"{black_box.threshold:g}. Is it in their unit, and is favourable the right class?"
    )


def odd_weights(reference: Reference) -> list[str]:
    """A warning if models refitted to the true outcomes contradict a linear model, as for a reversed label.

    The list has one warning or none.
    """
    if reference.weight_moments is None:
        return []
    refitted = homogeneous(reference.X) @ reference.weight_moments.mean >= 0.0
    alike = float(np.mean(refitted == favourable(reference.scores)))
    if alike >= AGREEMENT:
        return []
    return [
        f"Models refitted to the label decide {1.0 - alike:.0%} of the reference records differently from this one; is "
        "1 the favourable outcome?"
    ]


def broken_rules(reference: Reference, rules: tuple[Rule, ...]) -> list[str]:
    """A warning for each rule that some reference records break."""
    count = len(reference.scores)
    broken = [(rule, count - int(rule.holds(reference.rows_raw).sum())) for rule in rules]
    return [
        f"The rule {rule.text!r} does not hold in {many} of {count} reference records." for rule, many in broken if many
    ]


EXACT_RECORDS = 5_000
"""Largest number of distinct records for which all pairs are compared."""

BLOCK = 500
"""Records whose distances to all others are held in memory at a time."""

SUBSET_SEED = 0
"""Seed of the subset that is compared in place of more than `EXACT_RECORDS`."""

REFITS_SEED = 0
"""Seed of the random halves of the refits."""

NO_NUMBER = "it gives no finite output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """The true outcome of each reference record, and the number of models that are refitted to these outcomes."""

    favourable: Bool[np.ndarray, "n"]
    refits: int
    """Number of refits to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What registration computes from a model and its reference records."""

    reference: Reference
    exact: bool
    """Whether `reference.largest_distance` is over all pairs; otherwise over a seeded subset, a lower bound."""
    warnings: tuple[str, ...]

    @classmethod
    def of(
        cls,
        black_box: BlackBox,
        rows_raw: Float[np.ndarray, "n p"],
        rules: tuple[Rule, ...],
        outcomes: Outcomes | None = None,
    ) -> Self:
        """The profile of a model, computed from the reference records (`rows_raw`) and the model's scores of them.

        With `outcomes`, the profile also has the moments of linear refits to these outcomes.

        Raises `ModelRefused` where the model does not score every record or every category, where all records are
        equal, or where the outcomes do not determine a model.
        """
        scores = _score(black_box, rows_raw)
        faults = _level_faults(black_box, rows_raw[0])
        if faults:
            raise ModelRefused(faults=faults)
        largest, exact = largest_distance(black_box.space.encode(rows_raw))
        if largest == 0.0:
            raise ModelRefused(faults=[Fault("/reference", "contains only copies of one record")])
        reference = Reference(
            space=black_box.space,
            rows_raw=rows_raw,
            scores=scores,
            largest_distance=largest,
            weight_moments=None if outcomes is None else _weight_moments(black_box, rows_raw, outcomes),
        )
        warnings = (*odd(black_box, reference), *odd_weights(reference), *broken_rules(reference, rules))
        return cls(reference=reference, exact=exact, warnings=warnings)


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
    """The error with the message of the library, which only the operator sees."""
    cause = f": {' '.join(str(error.__cause__).split())[:300]}" if error.__cause__ else ""
    return error.detail + cause


def _level_faults(black_box: BlackBox, row_raw: Float[np.ndarray, "p"]) -> list[Fault]:
    """Categories and states of the manifest that the model does not accept, such as one unknown to its encoder."""
    features = black_box.space.features
    places = [
        (j, float(value))
        for j, feature in enumerate(features)
        for value in (*(range(len(feature.levels)) if not feature.is_number else ()), *feature.states_raw)
    ]
    probes = np.repeat(row_raw[None], len(places), axis=0)
    for probe, (j, value) in zip(probes, places, strict=True):
        probe[j] = value
    if _unanswered(black_box, probes) is None:
        return []
    return [
        Fault(f"/features/{j}", _cannot_take(features[j].value(value), reason))
        for probe, (j, value) in zip(probes, places, strict=True)
        if (reason := _unanswered(black_box, probe[None])) is not None
    ]


def _cannot_take(value: RawValue, reason: str) -> str:
    """A value for which the model gives nothing, and what to do about a missing one."""
    remedy = "; say missing: indicator or fill, and fill: what it takes instead" if value is None else ""
    return f"the model cannot take {json.dumps(value)}: {reason}{remedy}"


def _unanswered(black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"]) -> str | None:
    try:
        scores = black_box.score_raw(rows_raw)
    except ModelOutputInvalid as error:
        return _reason(error)
    return NO_NUMBER if np.isnan(scores).any() else None


def _weight_moments(black_box: BlackBox, rows_raw: Float[np.ndarray, "n p"], outcomes: Outcomes) -> WeightMoments:
    counts = {"1": int(outcomes.favourable.sum()), "0": int((~outcomes.favourable).sum())}
    if faults := [
        Fault("/label", f"needs at least {LEAST} records with the outcome {value}; there are {count}")
        for value, count in counts.items()
        if count < LEAST
    ]:
        raise ModelRefused(faults=faults)
    X = black_box.space.encode(rows_raw)
    try:
        return refit_moments(X, outcomes.favourable, outcomes.refits, REFITS_SEED, threshold=black_box.offset)
    except (DegenerateSurrogate, SolverFailed) as error:
        detail = "cannot be used: the features of the records do not determine a logistic regression of the outcome"
        raise ModelRefused(faults=[Fault("/label", detail)]) from error


def largest_distance(X: Float[np.ndarray, "n d"]) -> tuple[float, bool]:
    """Largest L2 distance between two encoded points, and whether all pairs were compared.

    With more than `EXACT_RECORDS` distinct points, only a random subset (fixed seed) is compared; the result is then a
    lower bound.
    """
    from scipy.spatial.distance import cdist

    points = unique_rows(X)
    exact = len(points) <= EXACT_RECORDS
    if not exact:
        chosen = np.random.default_rng(SUBSET_SEED).choice(len(points), EXACT_RECORDS, replace=False)
        points = points[np.sort(chosen)]
    blocks = (points[start : start + BLOCK] for start in range(0, len(points), BLOCK))
    squared = max(float(cdist(block, points, "sqeuclidean").max()) for block in blocks)
    return float(np.sqrt(squared)), exact


def pack(reference: Reference) -> bytes:
    """The raw rows, scores and, if there are any, weight moments of a reference, as the bytes of an `.npz` file."""
    moments = reference.weight_moments
    arrays = {"rows_raw": reference.rows_raw, "scores": reference.scores}
    if moments is not None:
        arrays |= {"weight_mean": moments.mean, "weight_root": moments.root}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(content: bytes) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n"], WeightMoments | None]:
    """The raw rows, scores and weight moments that `pack` has written; the moments are None if there were none."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        moments = None
        if "weight_mean" in arrays:
            moments = WeightMoments(mean=arrays["weight_mean"], factors=(arrays["weight_root"],), kind="registered")
        return arrays["rows_raw"], arrays["scores"], moments
