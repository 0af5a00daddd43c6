"""What a drafted manifest says of each feature."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from app.errors import ModelRefused
from app.recourse.features.encoding import TAIL
from app.recourse.models.black_box import Input
from app.registry.drafting.columns import Column
from app.registry.drafting.facts import ModelFacts
from app.registry.drafting.hints import Hint, hint_of, hint_of_levels, names_a_term, proposed, scale_of
from app.registry.drafting.labels import words_of
from app.registry.drafting.matching import Source, listed
from app.registry.drafting.outcome import Outcome
from app.registry.drafting.questions import Question
from app.registry.printable import average

MOST_LEVELS = 200
"""Levels beyond which a column of text is no category."""

RARE = 0.9
"""Share of records in which a number is 0 from which on no one can change it."""

LEAST_YEARS = 7
"""Largest number of a column of schooling up to which it may be codes rather than years."""

TENDENCY = 0.2
"""Difference of the means of both outcomes, in standard deviations, from which on it speaks against a direction."""

MEANING = "; what does it mean?"
"""The end of a comment about codes."""

MARKS = frozenset({
    "missing", "none", "unknown", "na", "n/a", "nan", "null", "not available", "no data", "?", "-", "unk", "undefined",
    "not stated", "empty", "blank",
})  # fmt: skip
"""Levels that lenders write for a missing one before training, in lower case."""

MEASURED = re.compile(
    r"\W*[\d.,]+\s*(k|thousand|tsd|m|mn|mio|million|lakhs?|cr|days?|weeks?|mon|months?|mths?|y|yrs?|years?)\.?",
    re.IGNORECASE,
)
"""A number with what it counts."""
CODE = re.compile(r"[A-Za-z]?\d+")
"""A level without a meaning to people, such as 3 or A173."""


@dataclass(slots=True)
class FeatureDraft:
    """One feature of a manifest draft: the keys of the feature, and comments that ask a person to decide something."""

    keys: dict[str, Any]
    comments: list[str] = field(default_factory=list)
    other_order: list[str] | None = None
    """Another order of levels in which they may be coded."""

    @property
    def name(self) -> str:
        """The name of the feature, equal to the name of its column in the records."""
        return str(self.keys["name"])


def feature_of(source: Source, column: Column, facts: ModelFacts) -> FeatureDraft:
    """The feature of a manifest that describes `column`. Raises `ModelRefused` where no feature can describe it."""
    found = FeatureDraft({"name": column.name} | words_of(column.name))
    if source.levels is not None:
        _categorical(found, column, source.levels)
        if scale := _scale([level for level in source.levels if level is not None]):
            order(found, scale, facts)
    elif column.numbers is not None and not column.flag:
        _number(found, column)
    elif column.flag:
        found.keys["type"] = "binary"
    elif facts.input is Input.RAW:
        _table_levels(found, column, facts)
    else:
        _coded(found, column)
    if column.percent and found.keys["type"] in ("continuous", "integer"):
        found.keys["percent"] = column.percent
    if column.currency and "unit" not in found.keys:
        found.keys["unit"] = column.currency
    _missing(found, source, column, facts)
    if column.constant:
        found.comments.append("the same in all records, so nothing is known about it")
    return found


def _categorical(found: FeatureDraft, column: Column, levels: tuple[str | None, ...]) -> None:
    known = [level for level in levels if level is not None]
    if not known:
        raise ModelRefused(f'"{column.name}" has no value in any record: leave it out with --drop, or fill it')
    if len(known) > MOST_LEVELS:
        raise ModelRefused(too_many(column.name, len(known)))
    found.keys |= {"type": "categorical", "categories": known} | ({"change": "none"} if len(known) < 2 else {})


def too_many(name: str, count: int) -> str:
    """The sentence that refuses a column because it has more levels than a feature can have, and suggests a remedy.

    `count` is the number of levels.
    """
    return (
        f'"{name}" has {count:,} different texts, and a feature has at most {MOST_LEVELS} categories. Train the model '
        f"with the rare ones as one level, or with a number in its place, such as the share of each {name} that repaid"
    )


def order(feature: FeatureDraft, levels: Sequence[str], facts: ModelFacts) -> None:
    """Turn a categorical feature into an ordinal one; `levels` are its levels from lowest to highest.

    Nothing changes where the new order of the levels would change the input of the model.
    """
    if feature.keys["type"] != "categorical":
        return
    if facts.input is Input.RAW:  # it takes texts
        feature.keys |= {"type": "ordinal", "categories": list(levels)}
    elif facts.names is not None and not feature.keys.get("missing"):
        feature.keys |= {"type": "ordinal", "dummies": True, "categories": list(levels)}


def _scale(levels: Sequence[str]) -> tuple[str, ...] | None:
    """The order that words give to three levels or more; that of plain numbers, codes of groups, says nothing."""
    return None if len(levels) < 3 or all(level.isdecimal() for level in levels) else scale_of(tuple(levels))


def _table_levels(found: FeatureDraft, column: Column, facts: ModelFacts) -> None:
    """A column of text that the model itself encodes."""
    known = [level for level in facts.levels.get(column.name, ()) if level is not None]
    unknown = [level for level in column.levels if level not in known]
    if known and unknown and column.name not in facts.tolerant:
        raise ModelRefused(
            f'"{column.name}" has {listed(unknown)} in the records, which the model does not know; it knows '
            f'{listed(known)}. Give the records that it was trained on, or fit it with handle_unknown="ignore"'
        )
    own = facts.levels.get(column.name, ())
    if column.missing and known and None not in own and column.name not in facts.imputed:
        marks = [level for level in known if level not in column.levels and level.strip().lower() in MARKS]
        if marks:
            raise ModelRefused(
                f'"{column.name}" is empty in {column.missing} records, and the model knows no missing one but the '
                f'level "{marks[0]}", which no record has: write {marks[0]} into the empty cells, as before training'
            )
    levels = [*known, *unknown]
    # Plain numbers are codes of groups: their order says nothing.
    scale = None if all(level.isdecimal() for level in levels) else scale_of(tuple(levels))
    if column.name in facts.coded:
        _categorical(found, column, tuple(levels))
        found.comments.append("the model knows codes only, taken to be those of the levels in this order; is that so?")
    elif column.name in facts.ordered and len(levels) > 1:
        found.keys |= {"type": "ordinal", "categories": levels}
    elif scale is not None and len(levels) > 1:
        found.keys |= {"type": "ordinal" if len(levels) > 2 else "binary", "categories": list(scale)}
    else:
        _categorical(found, column, tuple(levels))


def _coded(found: FeatureDraft, column: Column) -> None:
    """A column of text that the lender has turned into one number before training.

    Raises `ModelRefused` where each text has a number of its own, as "36 months": the model may take that, or a code.
    """
    if all(MEASURED.fullmatch(level) for level in column.levels):
        raise ModelRefused(
            f'the model takes one number for "{column.name}", whose cells are texts such as "{column.levels[0]}": '
            "write the numbers that the model was trained on into the column"
        )
    scale = scale_of(column.levels)
    levels = list(scale or column.levels)
    if len(levels) < 2 or len(levels) > MOST_LEVELS:
        _categorical(found, column, tuple(levels))
    found.keys |= {"type": "binary" if len(levels) == 2 else "ordinal", "categories": levels}
    found.other_order = list(column.levels) if scale is not None and list(column.levels) != levels else None
    codes = ", ".join(f"{level} = {k}" for k, level in enumerate(levels[:4])) + (", …" if len(levels) > 4 else "")
    found.comments.append(f"the model takes one number for it: {codes}; is that the order of the training?")


def _number(found: FeatureDraft, column: Column) -> None:
    known = column.known
    whole = column.whole
    found.keys["type"] = "integer" if whole else "continuous"
    if known.size and known.min() >= 0.0:
        found.keys["min"] = 0
    if whole and column.step > 1 and (known % column.step == 0).all():
        found.keys["step"] = column.step
    if not whole and not column.constant:
        found.keys["decimals"] = column.decimals
    if column.codes:
        found.keys["special"] = {_plain(code): f"code {code:g}" for code in column.codes}
        counts = ", ".join(f"{code:g} in {np.sum(column.numbers == code)} records" for code in column.codes)
        found.comments.append(f"{counts}: special, because no other value is near{MEANING}")
    inner = np.clip(known, *np.quantile(known, [TAIL, 1.0 - TAIL])) if known.size else known
    if known.size and inner.min() == inner.max() and not column.constant:
        found.keys["spread"] = float(f"{np.std(known):.3g}")
        found.comments.append(f"nearly always {inner[0]:g}, so its spread is led by few records")


def _missing(found: FeatureDraft, source: Source, column: Column, facts: ModelFacts) -> None:
    of_model = None in (source.levels or facts.levels.get(column.name, ())) or column.name in facts.knows_missing
    if source.indicator:
        found.keys |= {"missing": "indicator", "fill": 0}
    elif column.missing or of_model:
        found.keys["missing"] = "nan"


def advise(found: FeatureDraft, column: Column, answer: str | None = None) -> bool:
    """Write into `found` how people can change the feature, as far as its name and its usual values tell.

    Parameters
    ----------
    answer : the lender's own answer, one of `CHANGES`; None without one

    Returns
    -------
    True where neither name nor values tell what the feature is; it is then fixed until the lender says more.
    """
    kind = found.keys["type"]
    if "derived" in found.keys:
        return False
    hint = _answered(answer) if answer is not None else _hint(found, column)
    if answer is None and found.keys.get("change") == "none" and not (hint and hint.keys.get("protected")):
        return False  # it is part of a ratio that cannot follow
    if hint is not None:
        found.keys |= hint.keys
        found.comments += [hint.comment] if hint.comment else []
    if found.keys.get("protected") or found.keys.get("change") == "none" or column.constant:
        return False
    readable = kind != "categorical" or not all(map(CODE.fullmatch, found.keys["categories"]))
    if hint is None and readable:
        _fix(found, hint, "as neither name nor values say what it is; can people change it, in which direction?")
        return True
    if kind in ("integer", "continuous"):
        _advise_number(found, column, hint, asked=answer is None)
    elif not readable:
        _fix(found, hint, "as nobody can read a code; level_names says what each is, for people")
    elif kind in ("categorical", "ordinal"):
        # A level of no record, such as what an imputer writes for a missing one, is nothing that a person can become.
        seen = set(column.levels)
        kept = [level for level in found.keys["categories"] if proposed(level) and level in seen]
        if 0 < len(kept) < len(found.keys["categories"]):
            found.keys["advice"] = {"categories": kept}
        if kind == "ordinal" and hint is not None and (takes := hint.takes(0, 0, len(found.keys["categories"]))):
            found.keys["takes"] = takes
    return False


def ask_codes_once(features: Sequence[FeatureDraft]) -> None:
    """Ask only once what special codes mean: in the comments of the first feature that has special codes.

    The same question is removed from the comments of all other features.
    """
    coded = [feature for feature in features if "special" in feature.keys]
    codes = sorted({code for feature in coded for code in feature.keys["special"]})
    shown = f"; what do {listed([f'{code:g}' for code in codes])} mean here and below?" if len(codes) > 1 else MEANING
    for feature in coded:
        ends = shown if feature is coded[0] else ""
        feature.comments = [
            comment.removesuffix(MEANING) + (ends if comment.endswith(MEANING) else "") for comment in feature.comments
        ]


CHANGES = ("none", "increase", "decrease", "any", "protected")
"""What a lender may say of a column."""


def change_question(column: Column, outcome: Outcome | None) -> Question:
    """The question to the lender whether applicants can change a column, and in which direction."""
    why: tuple[str, ...] = ()
    if outcome is not None and column.numbers is not None and not column.constant:
        good, bad = _means(column, outcome)
        why = (f"it is {average(good)} on average where {outcome.name} is {outcome.value}, else {average(bad)}",)
    sentence = f"Can an applicant change {column.name}? In which direction?"
    return Question(
        key="change", column=column.name, sentence=sentence, why=why, allowed=CHANGES, required=False, keep="none"
    )


TERMS: Mapping[str, dict[str, Any]] = {
    "no": {}, "more": {"terms": True, "better": "more"}, "less": {"terms": True, "better": "less"},
    "either": {"terms": True},
}  # fmt: skip
"""What the manifest says of a column by what the lender says of it as a term of the contract."""


def terms_question(found: FeatureDraft) -> Question | None:
    """The question to the lender whether a column is a contract term, and if more or less of it helps applicants.

    None where the name of the column does not suggest a term.
    """
    if not names_a_term(found.name) or found.keys.get("protected") or "derived" in found.keys:
        return None
    allowed = tuple(answer for answer in TERMS if found.keys["type"] != "categorical" or answer in ("no", "either"))
    better = " Is more or less of it better for the applicant, or either?" if "more" in allowed else ""
    return Question(
        key="terms", column=found.name, sentence=f"Do you set {found.name}, as a term of the contract?{better}",
        why=("what you set can be offered: POST /recourse/offers says with which terms an applicant gets a yes",),
        allowed=allowed, required=False, keep="no",
    )  # fmt: skip


def _means(column: Column, outcome: Outcome) -> tuple[float, float]:
    """What a number is on average with the favourable outcome, and with the other one."""
    good, bad = (float(side.mean()) if side.size else math.nan for side in column.sides(outcome.favourable))
    return good, bad


def doubted(found: FeatureDraft, column: Column, outcome: Outcome) -> str:
    """A sentence on why the direction in which a number may change is in doubt; empty without doubt.

    There is doubt where people with the good outcome have plainly more of the number, and the manifest allows advice to
    lower it; and likewise the other way round.
    """
    change = found.keys.get("change", "any")
    fixed = found.keys.get("protected") or change == "none" or "derived" in found.keys
    if fixed or found.keys["type"] not in ("integer", "continuous") or column.constant:
        return ""
    good, bad = _means(column, outcome)
    tendency = (good - bad) / float(column.known.std())
    if not abs(tendency) >= TENDENCY:
        return ""
    side = "more" if tendency > 0.0 else "less"
    if change == "any":
        return f"either direction may be advised, and people with the good outcome have {side} of it: which is meant?"
    if (change == "increase") == (tendency > 0.0):
        return ""
    return f"change: {change}, by its name, but people with the good outcome have {side} of it: which is meant?"


def _answered(answer: str) -> Hint:
    """What the lender's answer says."""
    keys = {"protected": True} if answer == "protected" else {} if answer == "any" else {"change": answer}
    return Hint(re.compile(""), "", MappingProxyType(keys))


