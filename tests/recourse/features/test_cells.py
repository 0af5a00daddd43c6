"""Cells of tables: what is a number, which mark is decimal, and what a feature takes from a cell."""

import math

import numpy as np
import pytest

from app.recourse.features import DecimalMark, Feature, FeatureType, lines_and_delimiter, parse_column, written
from app.recourse.features.feature_options import Missing


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("1012.37", "1012.37", None),
        ("1012,37", None, "1012.37"),
        ("$1,012.37", "1012.37", None),
        ("1.012,37 €", None, "1012.37"),
        ("1 234 567,5", None, "1234567.5"),
        ("1'234.50", "1234.50", None),
        ("1,234", "1234", "1.234"),
        ("1.234", "1.234", "1234"),
        ("0.123", "0.123", None),
        ("(500)", "-500", "-500"),
        ("\u2212€5", "-5", "-5"),
        ("1.2e-3", "1.2e-3", None),
        ("EUR 1.000", "1.000", "1000"),
        *((text, None, None) for text in (
            "1_000", "\u0661\u0662", "inf", "nan", "0x1F", "1,23,4", "12,34,567", "1.5.", "$", "-", "1 2", "5 years",
            "--5", "$5€", "(5", "2019-03-01", "",
        )),
    ],
)  # fmt: skip
def test_a_number_is_read_or_is_none(text: str, point: str | None, comma: str | None) -> None:
    found = [written(text, mark) for mark in (".", ",")]
    assert [one and one.plain for one in found] == [point, comma]


def test_a_percentage_says_so_and_a_currency_is_named() -> None:
    found = written("20.75%")
    assert found is not None
    assert (found.plain, found.percent) == ("20.75", True)
    assert [one and one.currency for one in map(written, ("$5", "5 EUR", "£ 5", "5"))] == ["USD", "EUR", "GBP", ""]


@pytest.mark.parametrize(
    ("cells", "delimiter", "mark"),
    [
        (["5", "1.234", "0.5"], ";", "."),
        (["5", "1.234", "0,5"], ";", ","),
        (["5", "1,234"], ",", "."),
        (["5", "7"], ";", "."),
        (["5", "1.234"], ";", None),
        (["5", "1,234"], "\t", None),
        (["1.012,37", "900"], ",", ","),
    ],
)
def test_the_cells_of_a_table_show_its_decimal_mark(cells: list[str], delimiter: str, mark: str | None) -> None:
    found = DecimalMark()
    found.see(cells)
    assert found.of(delimiter) == mark


@pytest.mark.parametrize("before", [0, 500])
def test_two_marks_in_one_table_are_refused_with_a_cell_of_each(before: int) -> None:
    """Also where the second one comes late."""
    for late, other in (("12,5", "12,5"), ("1.234.567", "1.234.567")):
        found = DecimalMark()
        found.see([*(f"{k / 8}" for k in range(before)), "0.5", late])
        with pytest.raises(ValueError, match=rf'both "[0-9.]+" and "{other}" among its numbers'):
            found.of(";")


@pytest.mark.parametrize(("heading", "delimiter"), [("a,b", ","), ('a;"b,c,d"', ";"), ("a\tb", "\t"), ("score", ";")])
def test_the_heading_shows_what_stands_between_cells(heading: str, delimiter: str) -> None:
    lines, found = lines_and_delimiter(["\n", heading + "\n", "1\n"])
    assert (list(lines), found) == (["\n", heading + "\n", "1\n"], delimiter)


NUMBER = Feature(name="rate", type=FeatureType.CONTINUOUS, missing=Missing.NAN)


@pytest.mark.parametrize(
    ("percent", "texts", "expected"),
    [
        (None, ["1.5", "NA", "?", ""], [1.5, -1e30, -1e30, -1e30]),
        ("number", ["20.75%", "3"], [20.75, 3]),
        ("share", ["20.75%", "0.5"], [0.2075, 0.5]),
    ],
)
def test_a_column_is_read_as_its_feature_says(percent: str | None, texts: list[str], expected: list[float]) -> None:
    feature = Feature(name="rate", type=FeatureType.CONTINUOUS, missing=Missing.NAN, percent=percent)
    values, faults = parse_column(feature, texts)
    assert not faults
    np.testing.assert_array_equal(values, expected)


def test_a_percentage_is_refused_where_nobody_says_what_the_model_takes() -> None:
    ((at, sentence),) = parse_column(NUMBER, ["1", "20%"])[1]
    assert at == 1
    assert "percent: number" in sentence


def test_a_level_that_is_a_code_is_known_as_3_and_as_3_point_0() -> None:
    product = Feature(name="product", type=FeatureType.CATEGORICAL, categories=("1", "3", "NA"), missing=Missing.NAN)
    values, faults = parse_column(product, ["3", "3.0", " 1 ", "NA", "", "null"])
    assert not faults
    assert values.tolist() == [1, 1, 0, 2, 3, 3]
    assert [product.parse(value) for value in (3, 3.0, "3", None)] == [1, 1, 1, 3]
    for wrong in (3.5, True, 2, math.inf):
        with pytest.raises(ValueError, match="must be one of"):
            product.parse(wrong)
