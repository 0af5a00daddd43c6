"""A way of an answer as a letter states it: its steps, how many of them are enough, its time and days."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.letters import dates
from app.letters.facts import Facts
from app.letters.language import Language
from app.letters.notice import NoticeWay, Role
from app.questions.answers import Json
from app.questions.ways import changes_in_order
from app.recourse.actions.accepted_values import AcceptedValues
from app.recourse.actions.phrases import fill
from app.recourse.actions.sentences import change_text, title_text
from app.recourse.features import Feature, RawValue
from app.recourse.reasons import value_text

MOST_STEPS = 5
"""Steps of a way in a letter; nobody takes more at the same time."""

TIGHT = 0.8
"""Share of a letter's validity; a way that takes more has to be begun at once."""


def takes_of(one: Json) -> float:
    """Months that a way takes; answers of earlier releases lack them."""
    return float(one.get("takes_months", 0.0))


def states_value(facts: Facts, one: Json) -> bool:
    """Whether the applicant states a value on this way; probability and promise are those of a single one."""
    return any(facts.applicant[change["feature"]] is None for change in one["changes"])


def steps_of(one: Json) -> list[str]:
    """Names of the features that the applicant changes on this way, in order; a value to state comes first."""
    own = [change for change in changes_in_order(one) if not change.get("by_time")]
    return [change["feature"] for change in sorted(own, key=lambda change: change["from"] is not None)]


def enough_of(one: Json) -> int | None:
    """After how many steps today's model says yes; None where it takes all of them, or was not asked.

    None also where a value is to be stated. That is no margin: the model may refuse what is stated.
    """
    steps = one.get("steps") or []
    first = next((k for k, step in enumerate(steps, start=1) if step["favourable"]), len(steps))
    return first if first < len(steps) and all(change["from"] is not None for change in one["changes"]) else None


def time_of_first(facts: Facts, one: Json, steps: Sequence[str]) -> float:
    """Months that some steps of a way take."""
    times = [change.get("takes_months", 0.0) for change in one["changes"] if change["feature"] in steps]
    return float((sum if (facts.question.get("timing") or {}).get("sequential") else max)(times or [0.0]))


def aged(facts: Facts, one: Json) -> list[Feature]:
    """What time has changed in the accepted record."""
    moving = (feature for feature in facts.features if feature.moves_with_time)
    return [feature for feature in moving if one["applicant"][feature.name] != facts.applicant[feature.name]]


def distinct(facts: Facts, found: Iterable[Json]) -> list[Json]:
    """Of ways with the same steps that are enough, the first: they differ in their margin only, or in their days."""
    some = dict[object, Json]()
    for one in found:
        steps = sorted(steps_of(one)[: enough_of(one)])
        days = None if lasts(facts, one) else takes_of(one)
        some.setdefault((days, *((name, one["applicant"][name]) for name in steps)), one)
    return list(some.values())


def lasts(facts: Facts, one: Json) -> bool:
    """Whether time changes no yes of a way or of an offer; answers of earlier releases do not say it."""
    return bool(one.get("lasts")) or all(feature.moves_with_time is None for feature in facts.features)


def without_margin(facts: Facts, found: Sequence[Json]) -> Iterator[Json]:
    """The ways that are too long for a letter, each with the steps alone that are enough for today's model.

    Left out are ways of which these are too many, or a yes that time may end.
    """
    for one in found:
        steps = steps_of(one)[: enough_of(one) or MOST_STEPS + 1]
        if len(steps) > MOST_STEPS or not lasts(facts, one):
            continue
        margin = {*steps_of(one)[len(steps) :]}
        yield one | {
            "changes": [change for change in one["changes"] if change["feature"] not in margin],
            "steps": one["steps"][: len(steps)],
            "applicant": {
                name: facts.applicant[name] if name in margin else value for name, value in one["applicant"].items()
            },
            "takes_months": time_of_first(facts, one, steps),
            "validity": {"current": one["steps"][len(steps) - 1], "future": None},
        }


def unstated(
    facts: Facts, record: Mapping[str, RawValue], features: Mapping[str, Feature], steps: Sequence[str] = ()
) -> Iterator[str]:
    """Titles of what a record lacks, and the applicant may state without its being one of the `steps`."""
    for name, feature in features.items():
        own = feature.derived is None and name not in facts.reported and not feature.protected
        if own and name not in steps and record.get(name, 0.0) is None:
            yield title_text(feature)


