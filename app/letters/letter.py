"""What a letter to an applicant says: `notice_of` makes it from a recorded answer, in words that people read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import takewhile

from app.letters import dates
from app.letters.facts import Facts, version_of
from app.letters.language import Language
from app.letters.notice import Lender, Notice
from app.letters.principal import compared_text, in_language, reasons_of, unnamed_share
from app.letters.ways import (
    MOST_STEPS,
    Ways,
    aged,
    distinct,
    enough_of,
    lasts,
    lines,
    states_value,
    steps_of,
    takes_of,
    unstated,
    without_margin,
)
from app.questions.answers import Json
from app.recourse.actions.phrases import fill
from app.recourse.actions.sentences import about_text, title_text
from app.recourse.features import Better, Feature, RawValue
from app.recourse.features.expression import parse_expression
from app.recourse.method_run import UNSEEN_WARNING
from app.recourse.promise import promise_sentences, states_share
from app.recourse.reasons import value_text
from app.recourse.shares import digits_apart
from app.recourse.solve import HORIZON

ALL_REASONS = ("us",)
"""Regimes whose letters leave out no principal reason: comment 9(b)(2)-4 of Regulation B."""


def notice_of(
    facts: Facts,
    language: Language,
    regime: str,
    lender: Lender,
    addressee: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    *,
    applied_on: date | None = None,
    offer_share: float | None = None,
) -> Notice:
    """The letter in `language` that states `facts`.

    Parameters
    ----------
    regime : name of the regime of the letter
    missing : names of the settings that a draft lacks
    applied_on : date of the application, where the letter states it
    offer_share : least share of what was asked for that the answer's offer has in a letter; None for a letter without
        offers
    """
    answer, factual = facts.answer, facts.answer["factual"]
    valid_months, valid_until = dates.validity(answer)
    features = {feature.name: in_language(feature, language) for feature in facts.features}
    whole = distinct(facts, (one for one in answer["counterfactuals"] if len(steps_of(one)) <= MOST_STEPS))
    found = whole or distinct(facts, without_margin(facts, answer["counterfactuals"]))
    lasting, in_time = _is_lasting(facts, found, valid_months), facts
    offer, offered = tuple[str, ...](), answer.get("offer")  # answers of earlier releases have none
    # Beside ways that last, a letter states no terms that do not.
    if offer_share is not None and offered is not None and (offered.get("lasts") or not lasting):
        offer = _offer(facts, offered, found, features, language, offer_share)
    if offered is not None and offer and all(takes_of(one) > valid_months for one in found):
        lasting = _is_lasting(facts, [offered], valid_months)
    if lasting:  # as if time did not change the application
        in_time = replace(facts, features=tuple(replace(one, moves_with_time=None) for one in facts.features))
    moving = [feature for feature in in_time.features if dates.moves(feature, valid_months)]
    timed, last = bool(moving), dates.unchanged_until(answer, 0.0, in_time.features, valid_until)
    digits = digits_apart(facts.threshold, _probabilities(answer["factual"], found))
    promises = [
        _promise(facts, one["validity"], features, language, states=states_value(facts, one), whole=bool(whole))
        for one in found
    ]
    # What is said first of all of them, and so the smallest number.
    same = takewhile(lambda said: len(set(said)) == 1, zip(*promises, strict=False))
    alike = [said[0] for said in same] if len(promises) > 1 else []
    stated = Ways(
        facts=facts, in_time=in_time, features=features, language=language, valid_months=valid_months,
        valid_until=valid_until, timed=timed, digits=digits,
    )  # fmt: skip
    ways = tuple(
        stated.way(one, number, said[len(alike) :])
        for number, (one, said) in enumerate(zip(found, promises, strict=True), start=1)
    )
    birthdays_counted = bool(ways) and all(
        way.late and any(map(dates.by_years, aged(facts, one))) for way, one in zip(ways, found, strict=True)
    )
    reasons = facts.reasons or {"reasons": (), "against": None}
    known, unknown = _by_knowledge(facts)
    ruled_out, relax = _left_out(facts.question, features, language), answer.get("relax")
    likely = ruled_out.get(relax["feature"] or relax["constraint"]) if relax and relax["sufficient"] else None
    horizon = (facts.question.get("timing") or {}).get("horizon_months")
    if horizon is not None and horizon < valid_months:
        ruled_out[HORIZON] = fill(language.takes_longer, {"time": about_text(horizon, language.phrases)})
    nearest = answer.get("nearest") or {}  # none where no change is allowed
    probability, points = factual and factual["probability"], factual and factual.get("points")
    accepts = None if facts.scale is None else language.points_text(facts.scale.threshold, facts.scale.threshold)
    fewer = facts.scale is not None and facts.scale.fewer
    return Notice(
        id=answer["id"],
        reference=answer["reference"],
        language=language.tag,
        regime=regime,
        date=language.date_text(answer["created_at"]),
        created_at=answer["created_at"],
        title=facts.titles.get(language.tag, facts.title),
        model=version_of(answer),
        lender=lender,
        addressee=addressee,
        applied_on=None if applied_on is None else language.date_text(applied_on.isoformat()),
        asked=tuple(lines([one.name for one in facts.features if one.terms], facts.applicant, features, language)),
        missing=missing,
        lasting=lasting,
        timed=timed,
        last=None if last is None else language.date_text(last),
        today=tuple(lines([one.name for one in moving if not one.protected], facts.applicant, features, language)),
        unstated=() if ways else tuple(unstated(facts, facts.applicant, features)),
        years=any(map(dates.by_years, in_time.features)) and (bool(offer) or not birthdays_counted),
        unseen=any(UNSEEN_WARNING in warning for warning in answer.get("warnings", ())),
        precluded=bool(nearest) and (answer.get("precluded") or {}).get("status") == "proven",
        accepts_some=bool(nearest.get("favourable")),
        limited=bool(ruled_out) or any(((facts.question.get("wishes") or {}).get("exclude") or {}).values()),
        left_out=tuple(ruled_out.values()),
        likely_enough=likely,
        longer=_longer(relax, language),
        reach_until=dates.reach_until(answer, facts.question, facts.features, language),
        refused=factual is not None and not factual["favourable"],
        accepted=factual is not None and factual["favourable"],
        rating=None if probability is None else language.rating_text(probability, digits),
        points=None if points is None or facts.scale is None else language.points_text(points, facts.scale.threshold),
        least_points=None if fewer or points is None else accepts,
        most_points=accepts if fewer and points is not None else None,
        least_rating=None if facts.threshold is None else language.rating_text(facts.threshold, digits),
        reasons=reasons_of(facts.features, reasons["reasons"], language, whole=regime in ALL_REASONS),
        compared_with=None if not reasons["reasons"] else compared_text(reasons["against"], language),
        unnamed=unnamed_share(reasons, language),
        reported=tuple(lines(known, facts.applicant, features, language)),
        unreported=tuple(title_text(features[name]) for name in unknown),
        ways=ways,
        offer=offer,
        offer_promise=" ".join(_promise(facts, answer["offer"], features, language)) or None if offer else None,
        long_left_out=bool(answer["counterfactuals"]) and not found,
        alike=" ".join(alike) or None,
        tried=_tried(facts, found, answer["offer"] if offer else {}),
        valid_until=language.date_text(valid_until),
    )


def _is_lasting(facts: Facts, said: Sequence[Json], valid_months: float) -> bool:
    """Whether time changes the application, but no yes among the ways and offers of a letter that end in time."""
    moving = any(one.moves_with_time for one in facts.features)
    yes = [one for one in said if takes_of(one) <= valid_months]
    return moving and bool(yes) and all(lasts(facts, one) for one in yes)


def _promise(
    facts: Facts,
    known: Json,
    features: Mapping[str, Feature],
    language: Language,
    *,
    states: bool = False,
    whole: bool = True,
) -> tuple[str, ...]:
    """What `known` says of future models, as sentences.

    There is one sentence where the applicant `states` a value, on which all depends, and where the way is stated
    without its margin, of which nothing is known.
    """
    future = known.get("future")  # answers of earlier releases have none
    if states:
        return (language.depends,)
    if not whole:
        return (language.promise.unknown,)
    labels = {
        one.name: features[one.name].title if one.reason.named and not one.protected else None for one in facts.features
    }
    return () if future is None else promise_sentences(future, language.promise, labels)


def _tried(facts: Facts, found: Sequence[Json], offer: Json) -> int | None:
    """Number of future models behind the intervals that promises state."""
    futures = [offer.get("future"), *(one["validity"].get("future") for one in found if not states_value(facts, one))]
    return next((future["models"] for future in futures if future and states_share(future)), None)


def _by_knowledge(facts: Facts) -> tuple[list[str], list[str]]:
    """Names of the reported features with a value, and of those for which the bureau had none."""
    reported = {one.name: one for one in facts.features if one.name in facts.reported}

    def unknown(name: str) -> bool:
        raw = facts.applicant[name]
        return raw is None or (reported[name].is_number and reported[name].parse(raw) in reported[name].special)

    return [name for name in facts.reported if not unknown(name)], [name for name in facts.reported if unknown(name)]


def _offer(
    facts: Facts,
    offer: Json,
    found: Sequence[Json],
    features: Mapping[str, Feature],
    language: Language,
    least: float,
) -> tuple[str, ...]:
    """Lines of the offer; none where it is too small, or one of the ways found has terms as good."""
    if any(_has_terms(one, offer, facts.applicant, features) for one in found):
        return ()
    for name, value in offer["terms"].items():
        feature = features[name]
        enough = least * feature.parse(facts.applicant[name])
        # A far shorter term has instalments that few can pay, whatever the manifest says of it.
        if feature.better is not Better.LESS and feature.is_number and feature.parse(value) < enough:
            return ()
    formulas = {one.name: one.derived for one in facts.features if isinstance(one.derived, str)}
    # What follows from terms alone, such as an instalment, is stated with them.
    follows = [
        name for name, formula in formulas.items() if {*parse_expression(formula).names} <= offer["terms"].keys()
    ]
    lines = []
    for name in (*offer["terms"], *follows):
        feature = features[name]
        new, asked = (value_text(feature, feature.parse(record[name]), language.phrases)
                      for record in (offer["applicant"], facts.applicant))  # fmt: skip
        said = fill(language.unchanged if new == asked else language.applied, {"to": new, "from": asked})
        lines.append(f"{title_text(feature)}: {said}")
    return tuple(lines)


def _has_terms(one: Json, offer: Json, applicant: Mapping[str, RawValue], features: Mapping[str, Feature]) -> bool:
    """Whether the steps of a way that are enough change terms only, and to terms as good as those of the offer."""
    steps = steps_of(one)[: enough_of(one)]
    if not steps or not {*steps} <= offer["terms"].keys():
        return False
    for name, offered in offer["terms"].items():
        feature, asked = features[name], applicant[name]
        better = {Better.MORE: 1.0, Better.LESS: -1.0}.get(feature.better) if feature.better else None
        own = one["applicant"][name] if name in steps else asked
        if own not in (offered, asked) and (better is None or better * (own - offered) < 0.0):
            return False
    return True


def _left_out(question: Json, features: Mapping[str, Feature], language: Language) -> dict[str, str]:
    """What the request rules out: changes of features, some values of others, and many changes at the same time."""
    asked, excluded = question.get("constraints") or {}, (question.get("wishes") or {}).get("exclude") or {}
    whole = (*(asked.get("immutable") or ()), *(excluded.get("features") or ()))
    some = [name for kind in ("direction", "bounds", "max_change", "least_change") for name in asked.get(kind) or ()]
    some += [change["feature"] for change in excluded.get("changes") or ()]
    said = {name: title_text(features[name]) for name in whole}
    said |= {name: fill(language.partly, {"name": title_text(features[name])}) for name in some if name not in said}
    if most := asked.get("max_changes"):
        said["max_changes"] = language.two_at_once if most == 1 else fill(language.at_once, {"n": str(most)})
    return said


def _longer(relax: Json | None, language: Language) -> str | None:
    if not relax or not relax["sufficient"] or relax["constraint"] != HORIZON:
        return None
    months = relax.get("takes_months")  # answers of earlier releases have none
    return about_text(months, language.phrases) if months else ""


def _probabilities(factual: Json | None, found: Sequence[Json]) -> list[float | None]:
    """Of the record, and after each way."""
    decisions = [factual, *(one["validity"]["current"] for one in found)]
    return [decision["probability"] for decision in decisions if decision is not None]
