"""Records, raw rows and encoded points say the same thing."""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float

from app.errors import Fault, InvalidRecord
from app.recourse.features import (
    LARGEST,
    Change,
    Encoding,
    Feature,
    FeatureSpace,
    FeatureType,
    Missing,
    fit_encoding,
    fit_spread,
    own_faults,
    parse_column,
    schema_faults,
)
from tests.recourse.questions import CHECKED_AT_RANDOM, PROPERTY, rows, spaces

pytestmark = CHECKED_AT_RANDOM

LOAN = (
    Feature(name="age", type=FeatureType.INTEGER, min=18, max=100, center=40.0, scale=12.0),
    Feature(name="income", type=FeatureType.CONTINUOUS, min=0, center=0.0, scale=1000.0),
    Feature(name="savings", type=FeatureType.ORDINAL, categories=("none", "some", "much"), center=1.0, scale=0.5),
    Feature(name="guarantor", type=FeatureType.BINARY, center=0.0, scale=1.0),
    Feature(name="owns/rents", type=FeatureType.CATEGORICAL, categories=("rents", "owns", "~")),
)
SPACE = FeatureSpace(LOAN)
RECORD: dict[str, object] = {
    "age": 30,
    "income": 2500.5,
    "savings": "some",
    "guarantor": True,
    "owns/rents": "owns",
}


def faults(**changes: object) -> list[Fault]:
    """Faults of the sound record with these changes; None leaves a feature out."""
    record = {name: value for name, value in (RECORD | changes).items() if value is not None}
    with pytest.raises(InvalidRecord) as caught:
        SPACE.read(record)
    return list(caught.value.faults)


# --- the two spaces --------------------------------------------------------------------------------------------------


@PROPERTY
@given(st.data())
def test_decoding_an_encoded_row_gives_the_row(data: st.DataObject) -> None:
    space = data.draw(spaces())
    rows_raw = np.array(data.draw(st.lists(rows(space), min_size=1, max_size=5)))
    decoded = space.decode(space.encode(rows_raw))
    assert np.array_equal(decoded[:, space.whole], rows_raw[:, space.whole])
    np.testing.assert_allclose(decoded, rows_raw, rtol=0, atol=1e-13)


@PROPERTY
@given(st.data())
def test_every_encoded_point_decodes_to_a_legal_row(data: st.DataObject) -> None:
    space = data.draw(spaces())
    X = np.array([data.draw(st.lists(st.floats(-50, 50), min_size=space.d, max_size=space.d))])
    (row_raw,) = space.decode(X)
    assert np.array_equal(space.read(space.record(row_raw)), row_raw)


def test_encoded_columns_are_scaled_numbers_and_one_column_per_category() -> None:
    assert SPACE.columns == ("age", "income", "savings", "guarantor", "owns/rents=rents", "owns/rents=owns",
                             "owns/rents=~")  # fmt: skip
    (x,) = SPACE.encode(np.array([[52.0, 2500.0, 2.0, 1.0, 1.0]]))
    assert x.tolist() == [1.0, 2.5, 2.0, 1.0, 0.0, 1.0, 0.0]


def test_a_point_between_legal_rows_decodes_to_the_nearest() -> None:
    row_raw = SPACE.decode(np.array([[0.04, 2.5, 0.2, 0.4, 0.3, 0.1, 0.6], [99.0, -1.0, -9.0, 9.0, 0.0, 0.0, 0.0]]))
    assert row_raw.tolist() == [[40.0, 2500.0, 1.0, 0.0, 2.0], [100.0, 0.0, 0.0, 1.0, 0.0]]


def test_scales_must_have_been_fitted() -> None:
    with pytest.raises(ValueError, match="fit_encoding"):
        FeatureSpace([Feature(name="a", type=FeatureType.CONTINUOUS)])


# --- records ---------------------------------------------------------------------------------------------------------


@PROPERTY
@given(st.data())
def test_a_record_is_the_row_to_the_last_bit_after_json(data: st.DataObject) -> None:
    space = data.draw(spaces())
    row_raw = data.draw(rows(space))
    record = json.loads(json.dumps(space.record(row_raw)))
    assert np.array_equal(space.read(record), row_raw)
    assert json.loads(json.dumps(space.record(space.read(record)))) == record


@PROPERTY
@given(st.floats(-LARGEST, LARGEST))
def test_any_number_survives_json_to_the_last_bit(number: float) -> None:
    space = FeatureSpace([Feature(name="x", type=FeatureType.CONTINUOUS, center=0.0, scale=1.0)])
    record = json.loads(json.dumps(space.record(np.array([number]))))
    assert math.copysign(1.0, record["x"]) == math.copysign(1.0, number)
    assert space.read(record)[0] == number


