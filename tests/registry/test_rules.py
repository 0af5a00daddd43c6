"""Rules as a lender writes them, against the arithmetic and logic they stand for."""

import numpy as np
import pytest

from app.recourse.actions.rules import LinearRule, LogicRule
from app.recourse.features import MISSING, Feature, FeatureType, Missing, Table
from app.recourse.features.expression import parse_expression
from app.registry.rules import RuleParser

FEATURES = [
    Feature(name="a", type=FeatureType.CONTINUOUS),
    Feature(name="b", type=FeatureType.INTEGER),
    Feature(name="net income", type=FeatureType.CONTINUOUS),
    Feature(name="größe", type=FeatureType.CONTINUOUS),
    Feature(name="kind", type=FeatureType.CATEGORICAL, categories=("x", "y", "y z")),
    Feature(name="rank", type=FeatureType.ORDINAL, categories=("low", "mid", "high")),
    Feature(name="owner", type=FeatureType.BINARY),
    Feature(name="sum", type=FeatureType.CONTINUOUS, derived="a + b"),
    Feature(name="share", type=FeatureType.CONTINUOUS, derived="sum / max(größe, 1)"),
    Feature(name="points", type=FeatureType.INTEGER, derived=Table(from_="kind", table={"x": 1, "y": 2, "y z": 5})),
]

LINEAR = {
    "a <= b": lambda a, b, n, g: a <= b,
    "a>=b": lambda a, b, n, g: a >= b,
    "a == b": lambda a, b, n, g: a == b,
    "a = b": lambda a, b, n, g: a == b,
    "2*a + b - 3 <= `net income`": lambda a, b, n, g: 2 * a + b - 3 <= n,
    "a * 0.5 >= -b + größe": lambda a, b, n, g: a * 0.5 >= -b + g,
    "- a - 2 <= 1e0": lambda a, b, n, g: -a - 2 <= 1,
    "a + a + .5 * b >= 3 * a": lambda a, b, n, g: 2 * a + 0.5 * b >= 3 * a,
    "4. <= a": lambda a, b, n, g: a >= 4,
    '2 * (a - "net income") / 4 <= b * (3 - 1)': lambda a, b, n, g: 0.5 * (a - n) <= 2 * b,
    "sum <= 3": lambda a, b, n, g: a + b <= 3,
}
CURVED = {
    "a < b": lambda a, b, n, g, k, r, o: a < b,
    "a != b": lambda a, b, n, g, k, r, o: a != b,
    "a * b <= größe": lambda a, b, n, g, k, r, o: a * b <= g,
    "a <= 2 => b > 1": lambda a, b, n, g, k, r, o: not a <= 2 or b > 1,
    "a <= 2 and b > 1 or a = 5": lambda a, b, n, g, k, r, o: (a <= 2 and b > 1) or a == 5,
    "a <= 2 and (b > 1 or a = 0)": lambda a, b, n, g, k, r, o: a <= 2 and (b > 1 or a == 0),
    "(a + 1) * 2 <= b or (a <= b)": lambda a, b, n, g, k, r, o: (a + 1) * 2 <= b or a <= b,
    "kind = x => a = 0": lambda a, b, n, g, k, r, o: k != 0 or a == 0,
    'kind != "y z"': lambda a, b, n, g, k, r, o: k != 2,
    "kind in {x, `y z`} and rank >= mid": lambda a, b, n, g, k, r, o: k in (0, 2) and r >= 1,
    "high = rank": lambda a, b, n, g, k, r, o: r == 2,
    "low < rank": lambda a, b, n, g, k, r, o: r > 0,
    "rank in {low, high}": lambda a, b, n, g, k, r, o: r != 1,
    "owner = true => a > 1": lambda a, b, n, g, k, r, o: not o or a > 1,
    "points * a <= 6": lambda a, b, n, g, k, r, o: (1, 2, 5)[int(k)] * a <= 6,
    "share >= 1": lambda a, b, n, g, k, r, o: (a + b) / max(g, 1) >= 1,
    "max(a, b) - min(a, 2) <= 4": lambda a, b, n, g, k, r, o: max(a, b) - min(a, 2) <= 4,
}


