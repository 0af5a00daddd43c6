"""Arithmetic over features as a lender writes it: ``(debt + 12 * rent) / max(income, 1)``.

Grammar::

    sum      = product {("+" | "-") product}
    product  = factor {("*" | "/") factor}
    factor   = ("-" | "+") factor | number | name | ("min" | "max") "(" sum "," sum {"," sum} ")" | "(" sum ")"
    name     = a word, or anything between backquotes or double quotes

An expression is evaluated in the order in which it is written, so its value is that of the same Python expression to
the last bit. `Expression.over` evaluates it with any kind of number: arrays, numbers with slopes, ranges.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from app.recourse.features.arithmetic import Arithmetic, Arrays

DEEPEST = 30
"""Parentheses, signs and functions inside each other at most."""

OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv
}  # fmt: skip

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r'|`(?P<backquoted>[^`]+)`|"(?P<quoted>[^"]+)"|(?P<word>[^\W\d]\w*)'
    r"|(?P<symbol>=>|<=|>=|==|!=|[<>=+*/(){},-])|(?P<bad>\S))"
)


@dataclass(frozen=True, slots=True)
class Token:
    """A number, name or symbol in the text of a formula, and the column in which it begins."""

    kind: str
    """`number`, `name`, `word` (a name without quotes), `symbol` or `end`."""
    text: str
    column: int
    """Column of its first character in the text, from 1."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A formula; build it with `parse_expression`."""

    def over(self, numbers: Arithmetic) -> Any:
        """The value of the formula, in the kind of number that `numbers` computes with."""
        match self:
            case Number(value):
                return numbers.constant(value)
            case Name(name):
                return numbers.name(name)
            case Lookup(name, of_level):
                return numbers.level(name, of_level)
            case Negative(part):
                return -part.over(numbers)
            case Chain(first, rest):
                value = first.over(numbers)
                for sign, part in rest:
                    value = OPERATORS[sign](value, part.over(numbers))
                return value
            case Extreme(largest, parts):
                value = parts[0].over(numbers)
                for part in parts[1:]:
                    other = part.over(numbers)
                    value = -numbers.lesser(-value, -other) if largest else numbers.lesser(value, other)
                return value
        raise TypeError(f"{type(self).__name__} is no kind of expression")

    def leaves(self) -> "Iterator[Name | Lookup]":
        """The parts of the formula that read a feature, from left to right."""
        match self:
            case Name() | Lookup():
                yield self
            case Negative(part):
                yield from part.leaves()
            case Chain(first, rest):
                for part in (first, *(part for _, part in rest)):
                    yield from part.leaves()
            case Extreme(_, parts):
                for part in parts:
                    yield from part.leaves()

    def mentions(self) -> "list[Name]":
        """The names of features in the formula, from left to right, with their columns in the text."""
        return [leaf for leaf in self.leaves() if isinstance(leaf, Name)]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features that the formula depends on, in the order of first mention."""
        return tuple(dict.fromkeys(leaf.name for leaf in self.leaves()))

    def evaluate(self, values: Mapping[str, Float[np.ndarray, "*n"]]) -> Float[np.ndarray, "*n"]:
        """Evaluate the formula on arrays of one shape, given by feature name.

        A division by zero gives infinity or NaN.

        Raises
        ------
        KeyError : a name in the formula has no values
        """
        with np.errstate(all="ignore"):
            value = np.asarray(self.over(Arrays(values)), dtype=float)
        shape = next((np.shape(one) for one in values.values()), ())
        return value if value.shape == shape else np.full(shape, value)


@dataclass(frozen=True, slots=True)
class Number(Expression):
    """A constant in a formula."""

    value: float


@dataclass(frozen=True, slots=True)
class Name(Expression):
    """A name in a formula; it stands for the value of the feature."""

    name: str
    column: int = field(default=0, compare=False)
    """Column of the name in the text, from 1."""


@dataclass(frozen=True, slots=True)
class Lookup(Expression):
    """The number that a table of the manifest gives for the level of the feature `name`."""

    name: str
    numbers: tuple[float, ...]
    """The number of each level, by its index."""


@dataclass(frozen=True, slots=True)
class Negative(Expression):
    """The negative ``-part`` of another expression."""

    part: Expression


@dataclass(frozen=True, slots=True)
class Chain(Expression):
    """Expressions joined by ``+`` and ``-``, or by ``*`` and ``/``; computed from left to right."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]


@dataclass(frozen=True, slots=True)
class Extreme(Expression):
    """The function ``min(...)`` or ``max(...)`` in a formula."""

    largest: bool
    parts: tuple[Expression, ...]


# --- reading ---------------------------------------------------------------------------------------------------------