@pytest.mark.parametrize(
    ("row_raw", "expected"),
    [
        ([30.0, 2500.5, 1.0, 1.0, 1.0], RECORD),
        (
            [18.0, 0.0, 0.0, 0.0, 2.0],
            {"age": 18, "income": 0.0, "savings": "none", "guarantor": False, "owns/rents": "~"},
        ),
    ],
)
def test_a_record_has_the_types_of_json(row_raw: list[float], expected: dict[str, object]) -> None:
    record = SPACE.record(np.array(row_raw))
    assert record == expected
    assert [type(value) for value in record.values()] == [int, float, str, bool, str]


def test_whole_numbers_may_be_written_with_a_point() -> None:
    assert SPACE.read(RECORD | {"age": 30.0, "income": 2500}).tolist() == [30.0, 2500.0, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("name", "value", "detail"),
    [
        ("age", None, "is missing"),
        ("age", "30", "must be a whole number"),
        ("age", True, "must be a whole number"),
        ("age", 30.5, "must be a whole number"),
        ("age", [30], "must be a whole number"),
        ("age", math.nan, "must be a whole number, and finite"),
        ("age", math.inf, "must be a whole number, and finite"),
        ("age", 10**20, "must be at most 100"),
        ("age", -(10**400), "must be at least 18"),
        ("age", 1e308, "must be at most 100"),
        ("age", 17, "must be at least 18"),
        ("age", 101, "must be at most 100"),
        ("income", "2500", "must be a number"),
        ("income", False, "must be a number"),
        ("income", {}, "must be a number"),
        ("income", -math.inf, "must be a number, and finite"),
        ("income", 10**400, "must be at most 1e+16"),
        ("income", 1e160, "must be at most 1e+16"),
        ("income", -0.01, "must be at least 0"),
        ("savings", "plenty", 'must be one of "none", "some", "much"'),
        ("savings", 1, 'must be one of "none", "some", "much"'),
        ("guarantor", 1, "must be one of false, true"),
        ("guarantor", "true", "must be one of false, true"),
        ("owns/rents", ["owns"], 'must be one of "rents", "owns", "~"'),
    ],
)
def test_a_fault_says_where_and_what_was_expected(name: str, value: object, detail: str) -> None:
    pointer = "/" + name.replace("/", "~1")
    assert faults(**{name: value}) == [Fault(pointer, detail)]


def test_whole_numbers_that_floats_cannot_tell_apart_are_refused() -> None:
    space = FeatureSpace([Feature(name="x", type=FeatureType.INTEGER, center=0.0, scale=1.0)])
    assert space.record(space.read({"x": 2**53})) == {"x": 2**53}
    with pytest.raises(InvalidRecord):
        space.read({"x": 2**53 + 2})


def test_a_number_out_of_range_is_told_which_codes_there_are() -> None:
    codes = {-8.0: "no usable trades", -9.0: "no bureau record"}
    feature = Feature(name="used", type=FeatureType.INTEGER, min=0, max=150, special=codes)
    for value, limit in ((-7, "at least 0"), (10**20, "at most 150")):
        with pytest.raises(ValueError, match=limit) as caught:
            feature.parse(value)
        assert str(caught.value) == f"must be {limit}, or a code: -9 (no bureau record), -8 (no usable trades)"
    assert feature.parse(-9) == -9.0


def test_every_fault_of_a_record_is_told_at_once() -> None:
    found = faults(age=None, income="much", savings="plenty", extra=1)
    names = ("age", "income", "savings", "extra")
    assert [fault.pointer for fault in found] == [f"/{name}" for name in names]
    assert found[-1].detail.startswith("is not a feature of this model; its features are age, income")


def test_pointers_escape_names_and_count_records() -> None:
    with pytest.raises(InvalidRecord) as caught:
        SPACE.read_many([RECORD, RECORD | {"a/b~c": 1}], pointer="/applicants")
    assert [fault.pointer for fault in caught.value.faults] == ["/applicants/1/a~1b~0c"]


def test_a_flood_of_unknown_keys_is_not_repeated() -> None:
    found = faults(**{f"{k}" * 1000: 1 for k in range(100)})
    assert len(found) == 20
    assert all(len(fault.pointer) <= len("/") + 100 for fault in found)


