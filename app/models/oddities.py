"""What looks odd in a tried model's answers, and the line of the manifest that mends it."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from app.questions.answers import Json
from app.recourse.features import Change, Feature, FeatureType, Takes
from app.recourse.problem import Reference
from app.recourse.reasons import Departure, is_unadvised
from app.registry.drafting.hints import hint_of, months_per_unit

MOST_CHANGES = 4
"""Changes of one answer beyond which few people carry it out."""

USUAL = (0.05, 0.95)
"""Quantiles of the records between which a value is usual."""

LARGE = 0.25
"""Share of the usual range beyond which a change takes time."""

TENDENCY = 0.2
"""Standard deviations between the means of both outcomes from which on the records have a direction."""

DOMINANT = 0.7
"""Share of the squared distances between records beyond which one feature decides who is near."""

NAMED = 8
"""Features that a sentence lists."""

FOLLOWS = 0.95
"""Share of a number's variance in the records that other features determine, from which on it hardly stays alone."""

NEEDED = 0.02
"""Share of the variance that is left open without a feature from which a number follows."""

LEAST_RECORDS = 10
"""Records for each column that such a share is estimated from."""

LEAP = 4
"""Levels; a rise by so many at once is rare."""

AGE_LAW = (
    ". In the United States age may count only in a statistically sound scoring system, and never against people of 62 "
    "or more (12 CFR 1002.6(b)(2))"
)

ALIKE = 3
"""Fewest answers of which something can be said together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One refused reference record for which changes were asked, and the answer."""

    record: int
    """Line of the reference, counted from 0 without its header."""
    before: Json
    """The model's decision on it."""
    after: Json | None
    """The model's decision after the changes; None where nothing was found."""
    changes: tuple[tuple[str, str], ...]
    """Feature and sentence of each change; empty where nothing was found."""
    detail: str
    """Why nothing was found; empty where something was."""
    moved: Mapping[str, tuple[float, float]]
    """Raw values of each feature that changes, before and after."""
    elapsed_s: float
    takes_months: float = 0.0
    """How long the changes take."""
    longer: bool = False
    """Whether nothing was found but an answer that takes longer than one is valid."""
    reasons: tuple[tuple[str, str | None], ...] = ()
    """Feature and direction (`too_high`, `too_low`) of each reason for the refusal."""


def oddities(
    reference: Reference, asked: Sequence[Asked], labels: Bool[np.ndarray, "n"] | None = None
) -> Iterator[str]:
    """A sentence for each finding that looks odd in the answers for refused reference records.

    Parameters
    ----------
    asked : the refused records and their answers
    labels : (n,), whether each reference record had the favourable outcome; None where that is not known
    """
    if not asked:
        yield "No reference record is rejected, so there was nothing to ask about"
    found = [one for one in asked if one.changes]
    if 2 * len(found) < len(asked):
        many = f"{len(asked) - len(found)} of {len(asked)} records" if found else "any record"
        yield (
            f"Nothing was found for {many}: do change, advice, takes and protected leave enough that people can do?"
            + _kept(reference)
        )
    if longer := sum(one.longer for one in asked):
        yield (
            f"For {longer} of {len(asked)} records only an answer was found that takes longer than one is valid: "
            "horizon_months of a request, or RECOURSE_VALID_DAYS, gives people that time"
        )
    yield from _lever(found)
    yield from _many(found)
    for feature, column in _columns(reference):
        moves = [one.moved[feature.name] for one in found if feature.name in one.moved]
        if not moves:
            continue
        yield from _named(feature, moves, len(found))
        yield from _leaps(feature, moves, len(found))
        if feature.is_number and column.size:
            yield from _sizes(feature, moves, column, len(found))
            if labels is not None:
                yield from _against(feature, moves, reference, labels, len(found))
    yield from _left_behind(reference, found)
    yield from _reasons(reference, asked)
    yield from _dominant(reference)


FIXED: Mapping[str, Mapping[str, object]] = {"protected: true": {"protected": True}, "change: none": {"change": "none"}}
"""Lines of a manifest with which no answer changes a feature, and what a hint has then."""

Moves = Sequence[tuple[float, float]]
"""Raw values before and after."""


def _lever(found: Sequence[Asked]) -> Iterator[str]:
    """What every answer changes."""
    needed = [set(one.moved) for one in found]
    common = set.intersection(*needed) if len(needed) >= ALIKE else set()
    if common:
        most = Counter(name for names in needed for name in names)
        alone = "only " if all(len(names) == 1 for names in needed) else ""
        names = " and ".join(sorted(common, key=lambda name: -most[name]))
        yield (
            f"Every answer changes {alone}{names}: can people do that? A limit (advice, max_change), a higher cost or "
            "change: none would show other ways"
        )


