"""What looks odd of a model on its reference records, in sentences that say what to do; none of it is a fault."""

import numpy as np
from jaxtyping import Float

from app.recourse.actions.rules import Rule
from app.recourse.features import FeatureSpace
from app.recourse.models.black_box import BlackBox
from app.recourse.models.linear import homogeneous
from app.recourse.models.score import Output, favourable, sigmoid
from app.recourse.problem import Reference
from app.registry.lender_scores import outputs_of
from app.registry.special_codes import codes_among

FEW = 10
"""Records below which a column may well be the same in all of them."""

AGREEMENT = 0.75
"""Share of the reference records on which the model and its refits should agree; less raises a warning."""

EXTREME = 1e-6
"""Distance from 0 and 1 within which a probability is one of them."""

SCALED = 0.01
"""Distance of mean and standard deviation from 0 and 1 within which numbers have been scaled."""

NAMED = 10
"""Names that are listed; the others are counted."""


def odd(black_box: BlackBox, reference: Reference) -> list[str]:
    """Warnings of decisions that are all alike, and of columns that cannot be what they should."""
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
        found.append(f"The same in all reference records, so that nothing is known about it: {_named(constant)}.")
    if scaled:
        found.append(
            f"These have a mean of 0 and a standard deviation of 1, as if they were scaled: {_named(scaled)}. Give the "
            "records in their own units, or advice is in these; center and scale say what the model takes."
        )
    return found + coded


def _named(names: list[str]) -> str:
    return ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")


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
    """A warning of a linear model that its own label contradicts."""
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
    """A warning of each rule that does not hold in the reference."""
    count = len(reference.scores)
    broken = [(rule, count - int(rule.holds(reference.rows_raw).sum())) for rule in rules]
    return [
        f"The rule {rule.text!r} does not hold in {many} of {count} reference records." for rule, many in broken if many
    ]
