"""Rules as a lender writes them: ``sba_approved <= gross_approved``, ``housing = owned => rent = 0``.

Grammar::

    rule        = condition ["=>" condition]
    condition   = conjunction {"or" conjunction}
    conjunction = comparison {"and" comparison}
    comparison  = sum ("<=" | ">=" | "<" | ">" | "=" | "==" | "!=") sum
                | name ("=" | "==" | "!=") level | name "in" "{" level {"," level} "}"
                | name ("<=" | ">=" | "<" | ">") level
                | "(" condition ")"
    level       = a word, or anything between backquotes or double quotes

with sums as in `app.recourse.features.expression`. The name before a level is that of a feature with levels; only those
of an ordinal feature have an order. Names of derived features stand for their formulas. What a rule means where a value
is missing, and where two numbers are equal, is said in `app.recourse.actions.rules`.

A rule ``sum <= sum``, ``>=`` or ``=`` that is linear becomes a `LinearRule`, which every search knows; all others
become a `LogicRule`.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from app.recourse.actions.rules import (
    AllOf,
    AnyOf,
    Comparison,
    Condition,
    Input,
    LevelTest,
    LinearRule,
    LogicRule,
    Rule,
)
from app.recourse.features import Feature, FeatureType
from app.recourse.features.arithmetic import LinearForm, LinearForms, NotLinear
from app.recourse.features.derived import DerivedColumns
from app.recourse.features.expression import Expression, Name, Number, Reader

RELATIONS = ("<=", ">=", "<", ">", "=", "==", "!=")
_LINEAR = ("<=", ">=", "=", "==")
_MIRRORED = {"<=": ">=", ">=": "<=", "<": ">", ">": "<"}
_EQUAL = ("=", "==", "!=")


class RuleParser:
    """Parses the rules of a manifest into conditions on raw rows.

    A raw row has one column for each feature that is not derived.
    """

    def __init__(self, features: Sequence[Feature]) -> None:
        self.known = {feature.name: feature for feature in features}
        own = [feature for feature in features if feature.derived is None]
        self.base = tuple(feature.name for feature in own)
        self._inputs = {feature.name: Input(feature.name, j, _states(feature)) for j, feature in enumerate(own)}
        self._formulas: dict[str, Expression] = {}
        if len(own) < len(features):
            # Faults of formulas are listed with the features; here a name without a formula is one.
            with suppress(ValueError):
                self._formulas = DerivedColumns(features).formulas

    def parse(self, text: str) -> Rule:
        """The rule that a text states.

        Raises `ValueError` where the text does not follow the grammar, or uses a name that is not in the manifest; the
        error's sentence says where in the text.
        """
        return _RuleReader(text, self).rule()

    def comparison(self, left: Expression, relation: str, right: Expression) -> Condition:
        """The condition `left relation right` for two numeric expressions; a relation is a text such as "<="."""
        formulas = self._needed((*left.names, *right.names))
        names = dict.fromkeys((*left.names, *right.names, *(name for one in formulas.values() for name in one.names)))
        inputs = tuple(self._inputs[name] for name in names if name in self._inputs)
        at_most = Comparison(left, right, False, inputs, formulas)
        at_least = Comparison(right, left, False, inputs, formulas)
        match relation:
            case "<=":
                return at_most
            case ">=":
                return at_least
            case "<":
                return at_least.negated()
            case ">":
                return at_most.negated()
            case "!=":
                return AnyOf((at_most.negated(), at_least.negated()))
        return AllOf((at_most, at_least))

    def level_test(self, feature: Feature, levels: Iterable[int], relation: str) -> Condition:
        """The condition that a feature has one of some levels; `levels` are indices in the feature's levels.

        For a feature whose levels have an order, `relation` may also be one such as "<=": the feature's level must then
        stand in this relation to at least one of the levels.
        """
        indices = sorted(set(levels))
        if feature.is_group:
            count = len(feature.categories)
            missing = {count} if feature.missing else set()
            test = LevelTest(self._inputs[feature.name].column, frozenset(indices) | missing, count)
            return test.negated() if relation == "!=" else test
        parts = [self.comparison(Name(feature.name), "=" if relation == "in" else relation, Number(float(index)))
                 for index in indices]  # fmt: skip
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def linear(self, text: str, left: Expression, relation: str, right: Expression) -> LinearRule | None:
        """The linear rule `left relation right`; None if a side is not linear, or uses a feature that may be missing.

        Raises `ValueError` where a number is too large, or where the weights of all features are 0.
        """
        names = (*left.names, *right.names)
        formulas = self._needed(names)
        forms: dict[str, LinearForm] = {}
        numbers = LinearForms(forms)
        try:
            for name, formula in formulas.items():
                forms[name] = formula.over(numbers)
            one, other = left.over(numbers), right.over(numbers)
        except NotLinear:
            return None
        if any(
            name in self._inputs and self._inputs[name].states_raw for form in (one, other) for name in form.weights
        ):
            return None
        sign = -1.0 if relation == ">=" else 1.0
        weights = {
            name: sign * (one.weights.get(name, 0.0) - other.weights.get(name, 0.0))
            for name in {**one.weights, **other.weights}
        }
        limit = -sign * (one.constant - other.constant)
        if not all(map(math.isfinite, (limit, *weights.values()))):
            raise ValueError("has a number that is too large")
        coefficients = tuple(weights.get(name, 0.0) for name in self.base)
        if not any(coefficients):
            raise ValueError("does not depend on any feature")
        return LinearRule(text, coefficients, limit + 0.0, equality=relation in ("=", "=="))

    def check(self, expression: Expression) -> None:
        """Raise `ValueError` where an expression uses a name that is not a numeric feature of the manifest."""
        for name in expression.mentions():
            place = f"{name.name} (column {name.column})"
            if name.name not in self.known:
                raise ValueError(f"names {place}, which is not a feature of this model")
            feature = self.known[name.name]
            if not feature.is_number:
                raise self.not_a_number(feature, place)
            if feature.derived is not None and feature.name not in self._formulas:
                raise ValueError(f"names {place}, whose own formula cannot be used")

    @staticmethod
    def not_a_number(feature: Feature, place: str) -> ValueError:
        """The error for an expression that uses a feature with levels where it needs a number."""
        ways = "<= or =" if feature.type is FeatureType.ORDINAL else "=, != or in {...}"
        return ValueError(
            f"names {place}, which is not a number but {feature.type}; compare it with its levels by {ways}"
        )

    def _needed(self, names: Iterable[str]) -> dict[str, Expression]:
        """Formulas of the derived features among these names, and of those that they need, in order."""
        needed, waiting = set(), list(names)
        while waiting:
            name = waiting.pop()
            if name in self._formulas and name not in needed:
                needed.add(name)
                waiting += self._formulas[name].names
        return {name: formula for name, formula in self._formulas.items() if name in needed}


@dataclass(frozen=True, slots=True)
class _Logic:
    """A condition, and its sides where it is a single comparison of numbers."""

    condition: Condition
    sides: tuple[Expression, str, Expression] | None = None


class _RuleReader(Reader):
    """Reads one rule: expressions, and what joins them."""

    def __init__(self, text: str, parser: RuleParser) -> None:
        super().__init__(text)
        self._text, self._parser = text, parser

    def rule(self) -> Rule:
        """The rule that the whole text states. Raises `ValueError` where the text is no rule."""
        first = self._logic(self.inside())
        if self.follows("=>"):
            self.take()
            then = self._logic(self.inside())
            self.end("and, or")
            return LogicRule(self._text, AnyOf((first.condition.negated(), then.condition)))
        self.end("and, or, =>")
        if first.sides is not None and first.sides[1] in _LINEAR:
            rule = self._parser.linear(self._text, *first.sides)
            if rule is not None:
                return rule
        return LogicRule(self._text, first.condition)

    def inside(self) -> object:
        """Read the content of a pair of parentheses: a condition, or a sum that is part of a comparison."""
        return self._joined("or", AnyOf, lambda: self._joined("and", AllOf, self._comparison))

    def _joined(self, word: str, kind: type[AllOf | AnyOf], part: Callable[[], object]) -> object:
        first = part()
        if not self.follows(word):
            return first
        parts = [self._logic(first).condition]
        while self.follows(word):
            self.take()
            parts.append(self._logic(part()).condition)
        return _Logic(kind(tuple(parts)))

    def _logic(self, part: object) -> _Logic:
        """A part that has to be a condition."""
        if isinstance(part, _Logic):
            return part
        raise self.fault("one of + - * / or " + " ".join((*RELATIONS, "in")))

    def _comparison(self) -> object:
        column = self.next.column
        left = self.sum()
        if self.follows("in") and isinstance(left, Name):
            self.take()
            return self._choice(left)
        if not self.follows(*RELATIONS):
            return left
        one = self.number(left, column)
        relation = self.take().text
        column = self.next.column
        return self._compared(one, relation, self.number(self.sum(), column))

    def _compared(self, left: Expression, relation: str, right: Expression) -> _Logic:
        feature = self._leveled(left)
        if feature is None and self._leveled(right) is not None:
            left, relation, right = right, _MIRRORED.get(relation, relation), left
            feature = self._leveled(left)
        if feature is None or not isinstance(left, Name):
            self._parser.check(left)
            self._parser.check(right)
            if not (left.names or right.names):
                raise ValueError("does not depend on any feature")
            return _Logic(self._parser.comparison(left, relation, right), (left, relation, right))
        if isinstance(right, Name) and right.name in self._parser.known and right.name not in feature.levels:
            raise self._parser.not_a_number(feature, f"{feature.name} (column {left.column})")
        if relation not in _EQUAL and feature.type is not FeatureType.ORDINAL:
            raise ValueError(
                f"compares {feature.name} (column {left.column}) by {relation}, but its values have no order"
            )
        level = self._level(feature, right if isinstance(right, Name) else None)
        return _Logic(self._parser.level_test(feature, [level], relation))

    def _choice(self, left: Name) -> _Logic:
        feature = self._leveled(left)
        if feature is None:
            raise ValueError(f"names {left.name} (column {left.column}), which has no levels to choose from")
        self.expect("{")
        levels: list[int] = []
        while True:
            token = self.take()
            named = token.kind in ("name", "word")
            levels.append(self._level(feature, Name(token.text, token.column) if named else None))
            if self.follows("}"):
                self.take()
                return _Logic(self._parser.level_test(feature, levels, "in"))
            self.expect(",", "} or ")

    def _leveled(self, expression: Expression) -> Feature | None:
        """The feature with levels that this names."""
        feature = self._parser.known.get(expression.name) if isinstance(expression, Name) else None
        return None if feature is None or feature.is_number else feature

    def _level(self, feature: Feature, name: Name | None) -> int:
        levels = [str(level).lower() if isinstance(level, bool) else level for level in feature.levels]
        if name is None or name.name not in levels:
            found = "a number" if name is None else f"{name.name} (column {name.column})"
            known = ", ".join(f'"{level}"' for level in levels if level is not None)
            raise ValueError(f"compares {feature.name} with {found}; expected one of {known}")
        return levels.index(name.name)


def _states(feature: Feature) -> tuple[float, ...]:
    """Raw numbers that are no values of a feature, for a rule."""
    if feature.is_group:
        return (float(len(feature.categories)),) if feature.missing else ()
    return feature.states_raw
