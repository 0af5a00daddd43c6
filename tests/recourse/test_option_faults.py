"""What a manifest may not say of advice, time and limits of a feature."""

import math
from typing import Any

import pytest

from app.recourse.features import (
    Advice,
    Better,
    Change,
    Feature,
    FeatureType,
    MaxChange,
    MovesWithTime,
    ReasonWords,
    Sentence,
    Table,
    Takes,
    Words,
    own_faults,
)

NUMBER: dict[str, Any] = {"name": "hours", "type": FeatureType.INTEGER, "min": 0, "max": 99}
ORDINAL: dict[str, Any] = {"name": "school", "type": FeatureType.ORDINAL, "categories": ("low", "middle", "high")}
CATEGORY: dict[str, Any] = {"name": "home", "type": FeatureType.CATEGORICAL, "categories": ("rents", "owns")}
BINARY: dict[str, Any] = {"name": "guarantor", "type": FeatureType.BINARY}


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (NUMBER, {"advice": Advice(min=10, max=60), "takes": Takes(months=1, months_per_unit=0.5)}),
        (NUMBER, {"max_change": MaxChange(relative=0.2, absolute=10), "least_change": 2}),
        (NUMBER, {"moves_with_time": MovesWithTime(per_year=-1)}),
        (NUMBER, {"terms": True, "better": Better.LESS, "change": Change.NONE}),
        (NUMBER, {"protected": True, "moves_with_time": MovesWithTime(per_year=1)}),
        (ORDINAL, {"advice": Advice(categories=("middle", "high")), "takes": Takes(months_per_level=24)}),
        (CATEGORY, {"advice": Advice(categories=("owns",)), "takes": Takes(months=3)}),
        (BINARY, {"takes": Takes(months=1), "change": Change.INCREASE}),
        (BINARY, {"sentence": Sentence(to={"true": "Find one"}), "level_names": {"false": "nobody"}}),
        (NUMBER, {"sentence": Sentence(any="{Name}, {name}: {from}, {to}"), "reason": ReasonWords(code="R1")}),
        (NUMBER, {"special": {-9.0: "none"}, "words": {"de": Words(levels={"-9": "keine"}), "pt-BR": Words()}}),
    ],
)
def test_options_where_they_belong_are_no_fault(kind: dict[str, Any], options: dict[str, Any]) -> None:
    assert own_faults(Feature(**kind, **options)) == []


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [
        (NUMBER, {"advice": Advice(max=120)}, "advice.max must lie in the feature's own range 0 to 99"),
        (NUMBER, {"advice": Advice(min=60, max=10)}, "advice.min 60 must not be above advice.max 10"),
        (NUMBER, {"advice": Advice(max=math.nan)}, "advice.max must be finite"),
        (NUMBER, {"advice": Advice(categories=("a",))}, "limit numbers with advice.min and advice.max"),
        (ORDINAL, {"advice": Advice(min=1)}, "name the levels that are proposed in advice.categories"),
        (ORDINAL, {"advice": Advice(categories=("highest",))}, '"highest" is not'),
        (ORDINAL, {"advice": Advice(categories=())}, "use change: none"),
        (BINARY, {"advice": Advice(categories=("true",))}, "use change: increase or change: decrease"),
        (ORDINAL, {"takes": Takes(months_per_unit=1)}, "use takes.months_per_level for ordinal features"),
        (NUMBER, {"takes": Takes(months_per_level=1)}, "use takes.months_per_unit for numbers"),
        (CATEGORY, {"takes": Takes(months_per_level=1)}, "else takes.months"),
        (NUMBER, {"takes": Takes(months=math.inf)}, "takes must be finite"),
        (ORDINAL, {"moves_with_time": MovesWithTime(per_year=1)}, "moves_with_time belongs to numbers"),
        (NUMBER, {"moves_with_time": MovesWithTime(per_year=0)}, "per_year must not be 0"),
        (CATEGORY, {"terms": True, "better": Better.MORE}, "better belongs to features with an order"),
        (CATEGORY, {"max_change": MaxChange(relative=0.1)}, "max_change belongs to numbers"),
        (NUMBER, {"max_change": MaxChange()}, "max_change needs relative or absolute"),
        (ORDINAL, {"least_change": 1}, "least_change belongs to numbers"),
        (NUMBER, {"better": Better.MORE}, "better belongs to terms of the contract; write terms: true"),
        (NUMBER, {"terms": True, "protected": True}, "a protected feature is never advice: remove terms"),
        (NUMBER, {"least_change": 9, "max_change": MaxChange(absolute=5)}, "least_change 9 must not be above"),
        (NUMBER, {"protected": True, "advice": Advice(max=60)}, "a protected feature is never advice: remove advice"),
        (
            NUMBER,
            {"moves_with_time": MovesWithTime(per_year=1), "takes": Takes(months=1), "least_change": 2},
            "moves by itself and is never advice: remove takes and least_change",
        ),
        (NUMBER, {"derived": "a / b", "max_change": MaxChange(absolute=5)}, "say it of these: remove max_change"),
        (
            NUMBER,
            {"derived": Table(from_="school", table={"low": 1}), "moves_with_time": MovesWithTime(per_year=1)},
            "say moves_with_time of these",
        ),
        (
            CATEGORY,
            {"sentence": Sentence(to={"owned": "Buy"})},
            'sentence.to has "owned", which is no level of',
        ),
        (NUMBER, {"sentence": Sentence(to={"9": "Nine"})}, "no level of this feature: it has none"),
        (CATEGORY, {"sentence": Sentence(increase="More")}, "sentence.increase and sentence.decrease belong to"),
        (NUMBER, {"sentence": Sentence(any="By {by}")}, "sentence.any has {by}; its places are {from}, {to}"),
        (BINARY, {"level_names": {"yes": "so"}}, 'level_names has "yes", which is no level of this feature: its lev'),
        (NUMBER, {"words": {"German": Words()}}, 'words has the key "German", which is no tag of a language'),
        (CATEGORY, {"words": {"de": Words(levels={"x": "y"})}}, 'words.de.levels has "x"'),
        (NUMBER, {"protected": True, "sentence": Sentence(any="x")}, "never advice: remove sentence"),
    ],
)
def test_each_fault_names_the_right_place(kind: dict[str, Any], options: dict[str, Any], said: str) -> None:
    (fault,) = own_faults(Feature(**kind, **options))
    assert said in fault
