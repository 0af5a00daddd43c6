"""Student performance (UCI 320): the fourteen features of papers 1 and 4 with what a person can do about them."""

from app.recourse.features import Change, Feature, FeatureType


def _number(name: str, low: int, high: int, change: Change = Change.ANY) -> Feature:
    return Feature(name=name, type=FeatureType.INTEGER, min=low, max=high, change=change)


def _either(name: str, change: Change = Change.ANY) -> Feature:
    return Feature(name=name, type=FeatureType.CATEGORICAL, categories=("no", "yes"), change=change)


FEATURES = (
    _number("age", 15, 22, Change.INCREASE),
    _number("Medu", 0, 4),
    _number("Fedu", 0, 4),
    _number("studytime", 1, 4),
    _either("famsup"),
    _either("higher"),
    _either("internet"),
    _either("romantic", Change.NONE),
    _number("freetime", 1, 5),
    _number("goout", 1, 5),
    _number("health", 1, 5),
    _number("absences", 0, 93),
    _number("G1", 0, 20),
    _number("G2", 0, 20),
)
"""`romantic` stays and `age` may only rise, as in paper 1."""