def _hint(found: FeatureDraft, column: Column) -> Hint | None:
    """What the name says, or else the levels; nothing where a code of a level has the name of a quantity."""
    kind = found.keys["type"]
    hint, of_levels = hint_of(column.name, kind), hint_of_levels(found.keys.get("categories", ()))
    if of_levels is not None and (hint is None or of_levels.keys.get("protected")):
        hint = of_levels
    coded = hint is not None and "takes" in hint.keys and column.numbers is not None and column.known.size
    if coded and column.known.max() < LEAST_YEARS:
        # Codes of schools, of which some lists begin with the highest: 1 is the graduate school.
        return None
    return hint


def _fix(found: FeatureDraft, hint: Hint | None, why: str) -> None:
    """Nobody can change it; what a name suggests is not said then."""
    found.keys = {key: value for key, value in found.keys.items() if hint is None or key not in hint.keys}
    found.keys["change"] = "none"
    found.comments = [comment for comment in found.comments if hint is None or comment != hint.comment]
    found.comments.append(f"change: none, {why}")


def _advise_number(found: FeatureDraft, column: Column, hint: Hint | None, *, asked: bool) -> None:
    if asked and (share := float(np.mean(column.known == 0.0))) >= RARE:
        _fix(found, hint, f"as it is 0 in {share:.0%} of the records; can people change it?")
        return
    low, high = column.usual
    if hint is not None and hint.most is not None:
        high = max(low, min(high, hint.most))
    if hint is not None and hint.terms and (apart := column.apart):
        found.keys |= {"min": int(low) % apart, "step": apart}
    if hint is not None and (takes := hint.takes(low, high)):
        found.keys["takes"] = takes
    found.keys["advice"] = {"min": _plain(low), "max": _plain(high)}


def _plain(number: float) -> int | float:
    """A whole number without a point."""
    return int(number) if number == int(number) else float(number)


def fills(features: Sequence[FeatureDraft], columns: Mapping[str, Column]) -> list[dict[str, int | float]]:
    """Three ways to fill missing numbers: with medians, means, or zeros. Each is a dict from feature name to number.

    Where no number is missing, the list has one empty dict.
    """
    named = [found.name for found in features if found.keys.get("missing") and columns[found.name].numbers is not None]
    if not named:
        return [{}]

    def each(of: Any) -> dict[str, int | float]:
        return {name: _plain(float(of(columns[name].known))) for name in named}

    return [each(np.median), each(np.mean), dict.fromkeys(named, 0)]