def parse_expression(text: str) -> Expression:
    """Parse the text of a formula into an `Expression`.

    Raises
    ------
    ValueError : the text does not follow the grammar; the message says at which column
    """
    reader = Reader(text)
    expression = reader.sum()
    reader.end("+, -, * or /")
    return reader.number(expression, 1)


class Reader:
    """Reads the text of a formula token by token; the reader of rules inherits from it."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        """The token that `take` would return now."""
        return self._tokens[self._at]

    def follows(self, *symbols: str) -> bool:
        """Whether the next token is one of `symbols`, which may be words, too."""
        return self.next.kind in ("symbol", "word") and self.next.text in symbols

    def take(self) -> Token:
        """Return the next token and move on to the one after it; the end is returned again and again."""
        token = self.next
        self._at += token.kind != "end"
        return token

    def expect(self, symbol: str, also: str = "") -> None:
        """Read the next token, which must be `symbol`.

        Raises `ValueError` where it is another one. The message says what was expected: `also`, then `symbol`.
        """
        if not self.follows(symbol):
            raise self.fault(f"{also}{symbol}")
        self.take()

    def end(self, expected: str) -> None:
        """Raise `ValueError` unless all tokens are read; `expected` says what else could have followed."""
        if self.next.kind != "end":
            raise self.fault(f"{expected}, or the end")

    def fault(self, expected: str, token: Token | None = None) -> ValueError:
        """The error which says where the text cannot be read, what is found there, and what was `expected`.

        Parameters
        ----------
        token : the token that cannot be read; the next one by default
        """
        token = token or self.next
        found = "it ends there" if token.kind == "end" else f'"{token.text}"'
        return ValueError(f"cannot be read at column {token.column}: {found}; expected {expected}")

    def number(self, part: object, column: int) -> Expression:
        """Return `part` if it is an expression; raise `ValueError` if it is a comparison.

        Parameters
        ----------
        column : where `part` begins in the text
        """
        if not isinstance(part, Expression):
            raise ValueError(f"cannot be read at column {column}: a comparison; expected a number")
        return part

    def sum(self) -> object:
        """Read a sum and return its expression.

        A subclass may return a condition instead, where a condition in parentheses is all that there is.
        """
        return self._chain(self._product, "+", "-")

    def inside(self) -> object:
        """Read what stands between two parentheses: in a formula, a sum."""
        return self.sum()

    def _product(self) -> object:
        return self._chain(self._factor, "*", "/")

    def _chain(self, part: Callable[[], object], *operators: str) -> object:
        column = self.next.column
        first = part()
        rest: list[tuple[str, Expression]] = []
        while self.follows(*operators):
            sign = self.take().text
            start = self.next.column
            rest.append((sign, self.number(part(), start)))
        return Chain(self.number(first, column), tuple(rest)) if rest else first

    def _factor(self) -> object:
        if self._depth == DEEPEST:
            raise ValueError(f"cannot be read at column {self.next.column}: it is nested more than {DEEPEST} deep")
        self._depth += 1
        token = self.take()
        part: object
        if token.kind == "number":
            part = Number(float(token.text))
            if math.isinf(part.value):
                raise ValueError(f"cannot be read at column {token.column}: {token.text} is too large")
        elif token.kind == "word" and token.text in ("min", "max") and self.follows("("):
            part = Extreme(token.text == "max", self._arguments())
        elif token.kind in ("name", "word"):
            part = Name(token.text, token.column)
        elif token.kind == "symbol" and token.text == "(":
            part = self.inside()
            self.expect(")", "an operator or ")
        elif token.kind == "symbol" and token.text in "+-":
            column = self.next.column
            operand = self.number(self._factor(), column)
            part = Negative(operand) if token.text == "-" else operand
        else:
            raise self.fault("a number, a name or (", token)
        self._depth -= 1
        return part

    def _arguments(self) -> tuple[Expression, ...]:
        parts: list[Expression] = []
        self.expect("(")
        while True:
            column = self.next.column
            parts.append(self.number(self.sum(), column))
            if len(parts) > 1 and self.follows(")"):
                self.take()
                return tuple(parts)
            self.expect(",", "an operator, ) or " if len(parts) > 1 else "an operator or ")


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text.rstrip()):
        kind = str(match.lastgroup)
        quoted = kind in ("quoted", "backquoted")
        column = match.start(kind) + (0 if quoted else 1)
        token = Token("name" if quoted else kind, match.group(kind), column)
        if kind == "bad":
            quote = token.text in '`"'
            what = "a quote that does not end" if quote else f'"{token.text}"'
            expected = "its other end" if quote else "a number, a name or one of + - * / ( ) , { } < > = !="
            raise ValueError(f"cannot be read at column {token.column}: {what}; expected {expected}")
        yield token
    yield Token("end", "", len(text.rstrip()) + 1)