def _many(found: Sequence[Asked]) -> Iterator[str]:
    """Answers with many changes."""
    if long := sum(len(one.moved) > MOST_CHANGES for one in found):
        yield (
            f"In {long} of {len(found)} answers more than {MOST_CHANGES} features change: change: none for those that "
            "matter least to people, or a higher cost, leaves fewer"
        )


def _named(feature: Feature, moves: Moves, answers: int) -> Iterator[str]:
    """Changes of a feature that by its name cannot be changed."""
    hint = hint_of(feature.name, feature.type.value)
    if hint is None:
        return
    line = next((line for line, said in FIXED.items() if hint.keys.items() >= said.items()), None)
    if line is not None:
        often = f"In {len(moves)} of {answers} answers"
        yield f"{often} {feature.name} changes, which by its name is impossible: {line} says so"


def _leaps(feature: Feature, moves: Moves, answers: int) -> Iterator[str]:
    """Rises of ordered levels at once."""
    if feature.type is not FeatureType.ORDINAL or feature.takes != Takes():
        return
    if leaps := sum(abs(after - before) >= LEAP for before, after in moves):
        yield (
            f"In {leaps} of {answers} answers {feature.name} moves by {LEAP} levels or more at once: "
            "takes: {months_per_level: …} says how long that takes"
        )


def _sizes(feature: Feature, moves: Moves, column: Float[np.ndarray, "m"], answers: int) -> Iterator[str]:
    """Changes to where few people are, and large ones that take no time."""
    low, high = (float(q) for q in np.quantile(column, USUAL))
    if rare := sum((after < low and after < before) or (after > high and after > before) for before, after in moves):
        yield (
            f"In {rare} of {answers} answers {feature.name} moves to where fewer than 5% of the records are: "
            f"advice: {{min: {low:.6g}, max: {high:.6g}}} or max_change keeps it where people are"
        )
    hint = hint_of(feature.name, feature.type.value)
    if feature.takes != Takes() or (hint is not None and not hint.pace):
        return  # an amount that is asked for changes at once
    if large := sum(abs(after - before) > LARGE * (high - low) > 0.0 for before, after in moves):
        yield (
            f"In {large} of {answers} answers {feature.name} moves far in 0 months: "
            f"takes: {{months_per_unit: {months_per_unit(low, high):g}}} allows a year from {low:.6g} to {high:.6g}"
        )


def _against(
    feature: Feature, moves: Moves, reference: Reference, labels: Bool[np.ndarray, "n"], answers: int
) -> Iterator[str]:
    """Changes towards the people with the unfavourable outcome."""
    position = reference.space.names.index(feature.name)
    values, known = reference.rows_raw[:, position], ~reference.space.in_state(reference.rows_raw)[:, position]
    good, bad, spread = values[known & labels], values[known & ~labels], float(values[known].std())
    if not (good.size and bad.size and spread):
        return
    tendency = (float(good.mean()) - float(bad.mean())) / spread
    if abs(tendency) < TENDENCY:
        return
    if against := sum((after - before) * tendency < 0.0 for before, after in moves):
        more, direction = ("more", "increase") if tendency > 0.0 else ("less", "decrease")
        yield (
            f"In {against} of {answers} answers {feature.name} moves away from the records with the favourable "
            f"outcome, which have {more} of it: change: {direction}, or ask why the model differs from the records"
        )


def _left_behind(reference: Reference, found: Sequence[Asked]) -> Iterator[str]:
    """Numbers that stay while features change from which they follow in the records, as an instalment from a term."""
    space = reference.space
    moved = [k for k, feature in enumerate(space.features) if any(feature.name in one.moved for one in found)]
    staying: dict[tuple[str, ...], dict[str, float]] = {}
    """By the features that change: the numbers that stay, with the share of their variance that is left open."""
    for j, other in enumerate(space.features):
        if not moved or not other.is_number or not other.is_fixed or other.moves_with_time is not None:
            continue
        open_share = _open_share(reference, j, None)
        if open_share <= 1.0 - FOLLOWS:
            changing = tuple(space.names[k] for k in moved if _open_share(reference, j, k) > open_share + NEEDED)
            staying.setdefault(changing, {})[other.name] = open_share
    for changing, others in staying.items():
        if answers := sum(not one.moved.keys().isdisjoint(changing) for one in found):
            follow, stay = ("follows", "stays") if len(others) == 1 else ("follow", "stay")
            left, causes = " and ".join(others), " and ".join(changing)
            yield (
                f"In {answers} of {len(found)} answers {' or '.join(changing)} changes and {left} {stay}, though in "
                f"the records {left} {follow} from {causes} and others, within {max(0.001, *others.values()):.1%} of "
                f"the variance: derived, a formula for one of them, or change: none for {causes} keeps an answer to "
                "records that exist"
            )


