"""Rules as a lender writes them, against the arithmetic they stand for."""

import numpy as np
import pytest

from app.recourse.features import Feature, FeatureType
from app.registry.rules import parse_rule

FEATURES = [
    Feature(name="a", type=FeatureType.CONTINUOUS),
    Feature(name="b", type=FeatureType.INTEGER),
    Feature(name="net income", type=FeatureType.CONTINUOUS),
    Feature(name="größe", type=FeatureType.CONTINUOUS),
    Feature(name="kind", type=FeatureType.CATEGORICAL, categories=("x", "y")),
    Feature(name="rank", type=FeatureType.ORDINAL, categories=("low", "high")),
]

READINGS = {
    "a <= b": lambda a, b, n, g: a <= b,
    "a>=b": lambda a, b, n, g: a >= b,
    "a == b": lambda a, b, n, g: a == b,
    "2*a + b - 3 <= `net income`": lambda a, b, n, g: 2 * a + b - 3 <= n,
    "a * 0.5 >= -b + größe": lambda a, b, n, g: a * 0.5 >= -b + g,
    "- a - 2 <= 1e0": lambda a, b, n, g: -a - 2 <= 1,
    "a + a + .5 * b >= 3 * a": lambda a, b, n, g: 2 * a + 0.5 * b >= 3 * a,
    "4. <= a": lambda a, b, n, g: a >= 4,
}


@pytest.mark.parametrize("text", READINGS)
def test_a_rule_means_what_it_says(text: str) -> None:
    values = np.random.default_rng(0).integers(-8, 9, size=(2_000, 4)).astype(float)
    rows_raw = np.column_stack([values, np.zeros((2_000, 2))])
    expected = [bool(READINGS[text](*row)) for row in values]
    assert 0 < sum(expected) < 2_000
    assert parse_rule(text, FEATURES).holds(rows_raw).tolist() == expected


def test_a_rule_keeps_its_words() -> None:
    assert parse_rule("a <= b", FEATURES).text == "a <= b"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "exactly one of"),
        ("a", "exactly one of"),
        ("a < b", "exactly one of"),
        ("a = b", "exactly one of"),
        ("a <= b <= 3", "exactly one of"),
        ("<= 3", "nothing on one side"),
        ("a <=", "nothing on one side"),
        ("a b <= 3", 'needs \\+ or - before "b"'),
        ("a + <= 3", "needs a number or a feature"),
        ("a - * <= 3", "needs a number or a feature"),
        ("a * b <= 3", "one number times one feature"),
        ("2 * 3 <= a", "one number times one feature"),
        ("2 * <= a", "one number times one feature"),
        ("a / 2 <= b", 'cannot be read at "/"'),
        ("__import__('os') <= a", r'cannot be read at "\("'),
        ("a <= c + d", "names c, d, which is not a feature"),
        ("a <= kind", "names kind, which is not a number but categorical"),
        ("rank <= 1", "names rank, which is not a number but ordinal"),
        ("a <= a + 1", "does not depend on any feature"),
        ("1 <= 2", "does not depend on any feature"),
        ("1e999 * a <= 2", "too large"),
    ],
)
def test_a_bad_rule_is_named(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_rule(text, FEATURES)
