"""The principal reasons of a letter, in words."""

from collections.abc import Sequence
from itertools import takewhile

from app.letters.language import Language
from app.letters.notice import NoticeReason
from app.questions.answers import Json
from app.recourse.features import Feature
from app.recourse.reasons import Departure, departure, is_unadvised, reason_text, usual_text, value_text

UNNAMED = 0.1
"""Share of what counted from which on a letter says that it leaves something out."""


def in_language(feature: Feature, language: Language) -> Feature:
    """The feature with its words in a language."""
    return feature if language.tag == "en" and "en" not in feature.words else feature.in_language(language.tag)


def reasons_of(
    schema: Sequence[Feature], reasons: Sequence[Json], language: Language, *, whole: bool
) -> tuple[NoticeReason, ...]:
    """Each once: several features that a credit bureau does not know are one reason to a reader.

    Unless the letter is `whole`, it ends before a small one of which most others have the same.
    """
    features = {one.name: one for one in schema}
    told = [(one, _reason(one, features[one["feature"]], language)) for one in reasons]

    def common(one: Json, said: NoticeReason) -> bool:
        return bool(said.mixed and not said.value and said.usual) and one.get("share", 1.0) < UNNAMED

    # The most important ones, one after the other: none of those that follow counted more than one left out.
    found = [said for _, said in takewhile(lambda one: whole or not common(*one), told)] or [said for _, said in told]
    return tuple({one.text: one for one in reversed(found)}[text] for text in dict.fromkeys(one.text for one in found))


def unnamed_share(reasons: Json, language: Language) -> str | None:
    """The share of features that are never named, where it is a tenth or no smaller than that of each reason."""
    share = reasons.get("protected_share") or 0.0  # answers of earlier releases lack it
    counts = reasons["reasons"] and share >= min(UNNAMED, *(one.get("share", 1.0) for one in reasons["reasons"]))
    return language.percent_text(share) if counts and share else None


def _reason(reason: Json, feature: Feature, language: Language) -> NoticeReason:
    value_raw, usual = feature.parse(reason["value"]), reason["reference"]
    usual_raw = float(usual) if feature.is_number and usual is not None else feature.parse(usual)
    departed = differs = departure(feature, value_raw, usual_raw)
    if departed is not None and "direction" in reason:  # answers of earlier releases lack it
        departed = reason["direction"] and Departure(reason["direction"])
    directed = departed is not None
    better = is_unadvised(feature, departed or differs)  # by the words of the manifest, whatever the language
    departed = None if better else departed
    feature = in_language(feature, language)
    value, usual = (
        text_of(feature, raw, language.phrases) for text_of, raw in ((value_text, value_raw), (usual_text, usual_raw))
    )
    # Two levels say nothing beside each other; numbers may read alike once they are rounded.
    compared = (directed or better) and value != usual and (feature.is_number or len(feature.levels) > 2)
    text = reason_text(feature, value_raw, departed, language.phrases)
    known = bool(value) and value_raw not in feature.states_raw
    mixed = known and not feature.reason.text and departed is None
    return NoticeReason(
        code=reason["code"],
        text=text,
        value=value if compared and (mixed or not text.endswith(value)) else None,
        usual=usual if compared or (mixed and value == usual) else None,
        mixed=mixed,
    )


def compared_text(against: Json, language: Language) -> str:
    """Whom the reasons compare the applicant with."""
    text = {"accepted": language.accepted, "everyone": language.everyone}[against["kind"]]
    return text.replace("{n}", language.count_text(against["records"]))