@pytest.mark.parametrize("name", RECORD)
@pytest.mark.parametrize("value", ["SECRET-7731", -7731, [7731], {"7731": 7731}, 10**400 + 7731])
def test_a_fault_never_repeats_the_value(name: str, value: object) -> None:
    with pytest.raises(InvalidRecord) as caught:
        SPACE.read(RECORD | {name: value})
    assert "7731" not in str(caught.value)
    assert "7731" not in json.dumps(caught.value.to_dict())


def test_many_records_are_read_as_rows() -> None:
    assert SPACE.read_many([], pointer="").shape == (0, 5)
    assert SPACE.read_many([RECORD, RECORD], pointer="")[:, 0].tolist() == [30.0, 30.0]


# --- columns of text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("feature", "texts", "values"),
    [
        (LOAN[0], ["30", "41.0", "x", "17"], [30.0, 41.0, None, None]),
        (LOAN[1], ["2.5e3", "0", "nan", ""], [2500.0, 0.0, None, None]),
        (LOAN[0], ["41", "4_1"], [41.0, None]),
        (LOAN[2], ["none", "much", "plenty"], [0.0, 2.0, None]),
        (LOAN[3], ["true", "False", "1", "0", "yes"], [1.0, 0.0, 1.0, 0.0, None]),
        (LOAN[4], ["owns", "rents", "Owns"], [1.0, 0.0, None]),
    ],
)
def test_columns_of_text_are_read_with_the_rows_that_do_not_parse(
    feature: Feature, texts: list[str], values: list[float | None]
) -> None:
    found, bad = parse_column(feature, texts)
    assert [row for row, _ in bad] == [row for row, value in enumerate(values) if value is None]
    assert [found[row] for row, value in enumerate(values) if value is not None] == [v for v in values if v is not None]


# --- encodings -------------------------------------------------------------------------------------------------------


def fitted_columns(encoding: Encoding, rows_raw: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n d"]:
    plain = [replace(feature, center=None, scale=None) for feature in LOAN]
    return FeatureSpace(fit_encoding(plain, rows_raw, encoding)).encode(rows_raw)


@pytest.fixture(scope="module")
def loans_raw() -> Float[np.ndarray, "n p"]:
    rng = np.random.default_rng(1)
    columns = [rng.integers(18, 101, 50), rng.gamma(2, 1000, 50), rng.integers(3, size=50), rng.integers(2, size=50)]
    return np.column_stack([*columns, rng.integers(3, size=50)]).astype(float)


def test_standard_scores_have_mean_zero_and_deviation_one(loans_raw: Float[np.ndarray, "n p"]) -> None:
    X = fitted_columns("standard", loans_raw)
    np.testing.assert_allclose(X[:, :3].mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(X[:, :3].std(axis=0), 1.0)


def test_minmax_maps_the_reference_records_to_the_unit_interval(loans_raw: Float[np.ndarray, "n p"]) -> None:
    X = fitted_columns("minmax", loans_raw)
    assert X[:, :3].min(axis=0).tolist() == [0.0] * 3
    assert X[:, :3].max(axis=0).tolist() == [1.0] * 3


@pytest.mark.parametrize("encoding", ["standard", "minmax", "none"])
def test_a_binary_is_always_zero_or_one(encoding: Encoding, loans_raw: Float[np.ndarray, "n p"]) -> None:
    assert np.array_equal(fitted_columns(encoding, loans_raw)[:, 3], loans_raw[:, 3])


def test_without_encoding_numbers_stay_as_they_are(loans_raw: Float[np.ndarray, "n p"]) -> None:
    assert np.array_equal(fitted_columns("none", loans_raw)[:, :4], loans_raw[:, :4])


@pytest.mark.parametrize("encoding", ["standard", "minmax"])
@pytest.mark.parametrize("number", [0.1, 1234.56, -3.3e-7, 0.0, 1e300])
def test_a_constant_column_gets_scale_one(encoding: Encoding, number: float) -> None:
    (feature,) = fit_encoding([Feature(name="x", type=FeatureType.CONTINUOUS)], np.full((7, 1), number), encoding)
    assert feature.scale == 1.0
    assert feature.center == number


def test_stated_scales_are_kept(loans_raw: Float[np.ndarray, "n p"]) -> None:
    assert fit_encoding(LOAN, loans_raw, "standard")[:3] == LOAN[:3]


# --- descriptions ----------------------------------------------------------------------------------------------------

NUMBER = Feature(name="x", type=FeatureType.CONTINUOUS)
WHOLE = Feature(name="x", type=FeatureType.INTEGER)
LEVELS = Feature(name="x", type=FeatureType.CATEGORICAL, categories=("a", "b"))


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        (replace(NUMBER, categories=("a", "b")), "has no categories"),
        (replace(NUMBER, min=2.0, max=2.0), "min 2 must be below max 2"),
        (replace(NUMBER, step=1.0), "step is a whole number"),
        (replace(NUMBER, center=1.0), "given together"),
        (replace(WHOLE, step=1.5), "step is a whole number"),
        (replace(WHOLE, min=0.5), "min of an integer feature is a whole number"),
        (replace(WHOLE, decimals=1), "decimals belongs to continuous"),
        (replace(LEVELS, categories=("a",)), "at least two categories"),
        (replace(LEVELS, categories=("a", "a")), "differ from each other"),
        (replace(LEVELS, change=Change.INCREASE), "cannot increase or decrease"),
        (replace(LEVELS, min=1.0), "min belongs to numeric features"),
        (replace(LEVELS, center=0.0, scale=1.0), "encoded as one number"),
        (replace(LEVELS, type=FeatureType.BINARY, categories=("a",)), "has two categories"),
    ],
)
def test_a_description_that_makes_no_sense_is_a_fault(feature: Feature, words: str) -> None:
    (fault,) = own_faults(feature)
    assert words in fault


