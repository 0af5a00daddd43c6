"""The phrases of a language that sentences are put together from, and how it writes numbers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from app.recourse.input_part import InputPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrases(InputPart):
    """The sentences and words of one language, with ``{places}`` for what varies; English by default.

    ``{name}`` is the feature inside a sentence and ``{Name}`` at the beginning of one, ``{from}`` and ``{to}`` are
    values with their units, ``{time}`` is a number of months.
    """

    decimal: str = "."
    """Between a number and its fraction."""
    group: str = ","
    """Between groups of three digits."""
    quoted: str = '"{to}"'
    """Around the name of a level that is more than a word."""
    percent: str = "{to}%"
    is_true: str = "yes"
    is_false: str = "no"
    month: str = "{to} month"
    months: str = "{to} months"
    week: str = "{to} week"
    weeks: str = "{to} weeks"
    day: str = "{to} day"
    days: str = "{to} days"
    one_of: Mapping[str, str] = field(
        default_factory=lambda: {"years": "year", "months": "month", "weeks": "week", "days": "day", "hours": "hour"}
    )
    """Units of time, each with its form for one; of what they measure, no reason says that it is too high."""
    increase: str = "Increase the {name} from {from} to {to}."
    reduce: str = "Reduce the {name} from {from} to {to}."
    change: str = "Change the {name} from {from} to {to}."
    action: str = "{action} the {name} from {from} to {to}."
    """With the feature's own verb."""
    state: str = "State the {name}; this answer holds for {to}."
    """Where the value was missing, and the model was asked about no other."""
    state_least: str = "State the {name}; this way works if it is at least {from}."
    state_most: str = "State the {name}; this way works if it is at most {to}."
    state_between: str = "State the {name}; this way works if it is from {from} to {to}."
    state_only: str = "State the {name}; this way works only if it is {to}."
    state_any: str = "State the {name}; this way works with every value."
    state_level: str = "State the {name}; this way works if it is {to}."
    either: str = "{from} or {to}"
    """Of several levels, one is enough."""
    protected: str = "A protected attribute is different."
    by_time: str = "In {time} the {name} is {to}."
    """What time does by itself."""
    too_high: str = "{Name} too high"
    """A reason: the number, or level, is above that of the people it is compared with."""
    too_low: str = "{Name} too low"
    level: str = "{Name}: {to}"
    """A reason: a level without an order, or a special code."""
    missing: str = "{Name} not stated"
    """A reason: there is no value."""


ENGLISH = Phrases()


def fill(phrase: str, words: Mapping[str, str]) -> str:
    """The phrase with each ``{place}`` replaced by the word that `words` has for it; others stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda place: words.get(place[1], place[0]), phrase)
