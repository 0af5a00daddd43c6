"""What API keys are for."""

from enum import StrEnum


class Scope(StrEnum):
    """What a key may be used for."""

    RECOURSE = "recourse"
    MODELS = "models"
    AUDIT = "audit"
    SCORES = "scores"
    """Probabilities and scores of records that the caller brings; `MODELS` has them as well."""
    EVERYONE = "everyone"
    """What other keys have asked for."""
