"""One language of the letter: its phrases, dates and numbers, in a file ``{tag}.yaml``."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated

from annotated_types import Len

from app.recourse.actions.phrases import ENGLISH, Phrases, fill
from app.recourse.input_part import InputPart
from app.recourse.promise import ENGLISH as ENGLISH_PROMISES
from app.recourse.promise import PromisePhrases
from app.recourse.shares import half_up, in_percent, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Language(InputPart):
    """The words and phrases of one language that stand in letters; a letter's other texts are in its template."""

    tag: str
    """As in ``lang=``, such as `de`."""
    month_names: Annotated[tuple[str, ...], Len(12, 12)]
    date: str
    """With ``{day}``, ``{month}`` and ``{year}``."""
    accepted: str
    """Whom the applicant is compared with: ``{n}`` people who were just accepted."""
    everyone: str
    """The same, with all ``{n}`` people."""
    takes: str
    """How long a way takes, with ``{time}``."""
    takes_to: str = "{time}, to {date}"
    """The same where that time is counted, with the day on which it ends."""
    percent: str
    """A share, with ``{n}``."""
    applied: str = "{to} (in your application: {from})"
    """A term that is offered, and what was applied for."""
    unchanged: str = "{to} (as in your application)"
    """A term that stays as it was applied for."""
    depends: str = (
        "The yes holds for every value that a step allows, and otherwise for the values named only. How the model "
        "then rates your application depends on that value; that a new version accepts it is not promised for any."
    )
    """Of a way on which the applicant states a value."""
    at_once: str = "more than {n} changes at once"
    """Changes that the request ruled out."""
    two_at_once: str = "more than one change at once"
    """The same where it allows one."""
    takes_longer: str = "changes that take more than {time}"
    """What a request with a shorter time than the letter's rules out."""
    partly: str = "some values of “{name}”"
    """A feature of which it ruled some values out."""
    own_age: str = "your age then"
    """Of a day for which birthdays are counted."""
    below: str = "< {to}"
    """A share that is smaller than the smallest that can be written, ``{to}``."""
    above: str = "> {to}"
    """The same of one that is nearly everything."""
    phrases: Phrases = field(default=ENGLISH)
    """The phrases of sentences about features."""
    promise: PromisePhrases = field(default=ENGLISH_PROMISES)
    """The sentences about the models that may follow."""

    def date_text(self, moment: str) -> str:
        """The date of a time in ISO 8601, written in this language, such as "31 March 2030"."""
        day = datetime.fromisoformat(moment)
        words = {"day": str(day.day), "month": self.month_names[day.month - 1], "year": str(day.year)}
        return fill(self.date, words)

    def count_text(self, number: int) -> str:
        """A whole number, with its digits grouped as is usual in this language."""
        return f"{number:,}".replace(",", self.phrases.group)

    def points_text(self, points: float, threshold: float) -> str:
        """Points as text, with as many decimals as the threshold has.

        There are more decimals if rounding would move the points to the other side of the threshold, or onto it.
        """
        exact, least = Decimal(repr(points)), Decimal(repr(threshold)).normalize()
        digits = max(0, -int(least.as_tuple().exponent))
        shown = half_up(exact, digits)
        while shown != exact and (shown == least or (shown < least) != (exact < least)):
            digits += 1
            shown = half_up(exact, digits)
        return f"{shown:,f}".translate({ord(","): self.phrases.group, ord("."): self.phrases.decimal})

    def percent_text(self, share: float, digits: int = 0) -> str:
        """A share from 0 to 1, in per cent; as `rating_text`, with the sign."""
        return self._of_100(share, digits, self.percent)

    def rating_text(self, share: float, digits: int = 0) -> str:
        """A share from 0 to 1 as a number from 0 to 100, rounded to `digits` decimals.

        Only the share 0 is written as 0, and only the share 1 as 100: others are written as more than 0 or less than
        100.
        """
        return self._of_100(share, digits, "{n}")

    def _of_100(self, share: float, digits: int, form: str) -> str:
        shown = percent(share, digits)
        text = fill(form, {"n": shown.replace(".", self.phrases.decimal)})
        off = in_percent(share, digits) - Decimal(shown)
        return fill(self.below if off < 0 else self.above, {"to": text}) if off else text