def rows(count: int = 2_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    numbers = rng.integers(-8, 9, size=(count, 4))
    return np.column_stack([numbers, rng.integers(0, 3, size=(count, 2)), rng.integers(0, 2, size=count)]).astype(float)


@pytest.mark.parametrize("text", LINEAR)
def test_a_linear_rule_means_what_it_says(text: str) -> None:
    rule = RuleParser(FEATURES).parse(text)
    assert isinstance(rule, LinearRule)
    expected = [bool(LINEAR[text](*row[:4])) for row in rows()]
    assert 0 < sum(expected) < len(expected)
    assert rule.holds(rows()).tolist() == expected


@pytest.mark.parametrize("text", CURVED)
def test_any_other_rule_means_what_it_says(text: str) -> None:
    rule = RuleParser(FEATURES).parse(text)
    assert isinstance(rule, LogicRule)
    expected = [bool(CURVED[text](*row)) for row in rows()]
    assert 0 < sum(expected) < len(expected)
    assert rule.holds(rows()).tolist() == expected


def test_a_rule_keeps_its_words() -> None:
    assert RuleParser(FEATURES).parse("a <= b").text == "a <= b"
    assert RuleParser(FEATURES).parse("a < b => kind = x").text == "a < b => kind = x"


def test_words_of_the_language_may_be_names_where_a_name_stands() -> None:
    names = [Feature(name=name, type=FeatureType.CONTINUOUS) for name in ("and", "in", "min")]
    rule = RuleParser(names).parse("and <= in and min <= 3")
    assert rule.holds(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 4.0]])).tolist() == [True, False]


UNSURE = [
    Feature(name="a", type=FeatureType.CONTINUOUS, missing=Missing.NAN, special={-9.0: "no record"}),
    Feature(name="b", type=FeatureType.CONTINUOUS),
    Feature(name="kind", type=FeatureType.CATEGORICAL, categories=("x", "y"), missing=Missing.NAN),
    Feature(name="r", type=FeatureType.CONTINUOUS, derived="a / b", missing=Missing.NAN),
]


@pytest.mark.parametrize(
    ("text", "row", "holds"),
    [
        ("a <= 3", [MISSING, 0, 0], True),  # not applied
        ("a >= 3", [MISSING, 0, 0], True),
        ("a >= 3", [-9, 0, 0], True),
        ("a >= 3", [2, 0, 0], False),
        ("a >= 3 => b = 0", [MISSING, 1, 0], True),  # the condition is not true
        ("a < 3 => b = 0", [MISSING, 1, 0], True),
        ("b = 1 => a >= 3", [MISSING, 1, 0], True),  # nor is the conclusion false
        ("b = 1 => a >= 3 and b = 2", [MISSING, 1, 0], False),  # whatever `a` is
        ("b = 1 => a >= 3 or b = 2", [MISSING, 1, 0], True),
        ("a >= 3 or b = 1 => b = 2", [MISSING, 1, 0], False),
        ("kind = x", [0, 0, 2], True),
        ("kind != x", [0, 0, 2], True),
        ("kind != x => b = 1", [0, 0, 2], True),
        ("kind = y => b = 1", [0, 0, 1], False),
        ("r <= 1", [MISSING, 1, 0], True),
        ("r <= 1", [2, 1, 0], False),
        ("r <= 1", [0, 0, 0], True),  # 0 / 0
        ("r <= 1", [2, 0, 0], False),  # infinite
    ],
)
def test_a_rule_is_broken_only_where_it_is_false(text: str, row: list[float], holds: bool) -> None:
    assert RuleParser(UNSURE).parse(text).holds(np.array([row], dtype=float)).tolist() == [holds]


