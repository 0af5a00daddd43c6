"""What a report says: who has recourse, what it takes, what stands in the way, and for whom it is harder."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.portfolio.chosen_ways import CommonWay
from app.portfolio.shares import Interval
from app.questions.answers import ModelVersion
from app.recourse.answer_part import EXACT, AnswerPart


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRecords(AnswerPart):
    """Numbers of records by decision."""

    scored: int
    """The model gave a decision."""
    accepted: int
    """The model accepts them."""
    refused: int
    """The model refuses them; everything below is about these."""
    unscored: int
    """It gave none: the record does not fit the schema, or the model failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles(AnswerPart):
    """Quantiles over people."""

    p10: float
    """A tenth have at most this."""
    p25: float
    """A quarter."""
    p50: float
    """The median."""
    p75: float
    """Three quarters."""
    p90: float
    """Nine tenths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRecourse(AnswerPart):
    """Who of the refused has a change that the model accepts, and what it takes."""

    found: int
    """People with such a change."""
    share: float | None
    """Null where nobody is refused."""
    interval: Interval | None
    """95 %, Wilson."""
    cost: Quantiles | None
    """Of those found, in spreads weighted by the lender's costs."""
    changes: Mapping[str, int]
    """People by how many features they change."""
    months: Quantiles | None
    """Of those found, how long the changes take."""
    future_validity: Quantiles | None
    """Share of held-back future models that accept each answer; null without them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proven(AnswerPart):
    """People for whom it is proven that no legal record is accepted."""

    enumerated: int
    """Every legal record was asked about."""
    optimised: int
    """The largest score within reach is too small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedPreclusion(AnswerPart):
    """People without recourse, by what is proven."""

    proven: Proven
    missed_by_search: int
    """The search found nothing, the proof a record; they count as found."""
    open: int
    """The search found nothing, and there is no proof."""
    accepted_share_at_most: float | None
    """95 % bound on the accepted share of legal records, the largest of those open; null without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WouldHelp(AnswerPart):
    """How many people have a way if a limit gives."""

    by: float
    """By how much the limit gives."""
    people: int
    """People without recourse who have a way then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInTheWay(AnswerPart):
    """A limit whose removal alone gives people a way to a yes."""

    limit: str
    """As in `constraints`; `change` and `advice` are the manifest's."""
    feature: str | None
    """Null for time."""
    lender_set: bool
    """Whether the manifest sets it, and not the request."""
    blocks: int
    """People without recourse who have a way without it."""
    would_help: tuple[WouldHelp, ...]
    """How many have one where it only gives; empty for levels."""
    unit: str | None
    """Of `by`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever(AnswerPart):
    """A feature that answers change."""

    feature: str
    """Its name."""
    used: float
    """Share of the answers that change it."""
    only: int | None
    """For how many no way without it is found, of those with at most two changes; null of a remote model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harder(AnswerPart):
    """Whether recourse is harder for members of a group, by one measure."""

    measure: str
    """`none` (no way at all), `cost`, `changes` or `months`; none where there is no way counts as the most."""
    value: float
    """Chance that a member has it harder than somebody else; 0.5 is alike."""
    interval: Interval
    """95 %, Brunner and Munzel."""
    p: float
    """Adjusted for all groups and measures of the table, by permutation."""
    value_at_equal_score: float | None
    """`value` among people of the same tenth of the model's score."""
    p_at_equal_score: float
    """Of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow(AnswerPart):
    """The refused people of a group."""

    group: str
    """Its name."""
    refused: int
    """Its members who are refused."""
    share: float
    """Of them with recourse."""
    interval: Interval
    """95 %, Wilson."""
    within_budget: float
    """Share whose way costs at most the budget."""
    within_budget_interval: Interval
    """95 %, Wilson."""
    median_cost: float | None
    """Over all of them; null where half have no way."""
    median_cost_interval: tuple[float | None, float | None]
    """95 %, by order statistics; null where an end is beyond all who have a way."""
    harder: tuple[Harder, ...]
    """By each measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTable(AnswerPart):
    """People compared by one characteristic."""

    by: str
    """A feature, or a column of the records."""
    budget: float | None
    """Cost, as asked, or the median of those found."""
    tests: int
    """Groups times measures that the p values are adjusted for."""
    permutations: int
    """Behind each p value."""
    suppressed: tuple[str, ...]
    """Groups that are too small to be shown, and one more where subtraction would give a single one."""
    rows: tuple[GroupRow, ...]
    """The groups that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSource(AnswerPart):
    """Which records the report is about."""

    kind: str
    """`reference` (of the registration), `records` (of the request) or `ledger`."""
    records: int
    """How many there are."""
    erased: int | None = None
    """Of the ledger: questions of the period whose records were erased."""
    repeated: int | None = None
    """Of the ledger: earlier questions with the reference of a later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer(AnswerPart):
    """Recourse of everybody whom a version refuses."""

    model: ModelVersion
    """The version that was asked."""
    source: ReportSource
    """Whom it was asked about."""
    seed: int = field(metadata=EXACT)
    """Of the first record; each record adds 1."""
    records: ReportRecords
    """Its decisions."""
    recourse: ReportedRecourse
    """Who has a way, and what it takes."""
    preclusion: ReportedPreclusion
    """Who has none."""
    limits: tuple[LimitInTheWay, ...] | None
    """Those that block most people first; null where left out, and of a remote model."""
    levers: tuple[Lever, ...] | None
    """Those that most answers use first; null likewise."""
    groups: tuple[GroupTable, ...]
    """A table for each characteristic that was asked for."""
    common_ways: tuple[CommonWay, ...] | None
    """Those first that help most; null likewise, and where too few reference records are refused."""
    terms_alone: float | None
    """Share of the refused who are accepted with other terms of the lender alone; null where no terms are better one
    way."""
    contestable: int | None
    """Refused records that at least half of the held-back future models accept; null without them."""
    labels: Mapping[str, str]
    """What people call the features of the model."""
    warnings: tuple[str, ...]
    """What to know besides."""
