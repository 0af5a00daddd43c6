"""Derived columns against the arithmetic they stand for, and everything that cannot be one."""

from typing import Any

import numpy as np
import pytest

from app.recourse.features import MISSING, Advice, Change, Feature, FeatureType, Missing, Table, Takes
from app.recourse.features.derived import DerivedColumns, derived_faults


def number(name: str, **more: Any) -> Feature:
    return Feature(name=name, **{"type": FeatureType.CONTINUOUS, **more})


def levels(name: str, *categories: str, **more: Any) -> Feature:
    return Feature(name=name, **{"type": FeatureType.ORDINAL, "categories": categories, **more})


EDUCATION = levels("education", "School", "Bachelors", "Masters")
YEARS = Table(from_="education", table={"School": 12, "Bachelors": 16, "Masters": 18})


def test_columns_follow_from_each_other_in_any_order() -> None:
    columns = DerivedColumns([
        number("burden", derived="ratio * years"),
        number("ratio", derived="debt / income"),
        number("debt"), number("income"), EDUCATION,
        number("years", type=FeatureType.INTEGER, derived=YEARS),
    ])  # fmt: skip
    assert columns.base == ("debt", "income", "education")
    assert list(columns.formulas).index("burden") == 2
    debt, income, education = np.array([1.0, 0.1, 5.0]), np.array([3.0, 7.0, 0.0]), np.array([0.0, 2.0, 1.0])
    values = columns.values({"debt": debt, "income": income, "education": education})
    assert values["years"].tolist() == [12.0, 18.0, 16.0]
    assert values["ratio"].tolist() == [1.0 / 3.0, 0.1 / 7.0, np.inf]
    assert values["burden"].tolist() == [1.0 / 3.0 * 12.0, 0.1 / 7.0 * 18.0, np.inf]


def test_a_value_is_missing_where_an_input_is() -> None:
    columns = DerivedColumns([
        number("a", missing=Missing.NAN), number("b", special={-9.0: "no record"}),
        levels("kind", "x", "y", type=FeatureType.CATEGORICAL, missing=Missing.NAN),
        levels("rank", "low", "high", missing=Missing.FILL, fill="low"),
        number("d", derived="a + b", missing=Missing.NAN),
        number("e", derived="d * 0 + 1", missing=Missing.NAN),
        number("f", derived=Table(from_="kind", table={"x": 1, "y": 2}), missing=Missing.FILL, fill=0.0),
        number("g", derived=Table(from_="rank", table={"low": 3, "high": 4}), missing=Missing.NAN),
    ])  # fmt: skip
    base = {
        "a": np.array([1.0, MISSING, 1.0, 0.0]), "b": np.array([2.0, 2.0, -9.0, 9.0]),
        "kind": np.array([0.0, 1.0, 2.0, 1.0]), "rank": np.array([0.0, 1.0, MISSING, 1.0]),
    }  # fmt: skip
    values = columns.values(base)
    assert values["d"].tolist() == [3.0, MISSING, MISSING, 9.0]
    assert values["e"].tolist() == [1.0, MISSING, MISSING, 1.0]
    assert values["f"].tolist() == [1.0, 2.0, MISSING, 2.0]
    assert values["g"].tolist() == [3.0, 4.0, MISSING, 4.0]
    slopes = columns.slopes(base)
    assert slopes["d"]["a"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert slopes["f"] == {}


def test_slopes_reach_through_other_derived_columns() -> None:
    columns = DerivedColumns([number("a"), number("b"), number("r", derived="a / b"), number("q", derived="r * r")])
    a, b = np.array([3.0, 1.0]), np.array([2.0, 4.0])
    slopes = columns.slopes({"a": a, "b": b})
    assert np.allclose(slopes["q"]["a"], 2 * a / b**2)
    assert np.allclose(slopes["q"]["b"], -2 * a**2 / b**3)


def test_binary_levels_have_tables() -> None:
    owner = Feature(name="owner", type=FeatureType.BINARY)
    columns = DerivedColumns([owner, number("n", derived=Table(from_="owner", table={"false": 5, "true": 7}))])
    assert columns.values({"owner": np.array([1.0, 0.0])})["n"].tolist() == [7.0, 5.0]


INTEGER = FeatureType.INTEGER
FAULTS: dict[str, tuple[Feature, str]] = {
    "grammar": (number("x", derived="a / "), "cannot be read at column 4"),
    "unknown": (number("x", derived="a + zebra"), r"names zebra \(column 5\), which is not a feature"),
    "category": (number("x", derived="a + education"), r"names education \(column 5\).* ordinal; use a table"),
    "constant": (number("x", derived="3 * 4"), "depends on no feature"),
    "itself": (number("x", derived="x + a"), "goes in a circle: x from x"),
    "type": (levels("x", "u", "v", derived="a"), "belongs to continuous and integer features; this one is ordinal"),
    "group": (
        levels("x", "u", "v", type=FeatureType.CATEGORICAL, derived="a"),
        "belongs to continuous and integer features; this one is categorical",
    ),
    "table from number": (number("x", derived=Table(from_="a", table={"1": 1})), "has no levels but is continuous"),
    "table from nowhere": (number("x", derived=Table(from_="z", table={})), "from z, which is not a feature"),
    "short table": (
        number("x", derived=Table(from_="education", table={"School": 1})),
        "without Bachelors, Masters of education",
    ),
    "long table": (
        number("x", derived=Table(from_="education", table={**YEARS.table, "Doctor": 20})),
        "with Doctor, which education has not",
    ),
    "endless table": (
        number("x", derived=Table(from_="education", table={**YEARS.table, "School": float("nan")})),
        "not finite",
    ),
    "change": (number("x", derived="a", change=Change.NONE), "excludes change"),
    "several": (number("x", derived="a", cost=2.0, takes=Takes(months=1)), "excludes cost, takes"),
    "advice": (number("x", derived="a", advice=Advice(min=1)), "excludes advice"),
    "division": (number("x", type=INTEGER, derived="n / 2"), "not whole"),
    "half": (number("x", type=INTEGER, derived="0.5 * n"), "not whole"),
    "from continuous": (number("x", type=INTEGER, derived="a + n"), "not whole"),
    "half table": (
        number("x", type=INTEGER, derived=Table(from_="education", table={**YEARS.table, "School": 0.5})),
        "not whole",
    ),
    "missing": (number("x", derived="a + m"), "is missing where m is missing"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_is_named_where_it_stands(case: str) -> None:
    feature, sentence = FAULTS[case]
    features = [number("a"), number("n", type=INTEGER), number("m", missing=Missing.NAN), EDUCATION, feature]
    (fault,) = derived_faults(features)
    assert fault.pointer == "/features/4/derived"
    with pytest.raises(ValueError, match=sentence):
        DerivedColumns(features)


def test_circles_are_shown_and_what_only_leads_into_them_is_not() -> None:
    features = [
        number("a"), number("x", derived="y + a"), number("y", derived="z"), number("z", derived="x"),
        number("into", derived="x"), number("fine", derived="a"),
    ]  # fmt: skip
    (fault,) = derived_faults(features)
    assert fault.detail == "goes in a circle: x from y from z from x"


def test_whole_formulas_may_be_integers() -> None:
    features = [
        number("n", type=INTEGER), number("x", type=INTEGER, derived="2 * n - max(n, 3)"),
        number("y", type=INTEGER, derived="-x * n"), number("half", derived="n / 2", min=0, max=5),
    ]  # fmt: skip
    assert not derived_faults(features)
    assert not derived_faults([number("a")])
