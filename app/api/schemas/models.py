"""Registered models, their feature schemas and their decisions."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from app.api.schemas.strict import FEW, MOST_ENTRIES, Strict
from app.recourse.features import Change, FeatureType

VALUE_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}]}

Record = Annotated[
    dict[str, Annotated[Any, WithJsonSchema(VALUE_SCHEMA)]],
    Field(description="A value for every feature of the model, as GET /models/{id}/schema describes them."),
]
"""An applicant's record as a client sends it; the feature schema of the model decides what it may hold."""

Value = float | int | str | bool


class Described(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class ModelVersion(Described):
    """Exactly which model was asked."""

    id: str
    version: str
    sha256: str
    """Digest of the artifact."""


class ModelSummary(ModelVersion):
    """A registered version of a model."""

    title: str
    description: str | None
    active: bool
    """False before the operator has activated the version, and once it is retired."""
    registered_at: datetime
    features: int
    """Number of features."""
    threshold: float | None
    """Smallest favourable output; null for a model that answers with labels."""
    output: str
    """`probability`, `logit` or `label` of the favourable class."""


class Models(Described):
    """All registered models."""

    models: list[ModelSummary]


class FeatureDescription(Described):
    """One feature of a model."""

    name: str
    """Its key in a record."""
    type: FeatureType
    label: str
    """What a person calls it."""
    unit: str | None
    min: float | None
    """Smallest legal number."""
    max: float | None
    """Largest legal number."""
    step: float | None
    """Advice moves a whole number in these steps."""
    decimals: int | None
    """Digits after the point in advice."""
    categories: list[str | bool] | None
    """Legal values, ordered for an ordinal feature; null for numbers."""
    change: Change
    """What the person can do: `any`, `increase`, `decrease` or `none`."""
    cost: float
    """Cost of one standardised unit, or of one change of category."""


class ModelSchema(Described):
    """What a record of this model looks like, and what a person can change."""

    model: ModelVersion
    features: list[FeatureDescription]
    rules: list[str]
    """Relations between features that hold in every answer."""
    sample: dict[str, Value] | None
    """A record out of the reference data that the model refuses, to try things out; null if it refuses none."""


class PredictRequest(Strict):
    """Records to be decided on."""

    records: Annotated[list[Record], Field(min_length=1, max_length=MOST_ENTRIES), FEW]
    """One to a thousand records."""


class Decision(Described):
    """What the model says about one record."""

    probability: float | None
    """Of the favourable class; null for a model that answers with labels, or gave no finite number."""
    score: float | None
    """In logit units, favourable from 0 on; null where the model gave no finite number."""
    favourable: bool


class Predictions(Described):
    """The model's decisions in the order of the records."""

    model: ModelVersion
    predictions: list[Decision]
