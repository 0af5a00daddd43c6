"""`model.yaml`: a lender's description of a model.

How the parts fit together:

* ``input: encoded`` models were trained on encoded points. State `center` and `scale` of each number in the manifest;
  where they are absent they are fitted on the reference data at registration, which is the model's own encoding only if
  the model was trained on exactly these records.
* ``input: raw`` models take a table with the manifest's names and categories; `center` and `scale` are then not used.
* Distances, costs and noise are measured in the `spread` of each number, whatever the model takes.
* Boosted trees output the logit of class 1, or its probability, as `output` says.
* The last layer of a network outputs a logit. ``output: probability`` puts a sigmoid behind it (a softmax where the
  last layer has two outputs), ``output: logit`` uses it unchanged; `output_activation` may repeat this, but not
  contradict it.
* `label` names a column of the reference records with their true outcome: 1 if favourable, 0 otherwise. A linear model
  is then refitted on `refits` random halves of the records (a logistic regression on encoded points that decides at the
  model's own threshold), and the certificate can state the effect of retraining (``moments: registered``). Any model
  with a label can be retrained beforehand: `futures` says how, and `app.futures` does it.
* A remote model (``format: http``) has no file. Its `sha256` is that of its description, so it identifies an address
  and not the model behind it; the model is pinned by some reference records, which every request includes and which
  must score as they did at registration.
* Files are named relative to the directory of `model.yaml` and lie inside it.

Pointers of faults are JSON pointers into the manifest; a fault inside a file is below the key that names the file, such
as ``/artifact/weights/duration`` or ``/reference/12/age`` (records count from 0).
"""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from app.recourse.actions.rules import Rule
from app.recourse.features import Encoding, Feature, Spread
from app.recourse.models.black_box import Input
from app.recourse.models.committee import Drawn, Stress
from app.recourse.models.score import Output, PointScale
from app.registry.artifact import AnyArtifact, Artifact, ManifestPart, Name
from app.registry.rules import RuleParser

MANIFEST = "model.yaml"
"""Name of the manifest in the directory of a model."""

REGISTRATION = "registration.json"
PROFILE = "profile.npz"
STATUS = "status.json"
INACTIVE = "inactive.json"
UNTIL_READY = b'{"schema_version": 1, "until": "ready"}\n'
"""Content of `INACTIVE` of a version that is activated once its future models are there."""

RELEASED = "released.json"

FUTURES = "futures"
"""Directory of the future models of a version."""
PARTIAL = "futures.partial"
"""Directory of future models that are being made."""

CALIBRATION = "calibration.json"
"""The correction of what this version promises, from promises of earlier ones."""

INSTALLED = frozenset({MANIFEST, REGISTRATION, PROFILE, STATUS, INACTIVE, RELEASED, FUTURES, PARTIAL, CALIBRATION})
"""Names of files and directories that the store uses in the directory of an installed version."""

ID = r"^[a-z0-9][a-z0-9._-]{0,63}$"
VERSION = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,31}$"

Words = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class EncodingChoice(ManifestPart):
    """The scales by which numbers are encoded for the model, and the scales in which distances are measured.

    They apply to numbers without `center` and `scale`, or without `spread`.
    """

    continuous: Encoding = "standard"
    """What the model takes: `standard` (mean and standard deviation of the reference), `minmax` or `none`."""
    spread: Spread = "robust"
    """What distances, costs and noise are measured in, for numbers without `spread`: `robust`, a standard deviation of
    the reference that is not led by a few very large values, or `encoding`, the scales that the model takes."""


class TimeChoice(ManifestPart):
    """When the reference records were made."""

    column: Name
    """Column of the reference records with a date such as 2026-03-31, of the application; never an input."""


class Odds(ManifestPart):
    """How the points of a model state the odds of the favourable class."""

    pdo: Annotated[float, Field(gt=0)] = 20.0
    """Points that double the odds."""
    base_points: float | None = None
    """Points at which the odds are `base_odds`."""
    base_odds: Annotated[float, Field(gt=0)] | None = None
    """Odds of the favourable class, such as 50 for 50 : 1; without them no probability is stated."""


class FuturesChoice(ManifestPart):
    """Future models: models that the lender might have after the next training."""

    source: Literal["auto", "retrained", "stand_in", "none"] = "auto"
    """`retrained` by the recipe of the model's format, or `stand_in`: of another family; `auto` takes the first that is
    possible. `none`: future models are made on request only."""
    records: Drawn = "fresh"
    """`fresh`: bootstraps of half the reference records, which vary like a training on as many new records; `same`:
    bootstraps of full size, which vary like a training on the same records."""
    search: Annotated[int, Field(ge=2, le=1_000)] = 60
    """Number of models that take part in searches."""
    held_back: Annotated[int, Field(ge=2, le=1_000)] = 60
    """Number of models that take part in no search and measure the validity of answers."""
    stress: Literal["auto", "none"] | tuple[Stress, ...] = "auto"
    """Directions in which applicants may change, each rehearsed in three strengths. `auto`: weaker and stronger
    applicants by the model's own score, fewer and more favourable outcomes, and fewer and more high values of the
    columns that matter most to the model. Twice as many models as without, at most."""
    stress_price: Annotated[float, Field(ge=0)] = 0.15
    """Share of its cost that an answer may cost more in order to withstand stress."""


