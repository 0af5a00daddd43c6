"""The facts of which a letter is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.questions.answers import Json
from app.recourse.features import Feature, RawValue
from app.recourse.models.score import PointScale


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts of which a letter is made: a recorded answer, its question, the reasons, and the model's features."""

    answer: Json
    """As it was sent."""
    question: Json
    """What was asked about the applicant."""
    applicant: Mapping[str, RawValue]
    reasons: Json | None
    """The answer's own, or computed again; None where nothing was refused."""
    features: Sequence[Feature]
    """Of the version that answered."""
    title: str
    titles: Mapping[str, str]
    """In other languages."""
    reported: Sequence[str]
    """Names of the features that come from the report of a credit bureau."""
    threshold: float | None
    """The least probability that the model accepts; None for another output."""
    scale: PointScale | None = None
    """Of a model that gives points."""


def version_of(answer: Json) -> str:
    """The name `id@version` of the version that gave the answer."""
    return f"{answer['model']['id']}@{answer['model']['version']}"
