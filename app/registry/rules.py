"""Linear relations between numeric features, as a lender writes them: ``sba_approved <= gross_approved``.

Grammar::

    rule  = sum ("<=" | ">=" | "==") sum
    sum   = ["+" | "-"] term {("+" | "-") term}
    term  = number | name | number "*" name | name "*" number
    name  = a word, or anything between backquotes
"""

import math
import re
from collections.abc import Collection, Iterator, Sequence

from app.recourse.actions.action_set import LinearRule
from app.recourse.features import Feature

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|`(?P<quoted>[^`]+)`|(?P<word>[^\W\d]\w*)"
    r"|(?P<relation><=|>=|==|<|>|=)|(?P<sign>[+*-])|(?P<bad>\S))"
)
_RELATIONS = ("<=", ">=", "==")

Token = tuple[str, str]
"""Kind and text."""


def parse_rule(text: str, features: Sequence[Feature]) -> LinearRule:
    """The rule as coefficients over the raw row, in the order of `features`.

    Raises
    ------
    ValueError : it does not follow the grammar, or names something that is not a numeric feature
    """
    tokens = list(_tokens(text))
    relations = [i for i, (kind, _) in enumerate(tokens) if kind == "relation"]
    if len(relations) != 1 or tokens[relations[0]][1] not in _RELATIONS:
        raise ValueError("must compare two sums with exactly one of <=, >= or ==")
    at = relations[0]
    left, right = _sum(tokens[:at]), _sum(tokens[at + 1 :])
    sign = -1.0 if tokens[at][1] == ">=" else 1.0
    weights = {name: sign * (left.get(name, 0.0) - right.get(name, 0.0)) for name in {**left, **right}}
    limit = -weights.pop("", 0.0)
    _check_names(weights, features)
    if not all(map(math.isfinite, (limit, *weights.values()))):
        raise ValueError("has a number that is too large")
    coefficients = tuple(weights.get(feature.name, 0.0) for feature in features)
    if not any(coefficients):
        raise ValueError("does not depend on any feature")
    return LinearRule(text, coefficients, limit + 0.0, equality=tokens[at][1] == "==")


def _tokens(text: str) -> Iterator[Token]:
    for match in _TOKEN.finditer(text.rstrip()):
        kind = str(match.lastgroup)
        if kind == "bad":
            raise ValueError(
                f'cannot be read at "{match.group(kind)}": only numbers, names, + - * and <= >= == may occur'
            )
        yield ("name" if kind in ("quoted", "word") else kind), match.group(kind)


def _sum(tokens: Sequence[Token]) -> dict[str, float]:
    """Coefficient of each name in a sum; the constant under the empty name."""
    total: dict[str, float] = {}
    rest = list(tokens)
    if not rest:
        raise ValueError("has nothing on one side of the relation")
    first = True
    while rest:
        sign = 1.0
        if rest[0] in (("sign", "+"), ("sign", "-")):
            sign = -1.0 if rest.pop(0)[1] == "-" else 1.0
        elif not first:
            raise ValueError(f'needs + or - before "{rest[0][1]}"')
        first = False
        name, factor = _term(rest)
        total[name] = total.get(name, 0.0) + sign * factor
    return total


def _term(rest: list[Token]) -> tuple[str, float]:
    """Take one term off the front of `rest`."""
    kinds = [kind for kind, _ in rest[:3]]
    if kinds[1:2] == ["sign"] and rest[1][1] == "*":
        if sorted((kinds[0], *kinds[2:3])) != ["name", "number"]:
            raise ValueError("a product is one number times one feature")
        (left, _, right), rest[:3] = rest[:3], []
        number, name = (left, right) if left[0] == "number" else (right, left)
        return name[1], float(number[1])
    if not rest or kinds[0] not in ("number", "name"):
        raise ValueError("needs a number or a feature after each sign")
    kind, text = rest.pop(0)
    return (text, 1.0) if kind == "name" else ("", float(text))


def _check_names(names: Collection[str], features: Sequence[Feature]) -> None:
    known = {feature.name: feature for feature in features}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(f"names {', '.join(unknown)}, which is not a feature of this model")
    other = [name for name in names if not known[name].is_number]
    if other:
        raise ValueError(f"names {', '.join(other)}, which is not a number but {known[other[0]].type}")