def _default_threshold(data: dict[str, Any]) -> float:
    return 0.0 if data.get("output") in (Output.LOGIT, Output.MARGIN) else 0.5


class Manifest(ManifestPart):
    """One version of one model."""

    id: Annotated[str, StringConstraints(pattern=ID)]
    """Name of the model in paths and requests."""
    version: Annotated[str, StringConstraints(pattern=VERSION)]
    """Name of this version; versions are never overwritten."""
    title: Name
    """Name of the model for display."""
    titles: dict[Annotated[str, StringConstraints(min_length=2, max_length=35)], Name] = Field(default_factory=dict)
    """The title in other languages, by their tags, such as `de`."""
    description: Words | None = None
    """Its decision and training data, in words."""
    artifact: AnyArtifact
    input: Input
    """`encoded` points, or a table of `raw` records."""
    output: Output
    """`probability` or `logit` of the favourable class, a `margin` that is no logit, a `label`, or `points`."""
    better: Literal["higher", "lower"] = "higher"
    """Whether more points are better, or fewer."""
    odds: Odds = Odds()
    """What points say of the odds."""
    favourable: bool | int | str = 1
    """The favourable class, as the estimator names it. Linear models, networks and boosted trees have the classes 0
    and 1; a single output is that of class 1, so 0 inverts, for example, a probability of default."""
    threshold: float = Field(default_factory=_default_threshold)
    """Smallest favourable output, the largest where fewer points are better; 0.5, and 0 for a logit, when absent."""
    encoding: EncodingChoice = EncodingChoice()
    features: Annotated[tuple[Feature, ...], Field(min_length=1, max_length=5_000)]
    """The columns of the model, in its order."""
    reference: Name
    """CSV of raw records with the features' names in its header; other columns except `label` and that
    of `time` are ignored."""
    label: Name | None = None
    """Column of the reference records with the true outcome, 1 if favourable, else 0."""
    time: TimeChoice | None = None
    """The dates of the reference records: a rehearsal then also looks at what earlier promises would have come to."""
    refits: Annotated[int, Field(ge=2, le=10_000)] = 1_000
    """Number of refits of a linear model with a label at registration, each on a random half of the records."""
    futures: FuturesChoice = FuturesChoice()
    """The future models that are made after registration."""
    consumer_report: bool | tuple[Name, ...] = True
    """Whether its decisions use reports of the bureau that `RECOURSE_LENDER_BUREAU` names, or the features that come
    from them; letters then say so."""
    rules: Annotated[tuple[Words, ...], Field(max_length=1_000)] = ()
    """What holds in every answer, e.g. ``net <= gross`` or ``housing = owned => rent = 0``."""

    @property
    def name(self) -> str:
        """The name `id@version`."""
        return f"{self.id}@{self.version}"

    @property
    def file(self) -> Artifact:
        """The artifact of a model that is in a file; must not be used for a remote model, which has an endpoint."""
        assert isinstance(self.artifact, Artifact)
        return self.artifact

    @property
    def points(self) -> PointScale | None:
        """The scale that converts points to scores; None for a model whose output is not points."""
        if self.output is not Output.POINTS:
            return None
        pdo, odds, at = self.odds.pdo, self.odds.base_odds, self.odds.base_points
        signed = pdo if self.better == "higher" else -pdo
        if odds is None or at is None:
            return PointScale(threshold=self.threshold, pdo=signed)
        logit = math.log(odds) + (self.threshold - at) * math.log(2.0) / signed
        return PointScale(threshold=self.threshold, pdo=signed, offset=logit)

    @property
    def least_probability(self) -> float | None:
        """Smallest favourable probability that the model accepts; None for labels and for points without odds."""
        if self.output is Output.PROBABILITY:
            return self.threshold
        points = self.points
        offset = self.threshold if self.output is Output.LOGIT else None if points is None else points.offset
        return None if offset is None else 1.0 / (1.0 + math.exp(-offset))

    def parsed_rules(self) -> tuple[Rule, ...]:
        """The `rules` of the manifest, as conditions on raw rows. Raises `ValueError` for a rule with a fault."""
        parser = RuleParser(self.features)
        return tuple(parser.parse(rule) for rule in self.rules)