def lines(
    names: Iterable[str], record: Mapping[str, RawValue], features: Mapping[str, Feature], language: Language
) -> Iterator[str]:
    """What a record says of some features, a line each."""
    for name in names:
        feature = features[name]
        said = language.phrases.missing if record[name] is None else language.phrases.level
        text = value_text(feature, feature.parse(record[name]), language.phrases)
        yield fill(said, {"name": title_text(feature), "Name": title_text(feature), "to": text})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """How the letter about `facts` states ways."""

    facts: Facts
    in_time: Facts
    """As if time did not change the application, where no yes depends on it."""
    features: Mapping[str, Feature]
    """By name, in the letter's language."""
    language: Language
    valid_months: float
    valid_until: str
    """The letter's last day."""
    timed: bool
    """Whether time changes a yes."""
    digits: int
    """Of ratings."""

    def way(self, one: Json, number: int, promise: Sequence[str]) -> NoticeWay:
        """A way of the answer; `promise` is what is promised of it alone."""
        facts, features, language = self.facts, self.features, self.language
        if takes_of(one) <= self.valid_months:
            facts = self.in_time
        # Answers of earlier releases lack some of these.
        current = one["validity"]["current"]
        months, points = takes_of(one), current.get("points")
        accepted = {c["feature"]: _accepted(c["accepted"]) for c in one["changes"] if c.get("accepted")}
        known, older, steps = not states_value(facts, one), aged(facts, one), steps_of(one)
        moving = [
            other.name for other in facts.features
            if not other.protected and other.name not in steps
            and (other in older or dates.moves(other, self.valid_months))
        ]  # fmt: skip
        dated = months > 0.0 and (self.timed or bool(older))
        time, until = dates.span(facts.answer, months, self.valid_months, language, dated=dated)
        day, late = language.date_text(until), until > self.valid_until if dated else months > self.valid_months
        last = None
        if dated and not late:
            last = dates.unchanged_until(facts.answer, months, facts.features, self.valid_until)
        # Whose feature is protected is not named; in time, no birthday is counted.
        birthday = late and any(dates.by_years(other) and other.protected for other in older)
        enough = enough_of(one)
        first = time_of_first(facts, one, steps[:enough])
        if dates.days_said(first) > dates.days_said(months):  # nine weeks are more than the two months of all steps
            first = months
        enough_time = dates.span(facts.answer, first, self.valid_months, language, dated=dated)[0]
        return NoticeWay(
            number=number,
            steps=tuple(
                change_text(
                    features[name], features[name].parse(facts.applicant[name]),
                    features[name].parse(one["applicant"][name]), language.phrases, accepted=accepted.get(name),
                )
                for name in steps
            ),
            roles=tuple(_roles(one, len(steps), enough)),
            time=None if months <= 0.0
            else fill(language.takes_to if dated else language.takes, {"time": time, "date": day}),
            late=late,
            tight=TIGHT * self.valid_months < months and not late,
            day=day if dated else None,
            last=language.date_text(max(until, last or until)) if dated and not late else None,
            counted=(*([language.own_age] if birthday else ()), *lines(moving, one["applicant"], features, language))
            if dated else (),
            unstated=tuple(unstated(facts, one["applicant"], features, steps)),
            birthday=not steps and bool(older) and all(map(dates.by_years, older)),
            enough=enough,
            enough_time=None if enough is None or first <= 0.0 else fill(language.takes, {"time": enough_time}),
            rating=None
            if current["probability"] is None or points is not None or not known
            else language.rating_text(current["probability"], self.digits),
            points=None if points is None or facts.scale is None or not known
            else language.points_text(points, facts.scale.threshold),
            promise=" ".join(promise) or None,
        )  # fmt: skip


def _roles(one: Json, steps: int, enough: int | None) -> Iterator[Role]:
    """Of each step, what it is for, by the model's scores before and after it."""
    for k in range(steps):
        if enough is None or k < enough:
            yield "needed"
            continue
        before, after = one["steps"][k - 1].get("score"), one["steps"][k].get("score")  # keys may not read them
        raised = None in (before, after) or after > before
        yield "margin" if raised else "flat" if after == before else "lower"


def _accepted(found: Json) -> AcceptedValues:
    levels = found["levels"]
    return AcceptedValues(min=found["min"], max=found["max"], levels=None if levels is None else tuple(levels))
