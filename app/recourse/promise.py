"""The sentence of a promise: what future models say of a record, in words. No other file writes one.

The number that is said first is one that can be promised: the lower end of the interval, with its condition in the same
sentence. Where that is less than half, the sentence says to count on no more. Where later versions kept fewer promises
than were made, the share that they kept takes its place; where models of later dates kept fewer of earlier answers,
that share is said before it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.recourse.actions.phrases import fill
from app.recourse.input_part import InputPart
from app.recourse.models.committee import ROUNDING


@dataclass(frozen=True, slots=True, kw_only=True)
class PromisePhrases(InputPart):
    """The sentences of one language about future models, with places for words; by default English, to the lender.

    ``{n}`` is a number of models in 100, ``{models}`` the kind of models, of which ``{yes}`` of the ``{tried}``
    that were tried accept.
    """

    stay: str = "If applicants stay as they are, at least {n} in 100 {models} accept this."
    same: str = "If the model is trained again on the same records, at least {n} in 100 {models} accept this."
    """For future models that vary as models of today's records do."""
    few: str = "Even if applicants stay as they are, count on no more than {n} in 100 {models} to accept this."
    """Where fewer than half can be promised, and more than half may accept."""
    doubtful: str = few
    """The same where fewer than `LIKELY` are expected to accept."""
    minority: str = "Even if applicants stay as they are, do not count on {models} to accept this."
    """The same where fewer than half are expected to accept."""
    lowered: str = stay
    """In place of `stay` where less is promised than the share that was counted."""
    at_most: str = "Even if applicants stay as they are, most {models} refuse this: at most {n} in 100 accept it."
    """Where most models refuse."""
    unknown: str = "Even if applicants stay as they are, how many {models} accept this is not known."
    """Where nothing can be promised."""
    measured: str = (
        "Of answers like this one, the next model accepted {n} in 100; count on no more, even if applicants stay as "
        "they are."
    )
    """What later versions kept."""
    kept_before: str = (
        "Of {promises} answers like this one that could have been given earlier, {n} in 100 still held {months} months "
        "later."
    )
    """What models trained later kept of them."""
    ways: str = (
        "If applicants stay as they are, at least {n} in 100 {models} accept at least one of these {ways} ways, and at "
        "least {all} accept all of them."
    )
    ways_same: str = (
        "If the model is trained again on the same records, at least {n} in 100 {models} accept at least one of these "
        "{ways} ways, and at least {all} accept all of them."
    )
    holds: str = "If, bit by bit, {far}, most such models still accept this; other changes may break it."
    """``{far}`` is one of `far`: the change, at full strength, that fewest models of all its strengths withstand."""
    holds_partly: str = "If {change}, it may hold only up to a point."
    """``{change}`` is one of `change`, of which fewest models withstand the strongest."""
    holds_not: str = "If {change}, it may not hold."
    """The same where not even the mildest is withstood."""
    far: Mapping[str, str] = field(
        default_factory=lambda: {
            "weaker": "applicants get as weak as the weaker half of yours",
            "stronger": "applicants get as strong as the stronger half of yours",
            "fewer": "the odds of a good outcome halve",
            "more": "the odds of a good outcome double",
            "failed": "5 in 100 new records are of people who followed such advice and failed",
            "low": "applicants get like the half of yours with the lowest {column}",
            "high": "applicants get like the half of yours with the highest {column}",
            "unnamed": "applicants get like the half of yours that differs most in a feature that is not named",
        }
    )
    change: Mapping[str, str] = field(
        default_factory=lambda: {
            "weaker": "applicants get weaker",
            "stronger": "applicants get stronger",
            "fewer": "good outcomes get rarer",
            "more": "good outcomes get more frequent",
            "failed": "people who follow such advice fail",
            "low": "low values of {column} get more frequent",
            "high": "high values of {column} get more frequent",
            "unnamed": "applicants change in a feature that is not named",
        }
    )
    models: Mapping[str, str] = field(
        default_factory=lambda: {
            "retrained": "retrained models",
            "command": "retrained models",
            "supplied": "supplied models",
            "stand_in": "stand-in models",
        }
    )
    """By their source."""


ENGLISH = PromisePhrases()

SENT = 1e-5
"""By which a share that is sent is rounded, at most."""

LIKELY = 0.8
"""Expected share of future models from which on a yes of the next one is no matter of doubt."""

HALF = 50
"""Of 100 models: fewer than that are no promise."""

SPECIAL = {
    ("@score", "down"): "weaker", ("@score", "up"): "stronger", ("@label", "down"): "fewer", ("@label", "up"): "more",
    ("@answers", "down"): "failed",
}  # fmt: skip
"""Stresses that are not along a column."""


