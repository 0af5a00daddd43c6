"""Days and times in a letter: until when it is valid, how long a way takes, and what time changes until then."""

import math
from calendar import monthrange
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from app.letters.language import Language
from app.questions.answers import Json
from app.questions.frame import Frame
from app.recourse.actions.sentences import about_text, days_text, in_weeks
from app.recourse.actions.timing import DAYS_PER_MONTH, SLACK, time_step
from app.recourse.features import Feature, FeatureType, Takes


def reach_until(answer: Json, question: Json, features: Sequence[Feature], language: Language) -> str | None:
    """How long the applicant has for a change; none where none takes time."""
    if all(feature.takes == Takes() for feature in features):
        return None
    horizon = (question.get("timing") or {}).get("horizon_months")
    if horizon is None:
        return language.date_text(_last_day(datetime.fromisoformat(answer["expires_at"])))
    start = datetime.fromisoformat(answer["created_at"]).date()
    return language.date_text(_months_after(start, horizon).isoformat())


def _months_after(start: date, months: float) -> date:
    """The same day so many whole months of the calendar later, or the last day of a shorter month."""
    year, month = divmod(start.year * 12 + start.month - 1 + math.ceil(months - 1e-6), 12)
    return date(year, month + 1, min(start.day, monthrange(year, month + 1)[1]))


def validity(answer: Json) -> tuple[float, str]:
    """Months that a letter is valid, and its last whole day: no longer than the backtest of a way holds its promise."""
    months, until = Frame.from_json(answer).valid_months, datetime.fromisoformat(answer["expires_at"])
    for one in answer["counterfactuals"]:
        before = (one["validity"].get("future") or {}).get("kept_before")  # answers of earlier releases have none
        if before and before["holds_months"] is not None and before["holds_months"] < months:
            months = before["holds_months"]
            until = datetime.fromisoformat(answer["created_at"]) + timedelta(days=months * DAYS_PER_MONTH)
    return months, _last_day(until)


def _last_day(until: datetime) -> str:
    """The last day, in UTC, that has ended by then."""
    return (until.date() - timedelta(days=1)).isoformat()


def span(answer: Json, months: float, valid_months: float, language: Language, *, dated: bool) -> tuple[str, str]:
    """About how long a way takes, and the day on which that ends.

    Whole months are those of the calendar, which are longer than those that the search counts in. It is said in days
    where the day is named (`dated`) and ends no whole month, and where it is not and whole weeks or months would end
    after the letter within which the way ends.
    """
    start, days = datetime.fromisoformat(answer["created_at"]).date(), math.ceil(months * DAYS_PER_MONTH - 1e-6)
    end = _months_after(start, months)
    rounded = days_said(months) if in_weeks(months) else (end - start).days
    ends_late = months <= valid_months and rounded > valid_months * DAYS_PER_MONTH
    if (dated and months % 1.0) or (not dated and ends_late):
        return days_text(days, language.phrases), (start + timedelta(days=days)).isoformat()
    return about_text(months, language.phrases), end.isoformat()


def days_said(months: float) -> float:
    """Days in the whole weeks or months in which `about_text` says how long something takes."""
    in_days = months * DAYS_PER_MONTH
    return 7.0 * math.ceil(in_days / 7.0 - 1e-6) if in_weeks(months) else DAYS_PER_MONTH * math.ceil(months - 1e-6)


def unchanged_until(answer: Json, months: float, features: Sequence[Feature], valid_until: str) -> str | None:
    """The last day, up to `valid_until`, on which time has changed the application as within `months`, and no more.

    None where time changes it from one day to the next.
    """
    start, last = datetime.fromisoformat(answer["created_at"]).date(), date.fromisoformat(valid_until)
    for feature in features:
        if (clock := feature.moves_with_time) is None:
            continue
        if not (step := time_step(feature)):
            return None
        pace = abs(clock.per_year) / 12.0 / step
        until = (math.floor(months * pace + SLACK) + 1.0) / pace
        if until * DAYS_PER_MONTH <= (last - start).days:
            whole = abs(until - round(until)) < SLACK
            end = _months_after(start, until) if whole else start + timedelta(days=int(until * DAYS_PER_MONTH))
            last = min(last, end - timedelta(days=1))
    return last.isoformat()


def by_years(feature: Feature) -> bool:
    """Whether time changes a feature by whole years, as on a birthday."""
    clock = feature.moves_with_time
    return clock is not None and feature.type is FeatureType.INTEGER and abs(clock.per_year) <= 1.0


def moves(feature: Feature, months: float) -> bool:
    """Whether time alone changes a feature within so many months, as the search counts time."""
    clock = feature.moves_with_time
    least = 1.0 if feature.type is FeatureType.INTEGER else 0.0
    return clock is not None and abs(clock.per_year) * months / 12.0 >= least
