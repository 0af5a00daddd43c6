"""Random small schemas and random rules over them, and what they mean in exact arithmetic, written a second time."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from jaxtyping import Float

from app.recourse.actions.rules import Rule
from app.recourse.features import Feature, FeatureSpace, FeatureType, Missing, Table
from app.registry.rules import RuleParser

Values = dict[str, Fraction | str | None]
"""A record: exact numbers, names of levels, None for what is missing."""

Meaning = Callable[[Values], bool | None]
"""True, false, or neither."""

Amount = Callable[[Values], Fraction | float | None]
"""An exact number, an infinite one, or none."""


@dataclass(frozen=True)
class Domain:
    """A schema whose records can be listed."""

    schema: list[Feature]
    """With derived features."""
    amounts: dict[str, Amount]
    """Of everything that is a number."""

    @property
    def space(self) -> FeatureSpace:
        return FeatureSpace(self.schema)

    @property
    def own(self) -> list[Feature]:
        """Features that are not derived."""
        return [feature for feature in self.schema if feature.derived is None]

    def rows(self) -> Float[np.ndarray, "n p"]:
        """Every raw row, with missing values where there may be any."""
        return np.array(list(itertools.product(*([*values(one), *one.states_raw] for one in self.own))), dtype=float)

    def record(self, row_raw: Float[np.ndarray, "p"]) -> Values:
        found: Values = {}
        for feature, value in zip(self.own, row_raw.tolist(), strict=True):
            if value in feature.states_raw:
                found[feature.name] = None
            elif feature.is_number:
                found[feature.name] = Fraction(repr(value))
            else:
                level = feature.levels[int(value)]
                found[feature.name] = str(level).lower() if isinstance(level, bool) else level
        return found


def values(feature: Feature) -> list[float]:
    """The raw numbers that a feature can have in an answer."""
    low, high = feature.range_raw
    step, _ = feature.lattice_raw
    return [round(low + k * step, 9) for k in range(round((high - low) / step) + 1)]


def domain(draw: random.Random, *, missing: bool = False) -> Domain:
    """Three to five features, and sometimes two derived ones."""
    kinds = ["integer", "decimal", "category", "ordinal", "binary"]
    count = draw.randint(3, 5)
    chosen = ["integer", "category", *draw.choices(kinds, k=count - 2)]
    schema: list[Feature] = []
    amounts: dict[str, Amount] = {}
    for k, kind in enumerate(chosen):
        name = f"{kind} {k}" if draw.random() < 0.3 else f"{kind}_{k}"
        common = {
            "name": name,
            "cost": draw.choice([0.5, 1.0, 2.0]),
            "center": 0.0,
            "scale": draw.choice([0.5, 1.0, 3.0]),
        }
        if missing and draw.random() < 0.4:
            common["missing"] = Missing.NAN
        if kind == "integer":
            low = draw.randint(-3, 2)
            schema.append(Feature(type=FeatureType.INTEGER, min=low, max=low + draw.randint(2, 7), **common))
        elif kind == "decimal":
            low = draw.choice([-1.0, 0.0, 0.5, 2.0])
            schema.append(
                Feature(type=FeatureType.CONTINUOUS, decimals=1, min=low, max=low + draw.choice([0.4, 0.9]), **common)
            )
        elif kind == "category":
            del common["center"], common["scale"]
            words = ("own", "rent", "free of rent", "p-q")[: draw.randint(2, 4)]
            schema.append(Feature(type=FeatureType.CATEGORICAL, categories=words, **common))
        elif kind == "ordinal":
            schema.append(
                Feature(type=FeatureType.ORDINAL, categories=("low", "mid", "high")[: draw.randint(2, 3)], **common)
            )
        else:
            schema.append(Feature(type=FeatureType.BINARY, **common))
        if schema[-1].is_number:
            amounts[name] = lambda record, name=name: record[name]  # type: ignore[misc]
    numbers = list(amounts)
    own = list(schema)
    if draw.random() < 0.5:
        derive(draw, schema, amounts, numbers, own)
    return Domain(schema, amounts)


def derive(
    draw: random.Random, schema: list[Feature], amounts: dict[str, Amount], numbers: list[str], own: list[Feature]
) -> None:
    """Add a formula, or a table, or both."""
    first, second = draw.choice(numbers), draw.choice(numbers)
    known = {feature.name: feature for feature in own}
    extra = {"center": 0.0, "scale": 1.0}
    unsure = any(known[name].missing for name in (first, second))
    schema.append(Feature(
        name="ratio", type=FeatureType.CONTINUOUS, derived=f"`{first}` / max(`{second}`, 1)",
        missing=Missing.NAN if unsure else None, **extra,
    ))  # fmt: skip
    amounts["ratio"] = lambda record: (
        None if None in (record[first], record[second]) else record[first] / max(record[second], Fraction(1))
    )
    source = draw.choice([feature for feature in own if not feature.is_number])
    keys = [str(level).lower() if isinstance(level, bool) else level for level in source.levels if level is not None]
    table = {key: draw.choice([0.0, 1.0, 2.5, 4.0]) for key in keys}
    schema.append(Feature(
        name="years", type=FeatureType.CONTINUOUS, derived=Table(from_=source.name, table=table),
        missing=Missing.NAN if source.missing else None, **extra,
    ))  # fmt: skip
    amounts["years"] = lambda record: None if record[source.name] is None else Fraction(table[record[source.name]])


# --- rules -----------------------------------------------------------------------------------------------------------


def quoted(name: str, draw: random.Random) -> str:
    mark = draw.choice(["`", '"'])
    return name if name.isidentifier() and draw.random() < 0.7 else f"{mark}{name}{mark}"


def amount(draw: random.Random, domain: Domain, depth: int) -> tuple[str, Amount]:
    """A random sum, product, quotient or choice."""
    kind = (
        draw.choice(["name", "name", "number", "+", "-", "*", "/", "min", "max"])
        if depth
        else draw.choice(["name", "number"])
    )
    if kind == "name":
        name = draw.choice(list(domain.amounts))
        return quoted(name, draw), domain.amounts[name]
    if kind == "number":
        text = draw.choice(["0", "1", "2", "3", "0.5", "1.5"])
        return text, lambda record, value=Fraction(text): value  # type: ignore[misc]
    (one, left), (other, right) = amount(draw, domain, depth - 1), amount(draw, domain, depth - 1)
    text = f"{kind}({one}, {other})" if kind in ("min", "max") else f"({one} {kind} {other})"

    def value(record: Values) -> Fraction | float | None:
        a, b = left(record), right(record)
        if a is None or b is None:
            return None
        if kind == "/" and b == 0:
            return None if a == 0 or a != a else float("inf") if a > 0 else -float("inf")
        found = {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b,
            "min": lambda: min(a, b), "max": lambda: max(a, b),
        }[kind]()  # fmt: skip
        return None if found != found else found

    return text, value


def comparison(draw: random.Random, domain: Domain) -> tuple[str, Meaning]:
    levels = [feature for feature in domain.own if not feature.is_number]
    if levels and draw.random() < 0.4:
        feature = draw.choice(levels)
        words = [
            str(level).lower() if isinstance(level, bool) else level for level in feature.levels if level is not None
        ]
        if draw.random() < 0.4:
            some = draw.sample(words, draw.randint(1, len(words)))
            text = f"{quoted(feature.name, draw)} in {{{', '.join(quoted(word, draw) for word in some)}}}"
            return text, lambda record: None if record[feature.name] is None else record[feature.name] in some
        word = draw.choice(words)
        relation = draw.choice(
            ["=", "!=", "<=", ">", "<", ">="] if feature.type is FeatureType.ORDINAL else ["=", "!=", "=="]
        )
        compare = RELATIONS[relation]
        return (
            f"{quoted(feature.name, draw)} {relation} {quoted(word, draw)}",
            lambda record: (
                None if record[feature.name] is None else compare(words.index(record[feature.name]), words.index(word))
            ),
        )
    while True:
        (one, left), (other, right) = amount(draw, domain, draw.randint(0, 2)), amount(draw, domain, draw.randint(0, 1))
        if any(name in one + other for name in domain.amounts):
            break
    relation = draw.choice(list(RELATIONS))

    def holds(record: Values) -> bool | None:
        a, b = left(record), right(record)
        if a is None or b is None or (abs(a) == abs(b) == float("inf") and a == b):
            return None
        return RELATIONS[relation](a, b)

    return f"{one} {relation} {other}", holds


RELATIONS: dict[str, Callable[[object, object], bool]] = {
    "<=": lambda a, b: a <= b, ">=": lambda a, b: a >= b, "<": lambda a, b: a < b, ">": lambda a, b: a > b,
    "=": lambda a, b: a == b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # type: ignore[operator]  # fmt: skip


def condition(draw: random.Random, domain: Domain, depth: int = 2) -> tuple[str, Meaning]:
    """A comparison, or several of them joined by `and` and `or`."""
    if depth == 0 or draw.random() < 0.55:
        return comparison(draw, domain)
    word = draw.choice(["and", "or"])
    parts = [condition(draw, domain, depth - 1) for _ in range(draw.randint(2, 3))]

    def holds(record: Values) -> bool | None:
        found = [meaning(record) for _, meaning in parts]
        decisive = word == "or"
        if decisive in found:
            return decisive
        return None if None in found else not decisive

    joined = f" {word} ".join(text for text, _ in parts)
    # `and` binds tighter than `or`; elsewhere brackets are needed.
    return f"({joined})", holds


def rule(draw: random.Random, domain: Domain) -> tuple[str, Meaning]:
    """A condition, or an implication; false where it is broken."""
    text, then = condition(draw, domain)
    if draw.random() < 0.5:
        return text, then
    first, given = condition(draw, domain, 1)
    return f"{first} => {text}", lambda record: not (given(record) is True and then(record) is False)


def legal_rows(domain: Domain, meanings: list[Meaning]) -> Float[np.ndarray, "n p"]:
    """All rows in which no rule is false."""
    rows = domain.rows()
    keep = [all(meaning(record) is not False for meaning in meanings) for record in map(domain.record, rows)]
    return rows[keep]


def factual(draw: random.Random, domain: Domain) -> Float[np.ndarray, "p"]:
    """A row; sometimes a value is missing where it may be."""
    row = [draw.choice([*values(feature), *feature.states_raw]) for feature in domain.own]
    return np.array(row, dtype=float)


MOST_ROWS = 1500
"""Larger schemas would take the oracle too long."""


def rule_sets(
    seed: int, count: int, *, missing: bool = False
) -> Iterator[tuple[random.Random, Domain, tuple[Rule, ...], list[Meaning]]]:
    """Schemas with one to four rules, as they are read and as they are meant."""
    draw = random.Random(seed)
    while count:
        chosen = domain(draw, missing=missing)
        if len(chosen.rows()) > MOST_ROWS:
            continue
        parser, rules, meanings = RuleParser(chosen.schema), list[Rule](), list[Meaning]()
        for _ in range(draw.randint(1, 4)):
            text, meaning = rule(draw, chosen)
            try:
                rules.append(parser.parse(text))
            except ValueError as error:
                assert "does not depend on any feature" in str(error), text  # noqa: PT017
                continue
            meanings.append(meaning)
        count -= 1
        yield draw, chosen, tuple(rules), meanings