def test_sound_descriptions_have_no_faults_and_names_differ() -> None:
    assert schema_faults(LOAN) == []
    assert [fault.pointer for fault in schema_faults([NUMBER, WHOLE])] == ["/features/1/name"]


@PROPERTY
@given(spaces())
def test_random_schemas_are_sound(space: FeatureSpace) -> None:
    assert schema_faults(space.features) == []


@pytest.mark.parametrize(
    "options",
    [
        {"type": "continuous", "min": -5, "max": 1e6},
        {"type": "integer", "min": 0, "missing": "nan", "special": {-9: "none"}},
        {"type": "ordinal", "categories": ("1", "2", "10")},
        {"type": "binary", "missing": "fill", "fill": "yes", "categories": ("no", "yes")},
        {"type": "binary"},
    ],
    ids=lambda options: options["type"],
)
def test_a_column_reads_as_its_cells_do(options: dict[str, Any]) -> None:
    """At once and by parts, numbers and faults are those of each cell by itself."""
    options = {**options, "type": FeatureType(options["type"])}
    if "missing" in options:
        options["missing"] = Missing(options["missing"])
    feature = Feature(name="a", **options)
    plain = ["1", "2", "10", "3.5", "-9", "-4", "7e2", "0", " 5", "no", "yes", "true", "False"]
    odd = ["", "x", "nan", "inf", "1e17", "-1e300", "1_000", "99999999999999999", 1, 1.0, True, None]
    rng = np.random.default_rng(0)
    for pool in (plain[:8], plain, plain + odd):
        texts = [pool[k] for k in rng.integers(len(pool), size=200)]
        found, bad = parse_column(feature, texts)
        alone = [parse_column(feature, [text]) for text in texts]
        expected = {i: text for i, (_, faults) in enumerate(alone) for _, text in faults}
        assert dict(bad) == expected
        good = [i for i in range(len(texts)) if i not in expected]
        assert found[good].tolist() == [float(alone[i][0][0]) for i in good]
        for i in good:
            if isinstance(texts[i], str) and feature.is_number and texts[i]:
                # "nan" stands for a missing value.
                assert found[i] == feature.parse(None if texts[i] == "nan" else float(texts[i]))


@pytest.mark.parametrize(
    ("values", "spread", "center", "scale"),
    [
        # The last hundredth is cut off; where nothing else differs, the whole column says how far apart people are.
        ([0.0] * 999 + [1000.0], None, 0.0, np.sqrt(999.0)),
        ([0.0] * 500 + [2.0] * 500, None, 1.0, 1.0),
        ([0.0] * 500 + [2.0] * 500, 7.0, 1.0, 7.0),
        ([0.0] * 500 + [6.0] * 499 + [1e9], None, 3.0, 3.0),
        ([5.0] * 10, None, 5.0, 1.0),
        ([], None, 0.0, 1.0),
    ],
)
def test_the_spread_of_a_number(values: list[float], spread: float | None, center: float, scale: float) -> None:
    feature = Feature(name="x", type=FeatureType.CONTINUOUS, spread=spread)
    (fitted,) = fit_spread([feature], np.array(values).reshape(-1, 1))
    assert (fitted.center, fitted.scale) == (pytest.approx(center), pytest.approx(scale))
