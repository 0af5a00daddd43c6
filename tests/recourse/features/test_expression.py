"""Formulas as a lender writes them, against Python's own arithmetic, difference quotients and polynomials."""

import random

import numpy as np
import pytest

from app.recourse.features.arithmetic import LinearForms, NotLinear, Sloped, Slopes
from app.recourse.features.expression import DEEPEST, Expression, parse_expression

NAMES = ("a", "b", "c")


def random_text(draw: random.Random, depth: int) -> str:
    """A formula that is also a Python expression."""
    if depth == 0 or draw.random() < 0.2:
        return draw.choice([*NAMES, *NAMES, "2", "0.1", "1e3", ".5"])
    kind = draw.choice(["+", "-", "*", "/", "/", "negative", "min", "max", "brackets"])
    if kind == "negative":
        return "-" + random_text(draw, depth - 1)
    if kind == "brackets":
        return f"({random_text(draw, depth - 1)} + {random_text(draw, depth - 1)})"
    if kind in ("min", "max"):
        return f"{kind}({', '.join(random_text(draw, depth - 1) for _ in range(draw.randint(2, 3)))})"
    return f"{random_text(draw, depth - 1)} {kind} {random_text(draw, depth - 1)}"


@pytest.mark.parametrize("seed", range(40))
def test_a_formula_has_the_value_of_the_python_expression_to_the_last_bit(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(20):
        text = random_text(draw, 4)
        rows = [[draw.uniform(-3, 3) * 10 ** draw.randint(-3, 6) for _ in NAMES] for _ in range(10)]
        values = parse_expression(text).evaluate(dict(zip(NAMES, np.array(rows).T, strict=True)))
        for row, value in zip(rows, values, strict=True):
            try:
                expected = eval(text, {"min": min, "max": max}, dict(zip(NAMES, row, strict=True)))
            except ZeroDivisionError:
                continue
            assert value == expected, text


@pytest.mark.parametrize("seed", range(20))
def test_slopes_are_difference_quotients(seed: int) -> None:
    draw = random.Random(seed)
    compared = 0
    for _ in range(20):
        formula = parse_expression(random_text(draw, 3))
        row = {name: np.array([draw.uniform(0.5, 3.0)]) for name in NAMES}
        known = {name: Sloped(value, {name: np.ones(1)}) for name, value in row.items()}
        slopes = formula.over(Slopes(known)).slopes
        assert set(slopes) == set(formula.names)
        for name in formula.names:
            ends = [formula.evaluate({**row, name: row[name] + way})[0] for way in (-1e-6, 0.0, 1e-6)]
            left, right = ((ends[k + 1] - ends[k]) / 1e-6 for k in (0, 1))
            if np.isclose(left, right, rtol=1e-3, atol=1e-3):  # no kink, no pole
                assert slopes[name][0] == pytest.approx(left, rel=1e-2, abs=1e-2)
                compared += 1
    assert compared


def linear(formula: Expression) -> tuple[dict[str, float], float] | None:
    """Coefficient of each name and the constant; None where the formula is not linear as it is written."""
    try:
        form = formula.over(LinearForms())
    except NotLinear:
        return None
    return form.weights, form.constant


@pytest.mark.parametrize("seed", range(20))
def test_a_linear_form_has_the_same_values_and_none_is_missed(seed: int) -> None:
    draw = random.Random(seed)
    rows = {name: np.array([draw.uniform(0.5, 3.0) for _ in range(30)]) for name in NAMES}
    for _ in range(30):
        text = random_text(draw, 3)
        formula = parse_expression(text)
        values = formula.evaluate(rows)
        form = linear(formula)
        if form is not None:
            weights, constant = form
            total = constant + sum(weight * rows[name] for name, weight in weights.items())
            assert np.allclose(values, total), text
        else:
            assert any(sign in text for sign in ("*", "/", "min", "max")), text


LINEAR = {
    "2 * a - b / 4 + 3 * (a + 1) - -c": ({"a": 5.0, "b": -0.25, "c": 1.0}, 3.0),
    "a - a": ({"a": 0.0}, 0.0),
    "max(2, 3) * a + min(1, 1)": ({"a": 3.0}, 1.0),
    "(a + 2) / 4 * 2": ({"a": 0.5}, 1.0),
    "a * b": None,
    "1 / a": None,
    "max(a, 0)": None,
}


@pytest.mark.parametrize("text", LINEAR)
def test_linear_formulas_are_recognised(text: str) -> None:
    assert linear(parse_expression(text)) == LINEAR[text]


def test_names_may_be_quoted() -> None:
    formula = parse_expression('`net-income` / "months at address" * größe + min + max')
    assert formula.names == ("net-income", "months at address", "größe", "min", "max")


def test_a_division_by_zero_is_infinite_or_not_a_number_without_a_warning() -> None:
    values = parse_expression("a / b").evaluate({"a": np.array([1.0, -1.0, 0.0]), "b": np.zeros(3)})
    assert np.array_equal(values, [np.inf, -np.inf, np.nan], equal_nan=True)
    assert np.isinf(parse_expression("1 / 0").evaluate({}))
    both = parse_expression("min(1, a / a)"), parse_expression("max(a / a, 1)")
    assert all(np.isnan(formula.evaluate({"a": np.zeros(1)})).all() for formula in both)


def test_formulas_are_values() -> None:
    assert parse_expression("a+ b") == parse_expression("a + b") != parse_expression("b + a")
    assert hash(parse_expression("a")) == hash(parse_expression(" a"))


def test_long_formulas_are_read_and_deep_ones_are_not() -> None:
    long = parse_expression("a + " * 4_000 + "a")
    assert long.evaluate({"a": np.ones(2)}).tolist() == [4001.0, 4001.0]
    deep = DEEPEST - 1
    assert isinstance(parse_expression("(" * deep + "a" + ")" * deep), Expression)
    for text in ("(" * 5_000, "-" * 5_000 + "a", "min(a," * 500 + "a" + ")" * 500):
        with pytest.raises(ValueError, match="nested more than"):
            parse_expression(text)


FAULTS = {
    "": "column 1: it ends there; expected a number, a name or \\(",
    "a +": "column 4: it ends there; expected a number, a name or \\(",
    "a ** b": 'column 4: "\\*"; expected a number, a name or \\(',
    "a b": 'column 3: "b"; expected \\+, -, \\* or /, or the end',
    "(a": "column 3: it ends there; expected an operator or \\)",
    "a)": 'column 2: "\\)"; expected \\+, -, \\* or /, or the end',
    "min(a)": 'column 6: "\\)"; expected an operator or ,',
    "max(a, b": "column 9: it ends there; expected an operator, \\) or ,",
    "1e999 * a": "column 1: 1e999 is too large",
    'a + "b': "column 5: a quote that does not end; expected its other end",
    "a $ b": 'column 3: "\\$"; expected',
    "a <= b": 'column 3: "<="; expected \\+',
    "__import__('os')": 'column 12: "\'"',
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_shows_its_place(text: str) -> None:
    with pytest.raises(ValueError, match=f"cannot be read at {FAULTS[text]}"):
        parse_expression(text)
