"""Registered models, their feature schemas and their decisions."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from typing_extensions import TypeAliasType

from app.api.described import Described, describe
from app.api.strict import FEW, MOST_ENTRIES, Strict
from app.questions import answers
from app.recourse.features import Advice, Better, Change, FeatureType, MaxChange, RawValue, Takes
from app.recourse.models.committee import Drawn, Likeness

VALUE_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string"}, {"type": "boolean"}, {"type": "null"}]}

Values = dict[str, Annotated[Any, WithJsonSchema(VALUE_SCHEMA)]]
"""Values by feature."""

Record = TypeAliasType(
    "Record",
    Annotated[
        Values,
        Field(
            description="A value for every feature of the model, as GET /models/{id}/schema describes them: `null` "
            "where a value is missing; derived features may be left out."
        ),
    ],
)
"""An applicant's record as a client sends it; the feature schema of the model decides what it may hold."""

ModelVersion: Any = describe(answers.ModelVersion)
Decision: Any = describe(answers.Decision)
ProposedValues: Any = describe(Advice)
ChangeTime: Any = describe(Takes)
LargestChange: Any = describe(MaxChange, "LargestChange")


class Stress(Strict):
    """A stress: further future models of records among which high or low values of a column are more frequent."""

    column: Annotated[str, Field(min_length=1, max_length=200)]
    """A number, an ordered category or a yes and no of the schema, or another column of the reference records, of
    numbers or dates; `@score`: the model's own score; `@label`: the odds of a good outcome."""
    direction: Literal["up", "down"]
    """`up`: high values become more frequent; `down`: low ones."""


class FuturesStatus(Described):
    """Future models of a version: models that the lender might have after the next training."""

    status: Literal["none", "pending", "ready", "failed"]
    """Models that were ready stay in use while others are made."""
    source: Literal["retrained", "command", "supplied", "stand_in"] | None
    """How they were made: retrained by the model's own recipe, by the lender's command, supplied, or of another
    family."""
    search: int | None
    """Number of models that take part in searches."""
    held_back: int | None
    """Number of models that take part in no search and measure the validity of answers."""
    agreement: float | None
    """Share of reference records on which a future model that was not trained on them agrees with this version."""
    recipe: Likeness | None
    """Whether this version looks like one that their recipe trains, where answers lie; intervals are wider where it
    differs. Null for models of the lender's own command or folder, and where it was not compared."""
    advice: str | None
    """Why promises are wider or lower, and what helps; or null."""
    records: Drawn | None
    """Bootstraps of half the records, or of the full size."""
    labels: Literal["outcomes", "own_decisions"] | None
    """What they were trained to predict; the model's own decisions understate the effect of retraining."""
    stress: list[Stress] | None
    """What `validity.future.stressed` of answers is about; empty where no stress was rehearsed."""
    strengths: list[float] | None
    """How far applicants change under each stress; 1: half of the records are left out, or odds doubled or halved."""
    dropped: int | None
    """Number of models that were made and dropped as no better than chance."""
    created_at: datetime | None
    """When they were made."""
    detail: str | None
    """Why they could not be made."""


def _kind(value: object) -> str:
    return "list" if isinstance(value, list) else "one" if isinstance(value, dict | Stress) else "word"


Stresses = Annotated[
    Annotated[Literal["auto", "none"], Tag("word")]
    | Annotated[Stress, Tag("one")]
    | Annotated[list[Stress], Field(max_length=20), Tag("list")],
    Discriminator(_kind),
]


class FuturesRequest(Strict):
    """Which future models to make; the manifest decides what is absent."""

    source: Literal["auto", "retrained", "stand_in"] | None = None
    """Where they come from; as the manifest says when absent."""
    records: Drawn | None = None
    """Which records they stand for; as the manifest says when absent."""
    search: Annotated[int, Field(ge=2, le=1_000)] | None = None
    """Number of future models that help to find answers; the manifest says how many when absent."""
    held_back: Annotated[int, Field(ge=2, le=1_000)] | None = None
    """Number of future models that judge answers; the manifest says how many when absent."""
    stress: Stresses | None = None
    """Makes further models of records as they are if applicants change, at most twice as many as without: in the
    directions that matter most (`auto`), in none, or in these."""


