"""How the ways in an answer differ, and the order in which the changes of one way help most."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.recourse.actions.action_set import ActionSet
from app.recourse.actions.sentences import FeatureChange
from app.recourse.answer_part import EXACT, AnswerPart, rounded_output
from app.recourse.counterfactual import AssessedCounterfactual
from app.recourse.models.score import PointScale


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(AnswerPart):
    """How one way differs from the ways listed before it."""

    features: tuple[str, ...]
    """What it changes and no earlier one does."""
    overlap: float
    """Share of its changed features that the earlier way with the largest overlap changes too; in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStep(AnswerPart):
    """One change, made after the earlier steps, and the model's decision after it."""

    feature: str
    """The feature that changes."""
    text: str
    """What to do, as a sentence."""
    probability: float | None = field(metadata=EXACT)
    """Probability after this step; null where the model states none."""
    score: float | None
    """Score after this step, in logit units."""
    points: float | None = field(metadata=EXACT)
    """Points after this step; null for models without points."""
    favourable: bool
    """Whether the model accepts the record after this step."""


def points_of(score: float | None, scale: PointScale | None) -> float | None:
    """The points for a score, rounded as in answers; None where the score is None or the model has no points."""
    return None if score is None or scale is None else rounded_output(float(scale.of(score)), score)


def difference(
    action_set: ActionSet,
    found: AssessedCounterfactual,
    before: Sequence[AssessedCounterfactual],
) -> Difference | None:
    """How the way `found` differs from the ways `before`, which the answer lists earlier; None for the first way."""
    if not before:
        return None
    features = action_set.space.features
    earlier = {j for one in before for j in one.changed}
    new = [features[j] for j in found.changed if j not in earlier]
    shared = max(len(set(found.changed) & set(one.changed)) for one in before)
    return Difference(
        features=tuple(feature.name for feature in new),
        overlap=shared / len(found.changed) if found.changed else 0.0,
    )


def changes_in_order(way: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The changes of a way: steps first, in their order; then changes that are no step, such as changes by time."""
    names = [step["feature"] for step in way.get("steps") or ()]
    return sorted(
        way["changes"], key=lambda one: names.index(one["feature"]) if one["feature"] in names else len(names)
    )


def steps(
    action_set: ActionSet,
    found: AssessedCounterfactual,
    made: Sequence[FeatureChange],
    scale: PointScale | None,
) -> tuple[ChangeStep, ...] | None:
    """The steps from the refused record to a counterfactual; None where the counterfactual has no steps.

    Parameters
    ----------
    made : the changes of the counterfactual; a step has the sentence of its change
    scale : converts scores to points; None for a model without points
    """
    if found.steps is None:
        return None
    texts = {change.feature: change.text for change in made}
    return tuple(
        ChangeStep(
            feature=(name := action_set.space.names[step.feature]),
            text=texts[name],
            probability=rounded_output(step.probability, step.score),
            score=step.score,
            points=points_of(step.score, scale),
            favourable=step.score is not None and step.score >= 0.0,
        )
        for step in found.steps
    )