def promise_text(
    future: Mapping[str, Any], phrases: PromisePhrases = ENGLISH, labels: Mapping[str, str | None] | None = None
) -> str:
    """Sentences that say how many of 100 future models accept one record, and under which condition.

    Parameters
    ----------
    future : the object ``validity.future`` of an answer; fields that earlier releases lack may be absent
    labels : by column name, its label in the language of `phrases`; None for a column that no sentence may name
    """
    return " ".join(promise_sentences(future, phrases, labels or {}))


def promise_sentences(
    future: Mapping[str, Any], phrases: PromisePhrases, labels: Mapping[str, str | None]
) -> tuple[str, ...]:
    """The text of `promise_text` in its parts: what is promised, how far it holds, what was kept before."""
    said = [_first(future, phrases)]
    if not future.get("measured") and _least(future["interval"]) >= HALF:
        said.append(_how_far(future.get("stressed"), phrases, labels))
    if before := future.get("kept_before"):
        numbers = {"promises": before["promises"], "n": _floor(before["share"]), "months": before["months"]}
        # The smaller number is said first.
        at = 0 if not future.get("measured") and before["share"] < future["interval"][0] else len(said)
        said.insert(at, _filled(phrases.kept_before, numbers))
    return tuple(filter(None, said))


def ways_text(future: Mapping[str, Any], ways: int, phrases: PromisePhrases = ENGLISH) -> str:
    """A sentence that says how many of 100 future models accept at least one of several ways.

    A person needs only one of them.

    Parameters
    ----------
    future : the object ``plan.validity.future`` of an answer
    ways : number of ways
    """
    if ways == 1:
        return _first({**future, "interval": future["any_interval"], "probability": future["any"]}, phrases)
    least = _least(future["any_interval"])
    words = {"ways": ways, "n": least, "all": _least(future["all_interval"]), "models": _models(future, phrases)}
    if least == 0:
        return _filled(phrases.unknown, words)
    return _filled(phrases.ways_same if future["records"] == "same" else phrases.ways, words)


def states_share(future: Mapping[str, Any]) -> bool:
    """Whether the first sentence of a promise states an end of its interval."""
    least, most = _least(future["interval"]), _most(future["interval"])
    return not future.get("measured") and (least >= HALF or most < HALF)


def _first(future: Mapping[str, Any], phrases: PromisePhrases) -> str:
    if measured := future.get("measured"):
        return _filled(phrases.measured, {"n": _floor(measured["share"])})
    least, most = _least(future["interval"]), _most(future["interval"])
    yes, tried = round(future["probability"] * future["models"]), future["models"]
    words = {"n": least, "models": _models(future, phrases), "yes": yes, "tried": tried}
    if most < HALF:
        return _filled(phrases.at_most, words | {"n": most})
    if least < HALF and future["probability"] < HALF / 100:
        return _filled(phrases.minority, words)
    if least < HALF:
        few = phrases.few if future["probability"] >= LIKELY else phrases.doubtful
        return _filled(few if least else phrases.unknown, words)
    if abs(yes / tried - future["probability"]) > SENT:
        return _filled(phrases.lowered, words)
    return _filled(phrases.same if future.get("records") == "same" else phrases.stay, words)


def _how_far(stressed: Mapping[str, Any] | None, phrases: PromisePhrases, labels: Mapping[str, str | None]) -> str:
    """Up to which change of applicants it holds; how likely that is, is not known."""
    if stressed is None or "holds_up_to" not in stressed:  # earlier releases had one stress, and no strengths
        return ""
    column, direction, limit = stressed["column"], stressed["direction"], stressed["holds_up_to"]
    label = labels.get(column, column.replace("_", " "))
    kind = SPECIAL.get((column, direction), {"down": "low", "up": "high"}[direction] if label else "unnamed")
    words = {"column": label}
    if limit is not None and limit >= stressed["curve"][-1]["strength"]:
        return _filled(phrases.holds, {"far": _filled({**ENGLISH.far, **phrases.far}[kind], words)})
    change = _filled({**ENGLISH.change, **phrases.change}[kind], words)
    return _filled(phrases.holds_not if limit is None else phrases.holds_partly, {"change": change})


def _models(future: Mapping[str, Any], phrases: PromisePhrases) -> str:
    return {**ENGLISH.models, **phrases.models}.get(future["source"], future["source"])


def _least(interval: Sequence[float]) -> int:
    """The lower end as a number of 100, rounded down: what is said is never more than holds."""
    return _floor(interval[0])


def _most(interval: Sequence[float]) -> int:
    """The upper end as a number of 100, rounded up."""
    return math.ceil(100.0 * interval[1] - ROUNDING)


def _floor(share: float) -> int:
    return math.floor(100.0 * share + ROUNDING)


def _filled(phrase: str, words: Mapping[str, Any]) -> str:
    return fill(phrase, {key: str(value) for key, value in words.items()})