class FuturesAnswer(Described):
    """The result of a job that made future models."""

    model: ModelVersion
    """The version."""
    futures: FuturesStatus
    """Its future models."""


class ModelSummary(ModelVersion):  # type: ignore[misc]
    """A registered version of a model."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    title: str
    """Name for people."""
    titles: dict[str, str]
    """The same in other languages, by their tags, such as `de`."""
    description: str | None
    """What the lender says about it."""
    active: bool
    """False before the operator has activated the version, and once it is retired."""
    registered_at: datetime
    """When it was registered."""
    features: int
    """Number of features."""
    threshold: float | None
    """Smallest favourable output, the largest where fewer points are better; null for a model that answers with
    labels."""
    better: Literal["higher", "lower"] | None
    """Whether more points are better, or fewer; null for a model that gives no points."""
    output: str
    """`probability`, `logit` or `label` of the favourable class, or `points`."""
    futures: FuturesStatus
    """Its future models."""


class Models(Described):
    """All registered models."""

    models: list[ModelSummary]
    """Every registered version."""


class FeatureWords(Described):
    """What people call a feature in another language; null, or absent, where it is as in the manifest's own."""

    label: str | None
    """Its name for people."""
    unit: str | None
    """Unit of its values."""
    levels: dict[str, str]
    """Levels and special codes."""


class FeatureDescription(Described):
    """One feature of a model."""

    name: str
    """Its key in a record."""
    type: FeatureType
    """Kind of the feature."""
    label: str
    """Its name for people."""
    unit: str | None
    """Unit of its values."""
    min: float | None
    """Smallest legal number."""
    max: float | None
    """Largest legal number."""
    step: float | None
    """Counterfactuals change the value in whole multiples of this."""
    decimals: int | None
    """Digits after the point in counterfactuals."""
    categories: list[str | bool] | None
    """Legal values, ordered for an ordinal feature; null for numbers."""
    level_names: dict[str, str]
    """What people call levels, where that is not their name."""
    words: dict[str, FeatureWords]
    """What people call it in other languages, by their tags, such as `de`."""
    change: Change
    """How advice may change the feature: `any`, `increase`, `decrease` or `none`."""
    cost: float
    """Cost of one spread, or of one change of category."""
    spread: float | None
    """How far apart people are: the difference that is one unit of cost, distance and noise; null for categories."""
    missing: bool
    """Whether the value may be missing: `null` in a record."""
    special: dict[str, str]
    """Numbers that are states and not quantities, with what they mean."""
    derived: str | None
    """How the value follows from other features; it may be left out of a record. Null for most features."""
    terms: bool
    """Whether this is a term of the contract: the lender sets it, and `POST /recourse/offers` says which are accepted.
    """
    better: Better | None
    """Of a term, what is better for the applicant: `more` or `less` of it; null where the lender does not say."""
    protected: bool
    """Whether this is a protected attribute: never advice."""
    moves_with_time: float | None
    """How far time moves the value by itself in a year; it is never advice. Null for most features."""
    advice: ProposedValues
    """What advice may propose; null where that is what a record may hold."""
    provide_cost: float | None
    """Cost of providing a missing value; null where advice does not propose that."""
    takes: ChangeTime
    """How long a change takes."""
    max_change: LargestChange | None
    """How far a number may move at most."""
    least_change: float | None
    """Smallest change of a number that is worth advising."""


class ModelSchema(Described):
    """The features of a model, and how each may change."""

    model: ModelVersion
    """The version."""
    features: list[FeatureDescription]
    """The features, in the order of the manifest."""
    rules: list[str]
    """Relations between features that every counterfactual satisfies."""
    sample: dict[str, RawValue] | None
    """A reference record that the model refuses; null if it refuses none."""
    samples: list[dict[str, RawValue]]
    """Up to five different ones, `sample` first."""


class PredictRequest(Strict):
    """Records for the model to decide on."""

    records: Annotated[list[Record], Field(min_length=1, max_length=MOST_ENTRIES), FEW]
    """One to a thousand records."""


class Predictions(Described):
    """The model's decisions in the order of the records."""

    model: ModelVersion
    """The version that was asked."""
    predictions: list[Decision]
    """Its decisions, in the order of the records."""
    derived: list[dict[str, RawValue]]
    """The values of each record's derived features."""