def _open_share(reference: Reference, number: int, left_out: int | None) -> float:
    """Share of the variance of a number that no linear model of the other features determines, in raw units or logs.

    `left_out` is a feature that the model does without. 1 where there are too few records to tell.
    """
    space = reference.space
    rows = reference.rows_raw[~space.in_state(reference.rows_raw)[:, number]]
    points, y = space.encode(rows), rows[:, number]
    used = ~np.isin(space.feature_of_column, [number] if left_out is None else [number, left_out])
    if len(y) < LEAST_RECORDS * space.d or not y.std():
        return 1.0
    numbers = [int(k) for k in space.numeric if used[space.spans[k].start]]
    forms = [(y, points[:, used])]
    if (y > 0.0).all():
        positive = rows[:, numbers][:, (rows[:, numbers] > 0.0).all(axis=0)]
        forms.append((np.log(y), np.hstack([points[:, used], np.log(positive)])))
    return min(_residual(target, columns) for target, columns in forms)


def _residual(y: Float[np.ndarray, "n"], columns: Float[np.ndarray, "n k"]) -> float:
    """The residual variance of a least-squares fit with an intercept, as a share of the variance of `y`."""
    centred, target = columns - columns.mean(axis=0), y - y.mean()
    weights = np.linalg.lstsq(centred, target, rcond=None)[0]
    return float(np.square(target - centred @ weights).sum() / np.square(target).sum())


def _reasons(reference: Reference, asked: Sequence[Asked]) -> Iterator[str]:
    """Reasons against the direction that the manifest states, and those that a person should not read."""
    refused = sum(bool(one.reasons) for one in asked)
    for feature in reference.space.schema:
        said = [direction for one in asked for name, direction in one.reasons if name == feature.name]
        for way in Departure:
            if (many := said.count(way.value)) and is_unadvised(feature, way):
                higher, more = ("higher", "more") if way is Departure.TOO_HIGH else ("lower", "less")
                yield (
                    f"In {many} of {refused} refusals {feature.name} lowered the score for being {higher} than usual, "
                    f"though the manifest says that {more} is better: ask why the model differs, or mend change or"
                    f" reason"
                )
        hint = hint_of(feature.name, feature.type.value)
        if said and hint is not None and ("reason" in hint.keys or hint.keys.get("protected")):
            line = "protected: true" if hint.keys.get("protected") else "reason: {named: false}"
            law = AGE_LAW if hint == hint_of("age", "integer") else ""
            yield (
                f"In {len(said)} of {refused} refusals {feature.name} is named as a reason, which is a private matter "
                f"by its name: {line} keeps it out of reasons, except in letters of the regime us, which name every "
                f"principal reason or are refused{law}"
            )


def _columns(reference: Reference) -> Iterator[tuple[Feature, Float[np.ndarray, "m"]]]:
    """Each feature with its known values."""
    states = reference.space.in_state(reference.rows_raw)
    for position, feature in enumerate(reference.space.features):
        yield feature, reference.rows_raw[~states[:, position], position]


def _kept(reference: Reference) -> str:
    """The features that advice leaves alone and that are not protected, as a further sentence."""
    kept = [f.name for f in reference.space.features if f.change is Change.NONE and not f.protected]
    more = f" and {len(kept) - NAMED} more" if len(kept) > NAMED else ""
    return f" Fixed by change: none are {', '.join(kept[:NAMED])}{more}" if kept else ""


def _dominant(reference: Reference) -> Iterator[str]:
    """A feature that decides alone which records are near each other."""
    space = reference.space
    variance = np.var(reference.X, axis=0)
    total = float(variance.sum())
    if space.p < ALIKE or not total or not math.isfinite(total):
        return
    for j, name in enumerate(space.names):
        share = float(variance[space.feature_of_column == j].sum()) / total
        if share > DOMINANT:
            yield (
                f"Distances are {share:.0%} those of {name}: a few very large values of it outweigh all else. A larger "
                "spread of it, or the logarithm as a feature, would change that"
            )