def test_equal_up_to_rounding_is_equal() -> None:
    row = np.array([[0.1 + 0.2, 0.0, 0.3, 0.0, 0.0, 0.0, 0.0]])
    texts = (
        "a <= `net income`", "a = `net income`", "a != `net income`", "a > `net income`",
        "a * 1 * a <= a * `net income`", "a < `net income`",
    )  # fmt: skip
    holds = {text: bool(RuleParser(FEATURES).parse(text).holds(row)[0]) for text in texts}
    assert [text for text, held in holds.items() if not held] == [
        "a != `net income`",
        "a > `net income`",
        "a < `net income`",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"column 1: it ends there; expected a number, a name or \("),
        ("a", r"column 2: it ends there; expected one of \+ - \* / or <= >= < > = == != in"),
        ("a <= b <= 3", 'column 8: "<="; expected and, or, =>, or the end'),
        ("<= 3", 'column 1: "<="; expected a number'),
        ("a <=", "column 5: it ends there; expected a number"),
        ("a b <= 3", 'column 3: "b"; expected one of'),
        ("a + <= 3", 'column 5: "<="; expected a number'),
        ("a <= b => ", "column 10: it ends there"),
        ("a <= b => b <= 3 => a <= 1", 'column 18: "=>"; expected and, or, or the end'),
        ("(a <= b => b <= 3)", r'column 9: "=>"; expected an operator or \)'),
        ("(a <= b) * 2 <= 3", "column 1: a comparison; expected a number"),
        ("a and b <= 3", 'column 3: "and"; expected one of'),
        ("a <= 3 or", "column 10: it ends there"),
        ("__import__('os') <= a", "column 12: \"'\"; expected"),
        ("a <= c + d", r"names c \(column 6\), which is not a feature of this model"),
        ("a <= kind", r"names kind \(column 6\), which is not a number but categorical"),
        ("a + kind <= 2", r"names kind \(column 5\), which is not a number but categorical; compare it"),
        ("a + rank <= 2", r"names rank \(column 5\), which is not a number but ordinal; compare it"),
        ("rank <= 1", 'compares rank with a number; expected one of "low", "mid", "high"'),
        ("kind = z", r'compares kind with z \(column 8\); expected one of "x", "y", "y z"'),
        ("kind in {x, z}", r"compares kind with z \(column 13\)"),
        ("kind in {}", "compares kind with"),
        ("kind in x", 'column 9: "x"; expected {'),
        ("kind in {x y}", r'column 12: "y"; expected } or ,'),
        ("a in {x}", r"names a \(column 1\), which has no levels to choose from"),
        ("kind <= x", r"compares kind \(column 1\) by <=, but its values have no order"),
        ("owner = 1", 'compares owner with a number; expected one of "false", "true"'),
        ("a <= a + 1", "does not depend on any feature"),
        ("1 <= 2", "does not depend on any feature"),
        ("1e999 * a <= 2", "too large"),
        ("1e300 * 1e300 * a <= 2", "too large"),
    ],
)  # fmt: skip
def test_a_bad_rule_is_named_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        RuleParser(FEATURES).parse(text)


def test_a_name_without_a_usable_formula_is_named() -> None:
    features = [FEATURES[0], Feature(name="broken", type=FeatureType.CONTINUOUS, derived="a +")]
    with pytest.raises(ValueError, match=r"names broken \(column 1\), whose own formula cannot be used"):
        RuleParser(features).parse("broken <= 3")
    assert RuleParser(features).parse("a <= 3").holds(np.array([[2.0], [4.0]])).tolist() == [True, False]


@pytest.mark.parametrize("number", ["1_000", "\u0661\u0662", "1\u0661"])
def test_numbers_have_plain_digits(number: str) -> None:
    with pytest.raises(ValueError, match="cannot be read at column"):
        parse_expression(f"income + {number}")
